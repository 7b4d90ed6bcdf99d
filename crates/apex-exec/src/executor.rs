//! A device ready for work, and the one that the whole process shares.

use crate::buffer::{Buffer, Readable};
use crate::compile::{self, CompileOptions};
use crate::context::Context;
use crate::device::{self, Device, DeviceFacts};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kept::KeptSource;
use crate::lock::lock;
use crate::module::Module;
use crate::pinned::Pinned;
use crate::product::MatmulState;
use crate::stream::Stream;
use core::fmt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// A device ready for work. Clones are the same executor, and any number of threads may use it at once.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::{Device, Executor};
///
/// let executor = Executor::new(Device::Auto)?;
/// let doubled: Vec<u32> = executor.download(&executor.upload(&[1_u32, 2, 3])?)?;
/// assert_eq!(doubled, [1, 2, 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Inner>,
}

struct Inner {
    // What products keep goes before the stream that it was made on.
    matmul: MatmulState,
    // The stream goes before the context that it holds.
    stream: Stream,
    context: Arc<Context>,
    /// Kept sources by the address of their record, each loaded by the first who asks while others wait.
    kept: Mutex<HashMap<usize, Arc<Mutex<Option<Module>>>>>,
}

/// The executor that the whole process shares: the first device found, made by the first who asks.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::global()?;
/// assert_eq!(executor.download(&executor.zeros::<u8>(3)?)?, [0, 0, 0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`crate::Error::NoDevice`], the same each time.
pub fn global() -> Result<&'static Executor> {
    static GLOBAL: OnceLock<Result<Executor>> = OnceLock::new();
    GLOBAL.get_or_init(|| Executor::new(Device::Auto)).as_ref().map_err(Clone::clone)
}

impl Executor {
    /// Makes a device ready.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::{Device, Error, Executor};
    ///
    /// assert!(Executor::new(Device::Auto).is_ok());
    /// assert!(matches!(Executor::new(Device::Soft(99)), Err(Error::NoDevice { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoDevice`] with the reason.
    pub fn new(device: Device) -> Result<Executor> {
        let (driver, number) = device::choose(device)?;
        let context = Context::new(driver, number)?;
        let stream = Stream::new(&context)?;
        let (kept, matmul) = (Mutex::default(), MatmulState::default());
        Ok(Executor { inner: Arc::new(Inner { matmul, stream, context, kept }) })
    }

