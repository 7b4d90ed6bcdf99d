//! Code loaded into a context, and what both modules and libraries know of it.
//!
//! Of PTX the kernels and variables are known, and nothing else is found in it. A
//! cubin or fatbin is not looked into: any kernel asked of it is granted, with
//! unknown parameters, and any variable, with [`UNKNOWN_VARIABLE_BYTES`].

use core::ffi::CStr;
use core::ptr::null_mut;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use apex_cuda::image::{ImageKind, bytes_at, identify};
use apex_cuda::types::*;

use crate::border::{Answer, put, put_if_wanted, text};
use crate::context::current;
use crate::kernel::{Entry, ModuleFunction};
use crate::memory::{Place, allocate, free};
use crate::object::{create, destroy, live, lock, object};
use crate::ptx::{Declarations, Parameter, declarations};

/// What an image holds.
pub(crate) struct Code {
    /// None when the image is not looked into.
    declared: Option<Declarations>,
    variables: Mutex<Vec<(CString, u64, usize)>>,
}

/// One module.
pub(crate) struct Module {
    code: Arc<Code>,
    functions: Mutex<Vec<CUfunction>>,
}
object!(Module, b"module--");

/// What a variable of unknown size is given; untouched pages cost nothing.
const UNKNOWN_VARIABLE_BYTES: usize = 1 << 20;

impl Code {
    /// # Safety
    ///
    /// `image` is null or what the driver's loading functions accept.
    pub(crate) unsafe fn at(image: *const c_void) -> Result<Code, CUresult> {
        if image.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller vouches for `image`.
        let (kind, bytes) = unsafe { bytes_at(image) }.ok_or(CUDA_ERROR_INVALID_IMAGE)?;
        Ok(Code::of(kind, bytes))
    }

    pub(crate) fn from_file(path: &CStr) -> Result<Code, CUresult> {
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let bytes = std::fs::read(path).map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)?;
        let image = identify(&bytes).ok_or(CUDA_ERROR_INVALID_IMAGE)?;
        Ok(Code::of(image.kind, &bytes[..image.length]))
    }

    fn of(kind: ImageKind, bytes: &[u8]) -> Code {
        let is_text = kind == ImageKind::Ptx;
        let declared = is_text.then(|| declarations(&String::from_utf8_lossy(bytes)));
        Code { declared, variables: Mutex::default() }
    }

    /// A kernel's parameters, where they are known.
    pub(crate) fn kernel(&self, name: &CStr) -> Result<Option<Vec<Parameter>>, CUresult> {
        let Some(declared) = &self.declared else { return Ok(None) };
        let found = declared.kernels.iter().find(|(known, _)| known.as_c_str() == name);
        found.map(|(_, parameters)| Some(parameters.clone())).ok_or(CUDA_ERROR_NOT_FOUND)
    }

    /// The names of all kernels, where they are known.
    pub(crate) fn kernel_names(&self) -> Result<Vec<CString>, CUresult> {
        let declared = self.declared.as_ref().ok_or(CUDA_ERROR_NOT_SUPPORTED)?;
        Ok(declared.kernels.iter().map(|(name, _)| name.clone()).collect())
    }

    /// Address and size of a variable; its memory is taken when first asked for.
    pub(crate) fn variable(&self, name: &CStr) -> Result<(u64, usize), CUresult> {
        let mut variables = lock(&self.variables);
        let known = variables.iter().find(|(known, ..)| known.as_c_str() == name);
        if let Some(&(_, address, bytes)) = known {
            return Ok((address, bytes));
        }
        let bytes = match &self.declared {
            None => UNKNOWN_VARIABLE_BYTES,
            Some(declared) => {
                let found = declared.variables.iter().find(|(known, _)| known.as_c_str() == name);
                found.ok_or(CUDA_ERROR_NOT_FOUND)?.1
            }
        };
        // A variable is not the context's to free: it goes with its code.
        let device = current()?.device;
        let address = allocate(device, null_mut(), bytes, Place::Device, 0, null_mut())?;
        // SAFETY: as many bytes were taken just now; variables begin as zeros.
        unsafe {
            core::ptr::with_exposed_provenance_mut::<u8>(address as usize)
                .write_bytes(0, bytes.min(4096));
        }
        variables.push((name.to_owned(), address, bytes));
        Ok((address, bytes))
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        for (_, address, _) in lock(&self.variables).drain(..) {
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
    }
}

pub(crate) fn make_module(code: Arc<Code>) -> CUmodule {
    create(Module { code, functions: Mutex::default() })
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
        let parameters = module.code.kernel(name)?;
        let made = create(ModuleFunction { entry: Entry::new(name, parameters), module: handle });
        functions.push(made);
        Ok(made)
    }
}

answers! {
    fn cuModuleLoad(out: *mut CUmodule, path: *const c_char) {
        current()?;
        put(out, make_module(Arc::new(Code::from_file(text(path)?)?)))
    }

    fn cuModuleLoadData(out: *mut CUmodule, image: *const c_void) {
        load(out, image)
    }

    fn cuModuleLoadDataEx(
        out: *mut CUmodule,
        image: *const c_void,
        _option_count: u32,
        _options: *mut CUjit_option,
        _values: *mut *mut c_void,
    ) {
        load(out, image)
    }

    fn cuModuleLoadFatBinary(out: *mut CUmodule, image: *const c_void) {
        load(out, image)
    }

    fn cuModuleUnload(module: CUmodule) {
        current()?;
        destroy::<Module, _>(module)
    }

    fn cuModuleGetLoadingMode(out: *mut CUmoduleLoadingMode) {
        put(out, 2)
    }

    fn cuModuleGetFunction(out: *mut CUfunction, module: CUmodule, name: *const c_char) {
        current()?;
        put(out, function(module, text(name)?)?)
    }

    fn cuModuleGetFunctionCount(out: *mut u32, module: CUmodule) {
        put(out, live::<Module, _>(module)?.code.kernel_names()?.len() as u32)
    }

    fn cuModuleEnumerateFunctions(out: *mut CUfunction, count: u32, module: CUmodule) {
        let names = live::<Module, _>(module)?.code.kernel_names()?;
        for (index, name) in names.iter().take(count as usize).enumerate() {
            put(out.wrapping_add(index), function(module, name)?)?;
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
        let (found, size) = live::<Module, _>(module)?.code.variable(text(name)?)?;
        put_if_wanted(address, found);
        put_if_wanted(bytes, size);
        Ok(())
    }
}

/// # Safety
///
/// As for [`Code::at`]; `out` is null or can be written.
unsafe fn load(out: *mut CUmodule, image: *const c_void) -> Answer {
    current()?;
    if out.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for both pointers.
    unsafe { put(out, make_module(Arc::new(Code::at(image)?))) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::context::tests::with_context;

    pub(crate) const PTX: &CStr = c".version 8.0\n.target sm_90\n.global .align 4 .b8 table[64];\n\
          .visible .entry add(.param .u64 a, .param .u32 n) { ret; }\n.entry other() { ret; }";

    /// The function of that name from [`PTX`]; the module is left loaded.
    pub(crate) fn ptx_function(name: &CStr) -> CUfunction {
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: the text is a whole image.
        unsafe {
            assert_eq!(cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()), CUDA_SUCCESS);
            assert_eq!(cuModuleGetFunction(&raw mut function, module, name.as_ptr()), CUDA_SUCCESS);
        }
        function
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
