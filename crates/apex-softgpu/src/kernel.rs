//! Functions of modules and kernels of libraries: names, attributes, parameters.
//!
//! Both can be launched. But the questions for functions refuse a kernel's handle
//! with `CUDA_ERROR_INVALID_HANDLE`, and the other way round, as the driver does.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;
use apex_engine::{Kernel, Param};
use apex_policy::{Carveout, KernelNeeds};

use crate::border::{Answer, put, put_if_wanted};
use crate::context::current;
use crate::device::{Device, device};
use crate::launch::Shape;
use crate::object::{is, live, object};
use crate::services::say_unsupported;

/// What functions and kernels have in common.
pub(crate) struct Entry {
    pub(crate) name: CString,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) device: &'static Device,
    /// What the program set, by attribute number.
    settings: [AtomicI32; ATTRIBUTES],
    /// Block, shared memory and arguments set one by one, the way of CUDA 2.
    pub(crate) shape: Mutex<Shape>,
    /// Whether it was said that the kernel cannot run.
    named: AtomicBool,
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

/// How many attributes there are.
const ATTRIBUTES: usize = 16;
const DYNAMIC_SHARED_BYTES: usize = 8;
const CARVEOUT: usize = 9;
const CLUSTER_WIDTH: usize = 11;
const NON_PORTABLE_CLUSTER: usize = 14;
const SETTABLE_FROM: CUfunction_attribute = 8;
const CLUSTER_MUST_BE_SET: CUfunction_attribute = 10;
const LOADED: CUfunctionLoadingState = 1;
const PORTABLE_CLUSTER: u32 = 8;
const LARGEST_CLUSTER: u32 = 16;

/// A kernel's name as C has it.
pub(crate) fn c_name(kernel: &Kernel) -> Result<CString, CUresult> {
    CString::new(kernel.name.as_str()).map_err(|_| CUDA_ERROR_NOT_FOUND)
}

impl Entry {
    pub(crate) fn new(kernel: Arc<Kernel>, device: &'static Device) -> Result<Entry, CUresult> {
        let settings = [const { AtomicI32::new(0) }; ATTRIBUTES];
        let dynamic = device.chip.max_shared_per_block.saturating_sub(kernel.static_shared);
        settings[DYNAMIC_SHARED_BYTES].store(dynamic as i32, Ordering::Relaxed);
        settings[CARVEOUT].store(-1, Ordering::Relaxed);
        for (side, &size) in kernel.cluster.iter().flatten().enumerate() {
            settings[CLUSTER_WIDTH + side].store(size as i32, Ordering::Relaxed);
        }
        Ok(Entry {
            name: c_name(&kernel)?,
            kernel,
            device,
            settings,
            shape: Mutex::default(),
            named: AtomicBool::new(false),
        })
    }

    /// The most dynamic shared memory a launch may ask for.
    #[inline]
    pub(crate) fn dynamic_shared_bytes(&self) -> u32 {
        self.settings[DYNAMIC_SHARED_BYTES].load(Ordering::Relaxed) as u32
    }

    /// What a launch with so much dynamic shared memory takes of a multiprocessor.
    pub(crate) fn needs(&self, dynamic_shared: u32) -> KernelNeeds {
        KernelNeeds {
            registers: self.kernel.registers,
            static_shared: self.kernel.static_shared,
            dynamic_shared,
            max_dynamic_shared: self.dynamic_shared_bytes(),
            carveout: Carveout::from_attribute(self.settings[CARVEOUT].load(Ordering::Relaxed)),
        }
    }

    /// The cluster that every launch has, if the kernel or the program fixed one.
    pub(crate) fn cluster(&self) -> Option<[u32; 3]> {
        let side = |nth: usize| self.settings[CLUSTER_WIDTH + nth].load(Ordering::Relaxed) as u32;
        (side(0) != 0).then(|| [side(0), side(1).max(1), side(2).max(1)])
    }

    /// The most blocks of a cluster.
    pub(crate) fn largest_cluster(&self) -> u32 {
        match self.settings[NON_PORTABLE_CLUSTER].load(Ordering::Relaxed) {
            0 => PORTABLE_CLUSTER,
            _ => LARGEST_CLUSTER,
        }
    }

    /// Refuses a kernel that the engine does not understand, with its reason, said once.
    pub(crate) fn check_supported(&self) -> Answer {
        let Some(reason) = &self.kernel.unsupported else { return Ok(()) };
        if !self.named.swap(true, Ordering::Relaxed) {
            say_unsupported(&self.kernel.name, reason);
        }
        Err(CUDA_ERROR_INVALID_PTX)
    }

    fn attribute(&self, attribute: CUfunction_attribute) -> Result<i32, CUresult> {
        let (kernel, set) = (&self.kernel, self.settings.get(attribute as usize));
        let set = set.ok_or(CUDA_ERROR_INVALID_VALUE)?.load(Ordering::Relaxed);
        Ok(match attribute {
            0 => kernel.max_threads as i32,
            1 => kernel.static_shared as i32,
            2 => kernel.constant as i32,
            3 => kernel.local as i32,
            4 => kernel.registers as i32,
            5 => kernel.ptx_version as i32,
            6 => {
                let (major, minor) = self.device.identity.capability;
                (10 * major + minor) as i32
            }
            CLUSTER_MUST_BE_SET => i32::from(kernel.cluster == Some([0; 3])),
            _ => set,
        })
    }

    fn set_attribute(&self, attribute: CUfunction_attribute, value: i32) -> Answer {
        let kept = self.settings.get(attribute as usize).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let most = self.device.chip.max_shared_per_block_optin;
        let most_dynamic = most.saturating_sub(self.kernel.static_shared) as i32;
        let allowed = match attribute as usize {
            DYNAMIC_SHARED_BYTES => (0..=most_dynamic).contains(&value),
            CARVEOUT => (-1..=100).contains(&value),
            // A cluster that the kernel itself fixes cannot be changed.
            11..=13 => self.kernel.cluster.is_none() && value >= 0,
            _ => attribute >= SETTABLE_FROM && attribute != CLUSTER_MUST_BE_SET && value >= 0,
        };
        if !allowed {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        kept.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Gives another entry of the same kernel what the program set for this one.
    pub(crate) fn lend_settings(&self, other: &Entry) {
        for (own, other) in self.settings.iter().zip(&other.settings) {
            other.store(own.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn parameter(&self, index: usize) -> Result<Param, CUresult> {
        self.kernel.params.get(index).copied().ok_or(CUDA_ERROR_INVALID_VALUE)
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
        let module = crate::library::module_of(kernel.library)?;
        let function = crate::module::function(module, &kernel.entry.name)?;
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
