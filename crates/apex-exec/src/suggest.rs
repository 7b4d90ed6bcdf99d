//! The best configuration of a kernel for a problem size, before it is run.
//!
//! Times are predicted as everywhere in apex: from what was measured of the kernel ([`Predictor::learn`]), from trained
//! models where their files are given, else from the device's bound. A configuration is suggested only where
//! even the lower end of its expected gain is one; else the answer is that nothing should change.

use crate::{Error, Executor, Grid, Kernel, Result};
use apex_models::{Model as _, Refusal};
use apex_policy::predict::answer::{Basis, Knowledge, Models, Time};
use apex_policy::predict::features::{FNV_START, fnv};
use apex_policy::predict::network::SmallNetwork;
use apex_policy::predict::question::{Arguments, BYTES_PER_THREAD, Device, Question, Walked, Work};
use apex_policy::predict::trees::Trees;
use apex_policy::tune::{LINEAR_BLOCKS, suggest};
use apex_policy::{Chip, LaunchShape};

/// What a kernel is to be run on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Problem {
    /// Elements, each with a thread of its own.
    pub elements: u64,
    /// Bytes read and written, if known.
    pub bytes: Option<f64>,
    /// Arithmetic operations, if known.
    pub flops: Option<f64>,
}

/// A configuration that should take the place of the present one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BetterConfig {
    /// The launch.
    pub grid: Grid,
    /// Expected time before over expected time after.
    pub speedup: f32,
    /// Lower end of the 80 % interval of that.
    pub low: f32,
    /// Upper end.
    pub high: f32,
    /// Predicted time in nanoseconds.
    pub predicted_ns: f32,
    /// `measured` where this very launch was timed before, else `model`.
    pub basis: &'static str,
}

/// Predicts launches on one device.
#[derive(Debug)]
pub struct Predictor {
    device: Device,
    knowledge: Knowledge,
    small: Option<SmallNetwork>,
    trees: Option<Trees>,
}

/// Memory speed and clock where nothing says them: those of an H200.
const BYTES_PER_SECOND: f32 = 4e12;
const CLOCK_KHZ: u32 = 1_980_000;

impl Predictor {
    /// For an executor's device, with nothing learned yet.
    ///
    /// # Errors
    ///
    /// If the device's compute capability is not known to apex.
    pub fn new(executor: &Executor) -> Result<Predictor> {
        let facts = executor.facts();
        let (major, minor) = facts.compute_capability;
        let chip = Chip::for_capability(major, minor).ok_or_else(|| Error::NoDevice {
            asked: facts.name.clone(),
            reason: format!("apex does not know compute capability {major}.{minor}"),
        })?;
        let (sms, l2) = (facts.multiprocessors, facts.l2_bytes);
        let device = Device::from_attributes(chip, sms, CLOCK_KHZ, BYTES_PER_SECOND, l2);
        Ok(Predictor::of(device))
    }

    /// For a device whose peaks are known, as the manifest of trained models has them.
    #[must_use]
    pub fn of(device: Device) -> Predictor {
        let knowledge = Knowledge::remembering(1 << 12, 1 << 8);
        Predictor { device, knowledge, small: None, trees: None }
    }

    /// With trained models, as the bytes of `small-network.safetensors` and `trees.safetensors`.
    ///
    /// # Errors
    ///
    /// If a file is broken or made for another list of features.
    pub fn with_models(mut self, small: Option<&[u8]>, trees: Option<&[u8]>) -> Result<Predictor> {
        let refused = |why: Refusal| Error::BadImage { kind: "model", reason: why.to_string() };
        self.small = small.map(SmallNetwork::read).transpose().map_err(refused)?;
        self.trees = trees.map(Trees::read).transpose().map_err(refused)?;
        Ok(self)
    }

