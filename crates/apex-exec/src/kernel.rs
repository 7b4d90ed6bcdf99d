//! One kernel: what it takes, what it uses, how many blocks of it fit.

use crate::code::{Code, FunctionHandle};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::parameters::{Declared, ParameterKind};
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use cudarc::driver::sys;
use std::sync::Arc;

/// A kernel, ready to be launched. Clones are the same kernel; it keeps its module loaded.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let add = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("add")?;
/// assert_eq!(add.parameter_bytes(), [8, 8, 8, 4]);
/// assert!(add.occupancy(256, 0)? >= 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Kernel {
    inner: Arc<Inner>,
}

struct Inner {
    name: Box<str>,
    /// The name's number, for a queue to remember.
    number: u32,
    raw: FunctionHandle,
    parameters: Box<[Declared]>,
    attributes: KernelAttributes,
    /// Bytes of dynamic shared memory that the driver was told to allow.
    shared_allowed: AtomicU32,
    code: Arc<Code>,
}

/// What a kernel uses.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let add = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("add")?;
/// assert!(add.attributes().registers > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelAttributes {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory that the kernel declares.
    pub shared_bytes: u32,
    /// Bytes of local memory of a thread, spilled registers among them.
    pub local_bytes: u32,
    /// Bytes of constant memory.
    pub constant_bytes: u32,
    /// Threads that one block can have at most, as the kernel's registers allow.
    pub max_threads_per_block: u32,
}

/// Dynamic shared memory that every kernel may use without being asked for.
const SHARED_BY_DEFAULT: u32 = 48 << 10;

impl Kernel {
    pub(crate) fn new(
        code: &Arc<Code>,
        name: &str,
        raw: FunctionHandle,
        declared: Option<&[Declared]>,
    ) -> Result<Kernel> {
        use sys::CUfunction_attribute::*;
        let number = |which| code.attribute(raw, which);
        let parameters = match declared {
            Some(list) => list.into(),
            None => of_driver(code, raw)?,
        };
        Ok(Kernel {
            inner: Arc::new(Inner {
                name: name.into(),
                number: code.context().number_kernel(name),
                raw,
                parameters,
                attributes: KernelAttributes {
                    registers: number(CU_FUNC_ATTRIBUTE_NUM_REGS)?,
                    shared_bytes: number(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
                    local_bytes: number(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
                    constant_bytes: number(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
                    max_threads_per_block: number(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
                },
                shared_allowed: AtomicU32::new(0),
                code: code.clone(),
            }),
        })
    }

    /// Its name.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("scale")?.name(), "scale");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What it uses.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let scale = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("scale")?;
    /// assert_eq!(scale.attributes().shared_bytes, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn attributes(&self) -> KernelAttributes {
        self.inner.attributes
    }

    /// Bytes of each parameter, in order.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let scale = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("scale")?;
    /// assert_eq!(scale.parameter_bytes(), [8, 4, 4]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn parameter_bytes(&self) -> Vec<u32> {
        self.inner.parameters.iter().map(|parameter| parameter.bytes).collect()
    }

    /// Blocks of so many threads and bytes of dynamic shared memory that one multiprocessor holds at once.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let scale = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("scale")?;
    /// assert!(scale.occupancy(1024, 0)? <= 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says.
    pub fn occupancy(&self, threads: u32, shared_bytes: u32) -> Result<u32> {
        self.allow_shared(shared_bytes)?;
        self.inner.code.occupancy(self.inner.raw, threads, shared_bytes)
    }

    /// Tells the driver to allow so much dynamic shared memory, where that must be said and was not yet.
    #[inline]
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<()> {
        let allowed = self.inner.shared_allowed.load(Ordering::Acquire);
        if bytes <= allowed || bytes + self.inner.attributes.shared_bytes <= SHARED_BY_DEFAULT {
            return Ok(());
        }
        self.raise_shared()
    }

    #[cold]
    fn raise_shared(&self) -> Result<()> {
        let most = self.context().facts.shared_bytes_per_block;
        let most = most.saturating_sub(self.inner.attributes.shared_bytes);
        self.inner.code.allow_shared(self.inner.raw, most)?;
        self.inner.shared_allowed.store(most, Ordering::Release);
        Ok(())
    }

    pub(crate) fn raw(&self) -> FunctionHandle {
        self.inner.raw
    }

    pub(crate) fn number(&self) -> u32 {
        self.inner.number
    }

    pub(crate) fn parameters(&self) -> &[Declared] {
        &self.inner.parameters
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        self.inner.code.context()
    }
}

/// What the driver knows of parameters: their sizes. It is asked only where there is no PTX, because it tells
/// the end of the list by an error, and tools that watch for errors would show one per kernel.
fn of_driver(code: &Code, raw: FunctionHandle) -> Result<Box<[Declared]>> {
    let sizes = code.parameter_bytes(raw)?.ok_or_else(|| Error::BadImage {
        kind: "cubin or fatbin",
        reason: "the driver does not say what its kernels take (it is older than CUDA 12.4): load PTX, or \
                 update the driver"
            .into(),
    })?;
    let open = |bytes| Declared { bytes, kind: ParameterKind::Open };
    Ok(sizes.into_iter().map(open).collect())
}

impl fmt::Debug for Kernel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Kernel({}, {} parameters)", self.name(), self.inner.parameters.len())
    }
}
