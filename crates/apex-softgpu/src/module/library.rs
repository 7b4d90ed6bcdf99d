//! Code loaded without a context.
//!
//! A library is loaded for the current device, or the first one, when it is given,
//! so that errors come out at once; for other devices when it is first used there.
//! Its kernels have one handle for all devices.

use core::ffi::CStr;
use core::ptr::null_mut;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::machine::device::Device;
use crate::module::code::{Code, Image};
use crate::module::kernel::{Entry, LibraryKernel};
use crate::module::load_options::Options;
use crate::module::loaded::{Module, make_module};
use crate::object::{create, destroy, live, lock, object};

/// One library.
pub(crate) struct Library {
    image: Image,
    /// The code on each device that used it, and the module that stands for it there.
    loaded: Mutex<Vec<Loaded>>,
    kernels: Mutex<HashMap<CString, CUkernel>>,
}
object!(Library, b"library-");

struct Loaded {
    code: Arc<Code>,
    module: CUmodule,
}

impl Drop for Library {
    fn drop(&mut self) {
        for (_, kernel) in lock(&self.kernels).drain() {
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
    pub(crate) fn code(&self, device: &'static Device) -> Result<Arc<Code>, CUresult> {
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

pub(crate) fn make(
    image: Image,
    device: &'static Device,
    options: &Options,
) -> Result<CUlibrary, CUresult> {
    let image = image.with(options);
    let code = Arc::new(Code::load(&image, device, options)?);
    let loaded = Loaded { module: make_module(Arc::clone(&code)), code };
    Ok(create(Library { image, loaded: Mutex::new(vec![loaded]), kernels: Mutex::default() }))
}

/// The module that stands for a library on a device.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn module_of(
    library: CUlibrary,
    device: impl FnOnce() -> Result<&'static Device, CUresult>,
) -> Result<CUmodule, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let library: &Library = unsafe { live(library) }?;
    library.on(device()?, |loaded| loaded.module)
}

/// The kernel of that name, the same handle each time; made for a device when first asked for.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn kernel(
    handle: CUlibrary,
    name: &CStr,
    device: impl FnOnce() -> Result<&'static Device, CUresult>,
) -> Result<CUkernel, CUresult> {
    // SAFETY: the caller vouches for the handle.
    unsafe {
        let library: &Library = live(handle)?;
        let mut kernels = lock(&library.kernels);
        if let Some(&kernel) = kernels.get(name) {
            return Ok(kernel);
        }
        let code = library.code(device()?)?;
        let entry = Entry::new(Arc::clone(code.kernel(name)?), code.device)?;
        let made = create(LibraryKernel { entry, library: handle });
        kernels.insert(name.to_owned(), made);
        Ok(made)
    }
}
