//! What the processes of a session told of themselves once: kernels, images, graphs, devices.
//!
//! Events carry numbers; this says what the numbers mean. It grows while a program runs and is
//! written beside the events at the end. A number that was never explained stays a number.

use apex_core::facts::{
    Claimed, Device, Fact, Fast, Foresight, Graph, Image, Kernel, LaunchCosts, Lowered, Passed,
    Process, Rewritten, Sequence, Tried,
};
use std::collections::BTreeMap;

/// The facts of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownProcess {
    /// Process id.
    pub pid: u32,
    /// When its first ring was found, on the session's clock.
    pub found_ns: u64,
    /// When it was found to have ended, on the session's clock.
    pub ended_ns: Option<u64>,
    /// What it said of itself.
    pub process: Option<Process>,
    /// Its devices by ordinal.
    pub devices: BTreeMap<u64, Device>,
    /// Its kernels by number.
    pub kernels: BTreeMap<u32, Kernel>,
    /// Its images by number.
    pub images: BTreeMap<u32, Image>,
    /// Its graphs by number.
    pub graphs: BTreeMap<u32, Graph>,
    /// What launches passed, by number of the kernel and shape; only while the session is recorded.
    pub passed: BTreeMap<(u32, Vec<u64>), Passed>,
    /// How near predictions inside it came, where they were wanted.
    pub foresight: Option<Foresight>,
    /// What was to make it faster, where anything was.
    pub fast: Option<Fast>,
    /// Kernels that were to be compiled again, by name and by what was written into them.
    pub rewritten: BTreeMap<(String, String), Rewritten>,
    /// Launches that became a graph, by their number, where it was asked which depend on which.
    pub sequences: BTreeMap<u64, Sequence>,
    /// Those of them that were tried with branches and as a chain.
    pub tried: BTreeMap<u64, Tried>,
    /// What its queue believes that launches cost.
    pub launch_costs: Option<LaunchCosts>,
    /// Images for newer chips that were brought down.
    pub lowered: Vec<Lowered>,
    /// What it was told of its device, where that is not so.
    pub claimed: Option<Claimed>,
    /// Failures of apex inside it, one sentence each.
    pub failures: Vec<String>,
    /// Lines of its facts file that were not understood.
    pub refused: u64,
}

impl KnownProcess {
    /// Takes in one fact; a later one of the same number replaces the earlier.
    pub fn learn(&mut self, fact: Fact) {
        let number = |id: u64| u32::try_from(id).unwrap_or(u32::MAX);
        match fact {
            Fact::Process(process) => self.process = Some(process),
            Fact::Device(device) => {
                self.devices.insert(device.ordinal, device);
            }
            // Every event carries its device beside its context.
            Fact::Context(_) => {}
            Fact::Kernel(kernel) => {
                self.kernels.insert(number(kernel.id), kernel);
            }
            Fact::Image(image) => {
                self.images.insert(number(image.id), image);
            }
            Fact::Graph(graph) => {
                self.graphs.insert(number(graph.id), graph);
            }
            Fact::Passed(passed) => {
                self.passed.insert((number(passed.kernel), passed.shape.clone()), passed);
            }
            Fact::Foresight(foresight) => self.foresight = Some(foresight),
            Fact::Fast(fast) => self.fast = Some(fast),
            Fact::Rewritten(rewritten) if self.rewritten.len() < MOST_REWRITTEN => {
                let key = (rewritten.kernel.clone(), rewritten.what.clone());
                self.rewritten.insert(key, rewritten);
            }
            Fact::Rewritten(_) => {}
            Fact::Sequence(sequence) if self.sequences.len() < MOST_SEQUENCES => {
                self.sequences.insert(sequence.id, sequence);
            }
            Fact::Sequence(_) => {}
            Fact::Tried(tried) if self.tried.len() < MOST_SEQUENCES => {
                self.tried.insert(tried.sequence, tried);
            }
            Fact::Tried(_) => {}
            Fact::LaunchCosts(costs) => self.launch_costs = Some(costs),
            Fact::Lowered(lowered) if self.lowered.len() < MOST_LOWERED => {
                self.lowered.push(lowered)
            }
            Fact::Lowered(_) => {}
            Fact::Claimed(claimed) => self.claimed = Some(claimed),
            // A broken part of apex could repeat itself without end.
            Fact::Failure(failure) if self.failures.len() < MOST_FAILURES => {
                self.failures.push(failure.sentence);
            }
            Fact::Failure(_) => {}
        }
    }
}

const MOST_FAILURES: usize = 100;
/// A program that loads the same images again and again is told of as often as this.
const MOST_LOWERED: usize = 10_000;
/// More than any program has kernels that are launched often.
const MOST_REWRITTEN: usize = 1_000;
/// A process tells of 64.
const MOST_SEQUENCES: usize = 64;

/// The facts of a session, by the number of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// One entry per process.
    pub processes: Vec<KnownProcess>,
}

impl Known {
    /// A process by its number.
    #[must_use]
    pub fn process(&self, number: u32) -> Option<&KnownProcess> {
        self.processes.get(number as usize)
    }

    /// A kernel of a process.
    #[must_use]
    pub fn kernel(&self, process: u32, kernel: u32) -> Option<&Kernel> {
        self.process(process)?.kernels.get(&kernel)
    }

    /// A device of a process; the only one it has where the ordinal is not known.
    #[must_use]
    pub fn device(&self, process: u32, ordinal: Option<u8>) -> Option<&Device> {
        let devices = &self.process(process)?.devices;
        match ordinal {
            Some(ordinal) => devices.get(&u64::from(ordinal)),
            None if devices.len() == 1 => devices.values().next(),
            None => None,
        }
    }

    /// Whether any process ran on the software GPU.
    #[must_use]
    pub fn soft(&self) -> bool {
        self.described().any(|process| process.soft)
    }

    /// The driver's version as people write it: 13.0 for 13000.
    #[must_use]
    pub fn driver_version(&self) -> Option<String> {
        let version = self.described().map(|process| process.driver_version).find(|&v| v > 0)?;
        Some(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    fn described(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter_map(|known| known.process.as_ref())
    }
}
