//! Where C arguments come in and answers go out.
//!
//! A runtime function is written inside [`runtime!`]: a body that gives an
//! [`Answer`]. What it answers becomes the thread's last error, and a panic becomes
//! `cudaErrorUnknown`, so that nothing unwinds into the program. Arguments are
//! trusted as far as the real runtime trusts them: a null pointer is an error, a
//! pointer to nowhere is the caller's crash.

use core::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use apex_cuda::types::{CUDA_SUCCESS, CUresult, CUstream};

use crate::errors::{Error, cudaErrorInvalidValue, cudaErrorUnknown, cudaSuccess, from_driver};

/// What a runtime function's body gives: nothing, or an error.
pub(crate) type Answer = Result<(), Error>;

/// Runs a body, keeps its error as the thread's last, and gives it to C.
pub(crate) fn answer(body: impl FnOnce() -> Answer) -> Error {
    let error = guarded(|| code(body()), cudaErrorUnknown);
    if error != cudaSuccess {
        crate::last_error::keep(error);
    }
    error
}

/// Runs a body whose panic is answered with `otherwise`.
pub(crate) fn guarded<T>(body: impl FnOnce() -> T, otherwise: T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

fn code(answer: Answer) -> Error {
    match answer {
        Ok(()) => cudaSuccess,
        Err(error) => error,
    }
}

/// The driver's result as an answer.
pub(crate) fn check(result: CUresult) -> Answer {
    if result == CUDA_SUCCESS { Ok(()) } else { Err(from_driver(result)) }
}

/// Defines runtime functions by name, C arguments and a body that gives an
/// [`Answer`]. `fn name / twin` also defines the twin whose NULL stream is the
/// calling thread's own: the argument called `stream` is exchanged.
macro_rules! runtime {
    () => {};
    ($(#[$attribute:meta])* fn $name:ident / $twin:ident $arguments:tt $body:block $($rest:tt)*) => {
        runtime_function! { $(#[$attribute])* $name $arguments $body }
        runtime_twin! { $twin $name $arguments }
        runtime! { $($rest)* }
    };
    ($(#[$attribute:meta])* fn $name:ident $arguments:tt $body:block $($rest:tt)*) => {
        runtime_function! { $(#[$attribute])* $name $arguments $body }
        runtime! { $($rest)* }
    };
}

macro_rules! runtime_function {
    ($(#[$attribute:meta])* $name:ident ($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$attribute])*
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(clippy::too_many_arguments, reason = "the runtime's own signature")]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $crate::errors::Error {
            #[allow(unused_unsafe, reason = "some bodies only look at numbers")]
            $crate::border::answer(move || {
                // SAFETY: the caller keeps the C contract of this function: what its
                // pointers point to is there, and no handle is destroyed by another
                // thread meanwhile.
                unsafe { $body }
            })
        }
    };
}

macro_rules! runtime_twin {
    ($twin:ident $name:ident ($($argument:ident: $type:ty),* $(,)?)) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(clippy::too_many_arguments, reason = "the runtime's own signature")]
        pub(crate) unsafe extern "C" fn $twin($($argument: $type),*) -> $crate::errors::Error {
            // SAFETY: the caller keeps the C contract, which is that of the base.
            unsafe { $name($(twin_argument!($argument $argument)),*) }
        }
    };
}

/// The argument, or the thread's own stream where it is a stream and none is given.
macro_rules! twin_argument {
    (stream $argument:ident) => {
        $crate::border::own_stream($argument)
    };
    ($other:ident $argument:ident) => {
        $argument
    };
}

/// The calling thread's own stream.
pub(crate) const PER_THREAD: usize = 2;

/// The stream, or the thread's own where none is given.
pub(crate) fn own_stream(stream: CUstream) -> CUstream {
    if stream.is_null() { core::ptr::without_provenance_mut(PER_THREAD) } else { stream }
}

/// Writes an answer that the caller must want.
///
/// # Safety
///
/// `out` is null or can be written.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return Err(cudaErrorInvalidValue);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Writes an answer that the caller may do without.
///
/// # Safety
///
/// `out` is null or can be written.
pub(crate) unsafe fn put_if_wanted<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, and the caller vouches for the rest.
        unsafe { out.write_unaligned(value) };
    }
}

/// Reads a value. Never used for a type with a Rust enum inside.
///
/// # Safety
///
/// `source` is null or holds a `T`.
pub(crate) unsafe fn get<T: Copy>(source: *const T) -> Result<T, Error> {
    if source.is_null() {
        return Err(cudaErrorInvalidValue);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    Ok(unsafe { source.read_unaligned() })
}

/// A pointer that must not be null.
pub(crate) fn wanted<T>(pointer: *mut T) -> Result<*mut T, Error> {
    if pointer.is_null() { Err(cudaErrorInvalidValue) } else { Ok(pointer) }
}

/// A C string.
///
/// # Safety
///
/// `string` is null or ends with a NUL and stays unchanged as long as it is used.
pub(crate) unsafe fn text<'a>(string: *const c_char) -> Result<&'a CStr, Error> {
    if string.is_null() {
        return Err(cudaErrorInvalidValue);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    Ok(unsafe { CStr::from_ptr(string) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::last_error;

    #[test]
    fn a_panic_is_an_unknown_error() {
        std::panic::set_hook(Box::new(|_| {}));
        let error = answer(|| panic!("in a body"));
        let _ = std::panic::take_hook();
        assert_eq!(error, cudaErrorUnknown);
        assert_eq!(last_error::take(), cudaErrorUnknown);
    }

    #[test]
    fn an_error_is_kept_and_success_keeps_it() {
        assert_eq!(answer(|| Err(cudaErrorInvalidValue)), cudaErrorInvalidValue);
        assert_eq!(answer(|| Ok(())), cudaSuccess);
        assert_eq!(last_error::peek(), cudaErrorInvalidValue);
        assert_eq!(last_error::take(), cudaErrorInvalidValue);
        assert_eq!(last_error::take(), cudaSuccess);
    }

    #[test]
    fn no_stream_is_the_threads_own_in_a_twin() {
        assert_eq!(own_stream(core::ptr::null_mut()).addr(), PER_THREAD);
        let given: CUstream = core::ptr::without_provenance_mut(0x100);
        assert_eq!(own_stream(given), given);
    }
}
