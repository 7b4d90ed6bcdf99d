//! A program that answers requests beside one that trains, under every way in which they can share a GPU.
//!
//! The workers are PyTorch programs that know nothing of apex (`tests/device/sched/worker.py`, kept inside this
//! program). Requests come by chance at a part of what the program could answer alone, with the same arrivals for
//! every system, and count from their scheduled arrival. Everything is compared with each program alone and without
//! apex, and with time-slicing. Systems take turns with each other, because a machine may change its speed from minute
//! to minute. A run may be lost at any moment: what was measured is on disk after each group of systems, every wait has
//! an end, and whatever was started ends with this program.

mod cases;
mod cell;
mod judge;
mod mps;
mod numbers;
mod picture;
mod processors;
pub(crate) mod stand_in;
mod systems;
mod utilisation;
mod workers;

use crate::arguments::BenchSched;
use crate::report::Report;
use anyhow::{Context, Result, bail};
use apex_daemon::progress::Progress;
use apex_daemon::scratch::Scratch;
use apex_daemon::speech::say;
use cases::Case;
use cell::{Cell, Plan};
pub(crate) use judge::print_rows;
use judge::{bars, other_loads, overloaded, point, row};
use picture::{Point, plane};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use systems::System;

const WORKER: &str = include_str!("../../../tests/device/sched/worker.py");
/// With --quick everything has ended after this.
const QUICK: Duration = Duration::from_secs(465);
/// What a turn takes beside its own time.
const TURN_SECONDS: f64 = 1.0;
/// Until the programs of one system are ready, before any were.
const START_SECONDS: f64 = 20.0;
/// So many systems take turns with each other: the programs of all of them must fit on the device.
const SIDE_BY_SIDE: usize = 5;

/// Measures every case under every system.
pub(crate) fn measure(arguments: &BenchSched) -> Result<Report> {
    if !(0.01..=0.95).contains(&arguments.load) {
        bail!("--load takes a part from 0.01 to 0.95");
    }
    let begun = Instant::now();
    let plan = plan(arguments, begun)?;
    std::fs::write(plan.folder.path().join("worker.py"), WORKER).context("no place for files")?;
    let systems = chosen_systems(arguments)?;
    let report = Report {
        bench: "sched",
        device: String::new(),
        driver: driver_version(),
        rows: Vec::new(),
        bars: Vec::new(),
        notes: Vec::new(),
    };
    let mut measured = Measured { report, turns: Vec::new(), start_seconds: None };
    let mut progress = Progress::on_stderr();
    for case in cases::chosen(arguments)? {
        let mut baseline: Option<Cell> = None;
        let groups = groups(&systems, &case);
        let all = groups.len();
        for (nth, group) in groups.into_iter().enumerate() {
            let left = plan.deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let (group, left_out) = fitting(&plan, &case, &group, measured.start_seconds, left);
            if !left_out.is_empty() {
                let names = names(left_out);
                let note = format!("{} under {names} was left out for want of time", case.name);
                measured.report.notes.push(note);
            }
            if !group.is_empty() {
                let so_far = begun.elapsed().as_secs();
                say(&format!("{} under {} ({so_far} s so far)", case.name, names(group)));
                progress.step(&format!("{}: group of systems", case.name), nth + 1, all);
                measured.take_turns(&plan, &case, group, &mut baseline)?;
                keep(arguments, &measured.report, &measured.turns)?;
            }
            if baseline.is_none() {
                // Nothing of this case can be compared with anything.
                break;
            }
        }
    }
    let Measured { mut report, turns, .. } = measured;
    report.notes.extend(overloaded(&report.rows));
    report.notes.extend(other_loads(&report.rows, arguments.load));
    if arguments.synthetic {
        report.notes.push("own programs on the software GPU: times are the processor's".into());
    }
    for (what, path) in [("plane is drawn", &arguments.chart), ("turns are", &arguments.output)] {
        if let Some(path) = path {
            report.notes.push(format!("the {what} in {}", path.display()));
        }
    }
    keep(arguments, &report, &turns)?;
    Ok(report)
}

