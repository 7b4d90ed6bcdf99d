//! Metrics that are pushed, taken by a receiver that reads them with OpenTelemetry's own descriptions of the protocol
//! (`receive_otlp.py`, the package `opentelemetry-proto`).
#![cfg(feature = "otlp")]
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use apex_daemon::document::write_document;
use apex_daemon::lease::Lease;
use apex_daemon::live::{LIVE_FILE, Snapshot};
use apex_daemon::session::KeptSessions;
use apex_daemon::summary::{DeviceSummary, KernelSummary, ProcessSummary, Summary};
use apex_dashboard::{Dashboard, Places, Push};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A session that runs, with a kernel whose name is markup.
fn snapshot() -> Snapshot {
    let kernel = KernelSummary { name: "<b>\"k\"\n".into(), calls: 3, ..KernelSummary::default() };
    let process = ProcessSummary {
        pid: 7,
        executable: "/opt/train".into(),
        launches: 1 << 54,
        devices: vec![0],
        device_live_bytes: 4096,
        ..ProcessSummary::default()
    };
    let device = DeviceSummary {
        name: "NVIDIA H200".into(),
        uuid: "00ff".into(),
        memory_bytes: 1 << 37,
        ..DeviceSummary::default()
    };
    let summary = Summary {
        session: "20260101-000000-1".into(),
        started_unix_ns: 1_767_225_600_000_000_001,
        kernels: vec![kernel],
        devices: vec![device],
        ..Summary::default()
    };
    Snapshot { at_ns: 1, summary, processes: vec![process], ..Snapshot::default() }
}

#[test]
fn a_collector_is_told_what_runs_and_a_lost_one_is_tried_again() {
    let place = tempfile::tempdir().unwrap();
    let session = Lease::make(&place.path().join("rings/20260101-000000-1")).unwrap();
    write_document(&session.folder().join(LIVE_FILE), &snapshot()).unwrap();
    // It refuses the first push, and checks the second.
    let python = std::env::var("APEX_TEST_PYTHON").expect("no Python: run `cargo xtask test`");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/receive_otlp.py");
    let mut receiver = Command::new(python).arg(script).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(receiver.stdout.take().unwrap()).lines().map(Result::unwrap);
    let collector = said.next().unwrap().parse().unwrap();
    let places = Places {
        sessions: KeptSessions::of(&Default::default(), |_| None),
        rings: vec![place.path().join("rings")],
        gate: place.path().join("gate"),
    };
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut dashboard = Dashboard::bind(listen, None, places).unwrap();
    dashboard.push(Push { collector, every: Duration::from_millis(50) });
    let stop = dashboard.stop();
    let serving = std::thread::spawn(move || dashboard.serve());
    assert!(receiver.wait().unwrap().success());
    stop.now();
    serving.join().unwrap().unwrap();
}
