//! C arguments and NVML's results.

use core::ffi::{CStr, c_char, c_int};

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const UNINITIALIZED: c_int = 1;
pub(crate) const INVALID_ARGUMENT: c_int = 2;
pub(crate) const NOT_SUPPORTED: c_int = 3;
pub(crate) const NOT_FOUND: c_int = 6;
pub(crate) const INSUFFICIENT_SIZE: c_int = 7;
pub(crate) const DRIVER_NOT_LOADED: c_int = 9;
pub(crate) const UNKNOWN: c_int = 999;
pub(crate) const VERSION_MISMATCH: c_int = 25;

/// What a function's body gives: nothing, or a result.
pub(crate) type Answer = Result<(), c_int>;

/// What a result means, for `nvmlErrorString`.
pub(crate) fn meaning(result: c_int) -> &'static CStr {
    match result {
        SUCCESS => c"Success",
        UNINITIALIZED => c"Uninitialized",
        INVALID_ARGUMENT => c"Invalid Argument",
        NOT_SUPPORTED => c"Not Supported",
        NOT_FOUND => c"Not Found",
        INSUFFICIENT_SIZE => c"Insufficient Size",
        DRIVER_NOT_LOADED => c"Driver Not Loaded",
        VERSION_MISMATCH => c"Argument Version Mismatch",
        _ => c"Unknown Error",
    }
}

/// # Safety
///
/// `place` is null or can be written.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) -> Answer {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// # Safety
///
/// `place` is null or can be read.
pub(crate) unsafe fn get<T: Copy>(place: *const T) -> Result<T, c_int> {
    // SAFETY: the caller vouches for it.
    if place.is_null() { Err(INVALID_ARGUMENT) } else { Ok(unsafe { place.read_unaligned() }) }
}

/// # Safety
///
/// `place` is null or has room for `room` bytes.
pub(crate) unsafe fn put_text(place: *mut c_char, room: u32, text: &str) -> Answer {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= room as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: not null, and the text and its NUL fit into the room that the caller vouches for.
    unsafe {
        place.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

/// # Safety
///
/// `string` is null or ends with a NUL.
pub(crate) unsafe fn text(string: *const c_char) -> Result<String, c_int> {
    if string.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    Ok(unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

/// Writes a list the way NVML does: `count` tells the room and is told the number; too little room is an error.
///
/// # Safety
///
/// `count` is null or holds the room of `list`, which may be null where that is 0.
pub(crate) unsafe fn put_list<T>(list: *mut T, count: *mut u32, items: &[T]) -> Answer {
    // SAFETY: the caller vouches for both.
    unsafe {
        let room = get(count)? as usize;
        put(count, items.len() as u32)?;
        if room < items.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        if !items.is_empty() {
            if list.is_null() {
                return Err(INVALID_ARGUMENT);
            }
            list.copy_from_nonoverlapping(items.as_ptr(), items.len());
        }
    }
    Ok(())
}
