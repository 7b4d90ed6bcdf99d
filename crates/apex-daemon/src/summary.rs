//! What a report shows, as data: the document `summary.json`.
//!
//! Every number has its unit in its name and its definition beside it; a number that was not measured
//! is null, never zero. `docs/guide.md` says the same to users. The terminal report, `--json`, `apex
//! diff` and `apex top` all show this and compute nothing of their own.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
    /// It runs: the numbers are those of one moment.
    #[serde(default)]
    pub running: bool,
    /// Processes of which nothing is recorded, and why: one sentence each.
    #[serde(default)]
    pub unrecorded: Vec<String>,
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
    /// Graph launches that may have run more kernels than are counted: conditional nodes run their bodies as
    /// often as the GPU decides, and kernels may launch a graph again. If there are any, `kernels_executed` and
    /// `graph_kernels` are bounds from below.
    #[serde(default)]
    pub open_graph_launches: u64,
    /// Launches into a stream under capture: they made a node and ran nothing.
    pub captured_launches: u64,
    /// Launches that the driver refused.
    pub failed_launches: u64,
    /// Share of the GPU phase in which kernels ran.
    pub gpu_busy: Option<Busy>,
    /// Share of the GPU phase in which the GPU waited for launches.
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
    /// Calls of the driver that had not returned when their process ended, the longest first.
    #[serde(default)]
    pub under_way: Vec<UnderWay>,
    /// What `apex run --fast` did; null where nothing was switched on.
    #[serde(default)]
    pub fast: Option<FastSummary>,
    /// What apex itself cost and lost.
    pub own: OwnSummary,
    /// Sentences for the user.
    pub notes: Vec<String>,
}

impl OwnSummary {
    /// Events that no count has: lost in a full ring, or damaged. What is not kept on disk was counted.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.lost + self.damaged
    }
}

impl Summary {
    /// Time waited for the GPU by all threads together, in synchronisations and blocking copies.
    #[must_use]
    pub fn waited_ns(&self) -> u64 {
        self.syncs.waited_ns + self.syncs.blocking_copies_ns
    }

    /// Time in which kernels ran, per device used; none where it was not measured.
    #[must_use]
    pub fn busy_ns(&self) -> Option<f64> {
        Some(self.gpu_busy.as_ref()?.share * self.gpu_phase_ns as f64)
    }
}

/// How a program ended; one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// A call of the driver that had not returned when its process ended: where a program hung.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// Process id.
    pub pid: u32,
    /// Thread id; 0 where it is not known.
    pub tid: u32,
    /// The function.
    pub function: String,
    /// How long the thread had been in it, in nanoseconds; null where the process ended unseen.
    pub host_ns: Option<u64>,
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
    /// Single-precision operations a second at most, a multiply-add being two; null where the device does not tell.
    #[serde(default)]
    pub flops_per_second: Option<f64>,
    /// The same in double precision.
    #[serde(default)]
    pub double_flops_per_second: Option<f64>,
    /// Bytes a second between the device's memory and its multiprocessors at most; null where it does not tell.
    #[serde(default)]
    pub bytes_per_second: Option<f64>,
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

/// How long the GPU waited for launches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchBound {
    /// Share of the GPU phase in which the GPU had nothing to run while the program was in a launch call, what first
    /// launches load left out: time in launch calls times `found_idle`, at most the time without kernels.
    pub share: f64,
    /// By event pairs: timed launches that found their stream idle. By CUPTI: kernels before which no
    /// kernel ran on the device for more than three microseconds. From 0 to 1.
    #[serde(default)]
    pub found_idle: f64,
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
    /// Timed launches of which nothing was said, because too little was known of their kernels.
    #[serde(default)]
    pub not_known: u64,
}

