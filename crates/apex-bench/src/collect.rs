//! Whether the collector keeps up with a program that launches fast, and what it spends on a launch.
//!
//! A child of this process launches at a steady rate through the shim (see [`crate::calls`]); this process
//! collects as `apex run` does, into a session of its own. The baseline reads the same rings and drops what it
//! reads: what is above it is counting and keeping. Processor time is compared, which a busy machine changes
//! little; each case runs with the other processors idle and with one of them busy.

use crate::child::ends_with_us;
use crate::libraries::library;
use crate::report::{Bar, Report};
use crate::shim::{Drain, rings};
use anyhow::{Context, Result, bail};
use apex_daemon::recording::Recording;
use apex_daemon::summary::Exit;
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What the collector promises to keep up with, on two processors.
const LAUNCHES_PER_SECOND: u64 = 200_000;

/// Measures each case, in turns with its baseline.
pub(crate) fn measure(quick: bool) -> Result<Report> {
    let launches = if quick { LAUNCHES_PER_SECOND } else { 1_000_000 };
    let mut rows = Vec::new();
    let mut bars = Vec::new();
    for busy in [false, true] {
        let drained = one(launches, busy, false)?;
        let mut row = one(launches, busy, true)?;
        let nanos = |row: &Value| row["processor_ns"].as_f64().unwrap_or(f64::NAN);
        row["drained_ns"] = json!(nanos(&drained));
        row["ratio"] = json!(nanos(&row) / nanos(&drained));
        let what = if busy { "one processor busy" } else { "other processors idle" };
        let share = |name: &str| row[name].as_f64().unwrap_or(f64::NAN) / launches as f64 * 100.0;
        bars.push(Bar::at_most(format!("{what}, lost"), share("lost"), "%", 0.0));
        bars.push(Bar::at_least(format!("{what}, kept"), share("kept"), "%", 100.0));
        rows.push(row);
    }
    let (device, driver) = ("stand-in (kernels do not run)".into(), "stand-in".into());
    Ok(Report { bench: "collect", device, driver, rows, bars, notes: Vec::new() })
}

/// The rows as a table.
pub(crate) fn print_rows(rows: &[Value]) {
    println!(
        "busy  launches  offered/s  reached/s    lost       kept  not kept  ns a launch  only drained  ratio"
    );
    for row in rows {
        let whole = |name: &str| row[name].as_u64().unwrap_or(0);
        let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:>4} {:>9} {:>10} {:>10.0} {:>7} {:>10} {:>9} {:>12.0} {:>13.0} {:>6.1}",
            row["busy"].as_bool().map_or("", |busy| if busy { "yes" } else { "no" }),
            whole("launches"),
            whole("offered_per_second"),
            number("reached_per_second"),
            whole("lost"),
            whole("kept"),
            whole("not_kept"),
            number("processor_ns"),
            number("drained_ns"),
            number("ratio"),
        );
    }
}

fn one(launches: u64, busy: bool, keeps: bool) -> Result<Value> {
    let (session, rings) = rings()?;
    let neighbour = busy.then(Busy::start).transpose()?;
    let before = processor_time()?;
    let mut child = start(launches, rings.path())?;
    let (lost, not_kept) = if keeps {
        collect(&mut child, rings.path(), session.path())?
    } else {
        (drain(&mut child, rings.path())?, 0)
    };
    let spent = processor_time()?.saturating_sub(before);
    drop(neighbour);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("the launching process ended with {}", output.status);
    }
    let mut row: Value = serde_json::from_slice(&output.stdout).context("no result came back")?;
    row["busy"] = json!(busy);
    row["offered_per_second"] = json!(LAUNCHES_PER_SECOND);
    row["lost"] = json!(lost);
    row["not_kept"] = json!(not_kept);
    row["kept"] = json!(launches.saturating_sub(lost + not_kept));
    row["processor_ns"] = json!(spent.as_nanos() as f64 / launches as f64);
    Ok(row)
}

/// Collects as `apex run` does until the child has ended: what was lost, and what was not kept.
fn collect(child: &mut Child, rings: &Path, session: &Path) -> Result<(u64, u64)> {
    let mut recording = Recording::start(rings, Some(session), "bench", &["bench".into()]);
    while child.try_wait()?.is_none() {
        std::thread::sleep(recording.look());
        recording.take_notes().iter().for_each(|note| apex_daemon::speech::say(note));
    }
    let (summary, _) = recording.finish(Some(Exit { code: Some(0), signal: None }));
    Ok((summary.own.lost, summary.own.not_kept))
}

/// Reads the rings until the child has ended, and drops what it reads.
fn drain(child: &mut Child, rings: &Path) -> Result<u64> {
    let mut drain = Drain::of(rings);
    while child.try_wait()?.is_none() {
        drain.look();
        std::thread::sleep(Duration::from_millis(5));
    }
    drain.look();
    Ok(drain.lost())
}

fn start(launches: u64, rings: &Path) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    ends_with_us(&mut command)
        .args(["bench", "collect-calls", "--launches", &launches.to_string()])
        .args(["--rate", &LAUNCHES_PER_SECOND.to_string()])
        .env("APEX", "1")
        .env("APEX_TIMING", "sampled")
        .env("APEX_RINGS", rings)
        .env("APEX_REAL_LIBCUDA", library("libapex_standin.so")?)
        .stdout(Stdio::piped())
        .spawn()
        .context("the launching process does not start")
}

fn processor_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let length = |time: nix::sys::time::TimeVal| {
        Duration::from_micros(
            u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0),
        )
    };
    Ok(length(usage.user_time()) + length(usage.system_time()))
}

/// A process that does nothing as fast as it can, until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Result<Busy> {
        let mut shell = Command::new("sh");
        let child = ends_with_us(&mut shell).args(["-c", "while :; do :; done"]).spawn();
        child.map(Busy).context("no shell to keep a processor busy")
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
