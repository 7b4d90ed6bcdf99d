//! One case under one system: the programs are started, run their turns, and are stopped.

use super::cases::Case;
use super::numbers::{quantile, rate};
use super::systems::{Mps, Side, System};
use super::utilisation::Utilisation;
use super::workers::{Computed, Request, Worker};
use super::{mean_of, rounded};
use crate::arguments::BenchSched;
use crate::say;
use anyhow::{Context, Result};
use apex_core::time::monotonic_nanos;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

/// What holds for every cell.
pub(super) struct Plan<'a> {
    pub(super) arguments: &'a BenchSched,
    /// Of a turn.
    pub(super) seconds: f64,
    pub(super) folder: tempfile::TempDir,
    pub(super) with_mps: bool,
    /// Nothing is waited for beyond this.
    pub(super) deadline: Option<Instant>,
}

/// What one program did, turn by turn.
#[derive(Default)]
pub(super) struct Program {
    pub(super) together: Vec<Turn>,
    pub(super) alone: Vec<Turn>,
}

/// One turn of one program.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) requests: Vec<Request>,
    pub(super) steps_per_second: f64,
}

/// What one system did with one case.
#[derive(Default)]
pub(super) struct Cell {
    pub(super) latency: Vec<Program>,
    pub(super) train: Vec<Program>,
    pub(super) computed: Vec<Computed>,
    pub(super) sm_percent: Vec<f64>,
    pub(super) device: String,
    /// Requests a second of each program that answers them.
    pub(super) rates: Vec<f64>,
    /// What apex said at the end of each program.
    pub(super) said: Vec<String>,
    /// Every turn as it was, small enough to keep.
    pub(super) raw: Vec<Value>,
    /// Until all programs were ready.
    pub(super) start_seconds: f64,
}

