//! One frame of the live page: everything that it shows of this moment, worked out here, so that the page computes
//! nothing.

use apex_daemon::live::Snapshot;
use apex_daemon::recent::{COLUMN_NS, RecentStream};
use apex_daemon::schedule::view::SharedGpu;
use apex_daemon::summary::{DeviceSummary, Fit, KernelPrediction, KernelSummary};
use apex_daemon::watch::{History, KernelRates, Rates, Watch, WatchedProcess, WatchedSession};
use serde::Serialize;
use std::collections::BTreeMap;

/// Kernels of a session in a frame.
const KERNELS: usize = 30;
/// Processes of a session in a frame.
const PROCESSES: usize = 64;

/// This moment.
#[derive(Debug, Serialize)]
pub(crate) struct Frame<'a> {
    sessions: Vec<SessionFrame<'a>>,
    devices: Vec<DeviceFrame<'a>>,
    /// GPUs that programs share under a policy.
    shared: Vec<SharedGpu>,
    /// The session that ended last.
    ended: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct SessionFrame<'a> {
    id: &'a str,
    command: String,
    apex_pid: u32,
    /// Since its start.
    at_ns: u64,
    soft: bool,
    silent: bool,
    rates: Option<Rates>,
    kernels_executed: u64,
    memory_bytes: u64,
    memory_peak_bytes: u64,
    launch_bound: Option<f64>,
    lost: u64,
    errors: u64,
    processes: Vec<ProcessFrame<'a>>,
    more_processes: usize,
    ended_processes: usize,
    kernels: Vec<KernelFrame<'a>>,
    more_kernels: usize,
    /// What each stream was given in the last second, in columns of [`COLUMN_NS`].
    streams: &'a [RecentStream],
    column_ns: u64,
}

#[derive(Debug, Serialize)]
struct ProcessFrame<'a> {
    number: u32,
    pid: u32,
    command: String,
    devices: &'a [u64],
    threads: u64,
    rates: Option<Rates>,
    memory_bytes: u64,
}

#[derive(Debug, Serialize)]
struct KernelFrame<'a> {
    name: &'a str,
    calls: u64,
    rates: Option<KernelRates>,
    mean_ns: Option<f64>,
    share: Option<f64>,
    fit: Option<&'a Fit>,
    predicted: Option<&'a KernelPrediction>,
}

/// One device with what all sessions do on it.
#[derive(Debug, Serialize)]
struct DeviceFrame<'a> {
    name: &'a str,
    uuid: &'a str,
    processes: usize,
    /// What the processes hold that use this device alone.
    memory_bytes: u64,
    memory_of_bytes: u64,
    /// None where a process uses several devices: its time is not told apart.
    rates: Option<Rates>,
}

impl Frame<'_> {
    pub(crate) fn of(watch: &Watch, shared: Vec<SharedGpu>) -> Frame<'_> {
        Frame {
            sessions: watch.sessions.iter().map(SessionFrame::of).collect(),
            devices: devices(&watch.sessions),
            shared,
            ended: watch.ended.as_deref(),
        }
    }
}

impl SessionFrame<'_> {
    fn of(session: &WatchedSession) -> SessionFrame<'_> {
        let Snapshot { at_ns, apex_pid, summary, .. } = &session.now;
        let kernel = |kernel| KernelFrame::of(session, kernel);
        SessionFrame {
            id: session.id(),
            command: session.command(),
            apex_pid: *apex_pid,
            at_ns: *at_ns,
            soft: summary.soft,
            silent: session.is_silent(),
            rates: session.rates,
            kernels_executed: summary.kernels_executed,
            memory_bytes: summary.memory.device_live_bytes,
            memory_peak_bytes: summary.memory.device_peak_bytes,
            launch_bound: summary.launch_bound.as_ref().map(|bound| bound.share),
            lost: summary.own.missing(),
            errors: summary.errors.iter().map(|error| error.count).sum(),
            processes: session.processes.iter().take(PROCESSES).map(ProcessFrame::of).collect(),
            more_processes: session.processes.len().saturating_sub(PROCESSES),
            ended_processes: session.ended,
            kernels: summary.kernels.iter().take(KERNELS).map(kernel).collect(),
            more_kernels: summary.kernels.len().saturating_sub(KERNELS),
            streams: &session.now.streams,
            column_ns: COLUMN_NS,
        }
    }
}