    /// What the device is.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// println!("{} multiprocessors", executor.facts().multiprocessors);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn facts(&self) -> &DeviceFacts {
        &self.inner.context.facts
    }

    /// Bytes of device memory that are free now.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert!(executor.free_bytes()? <= executor.facts().memory_bytes);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says.
    pub fn free_bytes(&self) -> Result<u64> {
        Ok(self.inner.context.memory()?.0)
    }

    /// The executor's main stream, which its own methods use.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// executor.stream().synchronize()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.inner.stream
    }

    /// A further stream, whose work runs beside that of others.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let stream = executor.new_stream()?;
    /// let buffer = stream.upload(&[1_u8])?;
    /// assert_eq!(executor.download(&buffer)?, [1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`crate::Error::TooMany`], or what the driver says.
    pub fn new_stream(&self) -> Result<Stream> {
        Stream::new(&self.inner.context)
    }

    /// [`Stream::upload`] on the main stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.upload(&[1.5_f32])?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As there.
    pub fn upload<T: Element>(&self, host: &[T]) -> Result<Buffer<T>> {
        self.stream().upload(host)
    }

    /// [`Stream::zeros`] on the main stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.download(&executor.zeros::<i8>(2)?)?, [0, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As there.
    pub fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.stream().zeros(len)
    }

    /// [`Stream::poisoned`] on the main stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert!(executor.download(&executor.poisoned::<f64>(1)?)?[0].is_nan());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As there.
    pub fn poisoned<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.stream().poisoned(len)
    }

    /// [`Stream::download`] on the main stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.download(&executor.upload(&[1_u64, 2])?)?, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As there.
    pub fn download<T: Element>(&self, buffer: impl Readable<T>) -> Result<Vec<T>> {
        self.stream().download(buffer)
    }

    /// Pinned memory of zeros, for copies that are not waited for.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.pinned::<u8>(3)?[..], [0, 0, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`crate::Error::OutOfPinnedMemory`].
    pub fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T>> {
        Pinned::zeros(&self.inner.context, len)
    }

    /// Pinned memory with the elements of a slice.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.pinned_from(&[1_u8, 2])?[..], [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`crate::Error::OutOfPinnedMemory`].
    pub fn pinned_from<T: Element>(&self, host: &[T]) -> Result<Pinned<T>> {
        let mut pinned = self.pinned(host.len())?;
        pinned.copy_from_slice(host);
        Ok(pinned)
    }

    /// Compiles CUDA C++ for this device. What was compiled before, by any process, comes from the disk.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::{CompileOptions, Grid};
    ///
    /// # use apex_exec::{Error, compile_to_ptx};
    /// # let probe = compile_to_ptx("extern \"C\" __global__ void f() {}", &CompileOptions::default());
    /// # if matches!(probe, Err(Error::LibraryMissing { .. })) { return Ok(()); }
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let source = r#"extern "C" __global__ void fill(int* out) { out[threadIdx.x] = threadIdx.x; }"#;
    /// let fill = executor.compile(source, &CompileOptions::default())?.kernel("fill")?;
    /// let mut out = executor.zeros::<i32>(4)?;
    /// executor.stream().launch(&fill, Grid::linear(1, 4)).arg(&mut out).run()?;
    /// assert_eq!(executor.download(&out)?, [0, 1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`crate::Error::Compilation`] with the compiler's log, [`crate::Error::LibraryMissing`] where there is no
    /// NVRTC, and as [`Executor::load_ptx`].
    pub fn compile(&self, source: &str, options: &CompileOptions) -> Result<Module> {
        let ptx = compile::to_ptx(source, options, &self.facts().architecture())?;
        self.load_ptx(&ptx)
    }

    /// Loads PTX text.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let module = executor.load_ptx(apex_exec::EXAMPLE_PTX)?;
    /// assert_eq!(module.kernel("add")?.name(), "add");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`crate::Error::BadImage`] with the line.
    pub fn load_ptx(&self, ptx: &str) -> Result<Module> {
        Module::from_ptx(&self.inner.context, ptx)
    }

    /// Loads a cubin: machine code for one architecture. The software GPU takes none, load PTX there.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert!(executor.load_cubin(b"not a cubin").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`crate::Error::BadImage`].
    pub fn load_cubin(&self, cubin: &[u8]) -> Result<Module> {
        Module::from_cubin(&self.inner.context, cubin)
    }

    /// Loads a fatbin: cubins and PTX for several architectures, of which the driver takes the best.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert!(executor.load_fatbin(b"not a fatbin").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`crate::Error::BadImage`].
    pub fn load_fatbin(&self, fatbin: &[u8]) -> Result<Module> {
        Module::from_fatbin(&self.inner.context, fatbin)
    }

    /// The module of a source of ours: compiled for this device where NVRTC is there, else from the PTX kept
    /// with it; once for each executor.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let module = executor.kept(&apex_exec::EXAMPLE)?;
    /// assert!(module.kernel("scale").is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Executor::compile`] and [`Executor::load_ptx`].
    pub fn kept(&self, source: &'static KeptSource) -> Result<Module> {
        let cell = {
            let mut kept = lock(&self.inner.kept);
            kept.entry(core::ptr::from_ref(source).addr()).or_default().clone()
        };
        let mut kept = lock(&cell);
        if let Some(module) = &*kept {
            return Ok(module.clone());
        }
        // What fails is tried again the next time: memory may have been freed meanwhile.
        let module = self.load_kept(source)?;
        *kept = Some(module.clone());
        Ok(module)
    }

    /// Compiles a source of ours for this device; where there is no compiler, loads the PTX.
    fn load_kept(&self, source: &KeptSource) -> Result<Module> {
        match self.compile(source.source, &CompileOptions::of_source(source.source)) {
            Err(Error::LibraryMissing { .. }) => self.load_ptx(source.ptx),
            loaded => loaded,
        }
    }

    /// Waits until everything on the device is done.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// executor.synchronize()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says, also of work that failed before.
    pub fn synchronize(&self) -> Result<()> {
        self.inner.context.synchronize()
    }

    /// What products remember on this executor.
    pub(crate) fn matmul_state(&self) -> &MatmulState {
        &self.inner.matmul
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Executor({})", self.facts().name)
    }
}
