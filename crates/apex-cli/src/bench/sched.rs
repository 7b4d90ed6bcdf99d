//! A program that answers requests beside one that trains, under every way in which they can share a GPU.
//!
//! The workers are PyTorch programs that know nothing of apex (`tests/device/sched/worker.py`, kept inside this
//! program). Requests come by chance at a part of what the program could answer alone, with the same arrivals for
//! every system, and count from their scheduled arrival. Turns go forth and back (requests alone, both,
//! training alone, training alone, both, requests alone), so that a drift of the clocks falls on all alike.
//! Everything is compared with each side alone and without apex.

mod numbers;
mod picture;
pub(crate) mod stand_in;
mod systems;
mod utilisation;
mod workers;

use super::{Bar, Report};
use crate::arguments::BenchSched;
use crate::say;
use anyhow::{Context, Result, bail};
use apex_core::time::monotonic_nanos;
use numbers::{Estimate, p95_ratio, quantile, rate, rate_ratio};
use picture::{Point, plane};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use systems::{Mps, Side, System};
use utilisation::Utilisation;
use workers::{Computed, Request, Worker};

const WORKER: &str = include_str!("../../../../tests/device/sched/worker.py");

/// Name, model that answers, model that is trained, and whether it counts for the means.
const PAIRS: [(&str, &str, &str, bool); 8] = [
    ("gpu-bound", "bert-base-graph", "gpt2-medium", true),
    ("resnet-resnet", "resnet50", "resnet50", true),
    ("bert-gpt2", "bert-large", "gpt2-large", true),
    ("decode-bert", "llama-decode", "bert-large", true),
    ("prefill-resnet", "llama-prefill", "resnet50", true),
    ("cpu-bound", "bert-base-small", "gpt2-medium", false),
    ("bert-gemm", "bert-large", "gemm16k", false),
    ("decode-stream", "llama-decode", "stream", false),
];
/// With --quick no system is begun after so many seconds.
const QUICK_SECONDS: u64 = 400;

/// The turns of a cell: whether requests come, whether training runs.
const ALONE_TOO: [(bool, bool); 6] =
    [(true, false), (true, true), (false, true), (false, true), (true, true), (true, false)];
const TOGETHER: [(bool, bool); 2] = [(true, true), (true, true)];

struct Plan<'a> {
    arguments: &'a BenchSched,
    seconds: f64,
    folder: tempfile::TempDir,
    with_mps: bool,
}

/// What one system did with one pair.
#[derive(Default)]
struct Cell {
    together: Vec<Vec<Request>>,
    requests_alone: Vec<Vec<Request>>,
    training: Vec<f64>,
    training_alone: Vec<f64>,
    computed: Vec<Computed>,
    sm_percent: Vec<f64>,
    device: String,
}

