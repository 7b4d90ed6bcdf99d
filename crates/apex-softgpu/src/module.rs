//! Code loaded into a context, and what both modules and libraries know of it.
//!
//! Code is PTX, lowered once by the engine for one device; its variables lie in that
//! device's memory and go with the code. What is only machine code cannot run here
//! and is refused with a sentence.

use core::ffi::CStr;
use core::ptr::null_mut;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;
use apex_engine::{Kernel, LoadErrorKind, Variable};

use crate::border::{Answer, put, put_if_wanted, text};
use crate::context::current;
use crate::device::Device;
use crate::fatbin::{texts_at, texts_in};
use crate::jit::Options;
use crate::kernel::{Entry, ModuleFunction};
use crate::memory::{Place, allocate, free};
use crate::object::{create, destroy, live, lock, object};
use crate::reference::TextureReference;
use crate::settings::say;

/// Loaded code on one device.
pub(crate) struct Code {
    pub(crate) device: &'static Device,
    engine: apex_engine::Module,
    addresses: Vec<u64>,
}

/// One module.
pub(crate) struct Module {
    pub(crate) code: Arc<Code>,
    functions: Mutex<Vec<CUfunction>>,
    /// The texture and surface references that were asked for.
    pub(crate) references: Mutex<Vec<(CString, u64)>>,
}
object!(Module, b"module--");

/// The texts of an image.
pub(crate) struct Image(pub(crate) Vec<String>);

impl Image {
    /// # Safety
    ///
    /// `image` is null or what the driver's loading functions accept.
    pub(crate) unsafe fn at(image: *const c_void, device: &Device) -> Result<Image, CUresult> {
        // SAFETY: the caller vouches for `image`.
        named(unsafe { texts_at(image, device.identity.capability) }).map(Image)
    }

    pub(crate) fn from_file(path: &CStr, device: &Device) -> Result<Image, CUresult> {
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let bytes = std::fs::read(path).map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)?;
        named(texts_in(&bytes, device.identity.capability)).map(Image)
    }
}

/// Says why machine code alone cannot run.
fn named(texts: Result<Vec<String>, CUresult>) -> Result<Vec<String>, CUresult> {
    if texts == Err(CUDA_ERROR_NO_BINARY_FOR_GPU) {
        say("a module holds machine code only, which the software GPU cannot run: \
             build it with PTX (nvcc -gencode arch=compute_XX,code=compute_XX)");
    }
    texts
}

impl Code {
    /// Loads texts onto a device; the logs go where the options say.
    pub(crate) fn load(
        image: &Image,
        device: &'static Device,
        options: &Options,
    ) -> Result<Code, CUresult> {
        let mut addresses = Vec::new();
        let mut place = |variable: Variable<'_>| {
            let place = if variable.managed { Place::Managed } else { Place::Device };
            let bytes = usize::try_from(variable.bytes.max(1)).ok()?;
            // Not the context's to free: a variable goes with its code.
            let address = allocate(device, null_mut(), bytes, place, 1, null_mut()).ok()?;
            if !address.is_multiple_of(variable.align.max(1)) {
                let _ = free(address, |_| true);
                return None;
            }
            clear(address, bytes);
            addresses.push(address);
            Some(address)
        };
        let texts: Vec<&str> = image.0.iter().map(String::as_str).collect();
        let loaded = apex_engine::Module::load(&texts, &mut place);
        match loaded {
            Ok(engine) => {
                let warnings = engine.warnings().join("\n");
                // SAFETY: the program's own buffers, of this very call.
                unsafe { options.write(&warnings, "") };
                Ok(Code { device, engine, addresses })
            }
            Err(error) => {
                for address in addresses {
                    let _ = free(address, |_| true);
                }
                // SAFETY: as above.
                unsafe { options.write("", &error.log) };
                if crate::settings::settings().softgpu_verbose {
                    say(&format!("a module could not be loaded: {}", error.log));
                }
                Err(match error.kind {
                    LoadErrorKind::InvalidPtx => CUDA_ERROR_INVALID_PTX,
                    LoadErrorKind::UnsupportedVersion => CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                    LoadErrorKind::Unresolved => CUDA_ERROR_INVALID_PTX,
                    LoadErrorKind::OutOfMemory => CUDA_ERROR_OUT_OF_MEMORY,
                })
            }
        }
    }

    pub(crate) fn kernel(&self, name: &CStr) -> Result<&Arc<Kernel>, CUresult> {
        let name = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
        self.engine.kernel(name).ok_or(CUDA_ERROR_NOT_FOUND)
    }

    pub(crate) fn kernels(&self) -> Vec<&Arc<Kernel>> {
        self.engine.kernels().collect()
    }

    /// Address and size of a variable, and whether it is managed.
    pub(crate) fn variable(&self, name: &CStr) -> Result<(u64, usize, bool), CUresult> {
        let name = name.to_str().map_err(|_| CUDA_ERROR_NOT_FOUND)?;
        let found = self.engine.variable(name).ok_or(CUDA_ERROR_NOT_FOUND)?;
        Ok((found.address, found.bytes as usize, found.managed))
    }
}

