//! Where C arguments come in and answers go out.
//!
//! A driver function is written inside [`answers!`]: a body that gives an
//! [`Answer`]. Its arguments are trusted exactly as far as the real driver trusts
//! them: a null pointer is an error number, a pointer to nowhere is the caller's
//! crash. The helpers here are the only readers and writers of program memory for
//! plain values.

use core::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use apex_cuda::types::*;

/// What a driver function's body gives: nothing, or an error number.
pub(crate) type Answer = Result<(), CUresult>;

/// Runs the body of a driver function. A panic of ours must not unwind into C: it
/// ends the call with an error, and its message stands on stderr.
#[inline]
pub(crate) fn code(body: impl FnOnce() -> Answer) -> CUresult {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => CUDA_SUCCESS,
        Ok(Err(error)) => error,
        Err(_) => CUDA_ERROR_UNKNOWN,
    }
}

/// Defines driver functions by name, C arguments and a body that gives an [`Answer`].
macro_rules! answers {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$attribute])*
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> apex_cuda::types::CUresult {
                #[allow(unused_unsafe, reason = "some bodies only look at numbers")]
                let body = move || -> $crate::border::Answer {
                    // SAFETY: the caller keeps the C contract of this function: what
                    // its pointers point to is there, and no handle is destroyed by
                    // another thread meanwhile.
                    unsafe { $body }
                };
                $crate::border::code(body)
            }
        )*
    };
}

/// Writes an answer that the caller must want.
///
/// # Safety
///
/// `out` is null or can be written.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
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
pub(crate) unsafe fn get<T: Copy>(source: *const T) -> Result<T, CUresult> {
    if source.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    Ok(unsafe { source.read_unaligned() })
}

/// The elements of a C array; none when there are none to be.
///
/// # Safety
///
/// `first` is null or begins `count` elements that stay unchanged during the call.
pub(crate) unsafe fn list<'a, T>(first: *const T, count: usize) -> Result<&'a [T], CUresult> {
    match (first.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(CUDA_ERROR_INVALID_VALUE),
        // SAFETY: not null, and the caller vouches for the elements.
        (false, _) => Ok(unsafe { core::slice::from_raw_parts(first, count) }),
    }
}

/// A C string.
///
/// # Safety
///
/// `string` is null or ends with a NUL and stays unchanged during the call.
pub(crate) unsafe fn text<'a>(string: *const c_char) -> Result<&'a CStr, CUresult> {
    if string.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    Ok(unsafe { CStr::from_ptr(string) })
}

/// Writes a C string into a buffer of `length` bytes, cut to fit.
///
/// # Safety
///
/// `buffer` is null or has room for `length` bytes.
pub(crate) unsafe fn put_text(buffer: *mut c_char, length: i32, text: &str) -> Answer {
    let Ok(length) = usize::try_from(length) else { return Err(CUDA_ERROR_INVALID_VALUE) };
    if buffer.is_null() || length == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let kept = text.len().min(length - 1);
    // SAFETY: `kept` and the NUL fit into the buffer that the caller vouches for.
    unsafe {
        buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), kept);
        buffer.add(kept).write(0);
    }
    Ok(())
}

/// Answers a list the driver's way: without a buffer only the count is given; with
/// one, as many elements as fit, the rest of the buffer zeroed.
///
/// # Safety
///
/// `count` is null or holds how many elements `buffer`, if not null, has room for.
pub(crate) unsafe fn put_list<T: Copy>(buffer: *mut T, count: *mut usize, items: &[T]) -> Answer {
    // SAFETY: the caller vouches for both pointers.
    unsafe {
        let room = get(count)?;
        if !buffer.is_null() {
            let kept = room.min(items.len());
            buffer.copy_from_nonoverlapping(items.as_ptr(), kept);
            buffer.add(kept).write_bytes(0, room - kept);
        }
        put(count, if buffer.is_null() { items.len() } else { room.min(items.len()) })
    }
}
