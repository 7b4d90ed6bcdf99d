//! What is known of a session when advice is asked for: plain numbers, each worked out by the daemon.
//!
//! "Steady" is the part of a program after a quarter of its launches: what happens there happens for as long as
//! the program runs, while the start is paid once.

use crate::{Chip, KernelNeeds, LaunchFacts, LaunchShape, launch_facts};

/// A session, as far as rules look at it. All times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// It ran on the software GPU: times are the CPU's, devices those that it stands for.
    pub soft: bool,
    /// The program's time: what weights are shares of.
    pub program_ns: f64,
    /// From the first CUDA call to the end of the last.
    pub phase_ns: f64,
    /// The devices that were used.
    pub devices: Vec<Device>,
    /// The kernels that were launched plainly.
    pub kernels: Vec<Kernel>,
    /// How busy the GPU was, where that was measured.
    pub busy: Option<Busy>,
    /// Plain launches that ran, and the time in their calls.
    pub launches: Calls,
    /// Graph launches that ran, and the time in their calls.
    pub graph_launches: Calls,
    /// Time waited for the GPU, in synchronisations and blocking copies.
    pub waited_ns: f64,
    /// Time that loading and compiling took, in calls for that and in first launches.
    pub loading_ns: f64,
    /// Launches that repeat in a fixed order.
    pub sequences: Vec<Sequence>,
    /// Calls by what they do.
    pub acts: Vec<Act>,
    /// Allocations that freed memory could have served.
    pub reuse: Reuse,
    /// Graphs that were made ready, equal ones together.
    pub graphs: Vec<GraphMade>,
    /// Copies by direction and host side.
    pub copies: Vec<Copies>,
    /// Uploads of the same bytes to the same place, where contents were looked at.
    pub uploads: Vec<Upload>,
    /// Code that was loaded while launches were under way.
    pub late_loads: Vec<Load>,
    /// Launches that follow one another and share memory, or share none; where pointers were looked at.
    pub pairs: Vec<Pair>,
    /// Which streams work went to.
    pub streams: Streams,
    /// Waits that the program asked for.
    pub waits: Waits,
    /// Calls that waited for the GPU without being asked to.
    pub stalls: Vec<Stall>,
    /// Device memory held over time.
    pub growth: Growth,
    /// The GPU's clocks, where they were read.
    pub clocks: Option<Clocks>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// What one multiprocessor holds; none where the capability is not known.
    pub chip: Option<Chip>,
    /// Multiprocessors.
    pub sms: u32,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// GPU time of the kernels that ran there.
    pub busy_ns: f64,
    /// Plain launches that ran there.
    pub launches: u64,
}

/// One kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// Its name, demangled.
    pub name: String,
    /// What it takes, without dynamic shared memory; none where its facts are not known.
    pub needs: Option<KernelNeeds>,
    /// Local memory of one thread in bytes.
    pub local_bytes: u32,
    /// Threads a block of it may have.
    pub max_threads: u32,
    /// The shapes it was launched with.
    pub shapes: Vec<Shape>,
}

/// One launch shape of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Grid and block.
    pub shape: LaunchShape,
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Blocks were launched in clusters.
    pub clustered: bool,
    /// Its device, by its place in the list.
    pub device: usize,
    /// Launches.
    pub calls: u64,
    /// GPU time of all of them; none where none was timed.
    pub gpu_ns: Option<f64>,
}

/// How busy the GPU was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// Kernel time.
    pub ns: f64,
    /// Share of the launches that found nothing else to run: of the timed ones, or those after a wait for
    /// everything, whichever is more.
    pub idle_launches: f64,
    /// Launches that were timed.
    pub timed: u64,
}

/// A number of calls and the time in them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// Time in the driver.
    pub host_ns: f64,
}

impl Calls {
    /// Adds one.
    pub fn add(&mut self, host_ns: u64) {
        self.count += 1;
        self.host_ns += host_ns as f64;
    }

    /// Time of one call.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.host_ns / self.count as f64 }
    }
}