/// Measures every pair under every system.
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
    let plan = Plan {
        arguments,
        seconds: arguments.seconds.unwrap_or(usual).clamp(0.2, 3_600.0),
        folder: tempfile::tempdir().context("there is no place for temporary files")?,
        with_mps: !arguments.synthetic,
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
    for (name, latency, train, core) in chosen_pairs(arguments)? {
        let mut baseline: Option<(Cell, f64)> = None;
        for &system in &systems {
            if arguments.quick && begun.elapsed().as_secs() > QUICK_SECONDS {
                report.notes.push(format!("{name} under {} was left out: no time", system.name()));
                continue;
            }
            say(&format!("{name}: {} ({} s so far)", system.name(), begun.elapsed().as_secs()));
            let asked = baseline.as_ref().map(|(_, rate)| *rate);
            match plan.cell(system, latency, train, asked) {
                Ok((cell, rate)) => {
                    report.device.clone_from(&cell.device);
                    let alone = baseline.as_ref().map_or(&cell, |(cell, _)| cell);
                    report.rows.push(row(name, core, system, rate, &cell, alone));
                    if system == System::TimeSlicing {
                        baseline = Some((cell, rate));
                    }
                }
                Err(error) if baseline.is_none() => {
                    return Err(error.context(format!("{name} cannot be measured alone")));
                }
                Err(error) => {
                    report.notes.push(format!("{name} under {}: {error:#}", system.name()));
                }
            }
        }
    }
    report.bars = bars(&report.rows);
    if arguments.synthetic {
        report.notes.push("own programs on the software GPU: times are the processor's".into());
        report.bars.clear();
    }
    if let Some(path) = &arguments.picture {
        let points: Vec<Point> = report.rows.iter().filter_map(point).collect();
        let title = format!("Sharing {}: requests at load {}", report.device, arguments.load);
        std::fs::write(path, plane(&title, &points))
            .with_context(|| format!("{} cannot be written", path.display()))?;
        report.notes.push(format!("the plane is drawn in {}", path.display()));
    }
    Ok(report)
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

type Pair = (&'static str, &'static str, &'static str, bool);

fn chosen_pairs(arguments: &BenchSched) -> Result<Vec<Pair>> {
    if arguments.synthetic {
        return Ok(vec![("stand-in", "", "", false)]);
    }
    if arguments.pair.is_empty() {
        let count = if arguments.quick { 1 } else { PAIRS.len() };
        return Ok(PAIRS[..count].to_vec());
    }
    let find = |name: &String| match PAIRS.iter().find(|pair| pair.0 == name) {
        Some(pair) => Ok(*pair),
        None => {
            let names: Vec<&str> = PAIRS.iter().map(|pair| pair.0).collect();
            bail!("no pair is called {name}; there are {}", names.join(", "))
        }
    };
    arguments.pair.iter().map(find).collect()
}

impl Plan<'_> {
    /// Runs the turns of one cell; the rate of requests is worked out where none is given.
    fn cell(
        &self,
        system: System,
        latency: &str,
        train: &str,
        rate_asked: Option<f64>,
    ) -> Result<(Cell, f64)> {
        let folder = tempfile::tempdir_in(self.folder.path()).context("no place for files")?;
        let _mps = system.is_mps().then(|| Mps::start(folder.path())).transpose()?;
        let mut workers = self.start(system, latency, train, folder.path())?;
        for worker in &mut workers {
            worker.wait_ready()?;
        }
        let requests_per_second = match rate_asked {
            Some(rate) => rate,
            None => self.arguments.load * 1e9 / workers[0].service_ns()? as f64,
        };
        let mut cell = Cell { device: workers[0].device.clone(), ..Cell::default() };
        let turns = if system.shows_alone() { &ALONE_TOO[..] } else { &TOGETHER[..] };
        let (mut both, mut alone) = (0, 0);
        for &(asks, trains) in turns {
            let nth = if asks && trains { &mut both } else { &mut alone };
            *nth += 1;
            // The same arrivals for every system, others in each turn.
            let seed = self.arguments.seed * 1_000 + *nth;
            let watched = (asks && trains && !self.arguments.synthetic)
                .then(|| Utilisation::watch(self.seconds));
            let (requests, steps) =
                self.turn(&mut workers, asks.then_some((requests_per_second, seed)), trains)?;
            cell.sm_percent.extend(watched.flatten().and_then(Utilisation::mean_percent));
            match (asks, trains) {
                (true, true) => {
                    cell.together.push(requests);
                    cell.training.push(rate(&steps, self.seconds));
                }
                (true, false) => cell.requests_alone.push(requests),
                _ => cell.training_alone.push(rate(&steps, self.seconds)),
            }
        }
        for worker in workers {
            cell.computed.push(worker.quit()?);
        }
        Ok((cell, requests_per_second))
    }

    fn start(
        &self,
        system: System,
        latency: &str,
        train: &str,
        folder: &Path,
    ) -> Result<Vec<Worker>> {
        let words = |sides: &[Side]| -> Result<Vec<OsString>> {
            let mut words: Vec<OsString> = if self.arguments.synthetic {
                let apex = std::env::current_exe().context("apex is not found")?;
                vec![apex.into(), "bench".into(), "sched-worker".into()]
            } else {
                vec!["python3".into(), self.folder.path().join("worker.py").into()]
            };
            for side in sides {
                let (option, model) = match side {
                    Side::Latency => ("--latency", latency),
                    Side::Train => ("--train", train),
                };
                words.push(option.into());
                if !self.arguments.synthetic {
                    words.push(model.into());
                }
            }
            Ok(words)
        };
        let start = |side: Side, sides: &[Side], name| {
            let command = system.command(side, &words(sides)?, folder, self.with_mps)?;
            Worker::start(command, name, folder)
        };
        if system == System::Streams {
            return Ok(vec![start(Side::Latency, &[Side::Latency, Side::Train], "only")?]);
        }
        Ok(vec![
            start(Side::Latency, &[Side::Latency], "requests")?,
            start(Side::Train, &[Side::Train], "training")?,
        ])
    }

    fn turn(
        &self,
        workers: &mut [Worker],
        asks: Option<(f64, u64)>,
        trains: bool,
    ) -> Result<(Vec<Request>, Vec<u64>)> {
        let at = monotonic_nanos() + 200_000_000;
        let order = json!({
            "run": 1,
            "at": at,
            "seconds": self.seconds,
            "latency": asks.map(|(rate, seed)| json!({"rate": rate, "seed": seed})),
            "train": trains,
        });
        for worker in workers.iter_mut() {
            worker.order(&order)?;
        }
        let (mut requests, mut steps) = (Vec::new(), Vec::new());
        for worker in workers {
            let turn = worker.turn(self.seconds)?;
            requests.extend(turn.requests());
            steps.extend(turn.steps);
        }
        Ok((requests, steps))
    }
}

fn row(
    pair: &str,
    core: bool,
    system: System,
    requests_per_second: f64,
    cell: &Cell,
    alone: &Cell,
) -> Value {
    let times = |turns: &[Vec<Request>], of: fn(&Request) -> Option<f64>, part| {
        let mut values: Vec<f64> = turns.iter().flatten().filter_map(of).collect();
        let value = quantile(&mut values, part);
        if value.is_finite() { json!(rounded(value)) } else { Value::Null }
    };
    let response =
        |turns: &[Vec<Request>], part| times(turns, |request| Some(request.response_ms()), part);
    let service = |part| times(&cell.together, |request| Some(request.service_ms()), part);
    let queue = |turns: &[Vec<Request>], part| times(turns, Request::queue_ms, part);
    let p95 = p95_ratio(&cell.together, &alone.requests_alone, 1);
    let training = rate_ratio(&cell.training, &alone.training_alone);
    let mut row = json!({
        "pair": pair,
        "core": core,
        "system": system.name(),
        "requests_per_second": rounded(requests_per_second),
        "requests": cell.together.iter().map(Vec::len).sum::<usize>(),
        "p50_ms": response(&cell.together, 0.5),
        "p95_ms": response(&cell.together, 0.95),
        "p99_ms": response(&cell.together, 0.99),
        "service_p50_ms": service(0.5),
        "service_p95_ms": service(0.95),
        "queue_p95_ms": queue(&cell.together, 0.95),
        "alone_p95_ms": response(&alone.requests_alone, 0.95),
        "p95_over_alone": estimate(p95),
        "training_over_alone": estimate(training),
        "sm_percent": mean_of(&cell.sm_percent).map(rounded),
        // In one process both sides draw from one generator of random numbers: their weights are others.
        "same_results": (system != System::Streams)
            .then(|| cell.computed.iter().zip(&alone.computed).all(|(a, b)| a.agrees(b))),
    });
    if system.is_apex() && !cell.training_alone.is_empty() {
        // What a program loses that has the GPU to itself.
        let requests = p95_ratio(&cell.requests_alone, &alone.requests_alone, 2);
        let training = rate_ratio(&cell.training_alone, &alone.training_alone);
        row["alone_under_apex"] =
            json!({"p95": estimate(requests), "training": estimate(training)});
    }
    row
}

fn mean_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn estimate(it: Estimate) -> Value {
    json!({"value": rounded(it.value), "low": rounded(it.low), "high": rounded(it.high)})
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

fn number(row: &Value, path: &[&str]) -> Option<f64> {
    path.iter().try_fold(row, |value, key| value.get(key))?.as_f64()
}

fn point(row: &Value) -> Option<Point> {
    Some(Point {
        pair: row["pair"].as_str()?.into(),
        system: row["system"].as_str()?.into(),
        training: number(row, &["training_over_alone", "value"])?,
        p95: number(row, &["p95_over_alone", "value"])?,
    })
}

/// The promises that the rows decide. A promise whose rows are missing is not made.
fn bars(rows: &[Value]) -> Vec<Bar> {
    let mut bars = Vec::new();
    let cell = |pair: &str, system: &str| {
        rows.iter().find(|row| row["pair"] == pair && row["system"] == system)
    };
    let p95 = |row: &Value| number(row, &["p95_over_alone", "value"]);
    let training = |row: &Value| number(row, &["training_over_alone", "value"]);
    if let Some(row) = cell("gpu-bound", "apex") {
        if let Some(value) = p95(row) {
            bars.push(Bar::at_most("gpu-bound: P95 over alone".into(), value, "x", 1.25));
        }
        if let Some(value) = training(row) {
            bars.push(Bar::at_least("gpu-bound: training over alone".into(), value, "x", 0.55));
        }
    }
    // Means over the core pairs that were measured under both systems.
    let mean = |system: &str, of: &dyn Fn(&Value, &Value) -> Option<f64>| {
        let apex = rows.iter().filter(|row| row["system"] == "apex" && row["core"] == true);
        let found: Vec<f64> = apex
            .filter_map(|row| of(row, cell(row["pair"].as_str()?, system)?))
            .filter(|value| value.is_finite())
            .collect();
        mean_of(&found)
    };
    let against = |of: fn(&Value) -> Option<f64>| {
        move |ours: &Value, theirs: &Value| Some(of(ours)? / of(theirs)?)
    };
    if let Some(value) =
        mean("time-slicing", &against(|row| number(row, &["p95_over_alone", "value"])))
    {
        bars.push(Bar::at_most("P95 over time-slicing's, mean".into(), value, "x", 0.70));
    }
    let share = |row: &Value| number(row, &["training_over_alone", "value"]);
    if let Some(value) = mean("time-slicing", &against(share)) {
        bars.push(Bar::at_least("training over time-slicing's, mean".into(), value, "x", 1.10));
    }
    if let Some(value) = mean("time-slicing", &against(|row| number(row, &["sm_percent"]))) {
        let name = "SM utilisation over time-slicing's, mean".into();
        bars.push(Bar::at_least(name, value, "x", 1.15));
    }
    for system in ["time-slicing", "mps"] {
        if let Some(value) = mean(system, &against(|row| number(row, &["queue_p95_ms"]))) {
            let name = format!("queue wait P95 over that of {system}, mean");
            bars.push(Bar::at_most(name, value, "x", 0.55));
        }
    }
    let mps = |row: &&Value| row["system"].as_str().is_some_and(|name| name.starts_with("mps"));
    for ours in rows.iter().filter(|row| row["system"] == "apex") {
        let Some(pair) = ours["pair"].as_str() else { continue };
        let points: Vec<&Value> =
            rows.iter().filter(|row| row["pair"] == pair).filter(mps).collect();
        let equal = points.iter().filter(|row| training(row) >= training(ours).map(|it| it * 0.97));
        let best = equal.filter_map(|row| p95(row)).fold(f64::INFINITY, f64::min);
        if let (true, Some(value)) = (best.is_finite(), p95(ours)) {
            let name = format!("{pair}: P95 over the best MPS point with as much training");
            bars.push(Bar::at_most(name, value / best, "x", 0.75));
        }
        if let Some(blind) = cell(pair, "apex-blind")
            && let (Some(ours_p95), Some(blind_p95)) = (p95(ours), p95(blind))
            && let (Some(ours_share), Some(blind_share)) = (training(ours), training(blind))
        {
            let name = |what: &str| format!("{pair}: {what} with predicted times over without");
            bars.push(Bar::at_most(name("P95"), ours_p95 / blind_p95, "x", 1.0));
            bars.push(Bar::at_least(name("training"), ours_share / blind_share, "x", 1.0));
        }
        if let Some(value) = number(ours, &["alone_under_apex", "training", "value"]) {
            let name = format!("{pair}: training alone under apex");
            bars.push(Bar::at_least(name, value, "x", 0.99));
        }
        let same = f64::from(ours["same_results"] == true);
        bars.push(Bar::at_least(format!("{pair}: same results under apex"), same, "", 1.0));
    }
    bars
}

/// The table.
pub(super) fn print_rows(rows: &[Value]) {
    println!(
        "{:<15} {:<13} {:>7} {:>8} {:>8} {:>8} {:>13} {:>9} {:>21} {:>19} {:>5}",
        "pair",
        "system",
        "per s",
        "P50 ms",
        "P95 ms",
        "P99 ms",
        "service ms",
        "queue P95",
        "P95 / alone",
        "training / alone",
        "SM %"
    );
    for row in rows {
        let time =
            |key: &str| number(row, &[key]).map_or("-".into(), |value| format!("{value:.1}"));
        let interval = |key: &str| {
            let part = |name| number(row, &[key, name]);
            match (part("value"), part("low"), part("high")) {
                (Some(value), Some(low), Some(high)) => format!("{value:.2} [{low:.2}, {high:.2}]"),
                _ => "-".into(),
            }
        };
        println!(
            "{:<15} {:<13} {:>7} {:>8} {:>8} {:>8} {:>13} {:>9} {:>21} {:>19} {:>5}",
            row["pair"].as_str().unwrap_or("-"),
            row["system"].as_str().unwrap_or("-"),
            time("requests_per_second"),
            time("p50_ms"),
            time("p95_ms"),
            time("p99_ms"),
            format!("{} / {}", time("service_p50_ms"), time("service_p95_ms")),
            time("queue_p95_ms"),
            interval("p95_over_alone"),
            interval("training_over_alone"),
            time("sm_percent"),
        );
    }
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

    fn measured(pair: &str, system: &str, p95: f64, training: f64) -> Value {
        let it = |value| json!({"value": value, "low": value, "high": value});
        json!({"pair": pair, "core": true, "system": system, "p95_over_alone": it(p95),
            "training_over_alone": it(training), "same_results": true})
    }

    #[test]
    fn bars_follow_from_the_rows() {
        let rows = [
            measured("gpu-bound", "time-slicing", 90.0, 0.51),
            measured("gpu-bound", "mps-priority", 4.9, 0.58),
            measured("gpu-bound", "mps", 170.0, 0.79),
            measured("gpu-bound", "apex", 1.2, 0.57),
        ];
        let bars = bars(&rows);
        let find = |part: &str| bars.iter().find(|bar| bar.name.contains(part)).unwrap();
        assert!(find("P95 over alone").ok && find("training over alone").ok);
        assert!((find("best MPS point").value - 1.2 / 4.9).abs() < 1e-9);
        assert!(find("training over time-slicing").ok);
        assert!(bars.iter().all(|bar| bar.ok));
    }

    #[test]
    fn what_was_not_measured_is_not_promised() {
        assert!(bars(&[measured("gpu-bound", "time-slicing", 90.0, 0.51)]).is_empty());
    }
}
