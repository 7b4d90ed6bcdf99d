//! An executor with the zoo's inputs on its device.
//!
//! Inputs are filled on the device and shared by all points: of each rule there is one buffer, as long as the
//! longest point yet needed. Nothing writes to them after that.

use super::clocks::ClockReader;
use super::estimate::Target;
use super::fill::Fill;
use super::point::Point;
use super::prepared::Prepared;
use crate::{Buffer, Executor, Grid, KeptSource, Kernel, Module, Result, kept_source};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The source that fills inputs, holds the device back and empties its cache.
static SOURCE: KeptSource = kept_source!("zoo/fill");

/// Threads and blocks of a filling launch: enough for any device.
const FILLING: (u32, u32) = (2048, 256);

/// An executor with the zoo's inputs on its device.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let ground = apex_exec::zoo::Ground::new(&executor)?;
/// assert!(ground.target().multiprocessors > 0);
/// # Ok(())
/// # }
/// ```
pub struct Ground {
    executor: Executor,
    filling: Module,
    hold: Kernel,
    evict: Kernel,
    buffers: Mutex<HashMap<Fill, Arc<Buffer<u32>>>>,
    clocks: Option<ClockReader>,
}

impl Ground {
    /// Makes an executor ready for the zoo.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// assert_eq!(ground.executor().facts(), executor.facts());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Where the zoo's own kernels do not load.
    pub fn new(executor: &Executor) -> Result<Ground> {
        let filling = executor.kept(&SOURCE)?;
        Ok(Ground {
            hold: filling.kernel("hold")?,
            evict: filling.kernel("evict")?,
            filling,
            clocks: ClockReader::open(executor),
            executor: executor.clone(),
            buffers: Mutex::default(),
        })
    }

    /// The executor.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// ground.executor().synchronize()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// What launch spaces must know of its device.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// assert_eq!(ground.target().multiprocessors, executor.facts().multiprocessors);
    /// # Ok(())
    /// # }
    /// ```
    pub fn target(&self) -> Target {
        Target::of(self.executor.facts())
    }

    /// Loads a point's kernel and its inputs, and makes room for its outputs.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "copy").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// let mut prepared = ground.prepare(&point)?;
    /// prepared.launch()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Where the kernel does not load or the device has too little memory.
    pub fn prepare(&self, point: &Point) -> Result<Prepared<'_>> {
        Prepared::new(self, point)
    }

    /// A buffer with at least so many elements by a rule.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// use apex_exec::zoo::Fill;
    ///
    /// let words = executor.download(&*ground.input(Fill::Below(10), 100)?)?;
    /// assert!(words.iter().all(|&word| word < 10));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Where the device has too little memory.
    pub fn input(&self, fill: Fill, elements: usize) -> Result<Arc<Buffer<u32>>> {
        let words = fill.words(elements).max(1);
        if let Some(known) = self.buffers().get(&fill).filter(|buffer| buffer.len() >= words) {
            return Ok(known.clone());
        }
        // The shorter one goes first: together they might not fit.
        self.buffers().remove(&fill);
        let mut buffer = self.executor.zeros::<u32>(words)?;
        let kernel = self.filling.kernel(fill.entry())?;
        let counted = fill.counted(words) as u32;
        let scalars = fill.scalars();
        let grid = Grid::linear(FILLING.0.min(counted.div_ceil(FILLING.1)), FILLING.1);
        let mut launch = self.executor.stream().launch(&kernel, grid);
        launch.arg(&mut buffer).arg(&counted);
        for scalar in &scalars {
            launch.arg(scalar);
        }
        launch.run()?;
        let buffer = Arc::new(buffer);
        self.buffers().insert(fill, buffer.clone());
        Ok(buffer)
    }

    /// Gives back all inputs that no prepared point uses.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// ground.forget_inputs();
    /// # Ok(())
    /// # }
    /// ```
    pub fn forget_inputs(&self) {
        self.buffers().clear();
    }

    /// Keeps the device busy for so long; nothing on the software GPU, which is not ahead of its host.
    pub(crate) fn hold(&self, nanos: u64) -> Result<()> {
        if self.executor.facts().is_software {
            return Ok(());
        }
        // Two cycles in a nanosecond: no GPU of today has more.
        self.executor.stream().launch(&self.hold, Grid::linear(1, 1)).arg(&(2 * nanos)).run()
    }

    /// Fills the second-level cache with words that nobody needs.
    pub(crate) fn empty_cache(&self) -> Result<()> {
        const IDLE: Fill = Fill::Words(99);
        let words = (self.executor.facts().l2_bytes / 2).max(1 << 20) as usize;
        let buffer = self.input(IDLE, words)?;
        let mut sum = self.executor.zeros::<u32>(1)?;
        let quads = (words / 4) as u32;
        let grid = Grid::linear(FILLING.0, FILLING.1);
        self.executor
            .stream()
            .launch(&self.evict, grid)
            .arg(&*buffer)
            .arg(&quads)
            .arg(&mut sum)
            .run()
    }

    pub(crate) fn clocks(&self) -> Option<&ClockReader> {
        self.clocks.as_ref()
    }

    fn buffers(&self) -> MutexGuard<'_, HashMap<Fill, Arc<Buffer<u32>>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Ground {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ground").field("executor", &self.executor).finish_non_exhaustive()
    }
}
