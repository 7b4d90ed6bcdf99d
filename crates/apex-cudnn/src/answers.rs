//! The functions of cuDNN that are answered.

#![allow(non_snake_case, reason = "exported functions bear cuDNN's own names")]

use core::ffi::{CStr, c_char, c_int, c_void};

const SUCCESS: c_int = 0;
const NOT_INITIALIZED: c_int = 1001;
const BAD_PARAMETER: c_int = 2000;

/// The version that is told: the first number is the one of the name, the others are high, because callers refuse a
/// library that is older than the one they were built with.
const VERSION: [usize; 3] = [9, 99, 0];

/// What a handle stands for.
pub(crate) struct Handle {
    stream: *mut c_void,
}

pub(crate) unsafe extern "C" fn cudnnCreate(handle: *mut *mut Handle) -> c_int {
    let new = Box::into_raw(Box::new(Handle { stream: core::ptr::null_mut() }));
    // SAFETY: the caller's place for the handle.
    let result = unsafe { put(handle, new) };
    if result != SUCCESS {
        // SAFETY: made above, and nobody has it.
        drop(unsafe { Box::from_raw(new) });
    }
    result
}

pub(crate) unsafe extern "C" fn cudnnDestroy(handle: *mut Handle) -> c_int {
    if handle.is_null() {
        return NOT_INITIALIZED;
    }
    // SAFETY: the caller gives back what `cudnnCreate` gave.
    drop(unsafe { Box::from_raw(handle) });
    SUCCESS
}

pub(crate) unsafe extern "C" fn cudnnSetStream(handle: *mut Handle, stream: *mut c_void) -> c_int {
    // SAFETY: null, or a handle that is not destroyed.
    let Some(handle) = (unsafe { handle.as_mut() }) else { return NOT_INITIALIZED };
    handle.stream = stream;
    SUCCESS
}

pub(crate) unsafe extern "C" fn cudnnGetStream(
    handle: *mut Handle,
    stream: *mut *mut c_void,
) -> c_int {
    // SAFETY: null, or a handle that is not destroyed.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return NOT_INITIALIZED };
    // SAFETY: the caller's place for the stream.
    unsafe { put(stream, handle.stream) }
}

pub(crate) extern "C" fn cudnnGetVersion() -> usize {
    let [major, minor, patch] = VERSION;
    10_000 * major + 100 * minor + patch
}

/// The toolkit it was made with: the oldest that callers take.
pub(crate) extern "C" fn cudnnGetCudartVersion() -> usize {
    13_000
}

pub(crate) unsafe extern "C" fn cudnnGetProperty(property: c_int, value: *mut c_int) -> c_int {
    let known = usize::try_from(property).ok().and_then(|property| VERSION.get(property));
    match known {
        // SAFETY: the caller's place for the number.
        Some(&number) => unsafe { put(value, number as c_int) },
        None => BAD_PARAMETER,
    }
}

pub(crate) extern "C" fn cudnnGetErrorString(status: c_int) -> *const c_char {
    let text: &CStr = match status {
        SUCCESS => c"CUDNN_STATUS_SUCCESS",
        NOT_INITIALIZED => c"CUDNN_STATUS_NOT_INITIALIZED",
        BAD_PARAMETER => c"CUDNN_STATUS_BAD_PARAM",
        3000 => c"CUDNN_STATUS_NOT_SUPPORTED: there is no cuDNN on the software GPU",
        _ => c"CUDNN_STATUS_UNKNOWN",
    };
    text.as_ptr()
}

pub(crate) unsafe extern "C" fn cudnnGetLastErrorString(text: *mut c_char, room: usize) {
    if !text.is_null() && room > 0 {
        // SAFETY: the caller's room for at least one letter.
        unsafe { text.write(0) };
    }
}

/// # Safety
///
/// `place` is null or can be written.
unsafe fn put<T>(place: *mut T, value: T) -> c_int {
    if place.is_null() {
        return BAD_PARAMETER;
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { place.write_unaligned(value) };
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_keeps_its_stream() {
        let (mut handle, mut stream) = (core::ptr::null_mut(), core::ptr::null_mut());
        let own = core::ptr::without_provenance_mut(7);
        // SAFETY: all places live here.
        unsafe {
            assert_eq!(cudnnCreate(core::ptr::null_mut()), BAD_PARAMETER);
            assert_eq!(cudnnCreate(&raw mut handle), SUCCESS);
            assert_eq!(cudnnSetStream(handle, own), SUCCESS);
            assert_eq!(cudnnGetStream(handle, &raw mut stream), SUCCESS);
            assert_eq!(stream, own);
            assert_eq!(cudnnDestroy(handle), SUCCESS);
            assert_eq!(cudnnDestroy(core::ptr::null_mut()), NOT_INITIALIZED);
        }
        assert_eq!(cudnnGetVersion(), 99_900);
    }
}
