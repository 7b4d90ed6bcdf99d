//! What the driver wrote where the program wanted its answer.

use apex_cuda::types::{CUDA_SUCCESS, CUresult};

/// What the driver wrote to `place`, or the default if the call failed or wanted nothing there.
///
/// # Safety
///
/// `place` is the out-pointer that the driver was given.
#[inline(always)]
pub(super) unsafe fn answer<T: Copy>(result: CUresult, place: *const T, otherwise: T) -> T {
    if result == CUDA_SUCCESS && !place.is_null() {
        // SAFETY: the driver succeeded, so it wrote here.
        unsafe { place.read() }
    } else {
        otherwise
    }
}
