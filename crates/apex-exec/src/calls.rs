//! Calls of the driver, each with its result checked, and the handles that they give.

use crate::error::{Error, Result};
use apex_cuda::types::*;
use core::ffi::CStr;
use cudarc::driver::sys;

/// A handle of the driver, or an address of pinned memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handle<T>(pub(crate) *mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: a handle is a number to this side, and the driver's functions may be called with it by any thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// An event of the driver.
pub(crate) type EventHandle = Handle<sys::CUevent_st>;
/// A stream of the driver.
pub(crate) type StreamHandle = Handle<sys::CUstream_st>;
/// Pinned memory.
pub(crate) type PinnedHandle = Handle<c_void>;

/// Turns a result of the driver into ours.
pub(crate) fn check(call: &'static str, result: CUresult) -> Result<()> {
    if result == CUDA_SUCCESS { Ok(()) } else { Err(failure(call, result)) }
}

#[cold]
fn failure(call: &'static str, code: CUresult) -> Error {
    let text = |known: Option<&'static CStr>| known.unwrap_or(c"unknown").to_string_lossy();
    let text = format!("{}: {}", text(result_name(code)), text(result_text(code)));
    Error::Driver { call, code, text, kernel: None }
}

/// Calls a function of the driver and checks what it says.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $crate::calls::check(stringify!($name), ($driver.$name)($($argument),*))
    };
}
pub(crate) use call;