/// Launches that repeat in a fixed order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequence {
    /// Launches of one round.
    pub period: u64,
    /// Rounds.
    pub rounds: u64,
    /// Time in the launch calls of all rounds.
    pub host_ns: f64,
    /// Waits within one round, on average.
    pub waits_per_round: f64,
    /// Names of the first kernels of a round.
    pub kernels: Vec<String>,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActKind {
    /// Obtains device memory.
    Allocate,
    /// Obtains or gives back device memory in the order of a stream.
    AllocateInOrder,
    /// Gives device memory back.
    Free,
    /// Pins host memory, or lets it go.
    Pin,
    /// Makes or ends a stream.
    Stream,
    /// Makes or ends an event.
    Event,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Act {
    /// What they do.
    pub kind: ActKind,
    /// All of them.
    pub all: Calls,
    /// Those in the steady phase.
    pub steady: Calls,
}

/// Plain allocations of a program that hands no freed memory out again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reuse {
    /// All of them.
    pub asked: u64,
    /// Those that freed memory could have served.
    pub served: Calls,
    /// Frees of memory that could have been kept.
    pub kept: Calls,
}

/// Graphs with the same kernels, made ready one or more times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphMade {
    /// Kernel nodes.
    pub kernels: u64,
    /// How often such a graph was made ready, and the time in it.
    pub made: Calls,
    /// Launches of them all.
    pub launches: u64,
}

/// Copies of one direction and host side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Copies {
    /// The direction, as reports call it.
    pub direction: String,
    /// Whether the host side was pageable; none without a host side.
    pub pageable: Option<bool>,
    /// All of them.
    pub all: Calls,
    /// Their bytes.
    pub bytes: u64,
    /// Those of at most [`Copies::SMALL_BYTES`].
    pub small: Calls,
    /// Bytes of those.
    pub small_bytes: u64,
    /// Small ones that directly followed another of the same kind.
    pub small_runs: u64,
}

impl Copies {
    /// Up to here the call costs more than the transfer: a few microseconds at some gigabytes a second.
    pub const SMALL_BYTES: u64 = 16 << 10;
}

/// Uploads of the same bytes to the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Upload {
    /// Bytes of one.
    pub bytes: u64,
    /// All of them, the first included.
    pub all: Calls,
    /// All bytes were looked at, and not a sample.
    pub whole: bool,
}

/// Code loaded while launches were under way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// `ptx`, `cubin` or `fatbin`; empty where not known.
    pub kind: String,
    /// How often, and the time in it.
    pub calls: Calls,
    /// How often code that had been loaded before was loaded again.
    pub again: u64,
}

/// Two launches that directly follow one another on a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// Name of the first kernel.
    pub first: String,
    /// Name of the second.
    pub second: String,
    /// How often they followed one another so.
    pub count: u64,
    /// How often they did so with a pointer in common.
    pub sharing: u64,
    /// How often the second was the first once more, with the same pointers.
    pub repeated: u64,
    /// Bytes from the shared pointer to the end of its allocation, at most.
    pub shared_bytes: u64,
    /// Pointers that the first passes.
    pub first_pointers: u64,
    /// Pointers that the second passes.
    pub second_pointers: u64,
    /// GPU time of one execution of each, where measured.
    pub gpu_ns: Option<(f64, f64)>,
    /// Both have the same number of threads, no shared memory and no cluster: one thread may do both.
    pub elementwise: bool,
    /// Share of the multiprocessors that the two need together; above 1 they do not fit beside one another.
    pub sms_needed: f64,
}

/// Which streams work went to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Streams {
    /// Streams with launches, the default stream included.
    pub used: u64,
    /// Launches on the legacy default stream.
    pub default_launches: u64,
    /// GPU time of those.
    pub default_ns: f64,
    /// Launches on streams that wait for the default stream.
    pub blocking_launches: u64,
    /// GPU time of those.
    pub blocking_ns: f64,
    /// How often work on the default stream came between work of other streams.
    pub interleaved: u64,
}

/// Waits that the program asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    /// For everything in a context.
    pub context: Calls,
    /// Of those: while work was outstanding on more than one stream.
    pub context_over_streams: Calls,
    /// For one stream or event.
    pub single: Calls,
    /// Launches that came first after a wait: the GPU had nothing to do.
    pub drains: u64,
    /// From the end of each such wait to the end of the launch call, where that is not so long that the host did
    /// something else.
    pub drained_ns: f64,
    /// Time in those launch calls alone.
    pub drained_launch_ns: f64,
}

