//! What is known of a kernel, and what can be set for it.

use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

use apex_cuda::Driver;
use apex_cuda::types::{CUfunc_cache, CUfunction, CUfunction_attribute, CUkernel, CUsharedconfig};

use crate::border::{Answer, check, put, put_if_wanted, wanted};
use crate::context::{current, device, device_of};
use crate::errors::{Error, cudaErrorInvalidValue};
use crate::registry::{self, Code};

/// `cudaFuncAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct FunctionAttributes {
    shared_bytes: usize,
    constant_bytes: usize,
    local_bytes: usize,
    /// Threads per block, registers, PTX version, binary version, cache mode, dynamic
    /// shared bytes, carveout, and the cluster's six, in the order of the header.
    numbers: [i32; 13],
    reserved: [i32; 16],
}

/// The driver's numbers of [`FunctionAttributes::numbers`], in their order.
const NUMBERS: [CUfunction_attribute; 13] = [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14];
const SHARED_BYTES: CUfunction_attribute = 1;
const CONSTANT_BYTES: CUfunction_attribute = 2;
const LOCAL_BYTES: CUfunction_attribute = 3;
/// The attributes that a program may set begin here.
const FIRST_SETTABLE: CUfunction_attribute = 8;
const LAST_SETTABLE: CUfunction_attribute = 15;

/// The code as a function of the current context.
pub(crate) fn function(driver: &Driver, code: Code) -> Result<CUfunction, Error> {
    match code {
        Code::Function(function) => Ok(function),
        Code::Kernel(kernel) => {
            let mut function = null_mut();
            // SAFETY: the kernel's library is loaded.
            check(unsafe { (driver.cuKernelGetFunction)(&raw mut function, kernel) })?;
            Ok(function)
        }
    }
}

fn attribute(driver: &Driver, code: Code, attribute: CUfunction_attribute) -> Result<i32, Error> {
    let mut value = 0;
    // SAFETY: the value can be written; the code is loaded.
    check(unsafe {
        match code {
            Code::Function(function) => {
                (driver.cuFuncGetAttribute)(&raw mut value, attribute, function)
            }
            Code::Kernel(kernel) => {
                let device = device_of(driver, device(driver)?)?;
                (driver.cuKernelGetAttribute)(&raw mut value, attribute, kernel, device)
            }
        }
    })?;
    Ok(value)
}

fn attributes(driver: &Driver, code: Code) -> Result<FunctionAttributes, Error> {
    let bytes = |number| attribute(driver, code, number).map(|value| value.max(0) as usize);
    let mut numbers = [0; NUMBERS.len()];
    for (value, number) in numbers.iter_mut().zip(NUMBERS) {
        // A driver older than an attribute leaves it at 0.
        *value = attribute(driver, code, number).unwrap_or(0);
    }
    Ok(FunctionAttributes {
        shared_bytes: bytes(SHARED_BYTES)?,
        constant_bytes: bytes(CONSTANT_BYTES)?,
        local_bytes: bytes(LOCAL_BYTES)?,
        numbers,
        reserved: [0; 16],
    })
}

fn set(
    driver: &Driver,
    code: Code,
    attribute: CUfunction_attribute,
    value: i32,
    ordinal: i32,
) -> Answer {
    if !(FIRST_SETTABLE..=LAST_SETTABLE).contains(&attribute) {
        return Err(cudaErrorInvalidValue);
    }
    // SAFETY: the code is loaded.
    check(unsafe {
        match code {
            Code::Function(function) => (driver.cuFuncSetAttribute)(function, attribute, value),
            Code::Kernel(kernel) => {
                let device = device_of(driver, ordinal)?;
                (driver.cuKernelSetAttribute)(attribute, value, kernel, device)
            }
        }
    })
}

runtime! {
    fn cudaFuncGetAttributes(out: *mut FunctionAttributes, func: *const c_void) {
        let driver = current()?;
        put(out, attributes(driver, registry::code(driver, func)?)?)
    }

    fn cudaFuncSetAttribute(func: *const c_void, attribute: CUfunction_attribute, value: i32) {
        let driver = current()?;
        set(driver, registry::code(driver, func)?, attribute, value, device(driver)?)
    }

    fn cudaKernelSetAttributeForDevice(
        kernel: CUkernel,
        attribute: CUfunction_attribute,
        value: i32,
        ordinal: i32,
    ) {
        set(current()?, Code::Kernel(kernel), attribute, value, ordinal)
    }

    fn cudaFuncSetCacheConfig(func: *const c_void, config: CUfunc_cache) {
        let driver = current()?;
        match registry::code(driver, func)? {
            Code::Function(function) => check((driver.cuFuncSetCacheConfig)(function, config)),
            Code::Kernel(kernel) => {
                let device = device_of(driver, device(driver)?)?;
                check((driver.cuKernelSetCacheConfig)(kernel, config, device))
            }
        }
    }

    fn cudaFuncSetSharedMemConfig(func: *const c_void, config: CUsharedconfig) {
        let driver = current()?;
        let function = function(driver, registry::code(driver, func)?)?;
        check((driver.cuFuncSetSharedMemConfig)(function, config))
    }

    fn cudaFuncGetName(out: *mut *const c_char, func: *const c_void) {
        let driver = current()?;
        match registry::code(driver, func)? {
            Code::Function(function) => check((driver.cuFuncGetName)(out, function)),
            Code::Kernel(kernel) => check((driver.cuKernelGetName)(out, kernel)),
        }
    }

    fn cudaFuncGetParamCount(func: *const c_void, out: *mut usize) {
        let driver = current()?;
        match registry::code(driver, func)? {
            Code::Function(function) => check((driver.cuFuncGetParamCount)(function, wanted(out)?)),
            Code::Kernel(kernel) => check((driver.cuKernelGetParamCount)(kernel, wanted(out)?)),
        }
    }

    fn cudaFuncGetParamInfo(
        func: *const c_void,
        index: usize,
        offset: *mut usize,
        bytes: *mut usize,
    ) {
        let driver = current()?;
        let (mut found_offset, mut found_bytes) = (0, 0);
        let (offset_out, bytes_out) = (&raw mut found_offset, &raw mut found_bytes);
        check(match registry::code(driver, func)? {
            Code::Function(function) => {
                (driver.cuFuncGetParamInfo)(function, index, offset_out, bytes_out)
            }
            Code::Kernel(kernel) => {
                (driver.cuKernelGetParamInfo)(kernel, index, offset_out, bytes_out)
            }
        })?;
        put(offset, found_offset)?;
        put_if_wanted(bytes, found_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_have_the_size_of_the_header() {
        assert_eq!(size_of::<FunctionAttributes>(), 144);
    }
}
