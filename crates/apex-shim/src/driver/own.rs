//! This library as the dynamic loader knows it.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Our own entry in the loader's list of libraries, and our path.
static OWN_HANDLE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static OWN_PATH: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// This library's path as the loader knows it.
pub(crate) fn own_path() -> Option<&'static CStr> {
    own_handle();
    let path = OWN_PATH.load(Ordering::Relaxed);
    // SAFETY: the loader's own string; this library is never unloaded.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

/// This library as `dlopen` hands it out.
pub(crate) fn own_handle() -> *mut c_void {
    let known = OWN_HANDLE.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: an all-zero `Dl_info` is a valid place for the answer.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    let mut link_map: *mut c_void = core::ptr::null_mut();
    // SAFETY: an address inside this library and two valid places for the answer; with
    // RTLD_DL_LINKMAP the third is given the link map, which is what `dlopen` hands out.
    unsafe {
        dladdr1(own_handle as *const c_void, &raw mut found, &raw mut link_map, RTLD_DL_LINKMAP)
    };
    OWN_PATH.store(found.dli_fname.cast_mut(), Ordering::Relaxed);
    OWN_HANDLE.store(link_map, Ordering::Release);
    link_map
}

const RTLD_DL_LINKMAP: c_int = 2;

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        found: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
}
