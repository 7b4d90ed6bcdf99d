//! What the shim adds to a call, against a direct call into the same stand-in driver.
//!
//! The calls are made by a child of this process (see [`crate::calls`]), as in a program under apex;
//! this process drains its rings meanwhile, as `apex run` does. Direct calls and calls through the
//! shim alternate in short blocks, so that whatever disturbs the machine disturbs both.

use crate::child::ends_with_us;
use crate::libraries::library;
use crate::report::{Bar, Report};
use anyhow::{Context, Result, bail};
use apex_core::ring::Reader;
use apex_daemon::progress::Progress;
use apex_daemon::scratch::Scratch;
use apex_daemon::user_setup::UserSetup;
use apex_policy::amounts::counted;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const THREADS: [usize; 3] = [1, 4, 16];
const TRAMPOLINE_NANOS: f64 = 2.0;
const RECORDED_P50_NANOS: f64 = 50.0;
const RECORDED_P99_NANOS: f64 = 150.0;
const OPEN_GATE_NANOS: f64 = 10.0;

/// Measures with 1, 4 and 16 threads, as far as there are processors for them and the collector.
pub(crate) fn measure(quick: bool) -> Result<Report> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rows = Vec::new();
    let mut bars = Vec::new();
    let mut notes = Vec::new();
    let fitting = THREADS.iter().filter(|&&threads| threads <= processors).count();
    let mut progress = Progress::on_stderr();
    for threads in THREADS {
        if threads > processors {
            let here = counted(processors as u64, "processor", "processors");
            notes.push(format!("{threads} threads are left out: {here} here"));
            continue;
        }
        for timing in ["off", "sampled"] {
            progress.step("measuring", rows.len() + 1, fitting * 2 + 1);
            let row = one(threads, timing, false, quick)?;
            let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
            let what = format!("recorded launch, {threads} threads, timing {timing}");
            let (p50, p99) = (number("added_p50_ns"), number("added_p99_ns"));
            if threads == 1 && timing == "off" {
                let added = number("trampoline_added_ns");
                bars.push(Bar::at_most("trampoline".into(), added, "ns", TRAMPOLINE_NANOS));
            }
            bars.push(Bar::at_most(format!("{what}, p50"), p50, "ns", RECORDED_P50_NANOS));
            bars.push(Bar::at_most(format!("{what}, p99"), p99, "ns", RECORDED_P99_NANOS));
            if row["lost"] != json!(0) {
                notes.push(format!("{what}: events that found the ring full: {}", row["lost"]));
            }
            rows.push(row);
        }
    }
    progress.step("measuring", rows.len() + 1, fitting * 2 + 1);
    let row = one(1, "off", true, quick)?;
    let added = row["gate_added_p50_ns"].as_f64().unwrap_or(f64::NAN);
    let what = "open gate of a latency program, above a recorded launch, p50".into();
    bars.push(Bar::at_most(what, added, "ns", OPEN_GATE_NANOS));
    rows.push(row);
    let (device, driver) = ("stand-in (kernels do not run)".into(), "stand-in".into());
    Ok(Report { bench: "shim", device, driver, rows, bars, notes })
}

/// The rows as a table.
pub(crate) fn print_rows(rows: &[Value]) {
    println!(
        "threads  timing   trampoline    direct p50/p99     shim p50/p99    added p50/p99   lost   open gate p50/mean"
    );
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        let gate = match row["gate_added_p50_ns"].as_f64() {
            Some(p50) => format!("         {p50:>+6.1} / {:>+6.1}", number("gate_added_mean_ns")),
            None => String::new(),
        };
        println!(
            "{:>7}  {:<8} {:>+6.2} ns    {:>6.1} / {:>6.1}    {:>6.1} / {:>6.1}   {:>6.1} / {:>6.1}  {:>5}{gate}",
            row["threads"].as_u64().unwrap_or(0),
            row["timing"].as_str().unwrap_or(""),
            number("trampoline_added_ns"),
            number("direct_p50_ns"),
            number("direct_p99_ns"),
            number("shim_p50_ns"),
            number("shim_p99_ns"),
            number("added_p50_ns"),
            number("added_p99_ns"),
            row["lost"].as_u64().unwrap_or(0),
        );
    }
}

fn one(threads: usize, timing: &str, gate: bool, quick: bool) -> Result<Value> {
    let (_spare, rings) = rings()?;
    let mut child = start(threads, timing, gate, quick, rings.path())?;
    let mut drain = Drain::of(rings.path());
    while child.try_wait()?.is_none() {
        drain.look();
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("the measuring process ended with {}", output.status);
    }
    drain.look();
    let mut row: Value = serde_json::from_slice(&output.stdout).context("no result came back")?;
    row["threads"] = json!(threads);
    row["timing"] = json!(timing);
    row["lost"] = json!(drain.lost());
    Ok(row)
}

fn start(threads: usize, timing: &str, gate: bool, quick: bool, rings: &Path) -> Result<Child> {
    let standin = library("libapex_standin.so")?;
    let mut command = Command::new(std::env::current_exe()?);
    if gate {
        // The rings' directory is this user's alone, as a gate's must be. Predictions are another cost.
        command.env("APEX_CLASS", "latency").env("APEX_GATE", rings).env("APEX_PREDICT", "0");
    }
    ends_with_us(&mut command)
        .args(["bench", "shim-calls", "--threads", &threads.to_string()])
        .args(gate.then_some("--gate"))
        .args(quick.then_some("--quick"))
        .env("APEX", "1")
        .env("APEX_TIMING", timing)
        .env("APEX_RINGS", rings)
        .env("APEX_REAL_LIBCUDA", standin)
        .stdout(Stdio::piped())
        .spawn()
        .context("the measuring process does not start")
}

/// A folder of temporary files, and one of rings, which lies there where no other place serves.
pub(crate) fn rings() -> Result<(Scratch, Scratch)> {
    let id = format!("bench-{}", std::process::id());
    let spare = Scratch::new().context("there is no place for temporary files")?;
    let places = UserSetup::read().rings_places;
    let rings =
        Scratch::rings(&places, spare.path(), &id).context("there is no place for rings")?;
    Ok((spare, rings))
}

/// Reads the rings and drops what it reads.
pub(crate) struct Drain {
    folder: PathBuf,
    readers: Vec<(PathBuf, Reader<std::fs::File>)>,
}

impl Drain {
    pub(crate) fn of(rings: &Path) -> Drain {
        Drain { folder: rings.to_owned(), readers: Vec::new() }
    }

    pub(crate) fn look(&mut self) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let known = self.readers.iter().any(|(known, _)| *known == path);
            if known || path.extension().is_none_or(|end| end != "ring") {
                continue;
            }
            let file = OpenOptions::new().read(true).write(true).open(&path);
            if let Some(reader) = file.ok().and_then(|file| Reader::open(file).ok()) {
                self.readers.push((path, reader));
            }
        }
        for (_, reader) in &mut self.readers {
            let _ = reader.drain(|_, _| {});
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        self.readers
            .iter()
            .filter_map(|(_, reader)| reader.counters().ok())
            .map(|all| all.lost)
            .sum()
    }
}
