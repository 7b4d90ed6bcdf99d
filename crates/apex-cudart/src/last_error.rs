//! The last error of each thread.
//!
//! Every function that fails leaves its error here. An error that tells of a lost
//! context stays after it was taken, because every later call would meet it again; it
//! goes when the device is reset.

use core::cell::Cell;

use crate::errors::{Error, cudaSuccess, is_sticky};

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