/// What there is so far.
struct Measured {
    report: Report,
    turns: Vec<Value>,
    /// The longest that a group took until it was ready.
    start_seconds: Option<f64>,
}

impl Measured {
    /// Enters what a group gave. Time-slicing is the first of the first group, and what the others are compared with.
    fn take_turns(
        &mut self,
        plan: &Plan<'_>,
        case: &Case,
        group: &[System],
        baseline: &mut Option<Cell>,
    ) -> Result<()> {
        let asked = baseline.as_ref().map(|cell| cell.rates.clone());
        for (&system, cell) in group.iter().zip(plan.cells(group, case, asked.as_deref())) {
            let name = || format!("{} under {}", case.name, system.name());
            let mut cell = match cell.with_context(name) {
                Ok(cell) => cell,
                Err(error) if self.report.rows.is_empty() && system == System::TimeSlicing => {
                    return Err(error);
                }
                Err(error) => {
                    self.report.notes.push(format!("{error:#}"));
                    continue;
                }
            };
            self.report.device.clone_from(&cell.device);
            self.turns.append(&mut cell.raw);
            let slowest = self.start_seconds.unwrap_or(0.0);
            self.start_seconds = Some(slowest.max(cell.start_seconds));
            if system == System::TimeSlicing {
                self.report.rows.push(row(case, system, &cell, &cell));
                *baseline = Some(cell);
            } else if let Some(time_slicing) = &*baseline {
                self.report.rows.push(row(case, system, &cell, time_slicing));
            } else {
                self.report.notes.push(format!("{} has nothing to be compared with", name()));
            }
        }
        let synthetic = plan.arguments.synthetic;
        self.report.bars = if synthetic { Vec::new() } else { bars(&self.report.rows) };
        Ok(())
    }
}

fn plan(arguments: &BenchSched, begun: Instant) -> Result<Plan<'_>> {
    let (rounds, seconds, warm_up) = match (arguments.synthetic, arguments.quick) {
        (true, _) => (1, 1.0, 1.0),
        (_, true) => (3, 2.5, 6.0),
        _ => (3, 10.0, 10.0),
    };
    Ok(Plan {
        arguments,
        seconds: arguments.seconds.unwrap_or(seconds).clamp(0.2, 3_600.0),
        rounds: arguments.rounds.unwrap_or(rounds).clamp(1, 100),
        warm_up_seconds: arguments.warm_up.unwrap_or(warm_up).clamp(0.1, 3_600.0),
        folder: Scratch::new().context("there is no place for temporary files")?,
        with_mps: !arguments.synthetic,
        deadline: arguments.quick.then(|| begun + QUICK),
    })
}

/// Which systems take turns with each other: as many as fit together, what all are compared with among the first. The
/// others have the turns alone of the first to be compared with, and turns of their own in other minutes; those of one
/// process, which measure something else, are the last.
fn groups(systems: &[System], case: &Case) -> Vec<Vec<System>> {
    let fits = |system: &System| case.is_pair() || !system.is_one_process();
    let mut systems: Vec<System> = systems.iter().copied().filter(fits).collect();
    systems.sort_by_key(|system| system.is_one_process());
    systems.chunks(SIDE_BY_SIDE).map(<[System]>::to_vec).collect()
}

/// Those of a group for whom time is left, the first before others, and those for whom there is none.
fn fitting<'a>(
    plan: &Plan<'_>,
    case: &Case,
    group: &'a [System],
    start: Option<f64>,
    left: Option<Duration>,
) -> (&'a [System], &'a [System]) {
    let fits = |count: &usize| {
        let needed = needed_seconds(plan, case, &group[..*count], start);
        left.is_none_or(|left| needed <= left.as_secs_f64())
    };
    group.split_at((1..=group.len()).rev().find(fits).unwrap_or(0))
}

fn names(systems: &[System]) -> String {
    systems.iter().map(|system| system.name()).collect::<Vec<_>>().join(", ")
}

