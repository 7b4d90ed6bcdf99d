//! Images of code, and code loaded onto a device: what modules and libraries have in common.
//!
//! Code is PTX, lowered once by the engine for one device; its variables lie in that
//! device's memory and go with the code. What is only machine code cannot run here
//! and is refused with a sentence.

use core::ffi::CStr;
use core::ptr::null_mut;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use apex_cuda::types::*;
use apex_engine::{Kernel, LoadErrorKind, Variable};

use apex_ptx::lower::{Goal, Target, lower, newest_ptx};

use crate::machine::device::{DRIVER_VERSION, Device};
use crate::memory::allocation::{allocate, free};
use crate::memory::range::MemoryKind;
use crate::module::fatbin::{texts_at, texts_in};
use crate::module::load_options::Options;
use crate::settings::say;

/// Loaded code on one device.
pub(crate) struct Code {
    pub(crate) device: &'static Device,
    engine: apex_engine::Module,
    addresses: Vec<u64>,
}

/// What every allocation begins at a multiple of.
const ALIGNED: u64 = 256;

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

    /// The same with what the options ask of the compiler.
    pub(crate) fn with(mut self, options: &Options) -> Image {
        options.ask(&mut self.0);
        self
    }

    pub(crate) fn from_file(path: &CStr, device: &Device) -> Result<Image, CUresult> {
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let bytes = std::fs::read(path).map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)?;
        named(texts_in(&bytes, device.identity.capability)).map(Image)
    }
}

/// Says why machine code alone cannot run. Where newer PTX is refused too, a program may well ask for both.
fn named(texts: Result<Vec<String>, CUresult>) -> Result<Vec<String>, CUresult> {
    if texts == Err(CUDA_ERROR_NO_BINARY_FOR_GPU) && !crate::settings::settings().softgpu_strict {
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
        if crate::settings::settings().softgpu_strict {
            refuse_newer(image, device)?;
        }
        let mut addresses = Vec::new();
        let mut place = |variable: Variable<'_>| {
            let kind = if variable.managed { MemoryKind::Managed } else { MemoryKind::Device };
            // Memory is aligned for every type. More than that is found within a larger piece.
            let room = if variable.align > ALIGNED { variable.align } else { 0 };
            let bytes = usize::try_from(variable.bytes.max(1).checked_add(room)?).ok()?;
            // Not the context's to free: a variable goes with its code.
            let address = allocate(device, null_mut(), bytes, kind, 1, null_mut()).ok()?;
            addresses.push(address);
            address.checked_next_multiple_of(variable.align.max(1))
        };
        let texts: Vec<&str> = image.0.iter().map(String::as_str).collect();
        let dump = crate::settings::dump();
        let loaded = apex_engine::Module::load_and_dump(&texts, dump, &mut place);
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

/// What a GPU answers to PTX for a newer chip, or of a version that its driver does not read.
fn refuse_newer(image: &Image, device: &Device) -> Result<(), CUresult> {
    let (major, minor) = device.identity.capability;
    let own = Target::of_device(major, minor);
    for text in &image.0 {
        let Ok(module) = apex_ptx::parse(text) else { continue };
        if module.version > newest_ptx(DRIVER_VERSION.unsigned_abs()) {
            return Err(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
        }
        let target = module.target.first().and_then(|name| Target::named(name));
        if target.is_some_and(|target| !own.runs(target)) {
            return Err(CUDA_ERROR_INVALID_PTX);
        }
        // The table of newer features knows what the chip lacks.
        let goal = Goal { target: own, version: module.version };
        let newer = text.replace(&module.target[0][..], "sm_121");
        if lower(&newer, goal).map_or(true, |lowered| !lowered.changes.is_empty()) {
            return Err(CUDA_ERROR_INVALID_PTX);
        }
    }
    Ok(())
}

impl Drop for Code {
    fn drop(&mut self) {
        for address in self.addresses.drain(..) {
            // One that is gone already is no loss.
            let _ = free(address, |_| true);
        }
    }
}
