//! A launch: a kernel, its grid, its arguments, checked before the driver sees them.
//!
//! Arguments are checked as they come, against what the kernel takes; the first that does not fit is remembered
//! and reported by `run`. The builder borrows its arguments and lies on the stack: nothing is allocated, and memory
//! that stays on one stream costs no further call of the driver.

use crate::buffer::{Buffer, MemoryRef, View, ViewMut};
use crate::calls::call;
use crate::context::Context;
use crate::element::{Class, Element};
use crate::error::{Error, Result};
use crate::grid::Grid;
use crate::kernel::Kernel;
use crate::order::Uses;
use crate::stream::Stream;
use apex_cuda::types::{CUlaunchAttribute, CUlaunchConfig, c_void};
use core::fmt;
use core::mem::MaybeUninit;
use cudarc::driver::sys;
use std::sync::Arc;

/// Arguments that one launch can have.
const ARGUMENTS: usize = 32;

/// A launch being prepared; made by [`Stream::launch`].
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::Grid;
///
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let scale = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("scale")?;
/// let mut values = executor.upload(&[1.0_f32; 8])?;
/// let launched = executor
///     .stream()
///     .launch(&scale, Grid::linear(1, 32))
///     .arg(&mut values)
///     .arg(&2.0_f64) // the kernel takes a float
///     .arg(&8_u32)
///     .run();
/// let sentence = launched.unwrap_err().to_string();
/// assert!(sentence.starts_with("argument 2 of scale takes 4 bytes, f64 of 8 bytes was given"));
/// # Ok(())
/// # }
/// ```
pub struct Launch<'a> {
    stream: &'a Stream,
    kernel: &'a Kernel,
    grid: Grid,
    count: usize,
    tracked_count: usize,
    fault: Option<Fault>,
    values: [MaybeUninit<*mut c_void>; ARGUMENTS],
    tracked: [MaybeUninit<Tracked<'a>>; ARGUMENTS],
}

/// Memory that the launch uses.
#[derive(Clone, Copy)]
struct Tracked<'a> {
    uses: &'a Uses,
    is_written: bool,
}

/// The first argument that does not fit.
#[derive(Clone, Copy, Debug)]
struct Fault {
    argument: usize,
    given: &'static str,
    bytes: usize,
    is_foreign: bool,
}

/// What a kernel can be given: numbers, arrays of numbers (as a struct of them), buffers and parts of buffers,
/// by reference; what is written by mutable reference.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::{Argument, Grid};
///
/// fn run<'a>(value: impl Argument<'a>) -> apex_exec::Result<()> {
///     let executor = apex_exec::global()?;
///     let scale = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("scale")?;
///     let mut values = executor.upload(&[1.0_f32; 8])?;
///     executor.stream().launch(&scale, Grid::linear(1, 32)).arg(&mut values).arg(value).arg(&8_u32).run()
/// }
/// assert!(run(&2.0_f32).is_ok());
/// assert!(run(&2_u32).is_err());
/// # Ok(())
/// # }
/// ```
pub trait Argument<'a>: sealed::Sealed {
    /// How the launch sees it.
    #[doc(hidden)]
    fn given(self) -> Given<'a>;
}

/// An argument as the launch sees it.
#[doc(hidden)]
pub struct Given<'a> {
    value: *const c_void,
    bytes: usize,
    class: Class,
    name: &'static str,
    place: Option<(MemoryRef<'a>, bool)>,
}

mod sealed {
    pub trait Sealed {}
}

impl<T: Element> sealed::Sealed for &T {}
impl<'a, T: Element> Argument<'a> for &'a T {
    #[inline]
    fn given(self) -> Given<'a> {
        let value = core::ptr::from_ref(self).cast();
        Given { value, bytes: size_of::<T>(), class: T::CLASS, name: T::NAME, place: None }
    }
}

impl<T: Element, const N: usize> sealed::Sealed for &[T; N] {}
impl<'a, T: Element, const N: usize> Argument<'a> for &'a [T; N] {
    #[inline]
    fn given(self) -> Given<'a> {
        let value = core::ptr::from_ref(self).cast();
        let bytes = size_of::<[T; N]>();
        Given { value, bytes, class: Class::Bytes, name: "an array", place: None }
    }
}

