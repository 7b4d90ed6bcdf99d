//! The runtime's functions that ask for errors.
//!
//! `cudaGetLastError` takes the thread's last error away and `cudaPeekAtLastError` does
//! not. Where no driver is, that is what both are answered with.

use core::ffi::c_char;

use crate::border::guarded;
use crate::driver::driver;
use crate::errors::{Error, cudaErrorUnknown, name, text};
use crate::last_error::{peek, take};

fn with_driver(answer: fn() -> Error) -> Error {
    guarded(|| driver().map_or_else(|error| error, |_| answer()), cudaErrorUnknown)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cudaGetLastError() -> Error {
    with_driver(take)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cudaPeekAtLastError() -> Error {
    with_driver(peek)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cudaGetErrorName(error: Error) -> *const c_char {
    name(error).unwrap_or(c"unrecognized error code").as_ptr()
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cudaGetErrorString(error: Error) -> *const c_char {
    text(error).unwrap_or(c"unrecognized error code").as_ptr()
}
