//! A number of the gate's state machines that several threads reach.
//!
//! Operations that change and tell at once are in one order for all threads, and so is every look; a plain store
//! publishes what its thread wrote before. On x86-64 looks and plain stores are plain instructions. A launch on a stream
//! of one thread alone has no more than that: see [`super::burst`].

use apex_policy::gate::{self, Word};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

/// One number.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(super) struct Atomic(AtomicU64);

/// The gate's machines as several threads of this process share them.
pub(super) type Streams = gate::Streams<Atomic>;
pub(super) type Stream = gate::Stream<Atomic>;
pub(super) type Flight = gate::Flight<Atomic>;
pub(super) type Bursts = gate::Bursts<Atomic>;
pub(super) type Fences = gate::Fences<Atomic>;

impl Word for Atomic {
    #[inline(always)]
    fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    #[inline(always)]
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn add(&self, more: u64) -> u64 {
        self.0.fetch_add(more, Ordering::SeqCst).wrapping_add(more)
    }

    #[inline(always)]
    fn add_alone(&self, more: u64) {
        let there = self.0.load(Ordering::Relaxed);
        self.0.store(there.wrapping_add(more), Ordering::Relaxed);
        // Whoever ends the burst has this processor do the same between its two looks.
        compiler_fence(Ordering::SeqCst);
    }

    fn raise(&self, least: u64) -> u64 {
        self.0.fetch_max(least, Ordering::SeqCst)
    }

    fn lower(&self, most: u64) {
        self.0.fetch_min(most, Ordering::SeqCst);
    }

    fn swap(&self, value: u64) -> u64 {
        self.0.swap(value, Ordering::SeqCst)
    }

    fn exchange(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}
