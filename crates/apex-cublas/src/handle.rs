//! Handles, and numbers that a call gives or takes by a pointer.

#![allow(non_snake_case, reason = "exported functions bear cuBLAS's own names")]

use crate::kernels::driver;
use crate::number::{Number, Scalar};
use crate::status::{Answer, INVALID_VALUE, NOT_INITIALIZED, answers, name, of_driver, put};
use apex_cuda::types::{CUdeviceptr, CUstream};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

/// The version that is told: of the newest toolkit, as callers refuse an older one than they were built with.
const VERSION: c_int = 130_400;

/// A handle of cuBLAS.
pub(crate) struct Handle {
    pub(crate) stream: CUstream,
    /// Whether factors and results that are single numbers lie on the device.
    pub(crate) on_device: bool,
    math_mode: c_int,
    atomics_mode: c_int,
    /// A place on the device for a result that the host wants; 0 until one does.
    scratch: CUdeviceptr,
}

/// # Safety
///
/// `handle` is null or a handle that is not destroyed.
pub(crate) unsafe fn of<'a>(handle: *mut Handle) -> Result<&'a mut Handle, c_int> {
    // SAFETY: the caller vouches for it.
    unsafe { handle.as_mut() }.ok_or(NOT_INITIALIZED)
}

impl Handle {
    /// # Safety
    ///
    /// `place` holds a number of that type, on the device if the handle says so.
    pub(crate) unsafe fn scalar(
        &self,
        place: *const c_void,
        number: Number,
    ) -> Result<Scalar, c_int> {
        // SAFETY: as the caller vouches.
        unsafe { read_scalar(place, number, self.on_device, self.stream) }
    }

    /// A place on the device for a result, and afterwards its way to where the caller wants it.
    ///
    /// # Safety
    ///
    /// `result` is a place for so many bytes, on the device if the handle says so.
    pub(crate) unsafe fn result(
        &mut self,
        result: *mut c_void,
        bytes: usize,
        compute: impl FnOnce(&Handle, CUdeviceptr) -> Answer,
    ) -> Answer {
        if result.is_null() {
            return Err(INVALID_VALUE);
        }
        if self.on_device {
            return compute(self, result.addr() as CUdeviceptr);
        }
        let driver = driver()?;
        if self.scratch == 0 {
            // SAFETY: a place for the address.
            of_driver(unsafe { (driver.cuMemAlloc_v2)(&raw mut self.scratch, 256) })?;
        }
        compute(self, self.scratch)?;
        // SAFETY: the caller's place, and the bytes that were computed.
        of_driver(unsafe {
            match (driver.cuMemcpyDtoHAsync_v2)(result, self.scratch, bytes, self.stream) {
                0 => (driver.cuStreamSynchronize)(self.stream),
                error => error,
            }
        })
    }
}

/// # Safety
///
/// `place` holds a number of that type, on the device if so said.
pub(crate) unsafe fn read_scalar(
    place: *const c_void,
    number: Number,
    on_device: bool,
    stream: CUstream,
) -> Result<Scalar, c_int> {
    let (mut scalar, bytes) = (Scalar::default(), number.bytes() as usize);
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    if !on_device {
        // SAFETY: as the caller vouches.
        unsafe { place.cast::<u8>().copy_to_nonoverlapping(scalar.0.as_mut_ptr(), bytes) };
        return Ok(scalar);
    }
    let driver = driver()?;
    // SAFETY: as the caller vouches; the copy is awaited.
    of_driver(unsafe {
        match (driver.cuMemcpyDtoHAsync_v2)(
            scalar.0.as_mut_ptr().cast(),
            place.addr() as CUdeviceptr,
            bytes,
            stream,
        ) {
            0 => (driver.cuStreamSynchronize)(stream),
            error => error,
        }
    })?;
    Ok(scalar)
}

answers! {
    fn cublasCreate_v2(handle: *mut *mut Handle) {
        driver()?;
        let new = Handle { stream: null_mut(), on_device: false, math_mode: 0, atomics_mode: 0, scratch: 0 };
        if handle.is_null() {
            return Err(INVALID_VALUE);
        }
        put(handle, Box::into_raw(Box::new(new)))
    }
    fn cublasDestroy_v2(handle: *mut Handle) {
        let scratch = of(handle)?.scratch;
        drop(Box::from_raw(handle));
        if scratch != 0 {
            of_driver((driver()?.cuMemFree_v2)(scratch))?;
        }
        Ok(())
    }
    fn cublasGetVersion_v2(_handle: *mut Handle, version: *mut c_int) { put(version, VERSION) }
    fn cublasGetProperty(property: c_int, value: *mut c_int) { put_property(property, value) }
    fn cublasLtGetProperty(property: c_int, value: *mut c_int) { put_property(property, value) }

    fn cublasSetStream_v2(handle: *mut Handle, stream: CUstream) {
        of(handle)?.stream = stream;
        Ok(())
    }
    fn cublasGetStream_v2(handle: *mut Handle, stream: *mut CUstream) { put(stream, of(handle)?.stream) }
    fn cublasSetWorkspace_v2(handle: *mut Handle, _workspace: *mut c_void, _bytes: usize) {
        of(handle).map(|_| ())
    }
    fn cublasSetPointerMode_v2(handle: *mut Handle, mode: c_int) {
        if !(0..=1).contains(&mode) {
            return Err(INVALID_VALUE);
        }
        of(handle)?.on_device = mode == 1;
        Ok(())
    }
    fn cublasGetPointerMode_v2(handle: *mut Handle, mode: *mut c_int) {
        put(mode, c_int::from(of(handle)?.on_device))
    }
    fn cublasSetMathMode(handle: *mut Handle, mode: c_int) {
        of(handle)?.math_mode = mode;
        Ok(())
    }
    fn cublasGetMathMode(handle: *mut Handle, mode: *mut c_int) { put(mode, of(handle)?.math_mode) }
    fn cublasSetAtomicsMode(handle: *mut Handle, mode: c_int) {
        of(handle)?.atomics_mode = mode;
        Ok(())
    }
    fn cublasGetAtomicsMode(handle: *mut Handle, mode: *mut c_int) { put(mode, of(handle)?.atomics_mode) }
    fn cublasSetSmCountTarget(handle: *mut Handle, _count: c_int) { of(handle).map(|_| ()) }
    fn cublasGetSmCountTarget(_handle: *mut Handle, count: *mut c_int) { put(count, 0) }
}

pub(crate) extern "C" fn cublasGetStatusName(result: c_int) -> *const c_char {
    name(result).as_ptr()
}

pub(crate) use {
    cublasGetStatusName as cublasGetStatusString, cublasGetStatusName as cublasLtGetStatusName,
    cublasGetStatusName as cublasLtGetStatusString,
};

pub(crate) extern "C" fn cublasGetCudartVersion() -> usize {
    13_000
}

pub(crate) extern "C" fn cublasLtGetVersion() -> usize {
    VERSION as usize
}

pub(crate) use cublasGetCudartVersion as cublasLtGetCudartVersion;

/// # Safety
///
/// `value` is null or can be written.
unsafe fn put_property(property: c_int, value: *mut c_int) -> Answer {
    let number = match property {
        0 => VERSION / 10_000,
        1 => VERSION / 100 % 100,
        2 => VERSION % 100,
        _ => return Err(INVALID_VALUE),
    };
    // SAFETY: the caller vouches for the place.
    unsafe { put(value, number) }
}
