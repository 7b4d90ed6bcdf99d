//! Makes a summary of the counts and the facts.
//!
//! Nothing is counted here and nothing is read: equal counts and facts give equal summaries, so
//! a report made from disk equals the one at exit.

use super::Tally;
use super::busy::device_name;
use super::peaks::{bytes_per_second, double_flops_per_second, flops_per_second};
use super::times::{Times, share};
use crate::known::Known;
use crate::names::Demangled;
use crate::summary::{
    AllocSummary, Busy, CopySummary, DeviceSummary, ErrorSummary, Exit, FastSummary,
    FunctionSummary, GpuTime, KernelSummary, LaunchBound, LoadSummary, MemorySummary, OwnSummary,
    SCHEMA, StreamSummary, Summary, SyncSummary, ThreadSummary, UnderWay, Volume,
};
use apex_core::event::{AllocKind, Direction, TimeBasis};
use std::collections::BTreeSet;

/// What a summary needs besides counts and facts.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The session's id.
    pub session: String,
    /// The command.
    pub command: Vec<String>,
    /// When it was started, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// How long it ran.
    pub wall_ns: u64,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Calls that had not returned at the end of their process.
    pub under_way: Vec<UnderWay>,
    /// Our own cost and losses; its number of events and share are worked out here.
    pub own: OwnSummary,
    /// What `--fast` did.
    pub fast: Option<FastSummary>,
    /// Processes of which nothing is recorded, and why.
    pub unrecorded: Vec<String>,
    /// Sentences for the user.
    pub notes: Vec<String>,
    /// Rows of each table at most.
    pub most_rows: usize,
}

impl Tally {
    /// The summary of everything counted so far.
    #[must_use]
    pub fn summary(&self, known: &Known, frame: &Frame, names: &mut Demangled) -> Summary {
        let launches: u64 = self.configs.values().map(|config| config.executed).sum();
        let graph_launches: u64 = self.graphs.values().map(|graph| graph.launches).sum();
        let graph_kernels: u64 = self.graphs.values().map(|graph| graph.kernels).sum();
        let gpu_phase_ns = self.last_call_ns.saturating_sub(self.first_call_ns.unwrap_or(0));
        let mut summary = Summary {
            schema: SCHEMA,
            session: frame.session.clone(),
            command: frame.command.clone(),
            started_unix_ns: frame.started_unix_ns,
            wall_ns: frame.wall_ns,
            exit: frame.exit,
            soft: known.soft(),
            driver: known.driver_version(),
            devices: devices(known),
            processes: self.pids.len() as u64,
            gpu_phase_ns: if self.first_call_ns.is_some() { gpu_phase_ns } else { 0 },
            calls: self.calls,
            kernels_executed: launches + graph_kernels,
            launches,
            graph_launches,
            graph_kernels,
            open_graph_launches: self.open_graph_launches(known),
            captured_launches: self.captured_launches,
            failed_launches: self.failed_launches,
            memory: self.memory(),
            copies: self.copies(),
            sets: Volume { count: self.sets.0, bytes: self.sets.1 },
            syncs: SyncSummary {
                count: self.syncs.0,
                waited_ns: self.syncs.1,
                blocking_copies: self.blocking_copies.0,
                blocking_copies_ns: self.blocking_copies.1,
                share_of_wall: share(
                    (self.syncs.1 + self.blocking_copies.1) as f64,
                    frame.wall_ns as f64,
                ),
            },
            loads: self.loads(),
            errors: self.errors(),
            under_way: frame.under_way.clone(),
            own: self.own(frame),
            fast: frame.fast.clone(),
            unrecorded: frame.unrecorded.clone(),
            notes: frame.notes.clone(),
            ..Summary::default()
        };
        self.kernels(known, names, &mut summary);
        self.busy(known, &mut summary);
        summary.launch_bound = self.launch_bound(known, &summary);
        self.callers(&mut summary);
        summary.kernels.truncate(frame.most_rows);
        summary.configs.truncate(frame.most_rows);
        summary.streams.truncate(frame.most_rows);
        summary.threads.truncate(frame.most_rows);
        summary
    }

