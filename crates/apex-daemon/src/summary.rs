//! What a report shows, as data: the document `summary.json`.
//!
//! Every number has its unit in its name and its definition beside it; a number that was not measured
//! is null, never zero. `docs/guide.md` says the same to users. The terminal report, `--json`, `apex
//! diff` and `apex top` all show this and compute nothing of their own.

use serde::{Deserialize, Serialize};

/// Version of the documents and files of a session.
pub const SCHEMA: u64 = 1;

/// One session in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: u64,
    /// The session's id.
    pub session: String,
    /// The command that was run.
    pub command: Vec<String>,
    /// When it was started, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// From its start to its end, in nanoseconds.
    pub wall_ns: u64,
    /// How it ended; null while it runs.
    pub exit: Option<Exit>,
    /// A process ran on the software GPU: times are the CPU's.
    pub soft: bool,
    /// The driver's CUDA version, such as 13.0.
    pub driver: Option<String>,
    /// The devices that were used.
    pub devices: Vec<DeviceSummary>,
    /// Processes that called CUDA.
    pub processes: u64,
    /// From the first to the end of the last CUDA call, in nanoseconds: the GPU phase.
    pub gpu_phase_ns: u64,
    /// CUDA calls that were recorded.
    pub calls: u64,
    /// Kernels that ran: plain launches, and graph launches times their kernel nodes.
    pub kernels_executed: u64,
    /// Plain launches that the driver accepted and that were not captured.
    pub launches: u64,
    /// Graph launches that the driver accepted and that were not captured.
    pub graph_launches: u64,
    /// Kernels that ran through graphs.
    pub graph_kernels: u64,
    /// Launches into a stream under capture: they made a node and ran nothing.
    pub captured_launches: u64,
    /// Launches that the driver refused.
    pub failed_launches: u64,
    /// Share of the GPU phase in which kernels ran.
    pub gpu_busy: Option<Busy>,
    /// Share of launches that found nothing else to run.
    pub launch_bound: Option<LaunchBound>,
    /// How near predictions came; nothing where no launch was timed.
    pub predicted: Option<PredictionSummary>,
    /// Kernels and graphs by their GPU time, or by calls where there are no times.
    pub kernels: Vec<KernelSummary>,
    /// Kernels by launch shape, in the same order.
    pub configs: Vec<ConfigSummary>,
    /// Streams by their launches.
    pub streams: Vec<StreamSummary>,
    /// Threads by their time in the driver.
    pub threads: Vec<ThreadSummary>,
    /// Driver functions by the time spent in them.
    pub functions: Vec<FunctionSummary>,
    /// Memory.
    pub memory: MemorySummary,
    /// Copies by direction.
    pub copies: Vec<CopySummary>,
    /// Memsets.
    pub sets: Volume,
    /// Synchronisations.
    pub syncs: SyncSummary,
    /// Modules and libraries.
    pub loads: LoadSummary,
    /// Errors that the driver returned.
    pub errors: Vec<ErrorSummary>,
    /// What apex itself cost and lost.
    pub own: OwnSummary,
    /// Sentences for the user.
    pub notes: Vec<String>,
}

/// How a program ended; one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSummary {
    /// Its ordinal in the process that described it.
    pub ordinal: u64,
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Compute capability, such as 9.0.
    pub capability: String,
    /// Multiprocessors.
    pub sms: u64,
    /// Bytes of its memory.
    pub memory_bytes: u64,
}

/// How busy the GPU was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// Kernel time over the GPU phase, per device used; from 0 to 1.
    pub share: f64,
    /// Kernel time in nanoseconds.
    pub kernel_ns: u64,
    /// `cupti`: the union of all kernels' own times. `event-pair`: mean of the timed launches times all
    /// launches. `event-pair-idle`: the same, mostly of pairs that include the wait for the launch.
    pub basis: String,
    /// The share is a bound from above.
    pub upper_bound: bool,
    /// Launches that were timed.
    pub timed: u64,
    /// Share of the executed launches whose kernel was timed at all.
    pub covered: f64,
}

/// How often the GPU waited for the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchBound {
    /// By event pairs: timed launches that found their stream idle. By CUPTI: kernels before which no
    /// kernel ran on the device for more than three microseconds. From 0 to 1.
    pub share: f64,
    /// Launches looked at.
    pub timed: u64,
    /// `event-pair` or `cupti`.
    pub basis: String,
}

/// GPU time of a kernel, a shape or a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuTime {
    /// Mean in nanoseconds.
    pub mean_ns: f64,
    /// Mean times all executions; by CUPTI the sum itself.
    pub total_ns: f64,
    /// Share of the GPU time of the whole session, from 0 to 1.
    pub share: f64,
    /// Executions that were timed.
    pub timed: u64,
    /// How the times were taken.
    pub basis: String,
}

/// Predicted times beside measured ones. Each launch was predicted before its time was learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionSummary {
    /// Timed launches.
    pub timed: u64,
    /// Different kernels with shapes among them.
    pub configurations: u64,
    /// Median of the error relative to the measured time.
    pub median_error: f64,
    /// Share of launches whose time was predicted within 10 %.
    pub within_10_percent: f64,
    /// Share of launches whose time lay in the 80 % interval.
    pub in_interval: f64,
    /// Whether trained models were at hand, and not measured times alone.
    pub with_models: bool,
    /// By the part that said it.
    pub by: Vec<PredictedBy>,
    /// Configurations that were answered for programs that want predictions.
    #[serde(default)]
    pub written_back: u64,
    /// Those answers that took the place of a guess inside a program.
    #[serde(default)]
    pub taken: u64,
}

