//! Code loaded without a context.
//!
//! A library is loaded for the current device, or the first one, when it is given,
//! so that errors come out at once; for other devices when it is first used there.
//! Its kernels have one handle for all devices.

use core::ffi::CStr;
use core::ptr::null_mut;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::border::{put, put_if_wanted, text};
use crate::context::{current, current_even_failed};
use crate::device::{Device, device, initialized};
use crate::jit::Options;
use crate::kernel::{Entry, LibraryKernel};
use crate::module::{Code, Image, Module, make_module};
use crate::object::{create, destroy, live, lock, object};

/// One library.
pub(crate) struct Library {
    image: Image,
    /// The code on each device that used it, and the module that stands for it there.
    loaded: Mutex<Vec<Loaded>>,
    kernels: Mutex<Vec<CUkernel>>,
}
object!(Library, b"library-");

struct Loaded {
    code: Arc<Code>,
    module: CUmodule,
}

impl Drop for Library {
    fn drop(&mut self) {
        for kernel in lock(&self.kernels).drain(..) {
            // SAFETY: the kernels belong to the library, which is at its end.
            let _ = unsafe { destroy::<LibraryKernel, _>(kernel) };
        }
        for loaded in lock(&self.loaded).drain(..) {
            // SAFETY: as above.
            let _ = unsafe { destroy::<Module, _>(loaded.module) };
        }
    }
}

impl Library {
    /// The code on a device.
    fn code(&self, device: &'static Device) -> Result<Arc<Code>, CUresult> {
        Ok(Arc::clone(&self.on(device, |loaded| Arc::clone(&loaded.code))?))
    }

    fn on<T>(
        &self,
        device: &'static Device,
        take: impl FnOnce(&Loaded) -> T,
    ) -> Result<T, CUresult> {
        let mut loaded = lock(&self.loaded);
        let known = |loaded: &Loaded| core::ptr::eq(loaded.code.device, device);
        if let Some(loaded) = loaded.iter().find(|loaded| known(loaded)) {
            return Ok(take(loaded));
        }
        // SAFETY: no options, no arrays.
        let options = unsafe { Options::read(0, null_mut(), null_mut()) }?;
        let code = Arc::new(Code::load(&self.image, device, &options)?);
        let made = Loaded { module: make_module(Arc::clone(&code)), code };
        let taken = take(&made);
        loaded.push(made);
        Ok(taken)
    }
}

/// The device whose code answers questions: the current one, or the first.
fn own_device() -> Result<&'static Device, CUresult> {
    match current_even_failed() {
        Ok(context) => Ok(context.device),
        Err(_) => device(0),
    }
}

fn make(image: Image, device: &'static Device, options: &Options) -> Result<CUlibrary, CUresult> {
    let code = Arc::new(Code::load(&image, device, options)?);
    let loaded = Loaded { module: make_module(Arc::clone(&code)), code };
    Ok(create(Library { image, loaded: Mutex::new(vec![loaded]), kernels: Mutex::default() }))
}

/// The module that stands for a library on the current device.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn module_of(library: CUlibrary) -> Result<CUmodule, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let library: &Library = unsafe { live(library) }?;
    library.on(current()?.device, |loaded| loaded.module)
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
        let code = library.code(own_device()?)?;
        let entry = Entry::new(Arc::clone(code.kernel(name)?), code.device)?;
        let made = create(LibraryKernel { entry, library: handle });
        kernels.push(made);
        Ok(made)
    }
}

answers! {
    #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
    fn cuLibraryLoadData(
        out: *mut CUlibrary,
        image: *const c_void,
        jit_options: *mut CUjit_option,
        jit_values: *mut *mut c_void,
        jit_count: u32,
        _options: *mut CUlibraryOption,
        _values: *mut *mut c_void,
        _count: u32,
    ) {
        initialized()?;
        let device = own_device()?;
        let options = Options::read(jit_count, jit_options, jit_values)?;
        put(out, null_mut())?;
        put(out, make(Image::at(image, device)?, device, &options)?)
    }

    #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
    fn cuLibraryLoadFromFile(
        out: *mut CUlibrary,
        path: *const c_char,
        jit_options: *mut CUjit_option,
        jit_values: *mut *mut c_void,
        jit_count: u32,
        _options: *mut CUlibraryOption,
        _values: *mut *mut c_void,
        _count: u32,
    ) {
        initialized()?;
        let device = own_device()?;
        let options = Options::read(jit_count, jit_options, jit_values)?;
        put(out, null_mut())?;
        put(out, make(Image::from_file(text(path)?, device)?, device, &options)?)
    }

    fn cuLibraryUnload(library: CUlibrary) {
        initialized()?;
        live::<Library, _>(library)?;
        // Kernels under way may still use the variables.
        if let Ok(context) = current() {
            context.domain.drain(context.spins())?;
        }
        destroy::<Library, _>(library)
    }

    fn cuLibraryGetKernel(out: *mut CUkernel, library: CUlibrary, name: *const c_char) {
        put(out, kernel(library, text(name)?)?)
    }

    fn cuLibraryGetKernelCount(out: *mut u32, library: CUlibrary) {
        let code = live::<Library, _>(library)?.code(own_device()?)?;
        put(out, code.kernels().len() as u32)
    }

    fn cuLibraryEnumerateKernels(out: *mut CUkernel, count: u32, library: CUlibrary) {
        let code = live::<Library, _>(library)?.code(own_device()?)?;
        for (index, found) in code.kernels().iter().take(count as usize).enumerate() {
            let name = crate::kernel::c_name(found)?;
            put(out.wrapping_add(index), kernel(library, &name)?)?;
        }
        Ok(())
    }

    fn cuLibraryGetModule(out: *mut CUmodule, library: CUlibrary) {
        current()?;
        put(out, module_of(library)?)
    }

    fn cuLibraryGetGlobal(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        let code = live::<Library, _>(library)?.code(current()?.device)?;
        let (found, size, _) = code.variable(text(name)?)?;
        put_if_wanted(address, found);
        put_if_wanted(bytes, size);
        Ok(())
    }

    fn cuLibraryGetManaged(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        let code = live::<Library, _>(library)?.code(own_device()?)?;
        let (found, size, managed) = code.variable(text(name)?)?;
        if !managed {
            return Err(CUDA_ERROR_NOT_FOUND);
        }
        put_if_wanted(address, found);
        put_if_wanted(bytes, size);
        Ok(())
    }
}
