//! The driver's functions for libraries.

use core::ptr::null_mut;

use apex_cuda::types::*;

use crate::border::{put, put_if_wanted, text};
use crate::machine::device::{Device, device, initialized};
use crate::module::code::Image;
use crate::module::library::{Library, kernel, make, module_of};
use crate::module::load_options::Options;
use crate::object::{destroy, live};
use crate::run::context::{current, current_device, current_even_failed};

/// The device whose code answers questions: the current one, or the first.
fn own_device() -> Result<&'static Device, CUresult> {
    match current_even_failed() {
        Ok(context) => Ok(context.device),
        Err(_) => device(0),
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
        put(out, kernel(library, text(name)?, own_device)?)
    }

    fn cuLibraryGetKernelCount(out: *mut u32, library: CUlibrary) {
        let code = live::<Library, _>(library)?.code(own_device()?)?;
        put(out, code.kernels().len() as u32)
    }

    fn cuLibraryEnumerateKernels(out: *mut CUkernel, count: u32, library: CUlibrary) {
        let code = live::<Library, _>(library)?.code(own_device()?)?;
        for (index, found) in code.kernels().iter().take(count as usize).enumerate() {
            let name = crate::module::kernel::c_name(found)?;
            put(out.wrapping_add(index), kernel(library, &name, own_device)?)?;
        }
        Ok(())
    }

    fn cuLibraryGetModule(out: *mut CUmodule, library: CUlibrary) {
        current()?;
        put(out, module_of(library, current_device)?)
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
