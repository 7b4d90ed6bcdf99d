//! A program that answers requests beside one that trains, under every way in which they can share a GPU.
//!
//! The workers are PyTorch programs that know nothing of apex (`tests/device/sched/worker.py`, kept inside this
//! program). Requests come by chance at a part of what the program could answer alone, with the same arrivals for
//! every system, and count from their scheduled arrival. Everything is compared with each program alone and without
//! apex. A run may be lost at any moment: what was measured is on disk after each system, every wait has an end, and
//! whatever was started ends with this program.

mod cases;
mod cell;
mod judge;
mod numbers;
mod picture;
pub(crate) mod stand_in;
mod systems;
mod utilisation;
mod workers;

use super::Report;
use crate::arguments::BenchSched;
use crate::say;
use anyhow::{Context, Result, bail};
use cases::Case;
use cell::{Cell, Plan};
pub(crate) use judge::print_rows;
use judge::{bars, point, row};
use picture::{Point, plane};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use systems::System;

const WORKER: &str = include_str!("../../../../tests/device/sched/worker.py");
/// With --quick everything has ended after this.
const QUICK: Duration = Duration::from_secs(465);
/// What a turn takes beside its own time.
const TURN_SECONDS: f64 = 1.0;
/// Until programs are ready, before any were.
const START_SECONDS: f64 = 40.0;

/// Measures every case under every system.
pub(super) fn measure(arguments: &BenchSched) -> Result<Report> {
    if !(0.01..=0.95).contains(&arguments.load) {
        bail!("--load takes a part from 0.01 to 0.95");
    }
    let begun = Instant::now();
    let usual = match (arguments.synthetic, arguments.quick) {
        (true, _) => 1.0,
        (_, true) => 8.0,
        _ => 30.0,
    };
    let seconds = arguments.seconds.unwrap_or(usual).clamp(0.2, 3_600.0);
    let plan = Plan {
        arguments,
        seconds,
        rounds: arguments.rounds.clamp(1, 100),
        warm_up_seconds: arguments.warm_up.unwrap_or(seconds).clamp(0.1, 3_600.0),
        folder: tempfile::tempdir().context("there is no place for temporary files")?,
        with_mps: !arguments.synthetic,
        deadline: arguments.quick.then(|| begun + QUICK),
    };
    std::fs::write(plan.folder.path().join("worker.py"), WORKER).context("no place for files")?;
    let systems = chosen_systems(arguments)?;
    let mut report = Report {
        bench: "sched",
        device: String::new(),
        driver: driver_version(),
        rows: Vec::new(),
        bars: Vec::new(),
        notes: Vec::new(),
    };
    let mut turns: Vec<Value> = Vec::new();
    let mut start_seconds: Option<f64> = None;
    for case in cases::chosen(arguments)? {
        let mut baseline: Option<Cell> = None;
        for group in groups(&systems, &case) {
            let names: Vec<&str> = group.iter().map(|system| system.name()).collect();
            let name = format!("{} under {}", case.name, names.join(" and "));
            let needed = needed_seconds(&plan, &case, &group, start_seconds);
            let left = plan.deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.as_secs_f64() < needed) {
                report.notes.push(format!("{name} was left out: it takes about {needed:.0} s"));
                continue;
            }
            say(&format!("{name} ({} s so far)", begun.elapsed().as_secs()));
            let asked = baseline.as_ref().map(|cell| cell.rates.clone());
            for (&system, cell) in group.iter().zip(plan.cells(&group, &case, asked.as_deref())) {
                match cell {
                    Ok(mut cell) => {
                        report.device.clone_from(&cell.device);
                        turns.append(&mut cell.raw);
                        let slowest = start_seconds.unwrap_or(0.0);
                        start_seconds = Some(slowest.max(cell.start_seconds));
                        let alone = baseline.as_ref().unwrap_or(&cell);
                        report.rows.push(row(&case, system, &cell, alone));
                        if system == System::TimeSlicing {
                            baseline = Some(cell);
                        }
                    }
                    Err(error) => {
                        let error = error.context(format!("{} under {}", case.name, system.name()));
                        if report.rows.is_empty() && system == System::TimeSlicing {
                            return Err(error);
                        }
                        report.notes.push(format!("{error:#}"));
                    }
                }
            }
            report.bars = if arguments.synthetic { Vec::new() } else { bars(&report.rows) };
            keep(arguments, &report, &turns)?;
            if baseline.is_none() {
                // Nothing of this case can be compared with anything.
                break;
            }
        }
    }
    if arguments.synthetic {
        report.notes.push("own programs on the software GPU: times are the processor's".into());
    }
    for (what, path) in [("plane is drawn", &arguments.picture), ("turns are", &arguments.output)] {
        if let Some(path) = path {
            report.notes.push(format!("the {what} in {}", path.display()));
        }
    }
    keep(arguments, &report, &turns)?;
    Ok(report)
}

/// Which systems take turns with each other: what all are compared with and the first of the others, whose programs fit
/// on a device together; the rest one by one.
fn groups(systems: &[System], case: &Case) -> Vec<Vec<System>> {
    let fits = |system: &System| case.is_pair() || !system.is_one_process();
    let systems: Vec<System> = systems.iter().copied().filter(fits).collect();
    let (first, rest) = systems.split_at(systems.len().min(2));
    let single = rest.iter().map(|system| vec![*system]);
    std::iter::once(first.to_vec()).chain(single).collect()
}

/// What a group will take, from what the last ones took to start.
fn needed_seconds(plan: &Plan<'_>, case: &Case, group: &[System], start: Option<f64>) -> f64 {
    let of_system = |system: &System| {
        let counts = |turn: &&cases::Turns| turn.is_together() || system.shows_alone();
        let turns = case.orders(plan.rounds).iter().filter(counts).count() as f64;
        let warm_up = plan.warm_up_seconds + TURN_SECONDS;
        warm_up + turns * (plan.seconds + TURN_SECONDS) + 5.0
    };
    start.unwrap_or(START_SECONDS) + group.iter().map(of_system).sum::<f64>()
}

/// Writes what there is so far.
fn keep(arguments: &BenchSched, report: &Report, turns: &[Value]) -> Result<()> {
    if let Some(path) = &arguments.output {
        let mut document = serde_json::to_value(report)?;
        document["seed"] = json!(arguments.seed);
        document["load"] = json!(arguments.load);
        document["turns"] = json!(turns);
        write(path, &serde_json::to_string(&document)?)?;
    }
    if let Some(path) = &arguments.picture {
        let points: Vec<Point> = report.rows.iter().filter_map(point).collect();
        let title = format!("Sharing {}: requests at load {}", report.device, arguments.load);
        write(path, &plane(&title, &points))?;
    }
    Ok(())
}

/// Whole or not at all: the machine may be taken away in between.
fn write(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension("part");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("{} cannot be written", path.display()))
}

fn chosen_systems(arguments: &BenchSched) -> Result<Vec<System>> {
    let mut systems = vec![System::TimeSlicing];
    if arguments.system.is_empty() {
        systems = if arguments.synthetic {
            vec![System::TimeSlicing, System::Apex]
        } else {
            System::ALL.to_vec()
        };
    }
    for name in &arguments.system {
        let system = System::named(name)?;
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    Ok(systems)
}

fn mean_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

fn driver_version() -> String {
    let question = ["--query-gpu=driver_version", "--format=csv,noheader"];
    let answer = Command::new("nvidia-smi").args(question).output();
    let text = answer.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    text.ok().and_then(|it| it.lines().next().map(str::to_owned)).unwrap_or_else(|| "none".into())
}