macro_rules! memory_arguments {
    ($($type:ty, $reference:ty, $written:literal, $name:literal;)*) => {$(
        impl<T: Element> sealed::Sealed for $reference {}
        impl<'a, T: Element> Argument<'a> for $type {
            #[inline]
            fn given(self) -> Given<'a> {
                let place = self.place();
                Given {
                    value: core::ptr::from_ref(place.address).cast(),
                    bytes: size_of::<u64>(),
                    class: Class::Pointer,
                    name: $name,
                    place: Some((place, $written)),
                }
            }
        }
    )*};
}

memory_arguments! {
    &'a Buffer<T>, &Buffer<T>, false, "a buffer";
    &'a mut Buffer<T>, &mut Buffer<T>, true, "a buffer";
    &'a View<'_, T>, &View<'_, T>, false, "a part of a buffer";
    &'a mut ViewMut<'_, T>, &mut ViewMut<'_, T>, true, "a part of a buffer";
}

impl Stream {
    /// Begins a launch of a kernel; arguments follow, then [`Launch::run`].
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::Grid;
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let scale = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("scale")?;
    /// let mut values = executor.upload(&[1.0_f32, 2.0])?;
    /// executor.stream().launch(&scale, Grid::linear(1, 32)).arg(&mut values).arg(&3.0_f32).arg(&2_u32).run()?;
    /// assert_eq!(executor.download(&values)?, [3.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn launch<'a>(&'a self, kernel: &'a Kernel, grid: Grid) -> Launch<'a> {
        Launch::new(self, kernel, grid)
    }
}