    fn busy(&self, known: &Known, summary: &mut Summary) {
        let exact = self.busy.totals();
        if exact.kernels > 0 {
            let phase = summary.gpu_phase_ns.saturating_mul(exact.devices.max(1));
            summary.gpu_busy = Some(Busy {
                share: share(exact.busy_ns as f64, phase as f64).min(1.0),
                kernel_ns: exact.busy_ns,
                basis: TimeBasis::Cupti.word().into(),
                upper_bound: false,
                timed: exact.kernels,
                covered: share(exact.kernels as f64, summary.kernels_executed as f64).min(1.0),
            });
            return;
        }
        let sum = |summaries: &[KernelSummary], basis: Option<TimeBasis>| -> f64 {
            let of_basis = |gpu: &&GpuTime| basis.is_none_or(|basis| gpu.basis == basis.word());
            summaries
                .iter()
                .filter_map(|k| k.gpu.as_ref())
                .filter(of_basis)
                .map(|gpu| gpu.total_ns)
                .sum()
        };
        let kernel_ns = sum(&summary.kernels, None);
        if kernel_ns <= 0.0 {
            return;
        }
        let timed =
            summary.kernels.iter().filter_map(|k| k.gpu.as_ref()).map(|gpu| gpu.timed).sum();
        let plain = summary.kernels.iter().filter(|k| k.gpu.is_some() && !k.graph);
        let by_graph = self.graphs.values().filter(|graph| graph.times.mean().is_some());
        let covered = plain.map(|kernel| kernel.calls - kernel.graph_calls).sum::<u64>()
            + by_graph.map(|graph| graph.kernels).sum::<u64>();
        let upper_bound = sum(&summary.kernels, Some(TimeBasis::EventPairIdle)) > kernel_ns / 2.0;
        let basis = if upper_bound { TimeBasis::EventPairIdle } else { TimeBasis::EventPair };
        let phase = summary.gpu_phase_ns as f64 * self.devices_used(known) as f64;
        summary.gpu_busy = Some(Busy {
            share: share(kernel_ns, phase).min(1.0),
            kernel_ns: kernel_ns as u64,
            basis: basis.word().into(),
            upper_bound,
            timed,
            covered: share(covered as f64, summary.kernels_executed as f64).min(1.0),
        });
    }

    pub(super) fn devices_used(&self, known: &Known) -> u64 {
        let launched = self.configs.keys().map(|key| (key.process, key.device));
        let by_graph = self.graphs.iter().map(|(&(process, _), graph)| (process, graph.device));
        let pairs: BTreeSet<_> = launched.chain(by_graph).collect();
        let names: BTreeSet<String> = pairs
            .into_iter()
            .map(|(process, device)| device_name(known, process, device))
            .collect();
        names.len().max(1) as u64
    }

    fn open_graph_launches(&self, known: &Known) -> u64 {
        let is_open = |&(process, graph): &(u32, u32)| {
            let graph = known.process(process).and_then(|known| known.graphs.get(&graph));
            graph.is_some_and(|graph| graph.conditional_nodes > 0 || graph.device_launch)
        };
        self.graphs.iter().filter(|(key, _)| is_open(key)).map(|(_, graph)| graph.launches).sum()
    }

    /// The GPU waits for launches while it has nothing to run and the program is in a launch call.
    fn launch_bound(&self, known: &Known, summary: &Summary) -> Option<LaunchBound> {
        let (found_idle, timed, basis, devices) = self.found_idle(known)?;
        let (plain, graphs) = self.launch_calls();
        let phase = summary.gpu_phase_ns as f64 * devices as f64;
        let busy = summary.gpu_busy.as_ref().map_or(0.0, |busy| busy.share);
        // Launches that found work before them kept nobody waiting.
        let launching = share((plain.host_ns + graphs.host_ns) * found_idle, phase);
        let basis = basis.word().into();
        Some(LaunchBound { share: launching.min(1.0 - busy), found_idle, timed, basis })
    }

    /// Share of the launches that found nothing else to run, how many were looked at and how, devices used.
    fn found_idle(&self, known: &Known) -> Option<(f64, u64, TimeBasis, u64)> {
        let exact = self.busy.totals();
        if exact.kernels > 0 {
            let found_idle = share(exact.after_gap as f64, exact.kernels as f64);
            return Some((found_idle, exact.kernels, TimeBasis::Cupti, exact.devices.max(1)));
        }
        let all = self.configs.values().map(|config| &config.times);
        let all = all.chain(self.graphs.values().map(|graph| &graph.times));
        let times = all.fold(Times::default(), Times::plus);
        let (busy, idle) = (times.of(TimeBasis::EventPair).0, times.of(TimeBasis::EventPairIdle).0);
        let timed = busy + idle;
        let found_idle = share(idle as f64, timed as f64);
        (timed > 0).then(|| (found_idle, timed, TimeBasis::EventPair, self.devices_used(known)))
    }

    fn loads(&self) -> LoadSummary {
        let (count, bytes, host_ns) = self.loads;
        let (first_launches, first_launch_ns) = self.first_launches();
        let first_launch_ns = first_launch_ns as u64;
        LoadSummary { count, bytes, host_ns, first_launches, first_launch_ns }
    }

