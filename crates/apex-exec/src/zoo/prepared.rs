//! A point ready to run: its kernel loaded, its inputs on the device, its outputs allocated.

use super::check::{Outputs, Verdict};
use super::ground::Ground;
use super::kernel::{Argument, Number, Output};
use super::point::Point;
use super::timing::{self, Timing};
use crate::{Buffer, Grid, Kernel, Result};
use apex_policy::{Carveout, Chip, KernelNeeds, occupancy};
use std::sync::Arc;

/// Elements behind each output that no launch may touch.
pub(crate) const GUARD: usize = 64;
/// Shared memory of a block that needs no permission.
const USUAL_SHARED: u32 = 48 << 10;

/// A point ready to run; made by [`Ground::prepare`].
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// # let ground = apex_exec::zoo::Ground::new(&executor)?;
/// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "copy").collect();
/// # let scale = apex_exec::zoo::Scale::Small;
/// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
/// println!("{:?}", ground.prepare(&point)?.point());
/// # Ok(())
/// # }
/// ```
pub struct Prepared<'ground> {
    ground: &'ground Ground,
    point: Point,
    kernel: Kernel,
    arguments: Vec<Bound>,
}

/// An argument with its memory.
enum Bound {
    Input(Arc<Buffer<u32>>),
    Output(Output, Buffer<u32>),
    U32(u32),
    F32(f32),
    F64(f64),
}

/// What a kernel takes of a multiprocessor, and how many of its blocks fit there.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// # let ground = apex_exec::zoo::Ground::new(&executor)?;
/// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "triad").collect();
/// # let scale = apex_exec::zoo::Scale::Small;
/// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
/// let residency = ground.prepare(&point)?.residency()?;
/// assert!(residency.blocks_by_driver > 0 && residency.occupancy <= 1.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residency {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory that the kernel declares.
    pub static_shared: u32,
    /// Bytes of local memory of a thread.
    pub local_bytes: u32,
    /// Blocks on one multiprocessor, as the driver answers.
    pub blocks_by_driver: u32,
    /// The same by apex's own arithmetic; none for a device it does not know.
    pub blocks_by_arithmetic: Option<u32>,
    /// Warps resident as a share of the multiprocessor's, by the driver's answer.
    pub occupancy: f64,
}

