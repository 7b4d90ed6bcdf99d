//! The last error of each thread.
//!
//! Every function that fails leaves its error here. `cudaGetLastError` takes it away
//! and `cudaPeekAtLastError` does not. An error that tells of a lost context stays
//! after it was taken, because every later call would meet it again; it goes when the
//! device is reset. Where no driver is, that is what every question is answered with.

use core::cell::Cell;
use core::ffi::c_char;

use crate::border::guarded;
use crate::driver::driver;
use crate::errors::{Error, cudaErrorUnknown, cudaSuccess, is_sticky, name, text};

thread_local! {
    static LAST: Cell<Error> = const { Cell::new(cudaSuccess) };
}

pub(crate) fn keep(error: Error) {
    LAST.set(error);
}

pub(crate) fn peek() -> Error {
    LAST.get()
}

pub(crate) fn take() -> Error {
    let error = LAST.get();
    if !is_sticky(error) {
        LAST.set(cudaSuccess);
    }
    error
}

/// Ends even an error that stays.
pub(crate) fn clear() {
    LAST.set(cudaSuccess);
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::{cudaErrorIllegalAddress, cudaErrorInvalidValue};

    #[test]
    fn a_lost_context_stays_until_the_reset() {
        keep(cudaErrorInvalidValue);
        assert_eq!((take(), take()), (cudaErrorInvalidValue, cudaSuccess));
        keep(cudaErrorIllegalAddress);
        assert_eq!((take(), take()), (cudaErrorIllegalAddress, cudaErrorIllegalAddress));
        clear();
        assert_eq!(peek(), cudaSuccess);
    }

    #[test]
    fn threads_have_errors_of_their_own() {
        keep(cudaErrorInvalidValue);
        assert_eq!(std::thread::spawn(take).join().ok(), Some(cudaSuccess));
        assert_eq!(take(), cudaErrorInvalidValue);
    }
}