    /// Takes in the measured time of a launch.
    pub fn learn(&mut self, kernel: &Kernel, problem: &Problem, grid: Grid, nanos: f32) {
        let asked = asked_kernel(kernel);
        let question = question(&self.device, &asked, problem, grid);
        self.knowledge.learn(&question, nanos);
    }

    fn time(&self, kernel: &Kernel, problem: &Problem, grid: Grid) -> Option<Time> {
        let asked = asked_kernel(kernel);
        let question = question(&self.device, &asked, problem, grid);
        let models = Models { small: self.small.as_ref(), trees: self.trees.as_ref() };
        let prediction = self.knowledge.predict(&question, models);
        (prediction.exact.occupancy.blocks_per_sm > 0).then_some(prediction.time)
    }
}

/// The best configuration for a problem, if one is surely better than the present: a kernel with one element a thread,
/// which may be launched with any block along x.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::{Device, Executor, Grid, Predictor, Problem, suggest_better_config};
///
/// let executor = Executor::new(Device::Auto)?;
/// let scale = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("scale")?;
/// let mut predictor = Predictor::new(&executor)?;
/// let problem = Problem { elements: 1 << 20, ..Problem::default() };
/// let present = Grid::for_elements(1 << 20, 32);
/// // Nothing was measured: nothing is sure.
/// assert!(suggest_better_config(&predictor, &scale, &problem, present).is_none());
/// for _ in 0..20 {
///     predictor.learn(&scale, &problem, present, 90_000.0);
///     predictor.learn(&scale, &problem, Grid::for_elements(1 << 20, 256), 30_000.0);
/// }
/// let better = suggest_better_config(&predictor, &scale, &problem, present).unwrap();
/// assert_eq!((better.grid.threads[0], better.basis), (256, "measured"));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn suggest_better_config(
    predictor: &Predictor,
    kernel: &Kernel,
    problem: &Problem,
    present: Grid,
) -> Option<BetterConfig> {
    let most = kernel.attributes().max_threads_per_block;
    let own = predictor.time(kernel, problem, present)?;
    let offered: Vec<(Grid, Time)> = LINEAR_BLOCKS
        .iter()
        .filter(|threads| **threads <= most && present.threads != [**threads, 1, 1])
        .filter_map(|threads| {
            let blocks = Grid::for_elements(problem.elements, *threads).blocks;
            let grid = Grid { blocks, threads: [*threads, 1, 1], ..present };
            Some((grid, predictor.time(kernel, problem, grid)?))
        })
        .collect();
    let times: Vec<Time> = offered.iter().map(|(_, time)| *time).collect();
    let measured = (own.basis == Basis::Measured).then_some(own.nanos);
    let found = suggest(&own, measured, &times)?;
    let (grid, time) = offered[found.place];
    Some(BetterConfig {
        grid,
        speedup: found.speedup,
        low: found.low,
        high: found.high,
        predicted_ns: time.nanos,
        basis: time.basis.word(),
    })
}

fn asked_kernel(kernel: &Kernel) -> apex_policy::predict::question::Kernel {
    let attributes = kernel.attributes();
    apex_policy::predict::question::Kernel {
        identity: fnv(FNV_START, kernel.name().as_bytes()),
        registers: attributes.registers,
        static_shared: attributes.shared_bytes,
        local_bytes: attributes.local_bytes,
        ..Default::default()
    }
}

fn question<'a>(
    device: &'a Device,
    kernel: &'a apex_policy::predict::question::Kernel,
    problem: &Problem,
    grid: Grid,
) -> Question<'a> {
    let bytes = problem.bytes.unwrap_or(problem.elements as f64 * BYTES_PER_THREAD);
    let flops = problem.flops.unwrap_or(0.0);
    Question {
        device,
        kernel,
        shape: LaunchShape { grid: grid.blocks, block: grid.threads },
        dynamic_shared: grid.shared_bytes,
        arguments: Arguments::NONE,
        work: Some(Work { flops, bytes, ..Work::default() }),
        walked: Walked::NONE,
    }
}