impl ProcessFrame<'_> {
    fn of(process: &WatchedProcess) -> ProcessFrame<'_> {
        ProcessFrame {
            number: process.now.number,
            pid: process.now.pid,
            command: process.command(),
            devices: &process.now.devices,
            threads: process.now.threads,
            rates: process.rates,
            memory_bytes: process.now.device_live_bytes,
        }
    }
}

impl KernelFrame<'_> {
    fn of<'a>(session: &WatchedSession, kernel: &'a KernelSummary) -> KernelFrame<'a> {
        KernelFrame {
            name: &kernel.name,
            calls: kernel.calls,
            rates: session.kernel_rates(kernel),
            mean_ns: kernel.gpu.as_ref().map(|gpu| gpu.mean_ns),
            share: kernel.gpu.as_ref().map(|gpu| gpu.share),
            fit: kernel.fit.as_ref(),
            predicted: kernel.predicted.as_ref(),
        }
    }
}

/// What is done on each device, by the processes that use it alone.
fn devices(sessions: &[WatchedSession]) -> Vec<DeviceFrame<'_>> {
    let mut found: BTreeMap<&str, DeviceFrame<'_>> = BTreeMap::new();
    for session in sessions {
        for device in &session.now.summary.devices {
            let frame = found.entry(&device.uuid).or_insert_with(|| DeviceFrame::idle(device));
            for process in &session.processes {
                match process.now.devices.as_slice() {
                    [only] if *only == device.ordinal => frame.add(process),
                    several if several.contains(&device.ordinal) => {
                        frame.processes += 1;
                        frame.rates = None;
                    }
                    _ => {}
                }
            }
        }
    }
    found.into_values().collect()
}

impl DeviceFrame<'_> {
    fn idle(device: &DeviceSummary) -> DeviceFrame<'_> {
        DeviceFrame {
            name: &device.name,
            uuid: &device.uuid,
            processes: 0,
            memory_bytes: 0,
            memory_of_bytes: device.memory_bytes,
            rates: Some(Rates::default()),
        }
    }

    fn add(&mut self, process: &WatchedProcess) {
        self.processes += 1;
        self.memory_bytes += process.now.device_live_bytes;
        let (Some(all), Some(own)) = (&mut self.rates, process.rates) else { return };
        all.launches += own.launches;
        // Kernels of several processes may overlap; each time is an estimate.
        all.busy = (all.busy + own.busy).min(1.0);
        all.waited += own.waited;
        all.copied_bytes += own.copied_bytes;
    }
}

/// The last minute of everything that a frame tells of.
#[derive(Debug, Serialize)]
pub(crate) struct Past<'a> {
    sessions: BTreeMap<&'a str, PastOf>,
}

/// The last minute of one session: a row for each moment of its clock.
#[derive(Debug, Serialize)]
struct PastOf {
    own: Vec<Moment>,
    processes: BTreeMap<u32, Vec<Moment>>,
}

/// When, launches a second, share of the time busy, time waited over the time, bytes copied a second.
type Moment = (u64, f64, f64, f64, f64);

impl Past<'_> {
    pub(crate) fn of(watch: &Watch) -> Past<'_> {
        let past = |session: &WatchedSession| PastOf {
            own: moments(&session.history),
            processes: session
                .processes
                .iter()
                .take(PROCESSES)
                .map(|process| (process.now.number, moments(&process.history)))
                .collect(),
        };
        Past { sessions: watch.sessions.iter().map(|one| (one.id(), past(one))).collect() }
    }
}

fn moments(history: &History) -> Vec<Moment> {
    let moment = |(at_ns, rates): (u64, Rates)| {
        (at_ns, rates.launches, rates.busy, rates.waited, rates.copied_bytes)
    };
    history.last_minute().map(moment).collect()
}
