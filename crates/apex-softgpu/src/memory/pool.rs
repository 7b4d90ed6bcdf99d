//! Stream-ordered memory pools.
//!
//! A pool counts and names what was taken through it. Memory is taken at once, which
//! is never too late for the stream, and given back when the stream comes to the
//! free. Where there is not enough, frees that are on their way are waited for. So
//! what is reserved always equals what is used.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};

use apex_cuda::types::*;

use crate::machine::device::Device;
use crate::memory::range::Range;
use crate::object::{create, destroy, live, object};

/// One pool.
pub(crate) struct Pool {
    pub(crate) ordinal: i32,
    pub(crate) release_threshold: AtomicU64,
    /// The three switches of reuse, by attribute number less one.
    pub(crate) reuse: [AtomicU64; 3],
    pub(crate) used_bytes: AtomicU64,
    pub(crate) highest_bytes: AtomicU64,
}
object!(Pool, b"mempool-");

pub(crate) fn make(ordinal: i32) -> CUmemoryPool {
    create(Pool {
        ordinal,
        release_threshold: AtomicU64::new(0),
        reuse: [const { AtomicU64::new(1) }; 3],
        used_bytes: AtomicU64::new(0),
        highest_bytes: AtomicU64::new(0),
    })
}

pub(crate) fn default_pool(device: &Device) -> CUmemoryPool {
    let known = device.pools.first.load(Ordering::Acquire);
    if !known.is_null() {
        return known.cast();
    }
    let made: CUmemoryPool = make(device.ordinal);
    let first = &device.pools.first;
    match first.compare_exchange(null_mut(), made.cast(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(other) => {
            // SAFETY: made above and given to nobody.
            let _ = unsafe { destroy::<Pool, _>(made) };
            other.cast()
        }
    }
}

pub(crate) fn chosen_pool(device: &Device) -> CUmemoryPool {
    let chosen = device.pools.chosen.load(Ordering::Acquire);
    if chosen.is_null() { default_pool(device) } else { chosen.cast() }
}

/// Counts a range as gone from its pool.
pub(crate) fn note_free(range: &Range) {
    // SAFETY: the pool's handle was checked when the range was taken.
    if let Ok(pool) = unsafe { live::<Pool, _>(range.pool) } {
        pool.used_bytes.fetch_sub(range.length, Ordering::Relaxed);
    }
}
