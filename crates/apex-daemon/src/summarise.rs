//! Counts rows as they come, and makes a summary of the counts at any moment.
//!
//! A [`Tally`] is pure: the same rows and facts give the same summary, whether they come from the
//! rings or from disk. Its size follows the number of different kernels, shapes, streams and threads,
//! not the number of events; what exceeds its limits is counted under one common entry.

mod busy;
mod evidence;
mod finish;
pub(crate) mod fit;
mod kernels;
pub(crate) mod peaks;
mod processes;
mod timeline;
mod times;

pub(crate) use evidence::Means;
pub use finish::Frame;

pub use fit::chip;

use crate::known::Known;
use crate::row::Row;
use apex_core::event::{AllocKind, Direction, LaunchShape, ObjectKind, TimeBasis, What};
use busy::BusyTime;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use timeline::Timeline;
use times::Times;

/// Running counts of a session.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    events: u64,
    calls: u64,
    first_call_ns: Option<u64>,
    last_call_ns: u64,
    first_launch_ns: Option<u64>,
    last_launch_ns: u64,
    captured_launches: u64,
    failed_launches: u64,
    configs: HashMap<ConfigKey, ConfigTally>,
    graphs: HashMap<(u32, u32), GraphTally>,
    streams: HashMap<(u32, u16, u64), StreamTally>,
    threads: HashMap<(u32, u32), ThreadTally>,
    pids: HashMap<u32, u32>,
    functions: HashMap<&'static str, FunctionTally>,
    errors: HashMap<(&'static str, u16), u64>,
    allocs: [AllocTally; AllocKind::ALL.len()],
    live: HashMap<(u32, u8), u64>,
    device_live: u64,
    device_peak: u64,
    churn: Timeline,
    copies: [CopyTally; Direction::ALL.len()],
    sets: (u64, u64),
    syncs: (u64, u64),
    blocking_copies: (u64, u64),
    loads: (u64, u64, u64),
    /// Kernels that were launched, by process.
    launched: HashSet<(u32, u32)>,
    busy: BusyTime,
}

/// A kernel of a process with a launch shape on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConfigKey {
    pub(crate) process: u32,
    pub(crate) kernel: u32,
    pub(crate) device: Option<u8>,
    pub(crate) shape: LaunchShape,
}

#[derive(Clone, Copy, Debug, Default)]
struct ConfigTally {
    executed: u64,
    host: HostTime,
    times: Times,
}

#[derive(Clone, Copy, Debug, Default)]
struct GraphTally {
    launches: u64,
    kernels: u64,
    host_ns: u64,
    device: Option<u8>,
    times: Times,
}

