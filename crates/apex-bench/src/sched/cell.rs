//! One case under some systems: their programs are started, take their turns, and are stopped.

use super::cases::{Case, Turns};
use super::mps::Mps;
use super::numbers::{mean_of, quantile, rate, rounded};
use super::processors::Processors;
use super::systems::{CellFolders, Side, System};
use super::utilisation::Utilisation;
use super::workers::{Computed, Request, Worker};
use crate::arguments::BenchSched;
use anyhow::{Context, Result, bail};
use apex_core::time::monotonic_nanos;
use apex_daemon::scratch::Scratch;
use apex_daemon::speech::say;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// From the order to the begin of a turn.
const LEAD: Duration = Duration::from_millis(300);
/// How often it is looked what a request takes, at least, and for how long.
const LOOKS: usize = 6;
const LOOK: Duration = Duration::from_millis(800);

/// What holds for every cell.
pub(super) struct Plan<'a> {
    pub(super) arguments: &'a BenchSched,
    /// Of a turn.
    pub(super) seconds: f64,
    /// Of the turn before those that count.
    pub(super) warm_up_seconds: f64,
    /// How often the turns go forth and back.
    pub(super) rounds: usize,
    pub(super) folder: Scratch,
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

/// One system with its programs, which take their turns. Dropped in this order.
struct Stage {
    system: System,
    workers: Vec<Worker>,
    cell: Cell,
    begun: Instant,
    _pages: Scratch,
    _folder: tempfile::TempDir,
}