/// Predictions of one part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictedBy {
    /// `repeat`, `line`, `trees`, `small-network` or `bound`.
    pub source: String,
    /// Launches.
    pub timed: u64,
    /// Median of the error.
    pub median_error: f64,
}

/// What follows from a kernel's needs and a launch's shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Warps that one multiprocessor can hold, as a share of its slots; from 0 to 1.
    pub occupancy: f64,
    /// What keeps it from being higher.
    pub limiter: String,
    /// Blocks of one multiprocessor.
    pub blocks_per_sm: u64,
    /// The grid as a multiple of what the device holds at once.
    pub waves: f64,
    /// Share of the last wave's places that stay empty.
    pub tail_fraction: f64,
    /// Lanes without a thread in a block's last warp.
    pub idle_lanes: u64,
}

/// One kernel by name, or one graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelSummary {
    /// Its name, demangled.
    pub name: String,
    /// The name as the driver has it.
    pub mangled: String,
    /// A whole graph, timed as one.
    pub graph: bool,
    /// Executions.
    pub calls: u64,
    /// Executions through graphs, out of `calls`.
    pub graph_calls: u64,
    /// Its GPU time, where it was measured.
    pub gpu: Option<GpuTime>,
    /// Time in the driver's launch call, in nanoseconds.
    pub host_ns: u64,
    /// Different launch shapes.
    pub shapes: u64,
    /// Registers per thread.
    pub registers: Option<u64>,
    /// Static shared memory in bytes.
    pub static_shared: Option<u64>,
    /// Of the shape that takes the most time.
    pub fit: Option<Fit>,
}

/// One kernel with one launch shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigSummary {
    /// Its name, demangled.
    pub name: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u16; 3],
    /// Blocks of a cluster; zeros for none.
    pub cluster: [u8; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Executions by plain launches.
    pub calls: u64,
    /// Its GPU time, where it was measured.
    pub gpu: Option<GpuTime>,
    /// What follows from the shape.
    pub fit: Option<Fit>,
}

/// One stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSummary {
    /// Process id.
    pub pid: u32,
    /// Number of its context.
    pub context: u16,
    /// Its handle.
    pub stream: u64,
    /// Launches, graph launches included.
    pub launches: u64,
    /// Copies and sets.
    pub transfers: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Time waited for it, in nanoseconds.
    pub waited_ns: u64,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// CUDA calls.
    pub calls: u64,
    /// Launches, graph launches included.
    pub launches: u64,
    /// Time in the driver, in nanoseconds.
    pub host_ns: u64,
    /// Time of it in synchronisations.
    pub waited_ns: u64,
}

/// One driver function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionSummary {
    /// Its name.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Time in it, in nanoseconds.
    pub host_ns: u64,
}

/// Memory of all processes together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemorySummary {
    /// Most bytes of device memory held at once: all kinds but host memory and address ranges.
    pub device_peak_bytes: u64,
    /// Bytes of device memory held at the end.
    pub device_live_bytes: u64,
    /// By kind of allocation.
    pub kinds: Vec<AllocSummary>,
    /// Allocations and frees per second in the steady phase: the second half of the time between the
    /// first and the last launch.
    pub churn_per_second: Option<f64>,
}

/// One kind of allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocSummary {
    /// The kind.
    pub kind: String,
    /// Allocations.
    pub allocations: u64,
    /// Frees.
    pub frees: u64,
    /// Bytes of all allocations.
    pub allocated_bytes: u64,
    /// Bytes held at the end.
    pub live_bytes: u64,
    /// Most bytes held at once.
    pub peak_bytes: u64,
}

/// Copies in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CopySummary {
    /// The direction.
    pub direction: String,
    /// Copies.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Copies whose host side was not pinned.
    pub pageable_count: u64,
    /// Bytes of them.
    pub pageable_bytes: u64,
    /// Time in the driver, in nanoseconds.
    pub host_ns: u64,
}

/// A number of things and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// How many.
    pub count: u64,
    /// Bytes together.
    pub bytes: u64,
}

/// Synchronisations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncSummary {
    /// Calls.
    pub count: u64,
    /// Time waited in them by all threads together, in nanoseconds.
    pub waited_ns: u64,
    /// That time over the wall time; several waiting threads may bring it above 1.
    pub share_of_wall: f64,
}

/// Modules and libraries loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadSummary {
    /// Loads.
    pub count: u64,
    /// Bytes of their images.
    pub bytes: u64,
    /// Time in the driver, just-in-time compilation included, in nanoseconds.
    pub host_ns: u64,
}

/// One error of one function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// The function.
    pub function: String,
    /// The driver's number for the error.
    pub result: u16,
    /// Its name, where apex knows it.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// What apex itself cost and lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnSummary {
    /// Events recorded.
    pub events: u64,
    /// Mean time that recording one took inside the program, in nanoseconds.
    pub mean_ns: Option<f64>,
    /// Time spent on timing kernels inside the program, in nanoseconds.
    pub sampling_ns: u64,
    /// Time spent on what is done once (facts of kernels, images and graphs), in nanoseconds.
    pub lookup_ns: u64,
    /// Recording and timing over the wall time.
    pub share_of_wall: Option<f64>,
    /// Events lost because a ring was full or could not be had.
    pub lost: u64,
    /// Records that were damaged.
    pub damaged: u64,
    /// Failures of apex inside the program; its calls went through.
    pub failures: u64,
    /// Facts that could not be written or understood.
    pub facts_lost: u64,
    /// Events that were counted but not kept on disk.
    pub not_kept: u64,
}