fn clear(address: u64, bytes: usize) {
    let start = core::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: as many bytes were taken just now. Memory that was used before is not
    // zero, and variables begin as zeros.
    unsafe { start.write_bytes(0, bytes) };
}

impl Drop for Code {
    fn drop(&mut self) {
        for address in self.addresses.drain(..) {
            // One that is gone already is no loss.
            let _ = free(address, |_| true);
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        for function in lock(&self.functions).drain(..) {
            // SAFETY: the functions belong to the module, which is at its end.
            let _ = unsafe { destroy::<ModuleFunction, _>(function) };
        }
        for (_, reference) in lock(&self.references).drain(..) {
            let handle = core::ptr::with_exposed_provenance_mut::<c_void>(reference as usize);
            // SAFETY: as above.
            let _ = unsafe { destroy::<TextureReference, _>(handle) };
        }
    }
}

pub(crate) fn make_module(code: Arc<Code>) -> CUmodule {
    create(Module { code, functions: Mutex::default(), references: Mutex::default() })
}

/// The function of that name, the same handle each time.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn function(handle: CUmodule, name: &CStr) -> Result<CUfunction, CUresult> {
    // SAFETY: the caller vouches for the handle; the functions in the list live as
    // long as their module.
    unsafe {
        let module: &Module = live(handle)?;
        let mut functions = lock(&module.functions);
        for &function in functions.iter() {
            if live::<ModuleFunction, _>(function)?.entry.name.as_c_str() == name {
                return Ok(function);
            }
        }
        let entry = Entry::new(Arc::clone(module.code.kernel(name)?), module.code.device)?;
        let made = create(ModuleFunction { entry, module: handle });
        functions.push(made);
        Ok(made)
    }
}

answers! {
    fn cuModuleLoad(out: *mut CUmodule, path: *const c_char) {
        let device = current()?.device;
        let path = text(path)?;
        let options = Options::read(0, null_mut(), null_mut())?;
        load(out, || Image::from_file(path, device), &options)
    }

    fn cuModuleLoadData(out: *mut CUmodule, image: *const c_void) {
        let device = current()?.device;
        let options = Options::read(0, null_mut(), null_mut())?;
        load(out, || Image::at(image, device), &options)
    }

    fn cuModuleLoadDataEx(
        out: *mut CUmodule,
        image: *const c_void,
        option_count: u32,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
    ) {
        let device = current()?.device;
        let options = Options::read(option_count, options, values)?;
        load(out, || Image::at(image, device), &options)
    }

    fn cuModuleLoadFatBinary(out: *mut CUmodule, image: *const c_void) {
        let device = current()?.device;
        let options = Options::read(0, null_mut(), null_mut())?;
        load(out, || Image::at(image, device), &options)
    }

    fn cuModuleUnload(module: CUmodule) {
        let context = current()?;
        live::<Module, _>(module)?;
        // Kernels under way may still use the variables.
        context.domain.drain(context.spins())?;
        destroy::<Module, _>(module)
    }

    fn cuModuleGetLoadingMode(out: *mut CUmoduleLoadingMode) {
        put(out, LOADED_EAGERLY)
    }

    fn cuModuleGetFunction(out: *mut CUfunction, module: CUmodule, name: *const c_char) {
        current()?;
        put(out, function(module, text(name)?)?)
    }

    fn cuModuleGetFunctionCount(out: *mut u32, module: CUmodule) {
        put(out, live::<Module, _>(module)?.code.kernels().len() as u32)
    }

    fn cuModuleEnumerateFunctions(out: *mut CUfunction, count: u32, module: CUmodule) {
        let code = Arc::clone(&live::<Module, _>(module)?.code);
        for (index, kernel) in code.kernels().iter().take(count as usize).enumerate() {
            let name = crate::kernel::c_name(kernel)?;
            put(out.wrapping_add(index), function(module, &name)?)?;
        }
        Ok(())
    }

    fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char,
    ) {
        current()?;
        let (found, size, _) = live::<Module, _>(module)?.code.variable(text(name)?)?;
        put_if_wanted(address, found);
        put_if_wanted(bytes, size);
        Ok(())
    }
}