/// A function that waited for the GPU without being asked to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stall {
    /// The driver function.
    pub function: String,
    /// Calls of it while launches were outstanding.
    pub calls: Calls,
    /// What the same calls take when nothing is outstanding: the shortest that was seen, times the calls.
    pub unhindered_ns: f64,
}

/// Device memory held over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    /// Time and bytes held, at evenly spread launches of the steady phase.
    pub points: Vec<(f64, f64)>,
    /// Bytes of the device's memory.
    pub memory_bytes: u64,
}

/// The GPU's clocks while the program ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clocks {
    /// The clock the device can hold, in MHz.
    pub rated_mhz: f64,
    /// The mean clock while the GPU was busy, in MHz.
    pub mean_mhz: f64,
    /// Share of the readings that named a reason for a lower clock.
    pub throttled: f64,
    /// The reason that was named most.
    pub reason: String,
}

impl Evidence {
    /// A time as a share of the program's.
    #[must_use]
    pub fn share(&self, ns: f64) -> f64 {
        if self.program_ns > 0.0 { ns / self.program_ns } else { 0.0 }
    }

    /// Time in which kernels ran, per device used.
    #[must_use]
    pub fn busy_ns(&self) -> Option<f64> {
        let used = self.devices.iter().filter(|device| device.launches > 0).count().max(1);
        Some((self.busy?.ns / used as f64).min(self.phase_ns))
    }

    /// Time in which the GPU had nothing to do, per device used.
    #[must_use]
    pub fn idle_ns(&self) -> Option<f64> {
        Some(self.phase_ns - self.busy_ns()?)
    }

    /// The GPU that the software GPU stands for, where the program ran there: `H200` of `apex software GPU (H200)`.
    #[must_use]
    pub fn software_gpu(&self) -> Option<&str> {
        let name = self.devices.first().filter(|_| self.soft)?.name.as_str();
        Some(name.split(['(', ')']).nth(1).unwrap_or(name))
    }

    /// What a launch makes of its device; none where the device, the kernel or a cluster's rules are not known.
    #[must_use]
    pub fn facts(&self, kernel: &Kernel, shape: &Shape) -> Option<LaunchFacts> {
        let device = self.devices.get(shape.device)?;
        if shape.clustered || device.sms == 0 {
            return None;
        }
        let facts = launch_facts(
            device.chip.as_ref()?,
            device.sms,
            &kernel.needs_with(shape.dynamic_shared)?,
            &shape.shape,
        );
        (facts.occupancy.blocks_per_sm > 0).then_some(facts)
    }

    /// The calls of one kind.
    #[must_use]
    pub fn act(&self, kind: ActKind) -> Option<&Act> {
        self.acts.iter().find(|act| act.kind == kind)
    }

    /// All launches that ran.
    #[must_use]
    pub fn launch_count(&self) -> u64 {
        self.launches.count + self.graph_launches.count
    }
}

impl Kernel {
    /// What it takes with so much dynamic shared memory.
    #[must_use]
    pub fn needs_with(&self, dynamic_shared: u32) -> Option<KernelNeeds> {
        let needs = self.needs?;
        Some(KernelNeeds {
            dynamic_shared,
            max_dynamic_shared: needs.max_dynamic_shared.max(dynamic_shared),
            ..needs
        })
    }

    /// Whether it belongs to a library, so that its launch shape is not the user's to choose.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        FOREIGN.iter().any(|mark| self.name.contains(mark))
    }
}

/// Marks in the names of kernels that come with libraries and frameworks.
const FOREIGN: &[&str] = &[
    "at::native",
    "at::cuda",
    "c10::",
    "cublas",
    "cudnn",
    "nchwToNhwc",
    "nhwcToNchw",
    "bn_fw_",
    "bn_bw_",
    "dgrad",
    "wgrad",
    "implicit_convolve",
    "xmma_",
    "cutlass",
    "cub::",
    "thrust::",
    "nccl",
    "ampere_",
    "hopper_",
    "volta_",
    "turing_",
    "sm80_",
    "sm90_",
    "sm100_",
    "gemmk1_",
    "splitKreduce",
    "flash_",
    "fmha_",
    "pytorch_flash",
    "cufft",
    "cusparse",
];
