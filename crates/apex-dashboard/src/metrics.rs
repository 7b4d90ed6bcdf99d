//! `/metrics`: the running sessions for Prometheus, in its text form.
//!
//! Names are those of OpenTelemetry's `hw.gpu.*` as Prometheus writes them, and `apex_*` for what only apex knows. The
//! number of series is bounded: sessions and processes that run now, and the [`KERNELS`] heaviest kernels of all. A
//! name of a program or a kernel is a label's value, escaped as the form wants it.

use crate::Shared;
use crate::answer::{self, FAILED};
use apex_daemon::live::{Snapshot, snapshots};
use apex_daemon::names::shorten;
use apex_daemon::summary::{DeviceSummary, KernelSummary, ProcessSummary};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Kernels with series of their own.
const KERNELS: usize = 50;
/// Processes with series of their own.
const PROCESSES: usize = 256;
/// Letters of a kernel's or a program's name.
const LETTERS: usize = 120;

pub(crate) async fn page(State(shared): State<Shared>) -> Response {
    let rings = Arc::clone(&shared.rings);
    let text = tokio::task::spawn_blocking(move || text(&snapshots(&rings))).await;
    match text {
        Ok(text) => {
            ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
        }
        Err(_) => answer::refuse(FAILED, "the answer could not be made"),
    }
}

/// A family of series.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    lines: String,
}

