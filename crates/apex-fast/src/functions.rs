//! Functions that the driver has launched.
//!
//! What describes a launch is the program's memory, and the driver reads none of it for a function that it does not know.
//! So a layer looks there only for functions that stand here, or after the driver has launched one.

use apex_cuda::types::CUfunction;
use core::sync::atomic::{AtomicU64, Ordering};

/// Places; a function that shares one with another is looked up again.
const PLACES: usize = 1_024;

static KNOWN: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

fn place(function: CUfunction) -> &'static AtomicU64 {
    let mixed = (function as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &KNOWN[(mixed >> 32) as usize % PLACES]
}

/// Whether the driver has launched it.
#[inline(always)]
pub(crate) fn is_known(function: CUfunction) -> bool {
    place(function).load(Ordering::Relaxed) == function as u64
}

/// The driver has launched it.
#[inline(always)]
pub(crate) fn launched(function: CUfunction) {
    if !is_known(function) {
        place(function).store(function as u64, Ordering::Relaxed);
    }
}
