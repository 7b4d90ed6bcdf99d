//! The results of cuBLAS.

use apex_cuda::types::{CUDA_ERROR_OUT_OF_MEMORY, CUDA_SUCCESS, CUresult};
use core::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const NOT_INITIALIZED: c_int = 1;
pub(crate) const ALLOCATION_FAILED: c_int = 3;
pub(crate) const INVALID_VALUE: c_int = 7;
pub(crate) const EXECUTION_FAILED: c_int = 13;
pub(crate) const INTERNAL_ERROR: c_int = 14;
pub(crate) const NOT_SUPPORTED: c_int = 15;

/// What a function's body gives: nothing, or a result.
pub(crate) type Answer = Result<(), c_int>;

/// Runs a body; a panic of ours ends the call with an error.
pub(crate) fn answered(body: impl FnOnce() -> Answer) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(result)) => result,
        Err(_) => INTERNAL_ERROR,
    }
}

/// A result of the driver.
pub(crate) fn of_driver(result: CUresult) -> Answer {
    match result {
        CUDA_SUCCESS => Ok(()),
        CUDA_ERROR_OUT_OF_MEMORY => Err(ALLOCATION_FAILED),
        _ => Err(EXECUTION_FAILED),
    }
}

/// The name of a result.
pub(crate) fn name(result: c_int) -> &'static CStr {
    match result {
        SUCCESS => c"CUBLAS_STATUS_SUCCESS",
        NOT_INITIALIZED => c"CUBLAS_STATUS_NOT_INITIALIZED",
        ALLOCATION_FAILED => c"CUBLAS_STATUS_ALLOC_FAILED",
        INVALID_VALUE => c"CUBLAS_STATUS_INVALID_VALUE",
        EXECUTION_FAILED => c"CUBLAS_STATUS_EXECUTION_FAILED",
        INTERNAL_ERROR => c"CUBLAS_STATUS_INTERNAL_ERROR",
        NOT_SUPPORTED => c"CUBLAS_STATUS_NOT_SUPPORTED",
        _ => c"CUBLAS_STATUS_UNKNOWN",
    }
}

/// Defines C functions by name, arguments and a body that gives an [`Answer`].
macro_rules! answers {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$attribute])*
            #[allow(clippy::too_many_arguments, reason = "the library's own signature")]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> core::ffi::c_int {
                #[allow(unused_unsafe, reason = "some bodies only look at numbers")]
                // SAFETY: the caller keeps the C contract of this function.
                $crate::status::answered(move || unsafe { $body })
            }
        )*
    };
}

pub(crate) use answers;

/// # Safety
///
/// `place` is null or can be written.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> Answer {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { place.write_unaligned(value) };
    Ok(())
}