/// Predicted times of one kernel beside measured ones, of its timed launches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelPrediction {
    /// Launches.
    pub timed: u64,
    /// Mean of what was predicted, in nanoseconds.
    pub predicted_ns: f64,
    /// Mean of what was measured, in nanoseconds.
    pub measured_ns: f64,
    /// Median of the error relative to the measured time.
    pub median_error: f64,
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
    /// Its predicted times beside the measured ones; null where none was predicted.
    #[serde(default)]
    pub predicted: Option<KernelPrediction>,
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
    /// What one execution does; null where that is not known, and where launches were not looked at closely
    /// (`apex run --mode advise` does).
    #[serde(default)]
    pub work: Option<Work>,
    /// Why that is not known, where launches were looked at closely.
    #[serde(default)]
    pub work_unknown: Option<String>,
}

/// What one execution of a kernel does, by walking its warps through its PTX with what the first launch passed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Floating-point operations; a multiply-add is two.
    pub flops: f64,
    /// Bytes that loads did not find in the nearest cache, and bytes stored, in whole sectors of 32. Atomics and local
    /// memory are not counted.
    pub bytes: f64,
    /// Some operations are of double precision: then its rate is the bound.
    pub double: bool,
    /// Operations for each byte.
    pub flops_per_byte: f64,
    /// Operations a second, by its measured time; null where it was not timed.
    pub flops_per_second: Option<f64>,
    /// The least time by the roofline, in nanoseconds: all operations, or all bytes, at the device's best rate.
    pub least_ns: Option<f64>,
    /// What that least time comes from: `compute` or `memory`.
    pub bound: Option<String>,
    /// The least time over the measured one. Data that the second-level cache holds may bring it above 1.
    pub reached: Option<f64>,
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
    /// Time of it in synchronisations and blocking copies.
    pub waited_ns: u64,
}

/// One process of a running session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessSummary {
    /// Its number within the session: a process id may come back, this does not.
    pub number: u32,
    /// Process id.
    pub pid: u32,
    /// Path of its executable; empty until it said so.
    pub executable: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Ordinals of the devices that it used.
    pub devices: Vec<u64>,
    /// When its first ring was found, in nanoseconds since the session's start.
    pub started_ns: u64,
    /// When it was found to have ended; null while it runs.
    pub ended_ns: Option<u64>,
    /// Threads that called CUDA.
    pub threads: u64,
    /// CUDA calls.
    pub calls: u64,
    /// Launches, graph launches included.
    pub launches: u64,
    /// Kernels that ran, through graphs or plainly.
    pub kernels_executed: u64,
    /// GPU time of its kernels in nanoseconds, as `gpu_busy` has it for the session; 0 where none was timed.
    pub kernel_ns: u64,
    /// Bytes of device memory that it holds.
    pub device_live_bytes: u64,
    /// Time waited in synchronisations by its threads together, in nanoseconds.
    pub waited_ns: u64,
    /// GPU time of its launches in nanoseconds, each by what such launches took until then. Unlike `kernel_ns` it is
    /// not worked out anew with every mean, so it only rises and its differences tell what is given now.
    #[serde(default)]
    pub given_ns: u64,
    /// Bytes that it copied or set, in all directions together.
    #[serde(default)]
    pub copied_bytes: u64,
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
    /// Copies that returned only when they were done.
    #[serde(default)]
    pub blocking_copies: u64,
    /// Time in those copies, in nanoseconds.
    #[serde(default)]
    pub blocking_copies_ns: u64,
    /// Both times over the wall time; several waiting threads may bring it above 1.
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
    /// Kernels whose first launch took longer than their others: the driver loads or compiles them within it.
    #[serde(default)]
    pub first_launches: u64,
    /// What these launches took longer than the others, in nanoseconds.
    #[serde(default)]
    pub first_launch_ns: u64,
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

