//! Stands in front of `dlopen` and `dlsym`, for the cases that the library's name does not catch.
//!
//! A program that opens libcuda by an absolute path gets this library; one that asks this library for
//! a name newer than its table, or for one that the real driver does not have, is answered by the real
//! driver. On the software GPU a library that something stands in for is opened as that, and NVRTC's
//! machine code is asked for here. Everything else goes on untouched.
//!
//! glibc takes the *return address* of these functions to find out who asks (`RTLD_NEXT`, `RUNPATH`),
//! so they are written as a filter followed by a jump: the real function sees the program's own
//! return address.

use crate::driver::load;
use crate::driver::own::{own_handle, own_path};
use crate::driver::stand_ins;
use crate::entries::{first_call, nvrtc};
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

static REAL_DLOPEN: AtomicUsize = AtomicUsize::new(0);
static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);

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

/// `dlsym` of glibc, with the real driver asked where this library lacks a name, and our own function where there is one.
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
        "mov rax, rdx",
        "test rdx, rdx",
        "jnz 2f",
        "jmp qword ptr [rip + {real}]",
        "2:",
        "ret",
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
    if matches!(file, b"libcuda.so" | b"libcuda.so.1") {
        return own_path().map_or(path, CStr::as_ptr);
    }
    stand_ins::tell(file);
    stand_ins::file(file).map_or(path, CStr::as_ptr)
}

/// Whom `dlsym` asks, or what it answers: two registers.
#[repr(C)]
struct Asked {
    handle: *mut c_void,
    /// Our own function, else null.
    answer: *const c_void,
}

unsafe extern "C" fn which_handle(handle: *mut c_void, name: *const c_char) -> Asked {
    find_real_functions();
    let mut asked = Asked { handle, answer: core::ptr::null() };
    if name.is_null() {
        return asked;
    }
    // SAFETY: `dlsym` is given a C string.
    let name = unsafe { CStr::from_ptr(name) };
    // A search from behind the caller is not for us to repeat.
    let is_plain = handle != libc::RTLD_NEXT;
    if is_plain && name.to_bytes().starts_with(b"nvrtc") && stand_ins::are_there() {
        let found = nvrtc::function(handle, name, |name| real_symbol(handle, name));
        asked.answer = found.unwrap_or(core::ptr::null());
    } else if !handle.is_null() {
        asked.handle = which_driver(handle, name);
    }
    asked
}

/// The library that a function of the driver is to be sought in.
fn which_driver(handle: *mut c_void, asked: &CStr) -> *mut c_void {
    if !asked.to_bytes().starts_with(b"cu") || own_handle() != handle {
        return handle;
    }
    // Loading here is right: a program that asks for a driver function is about to call it.
    first_call::real_address(0);
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

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// What the loader's own `dlsym` finds in a library; 0 for nothing.
fn real_symbol(handle: *mut c_void, name: &CStr) -> usize {
    type Find = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    // SAFETY: the address is that of `dlsym`.
    let find: Find = unsafe { core::mem::transmute(REAL_DLSYM.load(Ordering::Acquire)) };
    // SAFETY: the handle is the program's own, the name a C string.
    unsafe { find(handle, name.as_ptr()) as usize }
}

/// The loader's own `dlopen` and `dlsym`.
fn find_real_functions() {
    if REAL_DLSYM.load(Ordering::Acquire) != 0 {
        return;
    }
    let (open, symbol) = (real_function(c"dlopen"), real_function(c"dlsym"));
    if open != 0 && symbol != 0 {
        REAL_DLOPEN.store(open, Ordering::Release);
        REAL_DLSYM.store(symbol, Ordering::Release);
    }
}

/// A function of glibc that one of ours stands in front of; asked for by version, it cannot be ours. 0 for none.
pub(super) fn real_function(name: &CStr) -> usize {
    // The oldest versions are the default ones, but for what has changed: the newest is asked for first.
    let versions = [c"GLIBC_2.34", c"GLIBC_2.15", c"GLIBC_2.11", c"GLIBC_2.2.5"];
    let found = versions.into_iter().find_map(|version| {
        // SAFETY: three C strings and the loader's own constant.
        let address = unsafe { dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) };
        (!address.is_null()).then_some(address as usize)
    });
    found.unwrap_or(0)
}
