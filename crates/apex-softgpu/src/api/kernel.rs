//! The driver's functions that ask and set what a function or kernel is.
//!
//! The questions for functions refuse a kernel's handle with `CUDA_ERROR_INVALID_HANDLE`, and
//! the other way round, as the driver does.

use apex_cuda::types::*;
use apex_engine::Param;

use crate::border::{Answer, put, put_if_wanted};
use crate::machine::device::device;
use crate::module::kernel::{Entry, LibraryKernel, ModuleFunction};
use crate::object::live;
use crate::run::context::{current, current_device};

const LOADED: CUfunctionLoadingState = 1;

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
unsafe fn put_parameter(parameter: Param, offset: *mut usize, bytes: *mut usize) -> Answer {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        put(offset, parameter.offset as usize)?;
        put_if_wanted(bytes, parameter.bytes as usize);
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
        put(out, of_function(function)?.kernel.params.len())
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
        let module = crate::module::library::module_of(kernel.library, current_device)?;
        let function = crate::module::loaded::function(module, &kernel.entry.name)?;
        kernel.entry.lend_settings(&live::<ModuleFunction, _>(function)?.entry);
        put(out, function)
    }

    fn cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize, bytes: *mut usize) {
        put_parameter(of_kernel(kernel)?.parameter(index)?, offset, bytes)
    }

    fn cuKernelGetParamCount(kernel: CUkernel, out: *mut usize) {
        put(out, of_kernel(kernel)?.kernel.params.len())
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;
    use core::ptr::null_mut;

    use super::*;
    use crate::api::context::tests::with_context;
    use crate::api::library::{cuLibraryGetKernel, cuLibraryLoadData, cuLibraryUnload};
    use crate::api::module::tests::PTX;
    use crate::module::kernel::entry;

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