impl Family {
    fn new(name: &'static str, kind: &'static str, help: &'static str) -> Family {
        Family { name, kind, help, lines: String::new() }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.lines, "{}{{{}}} {value}", self.name, labels.join(","));
    }

    fn write(&self, text: &mut String) {
        let Family { name, kind, help, lines } = self;
        if !lines.is_empty() {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
        }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn text(snapshots: &[Snapshot]) -> String {
    let mut text = String::new();
    let mut sessions = Family::new("apex_sessions", "gauge", "Sessions that run now.");
    let _ = writeln!(sessions.lines, "apex_sessions {}", snapshots.len());
    sessions.write(&mut text);
    devices(snapshots, &mut text);
    of_sessions(snapshots, &mut text);
    of_processes(snapshots, &mut text);
    of_kernels(snapshots, &mut text);
    text
}

fn devices(snapshots: &[Snapshot], text: &mut String) {
    let mut limit = Family::new("hw_gpu_memory_limit_bytes", "gauge", "Memory of the device.");
    let mut usage = Family::new(
        "hw_gpu_memory_usage_bytes",
        "gauge",
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
        let labels = [("hw_id", uuid), ("hw_name", &device.name)];
        limit.add(&labels, device.memory_bytes as f64);
        usage.add(&labels, bytes as f64);
    }
    limit.write(text);
    usage.write(text);
}

fn of_sessions(snapshots: &[Snapshot], text: &mut String) {
    let mut lost = Family::new("apex_lost_events_total", "counter", "Events that no count has.");
    let mut events = Family::new("apex_events_total", "counter", "Events that were recorded.");
    let mut errors =
        Family::new("apex_driver_errors_total", "counter", "Calls that the driver refused.");
    for Snapshot { summary, .. } in snapshots {
        let labels = [("session", &*summary.session)];
        lost.add(&labels, summary.own.missing() as f64);
        events.add(&labels, summary.own.events as f64);
        errors.add(&labels, summary.errors.iter().map(|error| error.count).sum::<u64>() as f64);
    }
    [lost, events, errors].iter().for_each(|family| family.write(text));
}

fn of_processes(snapshots: &[Snapshot], text: &mut String) {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let count = |number: u64| number as f64;
    let mut families = [
        Family::new("apex_launches_total", "counter", "Launches, graph launches included."),
        Family::new("apex_kernels_total", "counter", "Kernels that ran."),
        Family::new("apex_gpu_seconds_total", "counter", "GPU time of kernels, estimated."),
        Family::new(
            "apex_waited_seconds_total",
            "counter",
            "Time that threads waited for the GPU.",
        ),
        Family::new("apex_copied_bytes_total", "counter", "Bytes copied and set."),
        Family::new("apex_device_memory_bytes", "gauge", "Device memory that the process holds."),
    ];
    let running = snapshots.iter().flat_map(|snapshot| {
        let of = move |process| (snapshot, process);
        snapshot.processes.iter().filter(|one| one.ended_ns.is_none()).map(of)
    });
    for (snapshot, process) in running.take(PROCESSES) {
        let pid = process.pid.to_string();
        let program = process.executable.rsplit('/').next().unwrap_or_default();
        let program = shorten(program, LETTERS);
        let labels =
            [("session", &*snapshot.summary.session), ("pid", &*pid), ("program", &*program)];
        let values = [
            count(process.launches),
            count(process.kernels_executed),
            seconds(process.kernel_ns),
            seconds(process.waited_ns),
            count(process.copied_bytes),
            count(process.device_live_bytes),
        ];
        for (family, value) in families.iter_mut().zip(values) {
            family.add(&labels, value);
        }
    }
    families.iter().for_each(|family| family.write(text));
}

fn of_kernels(snapshots: &[Snapshot], text: &mut String) {
    let mut calls = Family::new("apex_kernel_calls_total", "counter", "Executions of a kernel.");
    let mut time = Family::new(
        "apex_kernel_gpu_seconds_total",
        "counter",
        "GPU time of a kernel, estimated from its timed launches.",
    );
    let of_session = |snapshot| {
        let Snapshot { summary, .. }: &Snapshot = snapshot;
        summary.kernels.iter().map(|kernel| (&*summary.session, kernel))
    };
    let mut kernels: Vec<(&str, &KernelSummary)> = snapshots.iter().flat_map(of_session).collect();
    let weight = |kernel: &KernelSummary| kernel.gpu.as_ref().map_or(0.0, |gpu| gpu.total_ns);
    kernels.sort_by(|(_, a), (_, b)| weight(b).total_cmp(&weight(a)).then(b.calls.cmp(&a.calls)));
    // Two kernels may differ only where their names are cut: one series for both.
    let mut series: BTreeMap<(&str, String), (u64, f64)> = BTreeMap::new();
    for (session, kernel) in kernels.into_iter().take(KERNELS) {
        let sums = series.entry((session, shorten(&kernel.name, LETTERS))).or_default();
        *sums = (sums.0 + kernel.calls, sums.1 + weight(kernel) / 1e9);
    }
    for ((session, name), (executed, seconds)) in &series {
        let labels = [("session", *session), ("kernel", name)];
        calls.add(&labels, *executed as f64);
        time.add(&labels, *seconds);
    }
    calls.write(text);
    time.write(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_daemon::summary::{GpuTime, Summary};

    fn snapshot(kernels: usize) -> Snapshot {
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
            kernels: (0..kernels).map(kernel).collect(),
            ..Summary::default()
        };
        Snapshot { summary, processes: (0..3).map(process).collect(), ..Snapshot::default() }
    }

    #[test]
    fn series_are_bounded_and_the_heaviest_kernels_have_one() {
        let text = text(&[snapshot(500)]);
        let calls: Vec<&str> =
            text.lines().filter(|line| line.starts_with("apex_kernel_calls_total{")).collect();
        assert_eq!(calls.len(), KERNELS);
        assert!(text.contains("kernel=\"k499") && !text.contains("kernel=\"k449\""), "{text}");
        assert!(
            text.contains("apex_launches_total{session=\"one\",pid=\"7\",program=\"train\"} 5\n")
        );
        assert_eq!(text.matches("apex_launches_total{").count(), 1, "those that ended are gone");
    }

    #[test]
    fn a_name_cannot_write_a_line() {
        let text = text(&[snapshot(3)]);
        for line in text.lines() {
            assert!(line.starts_with('#') || line.starts_with("apex_") || line.starts_with("hw_"));
        }
        assert!(text.contains(r#"kernel="k2\"} 1\nowned\\""#), "{text}");
    }
}
