//! The dashboard in a real browser, beside programs on the software GPU.
//!
//! The looks are Python (`browser/dashboard.py`), which drives Chromium; `cargo xtask test` installs both and names
//! the folder of the browser in `APEX_TEST_BROWSER`. What the page shows is compared with what the commands print.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use apex_daemon::document::write_document;
use apex_daemon::lease::Lease;
use apex_daemon::live::{LIVE_FILE, Snapshot};
use apex_daemon::summary::{
    Busy, Fit, GpuTime, KernelSummary, MemorySummary, ProcessSummary, Summary,
};
use apex_e2e::{Place, linked, tools};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PTX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../programs/demo.ptx");
const LOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/browser/dashboard.py");

/// Looks at the dashboard of a place, and prints what was seen.
fn look(place: &Place, what: &str, words: &[&str]) {
    let named = |name: &str| {
        std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `cargo xtask test`"))
    };
    let (python, browser) = (named("APEX_TEST_PYTHON"), named("APEX_TEST_BROWSER"));
    let apex = tools().apex.display().to_string();
    let arguments = [&[LOOKS, &apex, &browser, what], words].concat();
    let ended = place.start(Path::new(&python), &arguments).wait();
    print!("{}", ended.check_success().stdout);
}

/// The program that works in steps, and its arguments: steps, microseconds of thought, products in each step.
fn steps(arguments: [&'static str; 3]) -> (PathBuf, [&'static str; 5]) {
    let [steps, pause, products] = arguments;
    (linked("steps"), [PTX, steps, pause, products, "16384"])
}

/// Keeps a session and says its id.
fn kept(place: &Place, arguments: [&'static str; 3]) -> String {
    let (program, arguments) = steps(arguments);
    let watched = place.watch(&program, &arguments);
    watched.ended.check_success();
    watched.summary().session
}

#[test]
fn the_page_shows_what_the_commands_print() {
    let place = Place::new();
    let before = kept(&place, ["30", "1000", "4"]);
    let after = kept(&place, ["30", "1000", "4"]);
    look(&place, "kept_sessions", &[&before, &after]);
}

#[test]
fn the_roofline_shows_what_launches_do_and_reach() {
    let place = Place::new();
    let (program, arguments) = steps(["20", "0", "4"]);
    let watched = place.watch_with(&["--mode", "advise"], &program, &arguments);
    watched.ended.check_success();
    look(&place, "roofline", &[&watched.summary().session]);
}

#[test]
fn the_page_can_be_read_by_everybody() {
    let place = Place::new();
    let (program, arguments) = steps(["30", "0", "4"]);
    let watched = place.watch_with(&["--mode", "advise"], &program, &arguments);
    watched.ended.check_success();
    let session = watched.summary().session;
    kept(&place, ["30", "0", "4"]);
    let (program, arguments) = steps(["100000", "1000", "2"]);
    let running = place.start_watched(&[], &program, &arguments);
    look(&place, "readable", &[&session]);
    running.kill_all();
}

#[test]
fn a_command_that_is_markup_is_only_shown() {
    let place = Place::new();
    let (program, arguments) = steps(["5", "0", "1"]);
    let script = format!("exec {} {}", program.display(), arguments.join(" "));
    let shell = ["-c", &script, "<img src=x onerror=window.owned=1>"];
    let watched = place.watch(Path::new("/bin/sh"), &shell);
    watched.ended.check_success();
    kept(&place, ["5", "0", "1"]);
    look(&place, "markup", &[&watched.summary().session]);
}

#[test]
fn the_page_is_live_beside_a_program() {
    let place = Place::new();
    let (program, arguments) = steps(["100000", "1000", "2"]);
    let running = place.start_watched(&[], &program, &arguments);
    look(&place, "live", &[]);
    running.kill_all();
}

#[test]
fn programs_that_share_a_gpu_are_shown_with_their_promises() {
    let place = Place::new();
    let (program, arguments) = steps(["100000", "5000", "1"]);
    let policy = ["--policy", "priority"];
    let latency = [&["--class", "latency", "--sla", "p95=50ms"], &policy[..]].concat();
    let latency = place.start_watched(&latency, &program, &arguments);
    let batch = [&["--class", "batch"], &policy[..]].concat();
    let batch = place.start_watched(&batch, &program, &arguments);
    look(&place, "sharing", &[]);
    latency.kill_all();
    batch.kill_all();
}

/// A session that launches a million kernels a second from 64 processes, so many seconds after its start.
fn busiest(seconds: f64) -> Snapshot {
    let launches = (seconds * 1e6) as u64;
    let kernel = |nth: u64| KernelSummary {
        name: format!("void kernel_{nth}<float, {nth}>(float const*, float*)"),
        mangled: format!("kernel_{nth}"),
        calls: launches / (nth + 2),
        gpu: Some(GpuTime {
            mean_ns: 700.0,
            total_ns: (launches / (nth + 2)) as f64 * 700.0,
            share: 1.0 / (nth + 2) as f64,
            ..GpuTime::default()
        }),
        fit: Some(Fit { occupancy: 0.5, limiter: "registers".into(), ..Fit::default() }),
        ..KernelSummary::default()
    };
    let process = |number: u32| ProcessSummary {
        number,
        pid: 1_000 + number,
        arguments: vec!["python3".into(), format!("--rank={number}")],
        launches: launches / 64,
        given_ns: launches * 5,
        device_live_bytes: 1 << 30,
        copied_bytes: launches * 100,
        ..ProcessSummary::default()
    };
    let summary = Summary {
        session: "20260101-000000-1".into(),
        command: vec!["torchrun".into(), "train.py".into()],
        launches,
        kernels_executed: launches,
        gpu_busy: Some(Busy { kernel_ns: launches * 700, ..Busy::default() }),
        kernels: (0..50).map(kernel).collect(),
        memory: MemorySummary { device_live_bytes: 64 << 30, ..MemorySummary::default() },
        ..Summary::default()
    };
    let at_ns = (seconds * 1e9) as u64;
    let processes = (0..64).map(process).collect();
    let given_ns = launches * 300;
    Snapshot { at_ns, apex_pid: 1, given_ns, summary, processes, ..Snapshot::default() }
}

#[test]
fn a_million_launches_a_second_do_not_slow_the_page() {
    let place = Place::new();
    let session = Lease::make(&place.rings().join("20260101-000000-1")).unwrap();
    let live = session.folder().join(LIVE_FILE);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let since = Instant::now();
            while !ends.load(Ordering::Relaxed) {
                write_document(&live, &busiest(1.0 + since.elapsed().as_secs_f64())).unwrap();
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let looked = std::panic::catch_unwind(|| look(&place, "busy", &[]));
        ends.store(true, Ordering::Relaxed);
        looked.unwrap();
    });
}
