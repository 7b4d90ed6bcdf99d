//! Functions of modules and kernels of libraries: names, attributes, parameters.
//!
//! Both can be launched. But the questions for functions refuse a kernel's handle
//! with `CUDA_ERROR_INVALID_HANDLE`, and the other way round, as the driver does.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering};
use std::ffi::CString;
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, put, put_if_wanted};
use crate::context::current;
use crate::device::{
    SHARED_BYTES_PER_BLOCK, SHARED_BYTES_PER_BLOCK_AT_MOST, THREADS_PER_BLOCK, device,
};
use crate::launch::Shape;
use crate::object::{is, live, object};
use crate::ptx::Parameter;

/// What functions and kernels have in common.
pub(crate) struct Entry {
    pub(crate) name: CString,
    /// None when the image was not looked into.
    pub(crate) parameters: Option<Vec<Parameter>>,
    attributes: [AtomicI32; ATTRIBUTES.len()],
    /// Block, shared memory and arguments set one by one, the way of CUDA 2.
    pub(crate) shape: Mutex<Shape>,
}

/// A function of a module.
pub(crate) struct ModuleFunction {
    pub(crate) entry: Entry,
    pub(crate) module: CUmodule,
}
object!(ModuleFunction, b"function");

/// A kernel of a library.
pub(crate) struct LibraryKernel {
    pub(crate) entry: Entry,
    pub(crate) library: CUlibrary,
}
object!(LibraryKernel, b"kernel--");

/// What each attribute is at first, by its number.
const ATTRIBUTES: [i32; 16] = [
    THREADS_PER_BLOCK as i32,
    0,
    0,
    0,
    REGISTERS,
    90,
    90,
    0,
    SHARED_BYTES_PER_BLOCK,
    -1,
    0,
    0,
    0,
    0,
    0,
    0,
];
pub(crate) const REGISTERS: i32 = 16;
const DYNAMIC_SHARED_BYTES: usize = 8;
const SETTABLE_FROM: CUfunction_attribute = 8;
const CLUSTER_MUST_BE_SET: CUfunction_attribute = 10;
const LOADED: CUfunctionLoadingState = 1;

impl Entry {
    pub(crate) fn new(name: &CStr, parameters: Option<Vec<Parameter>>) -> Entry {
        Entry {
            name: name.to_owned(),
            parameters,
            attributes: ATTRIBUTES.map(AtomicI32::new),
            shape: Mutex::default(),
        }
    }

    /// The most shared memory a launch may ask for.
    #[inline]
    pub(crate) fn dynamic_shared_bytes(&self) -> i32 {
        self.attributes[DYNAMIC_SHARED_BYTES].load(Ordering::Relaxed)
    }

    fn attribute(&self, attribute: CUfunction_attribute) -> Result<i32, CUresult> {
        let value = self.attributes.get(attribute as usize).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        Ok(value.load(Ordering::Relaxed))
    }

    fn set_attribute(&self, attribute: CUfunction_attribute, value: i32) -> Answer {
        let kept = self.attributes.get(attribute as usize).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let too_much = attribute as usize == DYNAMIC_SHARED_BYTES
            && !(0..=SHARED_BYTES_PER_BLOCK_AT_MOST).contains(&value);
        if attribute < SETTABLE_FROM || attribute == CLUSTER_MUST_BE_SET || too_much {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        kept.store(value, Ordering::Relaxed);
        Ok(())
    }

    fn parameter(&self, index: usize) -> Result<Parameter, CUresult> {
        let parameters = self.parameters.as_ref().ok_or(CUDA_ERROR_NOT_SUPPORTED)?;
        parameters.get(index).copied().ok_or(CUDA_ERROR_INVALID_VALUE)
    }
}

/// What a handle to be launched stands for, be it a function or a kernel.
///
/// # Safety
///
/// The handle is the program's.
#[inline]
pub(crate) unsafe fn entry<'a>(handle: CUfunction) -> Result<&'a Entry, CUresult> {
    // SAFETY: the caller vouches for the handle.
    unsafe {
        if is::<ModuleFunction, _>(handle) {
            return Ok(&live::<ModuleFunction, _>(handle)?.entry);
        }
        Ok(&live::<LibraryKernel, _>(handle)?.entry)
    }
}

/// # Safety
///
/// The handle is the program's.
unsafe fn of_function<'a>(handle: CUfunction) -> Result<&'a Entry, CUresult> {
    // SAFETY: the caller vouches for the handle.
    Ok(&unsafe { live::<ModuleFunction, _>(handle) }?.entry)
}

/// # Safety
///
/// The handle is the program's.
unsafe fn of_kernel<'a>(handle: CUkernel) -> Result<&'a Entry, CUresult> {
    // SAFETY: the caller vouches for the handle.
    Ok(&unsafe { live::<LibraryKernel, _>(handle) }?.entry)
}

/// # Safety
///
/// The pointers are null or can be written.
unsafe fn put_parameter(parameter: Parameter, offset: *mut usize, bytes: *mut usize) -> Answer {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        put(offset, parameter.offset)?;
        put_if_wanted(bytes, parameter.bytes);
    }
    Ok(())
}

