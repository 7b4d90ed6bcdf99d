//! Code loaded into a device, and the search for kernels in it.
//!
//! PTX is read by our own parser before the driver sees it: what it declares of each parameter is kept for the
//! check of arguments, and a text that is cut off or garbled is refused with its line, whatever the driver says.

use crate::code::{Code, FunctionHandle};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::lock::lock;
use crate::parameters::{self, Declared};
use apex_cuda::image::{self, ImageKind};
use core::fmt;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

/// Code loaded into a device. Clones are the same module.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let module = executor.load_ptx(apex_exec::EXAMPLE_PTX)?;
/// let error = module.kernel("subtract").unwrap_err();
/// assert!(error.to_string().contains("it has add, scale"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Module {
    code: Arc<Code>,
    kernels: Arc<Mutex<HashMap<String, Kernel>>>,
    /// What the PTX declares, by kernel; empty for machine code.
    declared: Arc<Vec<(String, Vec<Declared>)>>,
}

impl Module {
    pub(crate) fn from_ptx(context: &Arc<Context>, ptx: &str) -> Result<Module> {
        let bad = |reason| Error::BadImage { kind: "PTX", reason };
        let text = CString::new(ptx).map_err(|_| bad("it holds a NUL byte".into()))?;
        let image = text.as_bytes_with_nul();
        match apex_ptx::parse(ptx) {
            Ok(tree) => match parameters::declared(&tree) {
                none if none.is_empty() => Err(bad(
                    "it has no kernel (.entry): compile a __global__ function into it".into(),
                )),
                declared => Module::load(context, "PTX", image, declared),
            },
            // A driver newer than our parser may understand what it does not.
            Err(syntax) => Module::load(context, "PTX", image, Vec::new())
                .map_err(|error| bad(format!("{syntax}; the driver says: {}", reason_of(error)))),
        }
    }

    pub(crate) fn from_cubin(context: &Arc<Context>, cubin: &[u8]) -> Result<Module> {
        expect(cubin, "cubin", ImageKind::Cubin)?;
        Module::load(context, "cubin", cubin, Vec::new())
    }

    pub(crate) fn from_fatbin(context: &Arc<Context>, fatbin: &[u8]) -> Result<Module> {
        expect(fatbin, "fatbin", ImageKind::Fatbin)?;
        Module::load(context, "fatbin", fatbin, Vec::new())
    }

    /// `image` is PTX with its NUL, or a whole image of another kind.
    fn load(
        context: &Arc<Context>,
        kind: &'static str,
        image: &[u8],
        declared: Vec<(String, Vec<Declared>)>,
    ) -> Result<Module> {
        let loaded = Code::load(context, image).map_err(|(error, log)| {
            let reason = if log.is_empty() { error.to_string() } else { format!("{error}\n{log}") };
            Error::BadImage { kind, reason }
        })?;
        Ok(Module { code: Arc::new(loaded), kernels: Arc::default(), declared: Arc::new(declared) })
    }

    /// A kernel by its name; looked up once, then remembered.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let add = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("add")?;
    /// assert_eq!(add.name(), "add");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchKernel`] with the names there are.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        if let Some(kernel) = lock(&self.kernels).get(name) {
            return Ok(kernel.clone());
        }
        let declared = self.declared.iter().find(|(known, _)| known == name);
        let raw = self.find(name)?;
        let kernel = Kernel::new(&self.code, name, raw, declared.map(|(_, list)| list.as_slice()))?;
        Ok(lock(&self.kernels).entry(name.to_owned()).or_insert(kernel).clone())
    }

    fn find(&self, name: &str) -> Result<FunctionHandle> {
        let missing = || Error::NoSuchKernel {
            name: name.to_owned(),
            known: self.declared.iter().map(|(known, _)| known.clone()).collect(),
        };
        let c_name = CString::new(name).map_err(|_| missing())?;
        self.code.function(&c_name)?.ok_or_else(missing)
    }
}

fn reason_of(error: Error) -> String {
    match error {
        Error::BadImage { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// Checks that bytes are one whole image of a kind.
fn expect(bytes: &[u8], kind: &'static str, wanted: ImageKind) -> Result<()> {
    let reason = match image::identify(bytes) {
        Some(image) if image.kind == wanted => return Ok(()),
        Some(image) => format!("it is a {:?}: load it as what it is", image.kind),
        None => "it does not begin as one, or is cut off".into(),
    };
    Err(Error::BadImage { kind, reason })
}

impl fmt::Debug for Module {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.declared.iter().map(|(name, _)| name.as_str()).collect();
        write!(out, "Module({})", names.join(", "))
    }
}
