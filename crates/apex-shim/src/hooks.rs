//! What each function of the driver does, in the words of an event; one file per family.
//!
//! A function for a `note(…)` row gets the driver's answer and the program's arguments and says what
//! happened. It reads through the program's pointers only what a successful driver call has read or
//! written. `_ptsz` and `_ptds` twins are described by their base: only their null stream differs, and
//! `record` knows.

#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    reason = "hooks bear the names and the arguments of the functions they describe"
)]

pub(crate) mod capture;
pub(crate) mod code;
pub(crate) mod compile;
pub(crate) mod copy;
pub(crate) mod current;
pub(crate) mod graph;
pub(crate) mod launch;
pub(crate) mod life;
pub(crate) mod memory;
pub(crate) mod resolve;
pub(crate) mod set;
pub(crate) mod sync;

use apex_cuda::types::{CUDA_SUCCESS, CUresult};

/// What the driver wrote to `place`, or the default if the call failed or wanted nothing there.
///
/// # Safety
///
/// `place` is the out-pointer that the driver was given.
#[inline(always)]
unsafe fn answer<T: Copy>(result: CUresult, place: *const T, otherwise: T) -> T {
    if result == CUDA_SUCCESS && !place.is_null() {
        // SAFETY: the driver succeeded, so it wrote here.
        unsafe { place.read() }
    } else {
        otherwise
    }
}