impl Plan<'_> {
    /// Runs the turns of one case under several systems, which take turns with each other: a machine that changes
    /// its speed changes it for all of them. Their programs are all there from the first turn to the last, and wait
    /// while others have theirs. The rates of requests are worked out where none are given. A system that fails has its
    /// reason instead of a cell.
    pub(super) fn cells(
        &self,
        systems: &[System],
        case: &Case,
        rates: Option<&[f64]>,
    ) -> Vec<Result<Cell>> {
        // Before the programs, so that it ends after them.
        let mps = self.mps(systems);
        let start = |&system: &System| self.stage(system, case, mps.as_ref());
        let started: Vec<_> = systems.iter().map(start).collect();
        let wait = |stage: Result<Stage>| stage.and_then(Stage::wait_ready);
        let mut stages: Vec<Result<Stage>> = started.into_iter().map(wait).collect();
        let rates = rates.map_or_else(|| self.rates(case, &mut stages), <[f64]>::to_vec);
        for stage in stages.iter_mut().flatten() {
            stage.cell.rates.clone_from(&rates);
        }
        let mut orders = vec![Turns::warm_up(case)];
        orders.extend(case.orders(self.rounds));
        for order in &orders {
            // Back in the opposite order.
            let mut places: Vec<usize> = (0..stages.len()).collect();
            if order.is_back() {
                places.reverse();
            }
            for place in places {
                let shown = |stage: &Stage| order.is_together() || stage.system.shows_alone();
                let ran = match &mut stages[place] {
                    Ok(stage) if shown(stage) => self.turn(case, stage, order),
                    _ => Ok(()),
                };
                if let Err(error) = ran {
                    stages[place] = Err(error);
                }
            }
        }
        stages.into_iter().map(|stage| stage?.end()).collect()
    }

    /// The daemon that those of the systems share which use one.
    fn mps(&self, systems: &[System]) -> Option<Result<Mps>> {
        let uses =
            |system: &System| system.is_mps() || (self.with_mps && system.is_apex_with_mps());
        let start = || {
            let folder = tempfile::tempdir_in(self.folder.path()).context("no place for files")?;
            // The whole folder goes with this program.
            Mps::start(&folder.keep())
        };
        systems.iter().any(uses).then(start)
    }

    /// Starts the programs of one system. One of MPS cannot do without; apex can, and says so at its end.
    fn stage(&self, system: System, case: &Case, mps: Option<&Result<Mps>>) -> Result<Stage> {
        let begun = Instant::now();
        let folder = tempfile::tempdir_in(self.folder.path()).context("no place for files")?;
        let mps = match mps {
            Some(Err(error)) if system.is_mps() => bail!("{error:#}"),
            other => other.and_then(|mps| mps.as_ref().ok()),
        };
        // In memory where it can be: a GPU cannot be told of pages of a file on a disk.
        let memory = Scratch::within(Path::new("/dev/shm"));
        let pages = memory.or_else(|_| Scratch::within(folder.path()));
        let pages = pages.context("no place for pages")?;
        let apex_with_mps = self.with_mps && system.is_apex_with_mps();
        let folders = CellFolders {
            folder: folder.path(),
            pages: pages.path(),
            mps,
            apex_with_mps,
            other: self.arguments.other.as_deref(),
        };
        if let Some(mps) = mps.filter(|_| apex_with_mps) {
            mps.offer(&folders.gate())?;
        }
        let workers = self.start(system, case, &folders)?;
        let mut cell = Cell::default();
        cell.latency.resize_with(case.latency.len(), Program::default);
        cell.train.resize_with(case.train.len(), Program::default);
        Ok(Stage { system, workers, cell, begun, _pages: pages, _folder: folder })
    }

    /// Requests a second of each program that answers them, from what one request takes while nothing else runs: in the
    /// mean of several looks at the systems in turn, because the machine changes its speed.
    fn rates(&self, case: &Case, stages: &mut [Result<Stage>]) -> Vec<f64> {
        let mut times = vec![Vec::new(); case.latency.len()];
        for _ in 0..LOOKS.div_ceil(stages.len().max(1)) {
            for stage in stages.iter_mut() {
                let Ok(ready) = stage else { continue };
                let looked = ready.workers.iter_mut().zip(&mut times).try_for_each(|it| {
                    it.1.push(it.0.service_ns(LOOK)? as f64);
                    Ok(())
                });
                if let Err(error) = looked {
                    *stage = Err(error);
                }
            }
        }
        let part = self.arguments.load / case.latency.len() as f64;
        times.iter().filter_map(|times| Some(part * 1e9 / mean_of(times)?)).collect()
    }

    fn start(&self, system: System, case: &Case, folders: &CellFolders<'_>) -> Result<Vec<Worker>> {
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
            let command = system.command(side, &words(sides)?, folders)?;
            Worker::start(command, name, folders.folder, self.deadline)
        };
        if system.is_one_process() {
            let sides = [(Side::Latency, case.latency[0]), (Side::Train, case.train[0])];
            return Ok(vec![start(Side::Latency, &sides, "only".into())?]);
        }
        let latency = case.latency.iter().map(|model| (Side::Latency, *model));
        let train = case.train.iter().map(|model| (Side::Train, *model));
        let programs = case.latency.len() + case.train.len();
        // Own programs have the processors for a GPU, and must share it.
        let processors = (!self.arguments.synthetic).then(Processors::here);
        let begin = |(nth, it): (usize, (Side, &'static str))| {
            let worker = start(it.0, &[it], format!("{}-{nth}", it.0.class()))?;
            if let Some(processors) = &processors {
                processors.place(worker.process(), nth, programs);
            }
            Ok(worker)
        };
        latency.chain(train).enumerate().map(begin).collect()
    }

    /// One turn of one system.
    fn turn(&self, case: &Case, stage: &mut Stage, turn: &Turns) -> Result<()> {
        let Stage { system, workers, cell, .. } = stage;
        let seconds = if turn.warms_up() { self.warm_up_seconds } else { self.seconds };
        let system = *system;
        let (asks, trains) = turn.runs.split_at(case.latency.len());
        // The same arrivals for every system, others on the way back and for each program.
        let seed = |nth: usize| self.arguments.seed * 1_000 + turn.arrivals() * 100 + nth as u64;
        let together = turn.is_together();
        let watched = !turn.warms_up() && !self.arguments.synthetic;
        let length = Duration::from_secs_f64(seconds);
        let watched = watched.then(|| Utilisation::watch(LEAD, length));
        let at = monotonic_nanos() + LEAD.as_nanos() as u64;
        let order = |latency: Option<usize>, train: bool| {
            let latency = latency
                .filter(|&nth| asks[nth])
                .map(|nth| json!({"rate": cell.rates[nth], "seed": seed(nth), "cv": case.cv}));
            json!({"run": 1, "at": at, "seconds": seconds, "latency": latency, "train": train})
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
        let mut raw = json!({"case": case.name, "system": system.name(), "runs": turn.runs,
            "way": turn.arrivals(), "warm_up": turn.warms_up()});
        let mut line = String::new();
        for (nth, worker) in workers.iter_mut().enumerate() {
            let answer = worker.turn(seconds)?;
            let keep = |program: &mut Program, turn_of: Turn| match together {
                _ if turn.warms_up() => {}
                true => program.together.push(turn_of),
                false => program.alone.push(turn_of),
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
                let steps_per_second = rate(&answer.steps, seconds);
                raw["steps_per_second"][format!("{train}")] = json!(rounded(steps_per_second));
                line += &format!(" {steps_per_second:.2} steps/s;");
                keep(&mut cell.train[train], Turn { steps_per_second, ..Turn::default() });
            }
        }
        let sm_percent = watched.flatten().and_then(Utilisation::mean_percent);
        cell.sm_percent.extend(sm_percent.filter(|_| together));
        raw["sm_percent"] = json!(sm_percent.map(rounded));
        cell.raw.push(raw);
        let kind = match together {
            _ if turn.warms_up() => "warming up:",
            true => "together:",
            false => "alone:",
        };
        say(&format!("  {} {kind}{line}", system.name()));
        Ok(())
    }
}

impl Stage {
    /// Waits until its programs can take turns.
    fn wait_ready(mut self) -> Result<Stage> {
        for worker in &mut self.workers {
            worker.wait_ready()?;
        }
        self.cell.device.clone_from(&self.workers[0].device);
        self.cell.start_seconds = self.begun.elapsed().as_secs_f64();
        Ok(self)
    }

    /// Ends the programs; what they did.
    fn end(self) -> Result<Cell> {
        let Stage { workers, mut cell, .. } = self;
        for worker in workers {
            let (computed, said) = worker.quit()?;
            cell.computed.push(computed);
            cell.said.extend(said);
        }
        Ok(cell)
    }
}