/// What `apex run --fast` did for a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FastSummary {
    /// What was switched on, as the words of `--fast`.
    pub words: String,
    /// Whether launches could wait in a queue: not with `strict`, nor with one processor.
    pub has_queue: bool,
    /// Launches that waited in the queue.
    pub queued: u64,
    /// Launches out of `queued` that went down as nodes of graphs.
    pub in_graphs: u64,
    /// Launches of those graphs.
    pub graph_launches: u64,
    /// Nodes that were given other parameters.
    pub changed_nodes: u64,
    /// Graphs that were made.
    pub graphs: u64,
    /// Nodes of the graphs that were made.
    pub graph_nodes: u64,
    /// Other calls that waited in the queue, such as copies and events.
    pub other_queued: u64,
    /// Calls that waited until the queue was empty.
    pub drained: u64,
    /// Launches that went down from the program's own call, by reason, the most first.
    pub direct: Vec<DirectLaunches>,
    /// Queued calls that the driver refused; a later call has told the program.
    pub failed: u64,
    /// Median of the time from a launch to its submission to the driver, of one queued launch in 64, within 12 %; null
    /// where fewer than thirty were measured.
    pub lag_ns: Option<f64>,
    /// What graphs took less than the same launches one by one, by `costs`, less their building. Reckoned, not measured;
    /// null where the costs are not known.
    pub saved_ns: Option<i64>,
    /// What the driver takes, as the queue believes.
    pub costs: Option<LaunchCostsSummary>,
    /// What the pool of freed memory did; null where it was not switched on.
    pub pool: Option<PoolSummary>,
    /// What is known of launches that may run at once; null where that was not switched on.
    #[serde(default)]
    pub overlap: Option<OverlapSummary>,
    /// Kernels that were compiled again for what they are called with; null where that was not switched on.
    pub specialised: Option<SpecialisedSummary>,
}

/// What launches of new graphs were found to touch, and which of them ran at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlapSummary {
    /// Launches of new graphs that were asked what they touch.
    pub looked: u64,
    /// Those of which it is proven.
    pub proven: u64,
    /// The others by the reason: `text`, `large`, `call`, `texture`, `pointer`, `spin`, `launch`, `copy`, `unknown`, `loop`
    /// or `memory`.
    pub unproven: Vec<DirectLaunches>,
    /// Pairs of launches of which the later reads what the earlier writes.
    pub read_after_write: u64,
    /// Pairs of which the later writes what the earlier reads.
    pub write_after_read: u64,
    /// Pairs that write the same.
    pub write_after_write: u64,
    /// Graphs that were made with branches.
    pub branched: u64,
    /// Launches that went down in graphs with branches.
    pub beside: u64,
    /// Launches that went down as a chain because the branches of their graph did not hold for them.
    pub fell_back: u64,
    /// Graphs whose branches were found to be faster than their chain.
    #[serde(default)]
    pub kept: u64,
    /// Nanoseconds that launches with those branches took less, by the medians of both forms.
    #[serde(default)]
    pub saved_ns: u64,
    /// Kernels of which it is not known what a launch touches, those with the most launches in `sequences` first.
    #[serde(default)]
    pub kernels: Vec<UnprovenKernel>,
    /// Launches that became a graph, at most 64 of each process. `apex graph` draws them.
    #[serde(default)]
    pub sequences: Vec<SequenceSummary>,
}

/// A kernel of which it is not known what a launch touches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnprovenKernel {
    /// Its name, demangled.
    pub kernel: String,
    /// Why not, as in `unproven`.
    pub reason: String,
    /// Its launches in `sequences` with that reason.
    pub launches: u64,
}

/// Launches that became a graph, and which of them depend on which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceSummary {
    /// Process id.
    pub pid: u32,
    /// Its kernels, demangled.
    pub kernels: Vec<String>,
    /// The launches in their order, each as a place in `kernels`.
    pub launches: Vec<u32>,
    /// Launches of which it is not known what they touch, with the reason.
    pub unproven: Vec<(u32, String)>,
    /// The later launch, the earlier one, and the sum of 1 where it reads what that writes, 2 where it writes what that
    /// reads, 4 where both write; 0 where nothing is known of one of them. What others imply is left out.
    pub edges: Vec<[u32; 3]>,
    /// `won` where branches were found to be faster, `lost` where the chain was; empty where that is not known, or where
    /// each launch follows the one before.
    pub outcome: String,
    /// Median of the chain in nanoseconds; 0 where both forms were not timed.
    pub chain_ns: u64,
    /// Median with branches.
    pub branches_ns: u64,
}

