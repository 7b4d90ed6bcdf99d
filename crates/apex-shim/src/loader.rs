//! Stands in front of `dlopen` and `dlsym`, for the two cases that the library's name does not catch.
//!
//! A program that opens libcuda by an absolute path gets this library; one that asks this library for
//! a name newer than its table, or for one that the real driver does not have, is answered by the real
//! driver. Everything else goes on untouched.
//!
//! glibc takes the *return address* of these functions to find out who asks (`RTLD_NEXT`, `RUNPATH`),
//! so they are written as a filter followed by a jump: the real function sees the program's own
//! return address.

use crate::load;
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static REAL_DLOPEN: AtomicUsize = AtomicUsize::new(0);
static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);

/// Our own entry in the loader's list of libraries, and our path.
static OWN_HANDLE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static OWN_PATH: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// `dlopen` of glibc, with libcuda's paths replaced.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "sub rsp, 24",
        "mov [rsp], rsi",
        "call {filter}",
        "mov rdi, rax",
        "mov rsi, [rsp]",
        "add rsp, 24",
        "jmp qword ptr [rip + {real}]",
        filter = sym which_path,
        real = sym REAL_DLOPEN,
    )
}

/// `dlsym` of glibc, with the real driver asked where this library lacks a name.
#[unsafe(naked)]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "sub rsp, 24",
        "mov [rsp], rsi",
        "call {filter}",
        "mov rdi, rax",
        "mov rsi, [rsp]",
        "add rsp, 24",
        "jmp qword ptr [rip + {real}]",
        filter = sym which_handle,
        real = sym REAL_DLSYM,
    )
}

unsafe extern "C" fn which_path(path: *const c_char) -> *const c_char {
    find_real_functions();
    if path.is_null() {
        return path;
    }
    // SAFETY: `dlopen` is given null or a C string.
    let asked = unsafe { CStr::from_ptr(path) }.to_bytes();
    let file = asked.rsplit(|&byte| byte == b'/').next().unwrap_or(asked);
    match own_path() {
        Some(own) if matches!(file, b"libcuda.so" | b"libcuda.so.1") => own.as_ptr(),
        _ => path,
    }
}

unsafe extern "C" fn which_handle(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    find_real_functions();
    if name.is_null() || handle.is_null() {
        return handle;
    }
    // SAFETY: `dlsym` is given a C string.
    let asked = unsafe { CStr::from_ptr(name) };
    if !asked.to_bytes().starts_with(b"cu") || own_handle() != handle {
        return handle;
    }
    // Loading here is right: a program that asks for a driver function is about to call it.
    load::real_address(0);
    let Some(loaded) = load::loaded() else { return handle };
    match &loaded.library {
        Some(library) if !loaded.has(asked) || !is_exported(asked) => library.handle(),
        _ => handle,
    }
}

/// Whether the table has this name.
fn is_exported(name: &CStr) -> bool {
    apex_cuda::Function::ALL.iter().any(|function| function.c_name() == name)
}

/// This library's path as the loader knows it.
pub(crate) fn own_path() -> Option<&'static CStr> {
    own_handle();
    let path = OWN_PATH.load(Ordering::Relaxed);
    // SAFETY: the loader's own string; this library is never unloaded.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

fn own_handle() -> *mut c_void {
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
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The loader's own `dlopen` and `dlsym`; asked for by version, they cannot be ours.
fn find_real_functions() {
    if REAL_DLSYM.load(Ordering::Acquire) != 0 {
        return;
    }
    let find = |name: &CStr| {
        [c"GLIBC_2.34", c"GLIBC_2.2.5"].into_iter().find_map(|version| {
            // SAFETY: three C strings and the loader's own constant.
            let address = unsafe { dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) };
            (!address.is_null()).then_some(address as usize)
        })
    };
    if let (Some(open), Some(symbol)) = (find(c"dlopen"), find(c"dlsym")) {
        REAL_DLOPEN.store(open, Ordering::Release);
        REAL_DLSYM.store(symbol, Ordering::Release);
    }
}
