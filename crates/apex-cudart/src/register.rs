//! The functions that compilers call before `main` and at a program's end.
//!
//! nvcc and clang put such calls into every program: one per fatbin, then one per
//! kernel and variable in it. They have no way to fail, so what cannot be registered
//! is missed at its first use.

use core::ffi::{c_char, c_void};

use crate::border::{guarded, text};
use crate::context::current;
use crate::driver::opened;
use crate::launch::Dim3;
use crate::{errors, last_error, registry};

/// The unit behind a handle that `__cudaRegisterFatBinary` gave.
///
/// # Safety
///
/// `handle` is null or such a handle.
unsafe fn unit(handle: *mut *mut c_void) -> usize {
    // SAFETY: the caller vouches for the handle, which points to the unit's number.
    if handle.is_null() { 0 } else { unsafe { handle.cast::<usize>().read() } }
}

/// # Safety
///
/// The wrapper and what it points to stay until the unit is unregistered.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *mut c_void) -> *mut *mut c_void {
    let unit = guarded(|| registry::add_unit(wrapper), 0);
    // The program may hold the handle until its end, so its place is never given back.
    Box::leak(Box::new(unit)) as *mut usize as *mut *mut c_void
}

/// Everything waits for first use, so there is nothing to do when a unit is complete.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

/// # Safety
///
/// The handle came from `__cudaRegisterFatBinary`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    let forget = || {
        // SAFETY: the caller vouches for the handle; nothing of the unit is found any more.
        unsafe {
            let Some(library) = registry::remove_unit(unit(handle)) else { return };
            if let Ok(driver) = opened() {
                // At the end of a process the driver may be gone already, and says so.
                let _ = (driver.cuLibraryUnload)(library);
            }
        }
    };
    guarded(forget, ());
}

/// # Safety
///
/// The handle came from `__cudaRegisterFatBinary`; the name ends with a NUL.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(clippy::too_many_arguments, reason = "the compilers' own signature")]
unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    host: *const c_char,
    _device: *mut c_char,
    name: *const c_char,
    _thread_limit: i32,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_dim: *mut Dim3,
    _grid_dim: *mut Dim3,
    _warp_size: *mut i32,
) {
    let register = || {
        // SAFETY: the caller vouches for handle and name.
        if let Ok(name) = unsafe { text(name) } {
            // SAFETY: as above.
            registry::add_kernel(unsafe { unit(handle) }, host.cast(), name);
        }
    };
    guarded(register, ());
}

/// # Safety
///
/// The handle came from `__cudaRegisterFatBinary`; the name ends with a NUL.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(clippy::too_many_arguments, reason = "the compilers' own signature")]
unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host: *mut c_char,
    _device: *mut c_char,
    name: *const c_char,
    _is_external: i32,
    bytes: usize,
    _is_constant: i32,
    _is_global: i32,
) {
    let register = || {
        // SAFETY: the caller vouches for handle and name.
        if let Ok(name) = unsafe { text(name) } {
            // SAFETY: as above.
            registry::add_variable(unsafe { unit(handle) }, host.cast(), name, bytes, None);
        }
    };
    guarded(register, ());
}

/// # Safety
///
/// The handle came from `__cudaRegisterFatBinary`; the name ends with a NUL; `shadow`
/// can be written until the unit is unregistered.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(clippy::too_many_arguments, reason = "the compilers' own signature")]
unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    shadow: *mut *mut c_void,
    _device: *mut c_char,
    name: *const c_char,
    _is_external: i32,
    bytes: usize,
    _is_constant: i32,
    _is_global: i32,
) {
    let register = || {
        // SAFETY: the caller vouches for handle and name.
        if let Ok(name) = unsafe { text(name) }
            && !shadow.is_null()
        {
            let (host, shadow) = (shadow.cast_const().cast(), Some(shadow));
            // SAFETY: as above.
            registry::add_variable(unsafe { unit(handle) }, host, name, bytes, shadow);
        }
    };
    guarded(register, ());
}

/// Called before the host first touches a managed variable: loads the unit, so that
/// the variable is where the host looks for it. Answers whether that went well.
///
/// # Safety
///
/// The handle came from `__cudaRegisterFatBinary`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    let load = || {
        // SAFETY: the caller vouches for the handle.
        let unit = unsafe { unit(handle) };
        current().and_then(|driver| registry::load_unit(driver, unit))
    };
    match guarded(load, Err(errors::cudaErrorUnknown)) {
        Ok(()) => 1,
        Err(error) => {
            last_error::keep(error);
            0
        }
    }
}

/// Variables of the host that the device would see: the software GPU sees all memory
/// of the host anyway.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn __cudaRegisterHostVar(
    _handle: *mut *mut c_void,
    _name: *const c_char,
    _host: *mut c_char,
    _bytes: usize,
) {
}

/// Functions that host and device share by pointer; kernels reach their own without it.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn __cudaRegisterUnifiedTable(_handle: *mut *mut c_void, _table: *mut c_void) {}