#[derive(Clone, Copy, Debug, Default)]
struct StreamTally {
    launches: u64,
    transfers: u64,
    bytes: u64,
    waited_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ThreadTally {
    calls: u64,
    launches: u64,
    launch_host: HostTime,
    other_host_ns: u64,
    waited_ns: u64,
    /// GPU time of its launches, each by what such launches took until then.
    given_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct FunctionTally {
    calls: u64,
    host: HostTime,
}

/// Time in the driver of calls of one kind, not all of which were timed.
///
/// The first launch of a kernel stands apart: the driver may load or compile the kernel within it, which says nothing
/// of the other launches.
#[derive(Clone, Copy, Debug, Default)]
struct HostTime {
    calls: u64,
    timed: u64,
    sum_ns: u64,
    first_calls: u64,
    first_ns: u64,
}

impl HostTime {
    fn add(&mut self, host: Option<u64>, is_first: bool) {
        if let (true, Some(host_ns)) = (is_first, host) {
            self.first_calls += 1;
            self.first_ns += host_ns;
        } else {
            self.calls += 1;
            self.timed += u64::from(host.is_some());
            self.sum_ns += host.unwrap_or(0);
        }
    }

    fn plus(self, more: &HostTime) -> HostTime {
        HostTime {
            calls: self.calls + more.calls,
            timed: self.timed + more.timed,
            sum_ns: self.sum_ns + more.sum_ns,
            first_calls: self.first_calls + more.first_calls,
            first_ns: self.first_ns + more.first_ns,
        }
    }

    /// Mean of the calls that were timed and are not the first of their kernel.
    fn mean_ns(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.sum_ns as f64 / self.timed as f64)
    }

    /// The time of all calls; those that were not timed took what the others took on average.
    fn total_ns(&self) -> u64 {
        let others = self.mean_ns().unwrap_or(0.0) * self.calls as f64;
        let others = if self.timed == self.calls { self.sum_ns } else { others as u64 };
        others + self.first_ns
    }

    /// The time of all calls without what the first ones loaded; `usual_ns` is what a call takes where none but the
    /// first ones were timed.
    fn without_loading_ns(&self, usual_ns: f64) -> f64 {
        self.total_ns() as f64 - self.loading_ns(usual_ns)
    }

    /// What the first calls took longer than the others.
    fn loading_ns(&self, usual_ns: f64) -> f64 {
        let usual_ns = self.mean_ns().unwrap_or(usual_ns);
        (self.first_ns as f64 - usual_ns * self.first_calls as f64).max(0.0)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct AllocTally {
    allocations: u64,
    frees: u64,
    allocated_bytes: u64,
    live_bytes: u64,
    peak_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct CopyTally {
    count: u64,
    bytes: u64,
    pageable_count: u64,
    pageable_bytes: u64,
    host_ns: u64,
}

/// Different shapes, streams or threads that are told apart.
const MOST_ENTRIES: usize = 65_536;

impl Tally {
    /// Counts one row. `known` must hold what is known when the row arrives.
    pub fn add(&mut self, known: &Known, row: &Row) {
        self.events += 1;
        match row.what {
            What::GpuTime { .. } => return self.add_time(known, row),
            // They belong to the call before them.
            What::Passed { .. } | What::Contents { .. } => return,
            What::Life(life) if life.object == ObjectKind::Thread => {
                self.threads.entry((row.process, row.tid)).or_default();
                self.pids.insert(row.process, row.pid);
                return;
            }
            _ => {}
        }
        let is_first = self.is_first_launch(row);
        self.add_call(row, is_first);
        match row.what {
            What::Launch(launch) => {
                let key = ConfigKey {
                    process: row.process,
                    kernel: launch.kernel.0,
                    device: row.device,
                    shape: launch.shape,
                };
                if self.executed(row, launch.captured) {
                    let config = self.config(key);
                    config.executed += 1;
                    config.host.add(row.host(), is_first);
                    self.thread(row).given_ns += self.usual_ns(row) as u64;
                }
            }
            What::GraphLaunch { graph, kernels, captured, .. } if self.executed(row, captured) => {
                let tally = entry(&mut self.graphs, (row.process, graph), (row.process, 0));
                tally.launches += 1;
                tally.kernels = tally.kernels.saturating_add(kernels);
                tally.host_ns += row.host_ns;
                tally.device = row.device;
                self.thread(row).given_ns += self.usual_ns(row) as u64;
            }
            What::Alloc { kind, bytes, .. } if row.succeeded() => self.allocated(row, kind, bytes),
            What::Free { kind, bytes, .. } if row.succeeded() => self.freed(row, kind, bytes),
            What::Copy(copy) if row.succeeded() && !copy.captured => {
                self.transferred(row, copy.bytes);
                if row.is_blocking_copy() {
                    self.blocking_copies.0 += 1;
                    self.blocking_copies.1 += row.host_ns;
                    self.waited(row);
                }
                let tally = &mut self.copies[usize::from(copy.direction.code())];
                tally.count += 1;
                tally.bytes = tally.bytes.saturating_add(copy.bytes);
                tally.host_ns += row.host_ns;
                if row.pageable == Some(true) {
                    tally.pageable_count += 1;
                    tally.pageable_bytes = tally.pageable_bytes.saturating_add(copy.bytes);
                }
            }
            What::Set(set) if row.succeeded() && !set.captured => {
                self.transferred(row, set.bytes);
                self.sets = (self.sets.0 + 1, self.sets.1.saturating_add(set.bytes));
            }
            What::Sync { .. } => {
                self.syncs = (self.syncs.0 + 1, self.syncs.1 + row.host_ns);
                self.waited(row);
            }
            What::Load { bytes, .. } => {
                let (count, sum, host_ns) = self.loads;
                self.loads = (count + 1, sum.saturating_add(bytes), host_ns + row.host_ns);
            }
            _ => {}
        }
    }

    /// The system took back whatever the process still held.
    pub fn process_ended(&mut self, process: u32) {
        for kind in AllocKind::ALL {
            if let Some(bytes) = self.live.remove(&(process, kind.code())) {
                let tally = &mut self.allocs[usize::from(kind.code())];
                tally.live_bytes = tally.live_bytes.saturating_sub(bytes);
                if is_device_memory(*kind) {
                    self.device_live = self.device_live.saturating_sub(bytes);
                }
            }
        }
    }

    /// What a launch takes by what was measured of its kernel and shape, or of its graph; 0 where nothing was.
    pub(crate) fn usual_ns(&self, row: &Row) -> f64 {
        let times = match row.what {
            What::Launch(launch) => {
                let key = ConfigKey {
                    process: row.process,
                    kernel: launch.kernel.0,
                    device: row.device,
                    shape: launch.shape,
                };
                self.configs.get(&key).map(|config| &config.times)
            }
            What::GraphLaunch { graph, .. } => {
                self.graphs.get(&(row.process, graph)).map(|graph| &graph.times)
            }
            _ => None,
        };
        times.and_then(Times::mean).map_or(0.0, |mean| mean.nanos)
    }

    /// End of the last call, on the session's clock.
    #[must_use]
    pub fn last_call_ns(&self) -> u64 {
        self.last_call_ns
    }

    /// The first launch that is known of a kernel in a process.
    fn is_first_launch(&mut self, row: &Row) -> bool {
        let What::Launch(launch) = row.what else { return false };
        let runs = row.succeeded() && !launch.captured && self.launched.len() < MOST_ENTRIES;
        runs && self.launched.insert((row.process, launch.kernel.0))
    }

    fn waited(&mut self, row: &Row) {
        self.stream(row).waited_ns += row.host_ns;
        self.thread(row).waited_ns += row.host_ns;
    }

    fn add_call(&mut self, row: &Row, is_first_launch: bool) {
        self.calls += 1;
        self.first_call_ns = Some(self.first_call_ns.unwrap_or(u64::MAX).min(row.time_ns));
        self.last_call_ns = self.last_call_ns.max(row.end_ns());
        self.pids.insert(row.process, row.pid);
        let function = self.functions.entry(row.function()).or_default();
        function.calls += 1;
        function.host.add(row.host(), is_first_launch);
        if !row.succeeded() {
            *self.errors.entry((row.function(), row.result)).or_default() += 1;
        }
        let thread = self.thread(row);
        thread.calls += 1;
        match row.what {
            What::Launch(_) => thread.launch_host.add(row.host(), is_first_launch),
            _ => thread.other_host_ns += row.host_ns,
        }
    }

    /// Counts a launch; whether something ran.
    fn executed(&mut self, row: &Row, captured: bool) -> bool {
        if !row.succeeded() {
            self.failed_launches += 1;
            return false;
        }
        if captured {
            self.captured_launches += 1;
            return false;
        }
        self.first_launch_ns = Some(self.first_launch_ns.unwrap_or(u64::MAX).min(row.time_ns));
        self.last_launch_ns = self.last_launch_ns.max(row.time_ns);
        self.stream(row).launches += 1;
        self.thread(row).launches += 1;
        true
    }

    fn add_time(&mut self, known: &Known, row: &Row) {
        let What::GpuTime { kernel, shape, nanos, basis } = row.what else { return };
        if basis == TimeBasis::Cupti {
            self.busy.add(known, row.process, row.device, row.time_ns, row.end_ns());
            self.last_call_ns = self.last_call_ns.max(row.end_ns());
        }
        // Zero names a graph that was timed as one; CUPTI times every kernel for itself.
        let times = if kernel.0 == 0 && basis != TimeBasis::Cupti {
            let key = (row.process, shape.grid[0]);
            &mut entry(&mut self.graphs, key, (row.process, 0)).times
        } else {
            let key =
                ConfigKey { process: row.process, kernel: kernel.0, device: row.device, shape };
            &mut self.config(key).times
        };
        let (count, sum) = &mut times.by_basis[usize::from(basis.code())];
        *count += 1;
        *sum = sum.saturating_add(nanos);
    }

    fn allocated(&mut self, row: &Row, kind: AllocKind, bytes: u64) {
        self.churn.count(row.time_ns);
        let tally = &mut self.allocs[usize::from(kind.code())];
        tally.allocations += 1;
        tally.allocated_bytes = tally.allocated_bytes.saturating_add(bytes);
        tally.live_bytes = tally.live_bytes.saturating_add(bytes);
        tally.peak_bytes = tally.peak_bytes.max(tally.live_bytes);
        let live = self.live.entry((row.process, kind.code())).or_default();
        *live = live.saturating_add(bytes);
        if is_device_memory(kind) {
            self.device_live = self.device_live.saturating_add(bytes);
            self.device_peak = self.device_peak.max(self.device_live);
        }
    }

    fn freed(&mut self, row: &Row, kind: AllocKind, bytes: u64) {
        self.churn.count(row.time_ns);
        let tally = &mut self.allocs[usize::from(kind.code())];
        tally.frees += 1;
        tally.live_bytes = tally.live_bytes.saturating_sub(bytes);
        let live = self.live.entry((row.process, kind.code())).or_default();
        *live = live.saturating_sub(bytes);
        if is_device_memory(kind) {
            self.device_live = self.device_live.saturating_sub(bytes);
        }
    }

    fn transferred(&mut self, row: &Row, bytes: u64) {
        let stream = self.stream(row);
        stream.transfers += 1;
        stream.bytes = stream.bytes.saturating_add(bytes);
    }

    fn config(&mut self, key: ConfigKey) -> &mut ConfigTally {
        let common = ConfigKey { shape: LaunchShape::default(), ..key };
        entry(&mut self.configs, key, common)
    }

    fn stream(&mut self, row: &Row) -> &mut StreamTally {
        entry(&mut self.streams, (row.process, row.context, row.stream), (row.process, 0, 0))
    }

    fn thread(&mut self, row: &Row) -> &mut ThreadTally {
        entry(&mut self.threads, (row.process, row.tid), (row.process, 0))
    }
}

/// Address ranges and mappings are not memory of their own, and host memory is not the device's.
pub(crate) fn is_device_memory(kind: AllocKind) -> bool {
    match kind {
        AllocKind::Plain
        | AllocKind::Async
        | AllocKind::Pool
        | AllocKind::Managed
        | AllocKind::Physical
        | AllocKind::Array => true,
        AllocKind::Host | AllocKind::Registered | AllocKind::Reserved | AllocKind::Mapped => false,
    }
}

/// The entry of `key`, or the common one once there are too many.
fn entry<K: Hash + Eq, V: Default>(map: &mut HashMap<K, V>, key: K, common: K) -> &mut V {
    let key = if map.len() >= MOST_ENTRIES && !map.contains_key(&key) { common } else { key };
    map.entry(key).or_default()
}

#[cfg(test)]
mod tests;
