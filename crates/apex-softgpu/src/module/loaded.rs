//! Modules: code loaded into a context, and the functions that were asked for.

use core::ffi::CStr;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::memory::texture_reference::TextureReference;
use crate::module::code::Code;
use crate::module::kernel::{Entry, ModuleFunction};
use crate::object::{create, destroy, live, lock, object};

/// One module.
pub(crate) struct Module {
    pub(crate) code: Arc<Code>,
    functions: Mutex<HashMap<CString, CUfunction>>,
    /// The texture and surface references that were asked for.
    pub(crate) references: Mutex<Vec<(CString, u64)>>,
}
object!(Module, b"module--");

impl Drop for Module {
    fn drop(&mut self) {
        for (_, function) in lock(&self.functions).drain() {
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
    // SAFETY: the caller vouches for the handle.
    unsafe {
        let module: &Module = live(handle)?;
        let mut functions = lock(&module.functions);
        if let Some(&function) = functions.get(name) {
            return Ok(function);
        }
        let entry = Entry::new(Arc::clone(module.code.kernel(name)?), module.code.device)?;
        let made = create(ModuleFunction { entry, module: handle });
        functions.insert(name.to_owned(), made);
        Ok(made)
    }
}
