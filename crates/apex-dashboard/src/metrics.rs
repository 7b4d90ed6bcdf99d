//! What runs, as metrics: for Prometheus to fetch at `/metrics`, and to push ([`crate::otlp`]).
//!
//! Names are those of OpenTelemetry's `hw.gpu.*`, and `apex.*` for what only apex knows; each form writes them as it is
//! used to. The number of series is bounded: sessions and processes that run now, and the [`KERNELS`] heaviest kernels of
//! all. Sums count from the start of their session and never fall, so one that was not fetched is made up for by the next;
//! an estimate that is corrected later is no sum.

mod text;

use crate::Shared;
use crate::answer::{self, FAILED};
use apex_daemon::live::{Snapshot, snapshots};
use apex_daemon::names::shorten;
use apex_daemon::summary::{DeviceSummary, KernelSummary, ProcessSummary};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Kernels with series of their own.
const KERNELS: usize = 50;
/// Processes with series of their own.
const PROCESSES: usize = 256;
/// Letters of a kernel's or a program's name.
const LETTERS: usize = 120;

pub(crate) async fn page(State(shared): State<Shared>) -> Response {
    let rings = Arc::clone(&shared.rings);
    let text = tokio::task::spawn_blocking(move || text::of(&families(&snapshots(&rings)))).await;
    match text {
        Ok(text) => {
            ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
        }
        Err(_) => answer::refuse(FAILED, "the answer could not be made"),
    }
}

/// What a number of a family says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// So much now.
    Level,
    /// So much since the start.
    Sum,
}

/// Units, by their names in OpenTelemetry and at the end of a name in Prometheus.
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only a push says all of it"))]
pub(crate) struct Unit {
    pub(crate) code: &'static str,
    pub(crate) ending: &'static str,
}

const COUNT: Unit = Unit { code: "1", ending: "" };
const BYTES: Unit = Unit { code: "By", ending: "_bytes" };
const SECONDS: Unit = Unit { code: "s", ending: "_seconds" };

/// Labels, by their names in OpenTelemetry and in Prometheus.
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only a push says all of it"))]
pub(crate) struct Label {
    pub(crate) attribute: &'static str,
    pub(crate) label: &'static str,
    pub(crate) is_number: bool,
}

const SESSION: Label = Label { attribute: "apex.session", label: "session", is_number: false };
const PID: Label = Label { attribute: "process.pid", label: "pid", is_number: true };
const PROGRAM: Label =
    Label { attribute: "process.executable.name", label: "program", is_number: false };
const KERNEL: Label = Label { attribute: "apex.kernel", label: "kernel", is_number: false };
const HW_ID: Label = Label { attribute: "hw.id", label: "hw_id", is_number: false };
const HW_NAME: Label = Label { attribute: "hw.name", label: "hw_name", is_number: false };

/// A family of series.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) series: Vec<Series>,
}

/// One number of a family.
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only a push says all of it"))]
pub(crate) struct Series {
    pub(crate) labels: Vec<(&'static Label, String)>,
    pub(crate) value: f64,
    /// Whatever it counts began then, in nanoseconds since 1970.
    pub(crate) since_unix_ns: u64,
}

impl Family {
    fn new(name: &'static str, unit: Unit, kind: Kind, help: &'static str) -> Family {
        Family { name, unit, kind, help, series: Vec::new() }
    }