answers! {
    fn cuFuncGetAttribute(out: *mut i32, attribute: CUfunction_attribute, function: CUfunction) {
        put(out, of_function(function)?.attribute(attribute)?)
    }

    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: i32) {
        of_function(function)?.set_attribute(attribute, value)
    }

    fn cuFuncSetCacheConfig(function: CUfunction, _config: CUfunc_cache) {
        of_function(function).map(|_| ())
    }

    fn cuFuncSetSharedMemConfig(function: CUfunction, _config: CUsharedconfig) {
        of_function(function).map(|_| ())
    }

    fn cuFuncGetName(out: *mut *const c_char, function: CUfunction) {
        put(out, of_function(function)?.name.as_ptr())
    }

    fn cuFuncGetModule(out: *mut CUmodule, function: CUfunction) {
        put(out, live::<ModuleFunction, _>(function)?.module)
    }

    fn cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, bytes: *mut usize) {
        put_parameter(of_function(function)?.parameter(index)?, offset, bytes)
    }

    fn cuFuncGetParamCount(function: CUfunction, out: *mut usize) {
        let parameters = of_function(function)?.parameters.as_ref();
        put(out, parameters.ok_or(CUDA_ERROR_NOT_SUPPORTED)?.len())
    }

    fn cuFuncIsLoaded(out: *mut CUfunctionLoadingState, function: CUfunction) {
        of_function(function)?;
        put(out, LOADED)
    }

    fn cuFuncLoad(function: CUfunction) {
        of_function(function).map(|_| ())
    }

    fn cuKernelGetAttribute(out: *mut i32, attribute: CUfunction_attribute, kernel: CUkernel, dev: CUdevice) {
        device(dev)?;
        put(out, of_kernel(kernel)?.attribute(attribute)?)
    }

    fn cuKernelSetAttribute(attribute: CUfunction_attribute, value: i32, kernel: CUkernel, dev: CUdevice) {
        device(dev)?;
        of_kernel(kernel)?.set_attribute(attribute, value)
    }

    fn cuKernelSetCacheConfig(kernel: CUkernel, _config: CUfunc_cache, dev: CUdevice) {
        device(dev)?;
        of_kernel(kernel).map(|_| ())
    }

    fn cuKernelGetName(out: *mut *const c_char, kernel: CUkernel) {
        put(out, of_kernel(kernel)?.name.as_ptr())
    }

    fn cuKernelGetLibrary(out: *mut CUlibrary, kernel: CUkernel) {
        put(out, live::<LibraryKernel, _>(kernel)?.library)
    }

    fn cuKernelGetFunction(out: *mut CUfunction, kernel: CUkernel) {
        current()?;
        let kernel: &LibraryKernel = live(kernel)?;
        let module = crate::library::module_of(kernel.library)?;
        put(out, crate::module::function(module, &kernel.entry.name)?)
    }

    fn cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize, bytes: *mut usize) {
        put_parameter(of_kernel(kernel)?.parameter(index)?, offset, bytes)
    }

    fn cuKernelGetParamCount(kernel: CUkernel, out: *mut usize) {
        let parameters = of_kernel(kernel)?.parameters.as_ref();
        put(out, parameters.ok_or(CUDA_ERROR_NOT_SUPPORTED)?.len())
    }
}

#[cfg(test)]
mod tests {
    use core::ptr::null_mut;

    use super::*;
    use crate::context::tests::with_context;
    use crate::library::{cuLibraryGetKernel, cuLibraryLoadData, cuLibraryUnload};
    use crate::module::tests::PTX;

    #[test]
    fn functions_and_kernels_are_told_apart() {
        with_context(|| {
            let (mut library, mut kernel, mut function) = (null_mut(), null_mut(), null_mut());
            let (mut offset, mut bytes, mut name) = (0, 0, core::ptr::null());
            let none = null_mut();
            // SAFETY: the text is a whole image, the names end with a NUL.
            unsafe {
                let options = null_mut();
                let image = PTX.as_ptr().cast();
                let loaded =
                    cuLibraryLoadData(&raw mut library, image, none, options, 0, none, options, 0);
                assert_eq!(loaded, CUDA_SUCCESS);
                assert_eq!(
                    cuLibraryGetKernel(&raw mut kernel, library, c"add".as_ptr()),
                    CUDA_SUCCESS
                );
                assert_eq!(
                    cuFuncGetParamInfo(kernel.cast(), 0, &raw mut offset, &raw mut bytes),
                    CUDA_ERROR_INVALID_HANDLE
                );
                assert_eq!(
                    cuKernelGetParamInfo(kernel, 1, &raw mut offset, &raw mut bytes),
                    CUDA_SUCCESS
                );
                assert_eq!((offset, bytes), (8, 4));
                assert_eq!(
                    cuKernelGetParamInfo(kernel, 2, &raw mut offset, &raw mut bytes),
                    CUDA_ERROR_INVALID_VALUE
                );
                assert_eq!(cuKernelGetFunction(&raw mut function, kernel), CUDA_SUCCESS);
                assert_eq!(cuFuncGetName(&raw mut name, function), CUDA_SUCCESS);
                assert_eq!(CStr::from_ptr(name), c"add");
                assert!(entry(kernel.cast()).is_ok() && entry(function).is_ok());
                assert_eq!(cuFuncSetAttribute(function, 8, 200 << 10), CUDA_SUCCESS);
                assert_eq!(cuFuncSetAttribute(function, 8, 228 << 10), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(cuFuncSetAttribute(function, 4, 1), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(cuLibraryUnload(library), CUDA_SUCCESS);
                assert_eq!(cuKernelGetName(&raw mut name, kernel), CUDA_ERROR_INVALID_HANDLE);
            }
        });
    }
}