/// What a group will take, from the longest that one took to start: none is larger than the first.
fn needed_seconds(plan: &Plan<'_>, case: &Case, group: &[System], start: Option<f64>) -> f64 {
    let of_system = |system: &System| {
        let counts = |turn: &&cases::Turns| turn.is_together() || system.shows_alone();
        let turns = case.orders(plan.rounds).iter().filter(counts).count() as f64;
        let warm_up = plan.warm_up_seconds + TURN_SECONDS;
        warm_up + turns * (plan.seconds + TURN_SECONDS) + 5.0
    };
    let start = start.unwrap_or(START_SECONDS * group.len() as f64);
    start + group.iter().map(of_system).sum::<f64>()
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
    if let Some(path) = &arguments.chart {
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
    systems.extend(arguments.other.is_some().then_some(System::ApexOther));
    Ok(systems)
}

fn driver_version() -> String {
    let question = ["--query-gpu=driver_version", "--format=csv,noheader"];
    let answer = Command::new("nvidia-smi").args(question).output();
    let text = answer.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    text.ok().and_then(|it| it.lines().next().map(str::to_owned)).unwrap_or_else(|| "none".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_take_turns_with_each_other() {
        let words = |systems: &[System], case: &str| -> Vec<String> {
            let case = cases::named(case).unwrap();
            groups(systems, &case).iter().map(|group| names(group)).collect()
        };
        let all = System::ALL;
        assert_eq!(words(&all[..1], "gpu-bound"), ["time-slicing"]);
        assert_eq!(words(&all[..2], "gpu-bound"), ["time-slicing, apex"]);
        let first = "time-slicing, apex, mps-priority, apex-blind, mps";
        assert_eq!(words(&all[..5], "gpu-bound"), [first]);
        assert_eq!(words(&all[..8], "gpu-bound"), [first, "mps-50, mps-25, streams"]);
        let second = "mps-50, mps-25, mps-75, apex-slicing, streams";
        assert_eq!(words(&all, "gpu-bound"), [first, second, "green"]);
        assert_eq!(words(&all, "two-serving"), [first, "mps-50, mps-25, mps-75, apex-slicing"]);
        // Those of one process give way to others, and stand beside them where there is place.
        let streams_before = [System::TimeSlicing, System::Streams, System::Apex];
        assert_eq!(words(&streams_before, "gpu-bound"), ["time-slicing, apex, streams"]);
    }

    #[test]
    fn a_quick_run_has_time_for_the_first_group() {
        #[derive(clap::Parser)]
        struct Words {
            #[command(flatten)]
            words: BenchSched,
        }
        let quick = <Words as clap::Parser>::parse_from(["sched", "--quick"]).words;
        let plan = plan(&quick, Instant::now()).unwrap();
        let case = &cases::chosen(&quick).unwrap()[0];
        let first = &groups(&System::ALL, case)[0];
        let needed = needed_seconds(&plan, case, first, None);
        // Three times six turns of time-slicing and apex, two of each of the others, and one of all before.
        let turns =
            3.0 * (2.0 * 6.0 + 3.0 * 2.0) * (2.5 + TURN_SECONDS) + 5.0 * (6.0 + TURN_SECONDS);
        assert_eq!(needed, turns + 5.0 * (START_SECONDS + 5.0));
        assert!(needed < QUICK.as_secs_f64() * 0.9, "{needed}");
        let fitting = |seconds| {
            let left = Some(Duration::from_secs_f64(seconds));
            let (group, left_out) = fitting(&plan, case, first, None, left);
            (group.len(), left_out.len())
        };
        let cases = [needed, needed - 1.0, needed - 60.0, 30.0].map(fitting);
        assert_eq!(cases, [(5, 0), (4, 1), (3, 2), (0, 5)]);
        // Measured starts count instead of the assumed ones.
        assert_eq!(needed_seconds(&plan, case, first, Some(30.0)), turns + 5.0 * 5.0 + 30.0);
    }
}
