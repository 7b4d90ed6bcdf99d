//! What is never held, because somebody waits inside it or for it.
//!
//! Collectives wait on the GPU for their partners, and another process may wait for an event of ours: holding either
//! would hold programs that are not ours to hold. The lists are of fixed size and only grow; a forked child begins anew.

use apex_core::KernelId;
use std::sync::atomic::{AtomicU64, Ordering};

/// One bit for each kernel that is a collective.
static COLLECTIVES: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// Events that another process may wait for, and the streams they were recorded on.
static EVENTS: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
static STREAMS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

pub(super) fn named(kernel: u32, name: &str) {
    if name.contains("nccl") || name.contains("nvshmem") {
        let word = &COLLECTIVES[kernel as usize / 64 % COLLECTIVES.len()];
        word.fetch_or(1 << (kernel % 64), Ordering::Relaxed);
    }
}

#[inline(always)]
pub(super) fn is_exempt(kernel: KernelId, stream: u64) -> bool {
    let word = COLLECTIVES[kernel.0 as usize / 64 % COLLECTIVES.len()].load(Ordering::Relaxed);
    word >> (kernel.0 % 64) & 1 != 0
        || (STREAMS[0].load(Ordering::Relaxed) != 0 && holds(&STREAMS, stream + 1))
}

pub(super) fn share_event(event: u64) {
    put(&EVENTS, event);
}

pub(super) fn recorded(event: u64, stream: u64) {
    if EVENTS[0].load(Ordering::Relaxed) != 0 && holds(&EVENTS, event) {
        put(&STREAMS, stream + 1);
    }
}

pub(super) fn forget() {
    COLLECTIVES.iter().chain(&EVENTS).chain(&STREAMS).for_each(|word| {
        word.store(0, Ordering::Relaxed);
    });
}

fn holds(list: &[AtomicU64], wanted: u64) -> bool {
    list.iter().any(|word| word.load(Ordering::Relaxed) == wanted)
}

fn put(list: &[AtomicU64], new: u64) {
    let exchange = |word: &AtomicU64| {
        let put = word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
        put.map_or_else(|there| there == new, |_| true)
    };
    // Where more are shared than there are places, the first ones stay.
    list.iter().any(exchange);
}
