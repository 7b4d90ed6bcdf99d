//! Code loaded without a context.

use core::ffi::CStr;
use core::ptr::null_mut;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::border::{put, put_if_wanted, text};
use crate::device::initialized;
use crate::kernel::{Entry, LibraryKernel};
use crate::module::{Code, Module, make_module};
use crate::object::{create, destroy, live, lock, object};

/// One library.
pub(crate) struct Library {
    code: Arc<Code>,
    kernels: Mutex<Vec<CUkernel>>,
    /// The library as a module, made when first asked for.
    module: Mutex<CUmodule>,
}
object!(Library, b"library-");

impl Drop for Library {
    fn drop(&mut self) {
        for kernel in lock(&self.kernels).drain(..) {
            // SAFETY: the kernels belong to the library, which is at its end.
            let _ = unsafe { destroy::<LibraryKernel, _>(kernel) };
        }
        // SAFETY: as above; null, when none was made, is refused.
        let _ = unsafe { destroy::<Module, _>(*lock(&self.module)) };
    }
}

fn make(code: Code) -> CUlibrary {
    create(Library {
        code: Arc::new(code),
        kernels: Mutex::default(),
        module: Mutex::new(null_mut()),
    })
}

/// The module that stands for a library.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn module_of(library: CUlibrary) -> Result<CUmodule, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let library: &Library = unsafe { live(library) }?;
    let mut module = lock(&library.module);
    if module.is_null() {
        *module = make_module(Arc::clone(&library.code));
    }
    Ok(*module)
}

/// The kernel of that name, the same handle each time.
///
/// # Safety
///
/// The handle is the program's.
unsafe fn kernel(handle: CUlibrary, name: &CStr) -> Result<CUkernel, CUresult> {
    // SAFETY: the caller vouches for the handle; the kernels in the list live as
    // long as their library.
    unsafe {
        let library: &Library = live(handle)?;
        let mut kernels = lock(&library.kernels);
        for &kernel in kernels.iter() {
            if live::<LibraryKernel, _>(kernel)?.entry.name.as_c_str() == name {
                return Ok(kernel);
            }
        }
        let parameters = library.code.kernel(name)?;
        let made = create(LibraryKernel { entry: Entry::new(name, parameters), library: handle });
        kernels.push(made);
        Ok(made)
    }
}

answers! {
    fn cuLibraryLoadData(
        out: *mut CUlibrary,
        image: *const c_void,
        _jit_options: *mut CUjit_option,
        _jit_values: *mut *mut c_void,
        _jit_count: u32,
        _options: *mut CUlibraryOption,
        _values: *mut *mut c_void,
        _count: u32,
    ) {
        initialized()?;
        put(out, make(Code::at(image)?))
    }

    fn cuLibraryLoadFromFile(
        out: *mut CUlibrary,
        path: *const c_char,
        _jit_options: *mut CUjit_option,
        _jit_values: *mut *mut c_void,
        _jit_count: u32,
        _options: *mut CUlibraryOption,
        _values: *mut *mut c_void,
        _count: u32,
    ) {
        initialized()?;
        put(out, make(Code::from_file(text(path)?)?))
    }

    fn cuLibraryUnload(library: CUlibrary) {
        initialized()?;
        destroy::<Library, _>(library)
    }

    fn cuLibraryGetKernel(out: *mut CUkernel, library: CUlibrary, name: *const c_char) {
        put(out, kernel(library, text(name)?)?)
    }

    fn cuLibraryGetKernelCount(out: *mut u32, library: CUlibrary) {
        put(out, live::<Library, _>(library)?.code.kernel_names()?.len() as u32)
    }

    fn cuLibraryEnumerateKernels(out: *mut CUkernel, count: u32, library: CUlibrary) {
        let names = live::<Library, _>(library)?.code.kernel_names()?;
        for (index, name) in names.iter().take(count as usize).enumerate() {
            put(out.wrapping_add(index), kernel(library, name)?)?;
        }
        Ok(())
    }

    fn cuLibraryGetModule(out: *mut CUmodule, library: CUlibrary) {
        crate::context::current()?;
        put(out, module_of(library)?)
    }

    fn cuLibraryGetGlobal(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        crate::context::current()?;
        let (found, size) = live::<Library, _>(library)?.code.variable(text(name)?)?;
        put_if_wanted(address, found);
        put_if_wanted(bytes, size);
        Ok(())
    }

    fn cuLibraryGetManaged(
        _address: *mut CUdeviceptr,
        _bytes: *mut usize,
        library: CUlibrary,
        _name: *const c_char,
    ) {
        live::<Library, _>(library)?;
        Err(CUDA_ERROR_NOT_FOUND)
    }
}