impl<'ground> Prepared<'ground> {
    pub(crate) fn new(ground: &'ground Ground, point: &Point) -> Result<Prepared<'ground>> {
        let kernel = ground.executor().kept(point.kernel.source)?.kernel(&point.entry())?;
        let bind = |argument: Argument| -> Result<Bound> {
            Ok(match argument {
                Argument::Input(fill, len) => Bound::Input(ground.input(fill, len)?),
                Argument::Output(output) => Bound::Output(output, fresh(ground, &output)?),
                Argument::U32(value) => Bound::U32(value),
                Argument::F32(value) => Bound::F32(value),
                Argument::F64(value) => Bound::F64(value),
            })
        };
        let arguments = (point.kernel.arguments)(point).into_iter().map(bind);
        Ok(Prepared {
            ground,
            kernel,
            arguments: arguments.collect::<Result<_>>()?,
            point: point.clone(),
        })
    }

    /// The point.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "scale").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// assert_eq!(ground.prepare(&point)?.point(), &point);
    /// # Ok(())
    /// # }
    /// ```
    pub fn point(&self) -> &Point {
        &self.point
    }

    /// Puts one launch into the executor's stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "scale").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// let mut prepared = ground.prepare(&point)?;
    /// prepared.launch()?;
    /// executor.synchronize()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the executor says of the launch.
    pub fn launch(&mut self) -> Result<()> {
        let grid =
            Grid::new(self.point.grid, self.point.block).with_shared(self.point.shared_bytes);
        let mut launch = self.ground.executor().stream().launch(&self.kernel, grid);
        for argument in &mut self.arguments {
            match argument {
                Bound::Input(buffer) => launch.arg(&**buffer),
                Bound::Output(_, buffer) => launch.arg(buffer),
                Bound::U32(value) => launch.arg(&*value),
                Bound::F32(value) => launch.arg(&*value),
                Bound::F64(value) => launch.arg(&*value),
            };
        }
        launch.run()
    }

    /// Times launches, with what the caches hold after a launch before: the median of so many runs.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "tiny").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// assert_eq!(ground.prepare(&point)?.time(20)?.runs, 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the executor says of a launch.
    pub fn time(&mut self, runs: u32) -> Result<Timing> {
        timing::measure(self.ground, self, runs, false)
    }

    /// Times launches with nothing of theirs in the second-level cache.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "tiny").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// assert!(ground.prepare(&point)?.time_cold(3)?.cold);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the executor says of a launch.
    pub fn time_cold(&mut self, runs: u32) -> Result<Timing> {
        timing::measure(self.ground, self, runs, true)
    }

    /// Launches once on fresh outputs and reads them back.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "tiny").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// let outputs = ground.prepare(&point)?.outputs()?;
    /// assert_eq!(outputs.words[0][0], 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the executor says of the launch or the copies.
    pub fn outputs(&mut self) -> Result<Outputs> {
        for argument in &mut self.arguments {
            if let Bound::Output(output, buffer) = argument {
                *buffer = fresh(self.ground, output)?;
            }
        }
        self.launch()?;
        let mut outputs = Vec::new();
        for argument in &self.arguments {
            if let Bound::Output(_, buffer) = argument {
                outputs.push(self.ground.executor().download(buffer)?);
            }
        }
        Ok(Outputs { point: self.point.clone(), words: outputs })
    }

    /// Launches once on fresh outputs and compares them with the reference.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "nbody").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// assert_eq!(ground.prepare(&point)?.check()?.fault, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the executor says of the launch or the copies; a wrong result is no error but a fault.
    pub fn check(&mut self) -> Result<Verdict> {
        Ok(self.outputs()?.verdict())
    }

    /// What the kernel takes, and how many of its blocks fit.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// # let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// # let ground = apex_exec::zoo::Ground::new(&executor)?;
    /// # let kernels: Vec<_> = apex_exec::zoo::kernels().filter(|kernel| kernel.name == "bank_stride").collect();
    /// # let scale = apex_exec::zoo::Scale::Small;
    /// # let point = apex_exec::zoo::points(&kernels, &ground.target(), scale, Some(1), 1).remove(0);
    /// let residency = ground.prepare(&point)?.residency()?;
    /// assert_eq!(residency.static_shared, 4_096 * 4);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says.
    pub fn residency(&self) -> Result<Residency> {
        let facts = self.ground.executor().facts();
        let attributes = self.kernel.attributes();
        let threads = self.point.threads_per_block();
        let blocks_by_driver = self.kernel.occupancy(threads, self.point.shared_bytes)?;
        let static_shared = attributes.shared_bytes;
        // The executor asks for the most a block may have as soon as one asks for more than usual.
        let asked = self.point.shared_bytes + static_shared > USUAL_SHARED;
        let most = if asked { facts.shared_bytes_per_block } else { USUAL_SHARED };
        let needs = KernelNeeds {
            registers: attributes.registers,
            static_shared,
            dynamic_shared: self.point.shared_bytes,
            max_dynamic_shared: most.saturating_sub(static_shared),
            carveout: Carveout::Unset,
        };
        let (major, minor) = facts.compute_capability;
        let chip = Chip::for_capability(major, minor);
        let warps = f64::from(threads.div_ceil(facts.warp_threads.max(1)));
        let slots = f64::from(facts.threads_per_multiprocessor / facts.warp_threads.max(1));
        Ok(Residency {
            registers: attributes.registers,
            static_shared,
            local_bytes: attributes.local_bytes,
            blocks_by_driver,
            blocks_by_arithmetic: chip.map(|chip| occupancy(&chip, &needs, threads).blocks_per_sm),
            occupancy: f64::from(blocks_by_driver) * warps / slots,
        })
    }
}

/// An output as a launch must find it, with its guard.
fn fresh(ground: &Ground, output: &Output) -> Result<Buffer<u32>> {
    let words = (output.len + GUARD) * output.number.words();
    if !output.adds {
        return ground.executor().poisoned(words);
    }
    debug_assert!(output.number != Number::F64, "no kernel adds to doubles");
    ground.executor().zeros(words)
}

impl std::fmt::Debug for Prepared<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Prepared").field("point", &self.point).finish_non_exhaustive()
    }
}