/// What compiling kernels again for what they are called with did for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecialisedSummary {
    /// Launches that ran a kernel which was written again for them.
    pub launches: u64,
    /// Rewritten kernels that were tried beside their originals.
    pub tried: u64,
    /// Those that were kept.
    pub won: u64,
    /// Those that were dropped: slower, no faster, or refused.
    pub lost: u64,
    /// Kernels that were left alone.
    pub left: u64,
    /// Nanoseconds of kernels that rewritten ones took less, by the medians of both forms.
    pub saved_ns: u64,
    /// The kernels, those that gained most first.
    pub kernels: Vec<RewrittenSummary>,
}

/// What became of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewrittenSummary {
    /// Its name.
    pub kernel: String,
    /// `left`, `refused`, `tried`, `won` or `lost`.
    pub outcome: String,
    /// Why it was left alone or refused, or what was written into it.
    pub what: String,
    /// Median of the original in nanoseconds; 0 where it was not timed.
    pub original_ns: u64,
    /// Median of the rewritten one.
    pub rewritten_ns: u64,
}

/// What the pool of `apex run --fast` did for a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSummary {
    /// Allocations served from freed memory.
    pub served: u64,
    /// Allocations that the driver was asked for.
    pub asked: u64,
    /// Freed blocks that went back to the driver.
    pub given_back: u64,
    /// Times that a stream was made to wait for another because of a block that was handed out again.
    pub stream_waits: u64,
    /// Bytes that the program had at once at most by these allocations; of several processes the sum.
    #[serde(default)]
    pub peak_bytes: u64,
    /// The same with what lay idle beside it.
    #[serde(default)]
    pub held_bytes: u64,
    /// Pools of stream-ordered memory that kept what is freed in them.
    #[serde(default)]
    pub kept_pools: u64,
}

/// Launches that did not wait in the queue, or of which nothing is proven, for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectLaunches {
    /// The reason: `first`, `idle`, `few`, `form`, `own-stream`, `capture`, `context`, `failed` or `aside`.
    pub reason: String,
    /// How many.
    pub launches: u64,
}

/// What launches cost a driver, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchCostsSummary {
    /// A launch.
    pub launch_ns: u64,
    /// A launch of a graph, without its nodes.
    pub graph_ns: u64,
    /// A node of it.
    pub node_ns: u64,
    /// Giving a node other parameters.
    pub changed_ns: u64,
    /// Building a graph, a node.
    pub build_ns: u64,
    /// They were measured on this machine by `apex bench launch --calibrate`, and not on another.
    pub measured_here: bool,
}

/// What apex itself cost and lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnSummary {
    /// Events recorded.
    pub events: u64,
    /// Median of the time that recording one took inside the program, in nanoseconds; null where fewer than
    /// thirty were measured.
    pub median_ns: Option<f64>,
    /// Time spent on timing kernels inside the program, in nanoseconds.
    pub sampling_ns: u64,
    /// Time spent on what is done once (facts of kernels, images and graphs), in nanoseconds.
    pub lookup_ns: u64,
    /// The median times all events, with sampling and look-ups, over the wall time.
    pub share_of_wall: Option<f64>,
    /// Events lost because a ring was full or could not be had.
    pub lost: u64,
    /// Records that were damaged.
    pub damaged: u64,
    /// Failures of apex inside the program; its calls went through.
    pub failures: u64,
    /// Facts that could not be written or understood.
    pub facts_lost: u64,
    /// Events that were counted but are not in the session's directory.
    pub not_kept: u64,
    /// Where the session lies.
    #[serde(default)]
    pub kept: Kept,
}

/// Where a session lies when it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// In its directory.
    #[default]
    InPlace,
    /// In this directory of rings, until a later apex command finds room for it.
    Waits(PathBuf),
    /// Nowhere.
    Nowhere,
}