    fn add(&mut self, since_unix_ns: u64, labels: &[(&'static Label, &str)], value: f64) {
        let labels = labels.iter().map(|(label, value)| (*label, (*value).to_owned())).collect();
        self.series.push(Series { labels, value, since_unix_ns });
    }
}

/// All families that have any series.
pub(crate) fn families(snapshots: &[Snapshot]) -> Vec<Family> {
    let mut sessions = Family::new("apex.sessions", COUNT, Kind::Level, "Sessions that run now.");
    sessions.add(0, &[], snapshots.len() as f64);
    let mut all = vec![sessions];
    all.extend(devices(snapshots));
    all.extend(of_sessions(snapshots));
    all.extend(of_processes(snapshots));
    all.extend(of_kernels(snapshots));
    all.retain(|family| !family.series.is_empty());
    all
}

fn devices(snapshots: &[Snapshot]) -> [Family; 2] {
    let mut limit = Family::new("hw.gpu.memory.limit", BYTES, Kind::Level, "Memory of the device.");
    let mut usage = Family::new(
        "hw.gpu.memory.usage",
        BYTES,
        Kind::Level,
        "Memory that programs under apex hold on the device.",
    );
    let mut found: BTreeMap<&str, (&DeviceSummary, u64)> = BTreeMap::new();
    for snapshot in snapshots {
        for device in &snapshot.summary.devices {
            let entry = found.entry(&device.uuid).or_insert((device, 0));
            let only_here =
                |one: &&ProcessSummary| one.ended_ns.is_none() && one.devices == [device.ordinal];
            let here = snapshot.processes.iter().filter(only_here);
            entry.1 += here.map(|one| one.device_live_bytes).sum::<u64>();
        }
    }
    for (uuid, (device, bytes)) in found {
        let labels = [(&HW_ID, uuid), (&HW_NAME, &*device.name)];
        limit.add(0, &labels, device.memory_bytes as f64);
        usage.add(0, &labels, bytes as f64);
    }
    [limit, usage]
}

fn of_sessions(snapshots: &[Snapshot]) -> [Family; 3] {
    let sum = |name, help| Family::new(name, COUNT, Kind::Sum, help);
    let mut lost = sum("apex.lost_events", "Events that no count has.");
    let mut events = sum("apex.events", "Events that were recorded.");
    let mut errors = sum("apex.driver_errors", "Calls that the driver refused.");
    for Snapshot { summary, .. } in snapshots {
        let (since, labels) = (summary.started_unix_ns, [(&SESSION, &*summary.session)]);
        lost.add(since, &labels, summary.own.missing() as f64);
        events.add(since, &labels, summary.own.events as f64);
        let refused = summary.errors.iter().map(|error| error.count).sum::<u64>();
        errors.add(since, &labels, refused as f64);
    }
    [lost, events, errors]
}

fn of_processes(snapshots: &[Snapshot]) -> [Family; 6] {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let count = |number: u64| number as f64;
    let sum = |name, unit, help| Family::new(name, unit, Kind::Sum, help);
    let mut families = [
        sum("apex.launches", COUNT, "Launches, graph launches included."),
        sum("apex.kernels", COUNT, "Kernels that ran."),
        sum("apex.gpu", SECONDS, "GPU time of kernels, estimated."),
        sum("apex.waited", SECONDS, "Time that threads waited for the GPU."),
        sum("apex.copied", BYTES, "Bytes copied and set."),
        Family::new(
            "apex.device_memory",
            BYTES,
            Kind::Level,
            "Device memory that the process holds.",
        ),
    ];
    let running = snapshots.iter().flat_map(|snapshot| {
        let of = move |process| (snapshot, process);
        snapshot.processes.iter().filter(|one| one.ended_ns.is_none()).map(of)
    });
    for (snapshot, process) in running.take(PROCESSES) {
        let pid = process.pid.to_string();
        let program = process.executable.rsplit('/').next().unwrap_or_default();
        let program = shorten(program, LETTERS);
        let session = &*snapshot.summary.session;
        let labels = [(&SESSION, session), (&PID, &*pid), (&PROGRAM, &*program)];
        let values = [
            count(process.launches),
            count(process.kernels_executed),
            seconds(process.given_ns),
            seconds(process.waited_ns),
            count(process.copied_bytes),
            count(process.device_live_bytes),
        ];
        let since = snapshot.summary.started_unix_ns;
        for (family, value) in families.iter_mut().zip(values) {
            family.add(since, &labels, value);
        }
    }
    families
}

fn of_kernels(snapshots: &[Snapshot]) -> [Family; 2] {
    let mut calls = Family::new("apex.kernel_calls", COUNT, Kind::Sum, "Executions of a kernel.");
    let mut time = Family::new(
        "apex.kernel_gpu",
        SECONDS,
        Kind::Level,
        "GPU time of a kernel, estimated from its timed launches so far.",
    );
    let of_session = |snapshot| {
        let Snapshot { summary, .. }: &Snapshot = snapshot;
        summary.kernels.iter().map(move |kernel| (summary, kernel))
    };
    let mut kernels: Vec<_> = snapshots.iter().flat_map(of_session).collect();
    let weight = |kernel: &KernelSummary| kernel.gpu.as_ref().map_or(0.0, |gpu| gpu.total_ns);
    kernels.sort_by(|(_, a), (_, b)| weight(b).total_cmp(&weight(a)).then(b.calls.cmp(&a.calls)));
    // Two kernels may differ only where their names are cut: one series for both.
    let mut series: BTreeMap<(&str, String), (u64, u64, f64)> = BTreeMap::new();
    for (summary, kernel) in kernels.into_iter().take(KERNELS) {
        let key = (&*summary.session, shorten(&kernel.name, LETTERS));
        let (since, executed, seconds) = series.entry(key).or_default();
        *since = summary.started_unix_ns;
        *executed += kernel.calls;
        *seconds += weight(kernel) / 1e9;
    }
    for ((session, name), (since, executed, seconds)) in &series {
        let labels = [(&SESSION, *session), (&KERNEL, &**name)];
        calls.add(*since, &labels, *executed as f64);
        time.add(*since, &labels, *seconds);
    }
    [calls, time]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use apex_daemon::summary::{GpuTime, Summary};

    pub(crate) fn snapshot(kernels: usize) -> Snapshot {
        let kernel = |nth: usize| KernelSummary {
            name: format!("k{nth}\"}} 1\nowned\\"),
            calls: 2,
            gpu: Some(GpuTime { total_ns: nth as f64 * 1e9, ..GpuTime::default() }),
            ..KernelSummary::default()
        };
        let process = |nth: u64| ProcessSummary {
            pid: 7,
            executable: "/opt/train".into(),
            launches: 5,
            ended_ns: (nth > 0).then_some(nth),
            ..ProcessSummary::default()
        };
        let summary = Summary {
            session: "one".into(),
            started_unix_ns: 1_000,
            kernels: (0..kernels).map(kernel).collect(),
            ..Summary::default()
        };
        Snapshot { summary, processes: (0..3).map(process).collect(), ..Snapshot::default() }
    }

    #[test]
    fn series_are_bounded_and_the_heaviest_kernels_have_one() {
        let text = text::of(&families(&[snapshot(500)]));
        let calls: Vec<&str> =
            text.lines().filter(|line| line.starts_with("apex_kernel_calls_total{")).collect();
        assert_eq!(calls.len(), KERNELS);
        assert!(text.contains("kernel=\"k499") && !text.contains("kernel=\"k449\""), "{text}");
        assert!(
            text.contains("apex_launches_total{session=\"one\",pid=\"7\",program=\"train\"} 5\n")
        );
        assert_eq!(text.matches("apex_launches_total{").count(), 1, "those that ended are gone");
    }
}
