//! What each process of a session did so far, for whoever watches the session run.
//!
//! The counts of a process add up to the session's: a launch, an allocation and a wait belong to exactly one process.
//! GPU time is worked out as the session's is, so the share of a process is as sure as the share of all.

use super::times::total;
use super::{Tally, is_device_memory};
use crate::known::{Known, KnownProcess};
use crate::summary::ProcessSummary;
use apex_core::event::AllocKind;
use std::collections::BTreeMap;

impl Tally {
    /// GPU time that all processes were given so far ([`ProcessSummary::given_ns`]).
    #[must_use]
    pub fn given_ns(&self) -> u64 {
        self.threads.values().map(|thread| thread.given_ns).sum()
    }

    /// The processes that called CUDA, at most `most`: those that run come first, then those that launched most.
    #[must_use]
    pub fn processes(&self, known: &Known, most: usize) -> Vec<ProcessSummary> {
        let mut found: BTreeMap<u32, ProcessSummary> = self
            .pids
            .iter()
            .map(|(&number, &pid)| (number, described(number, pid, known.process(number))))
            .collect();
        let of_kernel = self.times_of_kernels();
        for (key, config) in &self.configs {
            let Some(process) = found.get_mut(&key.process) else { continue };
            process.kernels_executed += config.executed;
            let own = config.times.mean();
            let mean = own.or_else(|| of_kernel.get(&(key.process, key.kernel))?.mean());
            process.kernel_ns += mean.map_or(0.0, |mean| total(mean, config.executed)) as u64;
        }
        for ((number, _), graph) in &self.graphs {
            let Some(process) = found.get_mut(number) else { continue };
            process.kernels_executed += graph.kernels;
            let mean = graph.times.mean();
            process.kernel_ns += mean.map_or(0.0, |mean| total(mean, graph.launches)) as u64;
        }
        for ((number, _), thread) in &self.threads {
            let Some(process) = found.get_mut(number) else { continue };
            process.threads += 1;
            process.calls += thread.calls;
            process.launches += thread.launches;
            process.waited_ns += thread.waited_ns;
            process.given_ns += thread.given_ns;
        }
        for ((number, _, _), stream) in &self.streams {
            let Some(process) = found.get_mut(number) else { continue };
            process.copied_bytes = process.copied_bytes.saturating_add(stream.bytes);
        }
        for kind in AllocKind::ALL.iter().filter(|kind| is_device_memory(**kind)) {
            for (&number, process) in &mut found {
                let live = self.live.get(&(number, kind.code())).copied().unwrap_or(0);
                process.device_live_bytes = process.device_live_bytes.saturating_add(live);
            }
        }
        let mut processes: Vec<ProcessSummary> = found.into_values().collect();
        processes.sort_by_key(|one| (one.ended_ns.is_some(), u64::MAX - one.launches, one.number));
        processes.truncate(most);
        processes
    }
}

fn described(number: u32, pid: u32, known: Option<&KnownProcess>) -> ProcessSummary {
    let process = known.and_then(|known| known.process.clone()).unwrap_or_default();
    ProcessSummary {
        number,
        pid,
        executable: process.executable,
        arguments: process.arguments,
        devices: known.map_or(Vec::new(), |known| known.devices.keys().copied().collect()),
        started_ns: known.map_or(0, |known| known.found_ns),
        ended_ns: known.and_then(|known| known.ended_ns),
        ..ProcessSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;
    use crate::row::tests::row;
    use apex_core::event::{KernelId, Launch, LaunchShape, SyncKind, TimeBasis, What};
    use apex_core::facts::{Fact, Process};

    fn launch() -> What {
        What::Launch(Launch {
            kernel: KernelId(1),
            shape: LaunchShape::default(),
            captured: false,
            cooperative: false,
        })
    }

    fn of(process: u32, what: What) -> Row {
        Row { process, pid: 100 + process, host_ns: 7, ..row(5, what) }
    }

    fn known() -> Known {
        let mut known = Known::default();
        for pid in [100, 101] {
            let mut process = KnownProcess { pid, found_ns: 3, ..KnownProcess::default() };
            process.learn(Fact::Process(Process {
                executable: "/opt/train".into(),
                arguments: vec!["train".into(), "--fast".into()],
                ..Process::default()
            }));
            known.processes.push(process);
        }
        known
    }

    #[test]
    fn counts_belong_to_the_process_that_made_the_calls() {
        let known = known();
        let mut tally = Tally::default();
        let alloc = What::Alloc { kind: AllocKind::Plain, address: 1, bytes: 4096 };
        let sync = What::Sync { kind: SyncKind::Stream, object: 0 };
        let time = What::GpuTime {
            kernel: KernelId(1),
            shape: LaunchShape::default(),
            nanos: 1_000,
            basis: TimeBasis::EventPair,
        };
        for row in [of(0, launch()), of(0, sync), of(1, alloc)] {
            tally.add(&known, &row);
        }
        for row in [of(1, launch()), of(1, launch()), of(1, launch()), of(1, time)] {
            tally.add(&known, &row);
        }
        let processes = tally.processes(&known, 10);
        let [heavy, light] = &processes[..] else { panic!("{processes:?}") };
        assert_eq!(
            (heavy.pid, heavy.launches, heavy.kernels_executed, heavy.calls),
            (101, 3, 3, 4)
        );
        assert_eq!((heavy.kernel_ns, heavy.device_live_bytes, heavy.waited_ns), (3_000, 4096, 0));
        assert_eq!((light.pid, light.launches, light.waited_ns), (100, 1, 7));
        assert_eq!((light.kernel_ns, light.device_live_bytes), (0, 0));
        // No launch was timed yet when these were made: what is given only rises.
        assert_eq!((heavy.given_ns, tally.given_ns()), (0, 0));
        tally.add(&known, &of(1, launch()));
        assert_eq!((tally.processes(&known, 1)[0].given_ns, tally.given_ns()), (1_000, 1_000));
        assert_eq!((heavy.arguments.join(" ").as_str(), heavy.started_ns), ("train --fast", 3));
    }

    #[test]
    fn processes_that_run_come_before_those_that_ended() {
        let mut known = known();
        let mut tally = Tally::default();
        for row in [of(0, launch()), of(1, launch()), of(1, launch())] {
            tally.add(&known, &row);
        }
        known.processes[1].ended_ns = Some(9);
        let pids = |most| -> Vec<u32> {
            tally.processes(&known, most).iter().map(|process| process.pid).collect()
        };
        assert_eq!(pids(10), [100, 101]);
        assert_eq!(pids(1), [100]);
    }
}