impl<'a> Launch<'a> {
    #[inline]
    fn new(stream: &'a Stream, kernel: &'a Kernel, grid: Grid) -> Launch<'a> {
        Launch {
            stream,
            kernel,
            grid,
            count: 0,
            tracked_count: 0,
            fault: None,
            values: [const { MaybeUninit::uninit() }; ARGUMENTS],
            tracked: [const { MaybeUninit::uninit() }; ARGUMENTS],
        }
    }

    /// The next argument.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::Grid;
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let add = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("add")?;
    /// let a = executor.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let mut sum = executor.zeros::<f32>(2)?;
    /// let (low, high) = (a.slice(..2), a.slice(2..));
    /// executor.stream().launch(&add, Grid::linear(1, 2)).arg(&low).arg(&high).arg(&mut sum).arg(&2_u32).run()?;
    /// assert_eq!(executor.download(&sum)?, [4.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn arg<'b: 'a>(&mut self, argument: impl Argument<'b>) -> &mut Launch<'a> {
        let given = argument.given();
        let place = self.count;
        self.count += 1;
        if place >= ARGUMENTS {
            return self;
        }
        let fits = match self.kernel.parameters().get(place) {
            Some(parameter) => {
                parameter.bytes as usize == given.bytes && parameter.kind.takes(given.class)
            }
            None => true, // `run` reports the count
        };
        self.values[place] = MaybeUninit::new(given.value.cast_mut());
        let is_foreign = match given.place {
            Some((MemoryRef { uses, context, .. }, is_written)) => {
                self.tracked[self.tracked_count] = MaybeUninit::new(Tracked { uses, is_written });
                self.tracked_count += 1;
                !Arc::ptr_eq(context, self.stream.context())
            }
            None => false,
        };
        if (!fits || is_foreign) && self.fault.is_none() {
            let Given { name, bytes, .. } = given;
            self.fault = Some(Fault { argument: place, given: name, bytes, is_foreign });
        }
        self
    }

    /// Puts the launch into the stream. A grid without blocks does nothing.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::{Error, Grid};
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let add = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("add")?;
    /// let launched = executor.stream().launch(&add, Grid::linear(1, 2)).run();
    /// assert!(matches!(launched, Err(Error::WrongCount { expected: 4, given: 0, .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::WrongCount`], [`Error::WrongSize`], [`Error::WrongType`] and [`Error::OtherExecutor`] for
    /// arguments, [`Error::BadGrid`] for the shape, [`Error::Driver`] for the rest and for work that failed
    /// before.
    #[inline]
    pub fn run(&mut self) -> Result<()> {
        let expected = self.kernel.parameters().len();
        if self.fault.is_some() || self.count != expected || expected > ARGUMENTS {
            return Err(self.complaint());
        }
        let context = self.stream.context();
        if !Arc::ptr_eq(context, self.kernel.context()) {
            return Err(Error::OtherExecutor { what: "the kernel" });
        }
        if !self.grid_fits(context) {
            return Err(self.grid_complaint(context));
        }
        if self.grid.is_empty() {
            return Ok(());
        }
        self.kernel.allow_shared(self.grid.shared_bytes)?;
        context.bind()?;
        let queue = self.stream.queue();
        // SAFETY: the first `tracked_count` are written.
        let tracked = unsafe {
            core::slice::from_raw_parts(
                self.tracked.as_ptr().cast::<Tracked<'a>>(),
                self.tracked_count,
            )
        };
        for memory in tracked {
            if memory.is_written {
                memory.uses.before_write(context, queue)?;
            } else {
                memory.uses.before_read(context, queue)?;
            }
        }
        self.enqueue(context).map_err(|error| self.blame(error))?;
        queue.set_last_kernel(self.kernel.number());
        let by = queue.advance();
        for memory in tracked {
            if memory.is_written {
                memory.uses.note_write(by);
            } else {
                memory.uses.note_read(by);
            }
        }
        Ok(())
    }

    #[inline]
    fn enqueue(&mut self, context: &Context) -> Result<()> {
        let Grid { blocks, threads, shared_bytes, cluster, cooperative } = self.grid;
        if cluster.is_some() || cooperative {
            return self.enqueue_with_attributes(context);
        }
        // SAFETY: as many values as the kernel has parameters are written, each the address of as many bytes as
        // the parameter takes, borrowed as long as `self`; kernel and stream are of this context.
        unsafe {
            call!(
                context.driver,
                cuLaunchKernel(
                    self.kernel.raw().0,
                    blocks[0],
                    blocks[1],
                    blocks[2],
                    threads[0],
                    threads[1],
                    threads[2],
                    shared_bytes,
                    self.stream.queue().stream().0,
                    self.values.as_mut_ptr().cast(),
                    core::ptr::null_mut(),
                )
            )
        }
    }

    #[cold]
    fn enqueue_with_attributes(&mut self, context: &Context) -> Result<()> {
        let Grid { blocks, threads, shared_bytes, cluster, cooperative } = self.grid;
        // SAFETY: an attribute's bytes may all be zero.
        let mut attributes: [CUlaunchAttribute; 2] = unsafe { core::mem::zeroed() };
        let mut count = 0;
        if let Some([x, y, z]) = cluster {
            let attribute = &mut attributes[count];
            attribute.id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            // SAFETY: of the values' forms, the one that the id names is written.
            unsafe {
                let dimension = &mut attribute.value.clusterDim;
                (dimension.x, dimension.y, dimension.z) = (x, y, z);
            }
            count += 1;
        }
        if cooperative {
            attributes[count].id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
            attributes[count].value.cooperative = 1;
            count += 1;
        }
        let config = CUlaunchConfig {
            gridDimX: blocks[0],
            gridDimY: blocks[1],
            gridDimZ: blocks[2],
            blockDimX: threads[0],
            blockDimY: threads[1],
            blockDimZ: threads[2],
            sharedMemBytes: shared_bytes,
            hStream: self.stream.queue().stream().0,
            attrs: attributes.as_mut_ptr(),
            numAttrs: count as u32,
        };
        // SAFETY: as in `enqueue`; the attributes live until the call returns.
        unsafe {
            call!(
                context.driver,
                cuLaunchKernelEx(
                    &raw const config,
                    self.kernel.raw().0,
                    self.values.as_mut_ptr().cast(),
                    core::ptr::null_mut(),
                )
            )
        }
    }

    #[inline]
    fn grid_fits(&self, context: &Context) -> bool {
        let (grid, facts) = (&self.grid, &context.facts);
        let attributes = self.kernel.attributes();
        let within = |sizes: &[u32; 3], most: &[u32; 3]| {
            sizes.iter().zip(most).all(|(size, most)| size <= most)
        };
        let threads = grid.threads_per_block();
        threads > 0
            && threads <= u64::from(attributes.max_threads_per_block)
            && within(&grid.threads, &facts.max_threads)
            && within(&grid.blocks, &facts.max_blocks)
            && u64::from(grid.shared_bytes) + u64::from(attributes.shared_bytes)
                <= u64::from(facts.shared_bytes_per_block)
            && grid.cluster.is_none_or(|cluster| cluster_fits(cluster, grid.blocks))
    }

    #[cold]
    fn grid_complaint(&self, context: &Context) -> Error {
        let (grid, facts, attributes) = (&self.grid, &context.facts, self.kernel.attributes());
        let threads = grid.threads_per_block();
        let shared = u64::from(grid.shared_bytes) + u64::from(attributes.shared_bytes);
        let beyond =
            |sizes: &[u32; 3], most: &[u32; 3]| (0..3).find(|&axis| sizes[axis] > most[axis]);
        const AXES: [&str; 3] = ["x", "y", "z"];
        let reason = if threads == 0 {
            "a block needs a thread at least along every axis".into()
        } else if threads > u64::from(facts.max_threads_per_block) {
            format!(
                "a block of {threads} threads is more than the device's {}: use more blocks of fewer threads",
                facts.max_threads_per_block
            )
        } else if threads > u64::from(attributes.max_threads_per_block) {
            format!(
                "a block of {threads} threads is more than the {} that fit with {} registers each: use \
                 smaller blocks, or __launch_bounds__ in the source",
                attributes.max_threads_per_block, attributes.registers
            )
        } else if let Some(axis) = beyond(&grid.threads, &facts.max_threads) {
            format!(
                "a block of {} threads along {} is more than the device's {}: use another axis",
                grid.threads[axis], AXES[axis], facts.max_threads[axis]
            )
        } else if let Some(axis) = beyond(&grid.blocks, &facts.max_blocks) {
            format!(
                "a grid of {} blocks along {} is more than the device's {}: use the axis x, or let each \
                 thread do more",
                grid.blocks[axis], AXES[axis], facts.max_blocks[axis]
            )
        } else if shared > u64::from(facts.shared_bytes_per_block) {
            format!(
                "{shared} bytes of shared memory ({} declared, {} with the launch) are more than the {} that \
                 a block can have: use smaller tiles",
                attributes.shared_bytes, grid.shared_bytes, facts.shared_bytes_per_block
            )
        } else {
            format!(
                "clusters of {:?} blocks do not divide a grid of {:?}: make each side of the grid a \
                 multiple of the cluster's, which needs a block at least",
                grid.cluster.unwrap_or_default(),
                grid.blocks
            )
        };
        Error::BadGrid { kernel: self.kernel.name().into(), reason }
    }

    #[cold]
    fn complaint(&self) -> Error {
        let kernel = self.kernel.name().to_owned();
        let parameters = self.kernel.parameters();
        if let Some(fault) = self.fault
            && fault.is_foreign
        {
            return Error::OtherExecutor { what: fault.given };
        }
        if self.count != parameters.len() {
            return Error::WrongCount { kernel, expected: parameters.len(), given: self.count };
        }
        let Some(Fault { argument, given, bytes, .. }) = self.fault else {
            return Error::TooMany { what: "arguments", limit: ARGUMENTS };
        };
        let parameter = parameters[argument];
        let argument = argument + 1;
        if parameter.bytes as usize == bytes {
            return Error::WrongType { kernel, argument, expected: parameter.kind.name(), given };
        }
        let expected = parameter.bytes as usize;
        Error::WrongSize { kernel, argument, expected, given, given_bytes: bytes }
    }

    #[cold]
    fn blame(&self, error: Error) -> Error {
        match error {
            Error::Driver { call, code, text, .. } => {
                Error::Driver { call, code, text, kernel: Some(self.kernel.name().into()) }
            }
            other => other,
        }
    }
}

fn cluster_fits(cluster: [u32; 3], blocks: [u32; 3]) -> bool {
    cluster.iter().zip(blocks).all(|(&size, blocks)| size > 0 && blocks.is_multiple_of(size))
}

impl fmt::Debug for Launch<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Launch({}, {} arguments)", self.kernel.name(), self.count)
    }
}