    fn callers(&self, summary: &mut Summary) {
        let pid = |process: &u32| self.pids.get(process).copied().unwrap_or(0);
        summary.streams = self
            .streams
            .iter()
            .map(|((process, context, stream), tally)| StreamSummary {
                pid: pid(process),
                context: *context,
                stream: *stream,
                launches: tally.launches,
                transfers: tally.transfers,
                bytes: tally.bytes,
                waited_ns: tally.waited_ns,
            })
            .filter(|stream| stream.launches + stream.transfers + stream.waited_ns > 0)
            .collect();
        summary.streams.sort_by_key(|s| (u64::MAX - s.launches, s.pid, s.context, s.stream));
        summary.threads = self
            .threads
            .iter()
            .map(|((process, tid), tally)| ThreadSummary {
                pid: pid(process),
                tid: *tid,
                calls: tally.calls,
                launches: tally.launches,
                host_ns: tally.other_host_ns + tally.launch_host.total_ns(),
                waited_ns: tally.waited_ns,
            })
            .collect();
        summary.threads.sort_by_key(|t| (u64::MAX - t.host_ns, t.pid, t.tid));
        summary.functions = self
            .functions
            .iter()
            .map(|(name, tally)| FunctionSummary {
                name: (*name).to_owned(),
                calls: tally.calls,
                host_ns: tally.host.total_ns(),
            })
            .collect();
        summary.functions.sort_by(|a, b| b.host_ns.cmp(&a.host_ns).then(a.name.cmp(&b.name)));
    }

    fn memory(&self) -> MemorySummary {
        let of_kind = |kind: &AllocKind| {
            let tally = self.allocs[usize::from(kind.code())];
            (tally.allocations + tally.frees > 0).then(|| AllocSummary {
                kind: kind.word().into(),
                allocations: tally.allocations,
                frees: tally.frees,
                allocated_bytes: tally.allocated_bytes,
                live_bytes: tally.live_bytes,
                peak_bytes: tally.peak_bytes,
            })
        };
        let churn = self.first_launch_ns.and_then(|first| {
            let middle = first + self.last_launch_ns.saturating_sub(first) / 2;
            self.churn.per_second(middle, self.last_launch_ns)
        });
        MemorySummary {
            device_peak_bytes: self.device_peak,
            device_live_bytes: self.device_live,
            kinds: AllocKind::ALL.iter().filter_map(of_kind).collect(),
            churn_per_second: churn,
        }
    }

    fn copies(&self) -> Vec<CopySummary> {
        let of_direction = |direction: &Direction| {
            let tally = self.copies[usize::from(direction.code())];
            (tally.count > 0).then(|| CopySummary {
                direction: direction.word().into(),
                count: tally.count,
                bytes: tally.bytes,
                pageable_count: tally.pageable_count,
                pageable_bytes: tally.pageable_bytes,
                host_ns: tally.host_ns,
            })
        };
        let mut copies: Vec<_> = Direction::ALL.iter().filter_map(of_direction).collect();
        copies.sort_by_key(|copy| u64::MAX - copy.bytes);
        copies
    }

    fn errors(&self) -> Vec<ErrorSummary> {
        let mut errors: Vec<_> = self
            .errors
            .iter()
            .map(|(&(function, result), &count)| ErrorSummary {
                function: function.into(),
                result,
                name: apex_cuda::types::result_name(u32::from(result)).map_or_else(
                    || format!("error {result}"),
                    |name| name.to_string_lossy().into_owned(),
                ),
                count,
            })
            .collect();
        errors.sort_by(|a, b| {
            b.count
                .cmp(&a.count)
                .then_with(|| (&a.function, a.result).cmp(&(&b.function, b.result)))
        });
        errors
    }

    fn own(&self, frame: &Frame) -> OwnSummary {
        let mut own = frame.own.clone();
        own.events = self.events;
        own.share_of_wall = own.median_ns.map(|median| {
            share(
                median * self.events as f64 + (own.sampling_ns + own.lookup_ns) as f64,
                frame.wall_ns as f64,
            )
        });
        own
    }
}

fn devices(known: &Known) -> Vec<DeviceSummary> {
    let mut found: Vec<DeviceSummary> = Vec::new();
    for device in known.processes.iter().flat_map(|process| process.devices.values()) {
        let summary = DeviceSummary {
            ordinal: device.ordinal,
            name: device.name.clone(),
            uuid: device.uuid.clone(),
            capability: format!("{}.{}", device.major, device.minor),
            sms: device.sms,
            memory_bytes: device.memory,
            flops_per_second: flops_per_second(device),
            double_flops_per_second: double_flops_per_second(device),
            bytes_per_second: bytes_per_second(device),
        };
        if !found.iter().any(|other| other.uuid == summary.uuid && other.name == summary.name) {
            found.push(summary);
        }
    }
    found
}