const LOADED_EAGERLY: CUmoduleLoadingMode = 1;

/// # Safety
///
/// `out` is null or can be written.
unsafe fn load(
    out: *mut CUmodule,
    image: impl FnOnce() -> Result<Image, CUresult>,
    options: &Options,
) -> Answer {
    let device = current()?.device;
    if out.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let code = Code::load(&image()?, device, options)?;
    // SAFETY: the caller vouches for `out`.
    unsafe { put(out, make_module(Arc::new(code))) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::context::tests::with_context;

    pub(crate) const PTX: &CStr = c".version 8.0\n.target sm_90\n.address_size 64\n\
          .global .align 4 .b8 table[64];\n\
          .visible .entry add(.param .u64 a, .param .u32 n) { ret; }\n\
          .visible .entry other() { ret; }";

    /// The function of that name from a text; the module is left loaded.
    pub(crate) fn function_of(text: &CStr, name: &CStr) -> CUfunction {
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: the text is a whole image.
        unsafe {
            assert_eq!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()), CUDA_SUCCESS);
            assert_eq!(cuModuleGetFunction(&raw mut function, module, name.as_ptr()), CUDA_SUCCESS);
        }
        function
    }

    /// The function of that name from [`PTX`].
    pub(crate) fn ptx_function(name: &CStr) -> CUfunction {
        function_of(PTX, name)
    }

    #[test]
    fn modules_give_what_they_declare() {
        with_context(|| {
            let (mut module, mut first, mut again) = (null_mut(), null_mut(), null_mut());
            let (mut address, mut bytes, mut count) = (0, 0, 0);
            // SAFETY: the text is a whole image, the names end with a NUL.
            unsafe {
                assert_eq!(cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()), CUDA_SUCCESS);
                assert_eq!(
                    cuModuleGetFunction(&raw mut first, module, c"add".as_ptr()),
                    CUDA_SUCCESS
                );
                assert_eq!(
                    cuModuleGetFunction(&raw mut again, module, c"add".as_ptr()),
                    CUDA_SUCCESS
                );
                assert_eq!(first, again);
                assert_eq!(
                    cuModuleGetFunction(&raw mut again, module, c"gone".as_ptr()),
                    CUDA_ERROR_NOT_FOUND
                );
                let found = cuModuleGetGlobal_v2(
                    &raw mut address,
                    &raw mut bytes,
                    module,
                    c"table".as_ptr(),
                );
                assert_eq!((found, bytes), (CUDA_SUCCESS, 64));
                assert_eq!(cuModuleGetFunctionCount(&raw mut count, module), CUDA_SUCCESS);
                assert_eq!(count, 2);
                assert_eq!(cuModuleUnload(module), CUDA_SUCCESS);
                assert_eq!(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
                let garbage = c"garbage".as_ptr().cast();
                assert_eq!(cuModuleLoadData(&raw mut module, garbage), CUDA_ERROR_INVALID_IMAGE);
                assert_eq!(
                    cuModuleLoad(&raw mut module, c"/nonexistent".as_ptr()),
                    CUDA_ERROR_FILE_NOT_FOUND
                );
            }
        });
    }
}