impl Plan<'_> {
    /// Runs the turns of one cell; the rates of requests are worked out where none are given.
    pub(super) fn cell(&self, system: System, case: &Case, rates: Option<&[f64]>) -> Result<Cell> {
        let begun = Instant::now();
        let folder = tempfile::tempdir_in(self.folder.path()).context("no place for files")?;
        let _mps = system.is_mps().then(|| Mps::start(folder.path())).transpose()?;
        // In memory where it can be: a GPU cannot be told of pages of a file on a disk.
        let pages = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir_in(&folder));
        let pages = pages.context("no place for pages")?;
        let mut workers = self.start(system, case, folder.path(), pages.path())?;
        for worker in &mut workers {
            worker.wait_ready()?;
        }
        let mut cell = Cell {
            device: workers[0].device.clone(),
            start_seconds: begun.elapsed().as_secs_f64(),
            ..Cell::default()
        };
        for nth in 0..case.latency.len() {
            let part = self.arguments.load / case.latency.len() as f64;
            cell.rates.push(match rates {
                Some(rates) => rates[nth],
                None => part * 1e9 / workers[nth].service_ns()? as f64,
            });
        }
        cell.latency.resize_with(case.latency.len(), Program::default);
        cell.train.resize_with(case.train.len(), Program::default);
        let turns = case.turns(system.shows_alone());
        for (nth, runs) in turns.iter().enumerate() {
            self.turn(case, system, &mut workers, &mut cell, runs, nth >= turns.len() / 2)?;
        }
        for worker in workers {
            let (computed, said) = worker.quit()?;
            cell.computed.push(computed);
            cell.said.extend(said);
        }
        Ok(cell)
    }

    fn start(
        &self,
        system: System,
        case: &Case,
        folder: &Path,
        pages: &Path,
    ) -> Result<Vec<Worker>> {
        let words = |sides: &[(Side, &str)]| -> Result<Vec<OsString>> {
            let mut words: Vec<OsString> = if self.arguments.synthetic {
                let apex = std::env::current_exe().context("apex is not found")?;
                vec![apex.into(), "bench".into(), "sched-worker".into()]
            } else {
                let worker = self.folder.path().join("worker.py");
                vec![self.arguments.python.clone().into(), worker.into()]
            };
            for (side, model) in sides {
                words.push(side.option().into());
                if !self.arguments.synthetic {
                    words.push((*model).into());
                }
            }
            words.extend((system == System::Green).then(|| "--green".into()));
            Ok(words)
        };
        let start = |side: Side, sides: &[(Side, &str)], name: String| {
            let command = system.command(side, &words(sides)?, folder, pages, self.with_mps)?;
            Worker::start(command, name, folder, self.deadline)
        };
        if system.is_one_process() {
            let sides = [(Side::Latency, case.latency[0]), (Side::Train, case.train[0])];
            return Ok(vec![start(Side::Latency, &sides, "only".into())?]);
        }
        let latency = case.latency.iter().map(|model| (Side::Latency, *model));
        let train = case.train.iter().map(|model| (Side::Train, *model));
        let named = latency.chain(train).enumerate();
        named.map(|(nth, it)| start(it.0, &[it], format!("{}-{nth}", it.0.class()))).collect()
    }

    /// One turn: `runs` says which programs do.
    fn turn(
        &self,
        case: &Case,
        system: System,
        workers: &mut [Worker],
        cell: &mut Cell,
        runs: &[bool],
        back: bool,
    ) -> Result<()> {
        let (asks, trains) = runs.split_at(case.latency.len());
        let together = runs.iter().all(|runs| *runs);
        // The same arrivals for every system, others in each turn and for each program.
        let seed = |nth: usize| {
            let turn = u64::from(back) + 2 * u64::from(together);
            self.arguments.seed * 1_000 + turn * 100 + nth as u64
        };
        let watched =
            (together && !self.arguments.synthetic).then(|| Utilisation::watch(self.seconds));
        let at = monotonic_nanos() + 300_000_000;
        let order = |latency: Option<usize>, train: bool| {
            let latency = latency
                .filter(|&nth| asks[nth])
                .map(|nth| json!({"rate": cell.rates[nth], "seed": seed(nth), "cv": case.cv}));
            json!({"run": 1, "at": at, "seconds": self.seconds, "latency": latency, "train": train})
        };
        let one = system.is_one_process();
        for (nth, worker) in workers.iter_mut().enumerate() {
            let order = match nth.checked_sub(asks.len()) {
                _ if one => order(Some(0), trains[0]),
                None => order(Some(nth), false),
                Some(train) => order(None, trains[train]),
            };
            worker.order(&order)?;
        }
        let mut raw =
            json!({"case": case.name, "system": system.name(), "runs": runs, "back": back});
        let mut line = String::new();
        for (nth, worker) in workers.iter_mut().enumerate() {
            let answer = worker.turn(self.seconds)?;
            let keep = |program: &mut Program, turn: Turn| match together {
                true => program.together.push(turn),
                false => program.alone.push(turn),
            };
            let train = if one { Some(0) } else { nth.checked_sub(asks.len()) };
            if nth < asks.len() && asks[nth] {
                let turn = Turn { requests: answer.requests(), ..Turn::default() };
                let mut times: Vec<f64> = turn.requests.iter().map(Request::response_ms).collect();
                let hundredths: Vec<f64> =
                    times.iter().map(|time| (time * 100.0).round() / 100.0).collect();
                raw["responses_ms"][format!("{nth}")] = json!(hundredths);
                let p95 = quantile(&mut times, 0.95);
                line += &format!(" {} requests, P95 {p95:.1} ms;", times.len());
                keep(&mut cell.latency[nth], turn);
            }
            if let Some(train) = train.filter(|&train| trains[train]) {
                let steps_per_second = rate(&answer.steps, self.seconds);
                raw["steps_per_second"][format!("{train}")] = json!(rounded(steps_per_second));
                line += &format!(" {steps_per_second:.2} steps/s;");
                keep(&mut cell.train[train], Turn { steps_per_second, ..Turn::default() });
            }
        }
        let sm_percent = watched.flatten().and_then(Utilisation::mean_percent);
        cell.sm_percent.extend(sm_percent);
        raw["sm_percent"] = json!(mean_of(&cell.sm_percent).map(rounded));
        cell.raw.push(raw);
        say(&format!("  {}{}", if together { "together:" } else { "alone:" }, line));
        Ok(())
    }
}
