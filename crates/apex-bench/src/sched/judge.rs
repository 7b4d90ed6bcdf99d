//! What the cells say: rows, the promises that they decide, and the table.

use super::cases::Case;
use super::cell::{Cell, Program, Turn};
use super::numbers::{Estimate, mean_of, p95_ratio, quantile, rate_ratio, rounded};
use super::picture::{Point, letters};
use super::systems::System;
use super::workers::{Computed, Request};
use crate::report::Bar;
use serde_json::{Value, json};

/// A P95 above so many times that alone grows as long as the turn lasts.
const OVERLOADED: f64 = 10.0;
/// A load that is another by this part is said.
const OTHER_LOAD: f64 = 0.15;

fn requests(turns: &[Turn]) -> Vec<Vec<Request>> {
    turns.iter().map(|turn| turn.requests.clone()).collect()
}

fn rates(turns: &[Turn]) -> Vec<f64> {
    turns.iter().map(|turn| turn.steps_per_second).collect()
}

/// One row. Of several programs that answer requests the one counts that lost most; trainings are added up. What it
/// is compared with is time-slicing: its turns alone, and those together.
pub(super) fn row(case: &Case, system: System, cell: &Cell, time_slicing: &Cell) -> Value {
    let alone = time_slicing;
    let p95 = |programs: &[Program], of: fn(&Program) -> &[Turn], seed| {
        let ratio = |(nth, program): (usize, &Program)| {
            (nth, p95_ratio(&requests(of(program)), &requests(&alone.latency[nth].alone), seed))
        };
        let all = programs.iter().enumerate().map(ratio);
        all.max_by(|a, b| a.1.value.total_cmp(&b.1.value)).unwrap_or((0, Estimate::NONE))
    };
    let training = |of: fn(&Program) -> &[Turn]| {
        let each = cell.train.iter().zip(&alone.train);
        each.map(|(with, alone)| rate_ratio(&rates(of(with)), &rates(&alone.alone)))
            .reduce(Estimate::plus)
            .unwrap_or(Estimate::NONE)
    };
    let (worst, p95_over_alone) = p95(&cell.latency, |it| &it.together, 1);
    let together = requests(&cell.latency[worst].together);
    let times = |turns: &[Vec<Request>], of: fn(&Request) -> Option<f64>, part| {
        let mut values: Vec<f64> = turns.iter().flatten().filter_map(of).collect();
        let value = quantile(&mut values, part);
        if value.is_finite() { json!(rounded(value)) } else { Value::Null }
    };
    let response =
        |turns: &[Vec<Request>], part| times(turns, |request| Some(request.response_ms()), part);
    let service = |part| times(&together, |request| Some(request.service_ms()), part);
    let queue = |part| times(&together, Request::queue_ms, part);
    let busy = |(program, rate): (&Program, &f64)| {
        let requests = program.alone.iter().flat_map(|turn| &turn.requests);
        mean_of(&requests.map(Request::service_ms).collect::<Vec<f64>>()).map(|ms| ms * rate / 1e3)
    };
    let load: Option<f64> = alone.latency.iter().zip(&cell.rates).map(busy).sum();
    let mut row = json!({
        "pair": case.name,
        "load": load.map(rounded),
        "core": case.core,
        "system": system.name(),
        "requests_per_second": rounded(cell.rates[worst]),
        "requests": together.iter().map(Vec::len).sum::<usize>(),
        "p50_ms": response(&together, 0.5),
        "p95_ms": response(&together, 0.95),
        "p99_ms": response(&together, 0.99),
        "service_p50_ms": service(0.5),
        "service_p95_ms": service(0.95),
        "queue_p95_ms": queue(0.95),
        "alone_p95_ms": response(&requests(&alone.latency[worst].alone), 0.95),
        "p95_over_alone": estimate(p95_over_alone),
        "training_over_alone": estimate(training(|it| &it.together)),
        "sm_percent": mean_of(&cell.sm_percent).map(rounded),
        "start_seconds": rounded(cell.start_seconds),
    });
    // In one process both sides draw from one generator of random numbers: their weights are others.
    if !system.is_one_process() {
        let agree = |nth: usize| {
            cell.computed.iter().zip(&alone.computed).all(|(ours, theirs)| ours.agrees(theirs)[nth])
        };
        row["same_answers"] = json!(agree(0));
        row["same_losses"] = json!(agree(1));
        row["first_losses"] = cell.computed.iter().map(Computed::first_losses).collect();
    }
    if !cell.said.is_empty() {
        row["said"] = json!(cell.said);
    }
    if system.is_apex() && system.shows_alone() {
        // What a program loses that has the GPU to itself.
        let count = cell.train.len() as f64;
        row["alone_under_apex"] = json!({
            "p95": estimate(p95(&cell.latency, |it| &it.alone, 2).1),
            "training": estimate(training(|it| &it.alone).over(count)),
        });
    }
    if system != System::TimeSlicing {
        let sliced = requests(&time_slicing.latency[worst].together);
        row["p95_over_time_slicing"] = estimate(p95_ratio(&together, &sliced, 3));
        let [ours, theirs] =
            [cell, time_slicing].map(|it| added_up(&it.train, &time_slicing.train));
        row["training_over_time_slicing"] = estimate(rate_ratio(&ours, &theirs));
    }
    row
}

/// What all trainings did in each turn together, each in parts of its rate alone.
fn added_up(programs: &[Program], alone: &[Program]) -> Vec<f64> {
    let each = programs.iter().zip(alone).map(|(program, alone)| {
        let alone = mean_of(&rates(&alone.alone)).unwrap_or(f64::NAN);
        rates(&program.together).into_iter().map(|rate| rate / alone).collect::<Vec<f64>>()
    });
    let plus =
        |sums: Vec<f64>, rates: Vec<f64>| sums.iter().zip(rates).map(|(a, b)| a + b).collect();
    each.reduce(plus).unwrap_or_default()
}

fn estimate(it: Estimate) -> Value {
    json!({"value": rounded(it.value), "low": rounded(it.low), "high": rounded(it.high)})
}

fn number(row: &Value, path: &[&str]) -> Option<f64> {
    path.iter().try_fold(row, |value, key| value.get(key))?.as_f64()
}

/// The row's place on the plane.
pub(super) fn point(row: &Value) -> Option<Point> {
    Some(Point {
        pair: row["pair"].as_str()?.into(),
        system: row["system"].as_str()?.into(),
        training: number(row, &["training_over_alone", "value"])?,
        p95: number(row, &["p95_over_alone", "value"])?,
    })
}

/// The promises that the rows decide. A promise whose rows are missing is not made.
pub(super) fn bars(rows: &[Value]) -> Vec<Bar> {
    let mut bars = gpu_bound_bars(rows);
    bars.extend(mean_bars(rows));
    for ours in rows.iter().filter(|row| row["system"] == "apex") {
        if let Some(pair) = ours["pair"].as_str() {
            bars.extend(pair_bars(rows, pair, ours));
            bars.extend(equality_bars(rows, pair, ours));
        }
    }
    bars
}

fn find<'a>(rows: &'a [Value], pair: &str, system: &str) -> Option<&'a Value> {
    rows.iter().find(|row| row["pair"] == pair && row["system"] == system)
}

fn p95(row: &Value) -> Option<f64> {
    number(row, &["p95_over_alone", "value"])
}

fn training(row: &Value) -> Option<f64> {
    number(row, &["training_over_alone", "value"])
}

/// The pair that the GPU alone limits.
fn gpu_bound_bars(rows: &[Value]) -> Vec<Bar> {
    let Some(row) = find(rows, "gpu-bound", "apex") else { return Vec::new() };
    let p95 =
        p95(row).map(|value| Bar::at_most("gpu-bound: P95 over alone".into(), value, "x", 1.25));
    let training = training(row)
        .map(|value| Bar::at_least("gpu-bound: training over alone".into(), value, "x", 0.55));
    p95.into_iter().chain(training).collect()
}

/// Means over the core pairs that were measured under both systems.
fn mean_bars(rows: &[Value]) -> Vec<Bar> {
    let mean = |system: &str, of: &dyn Fn(&Value) -> Option<f64>| {
        let apex = rows.iter().filter(|row| row["system"] == "apex" && row["core"] == true);
        let ratio = |ours: &Value| {
            let theirs = find(rows, ours["pair"].as_str()?, system)?;
            Some(of(ours)? / of(theirs)?)
        };
        let found: Vec<f64> = apex.filter_map(ratio).filter(|value| value.is_finite()).collect();
        mean_of(&found)
    };
    let mut bars = Vec::new();
    if let Some(value) = mean("time-slicing", &p95) {
        bars.push(Bar::at_most("P95 over time-slicing's, mean".into(), value, "x", 0.70));
    }
    if let Some(value) = mean("time-slicing", &training) {
        bars.push(Bar::at_least("training over time-slicing's, mean".into(), value, "x", 1.10));
    }
    if let Some(value) = mean("time-slicing", &|row| number(row, &["sm_percent"])) {
        let name = "SM utilisation over time-slicing's, mean".into();
        bars.push(Bar::at_least(name, value, "x", 1.15));
    }
    for system in ["time-slicing", "mps"] {
        if let Some(value) = mean(system, &|row| number(row, &["queue_p95_ms"])) {
            let name = format!("queue wait P95 over that of {system}, mean");
            bars.push(Bar::at_most(name, value, "x", 0.55));
        }
    }
    bars
}

/// One pair: beside the best of MPS, beside apex without predicted times, and training that has the GPU to itself.
fn pair_bars(rows: &[Value], pair: &str, ours: &Value) -> Vec<Bar> {
    let mut bars = Vec::new();
    let is_mps = |row: &&Value| row["system"].as_str().is_some_and(|name| name.starts_with("mps"));
    let points = rows.iter().filter(|row| row["pair"] == pair).filter(is_mps);
    let equal = points.filter(|row| training(row) >= training(ours).map(|it| it * 0.97));
    let best = equal.filter_map(p95).fold(f64::INFINITY, f64::min);
    if let (true, Some(value)) = (best.is_finite(), p95(ours)) {
        let name = format!("{pair}: P95 over the best MPS point with as much training");
        bars.push(Bar::at_most(name, value / best, "x", 0.75));
    }
    if let Some(blind) = find(rows, pair, "apex-blind")
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
    bars
}

/// Whether a pair answers and learns the same under apex.
fn equality_bars(rows: &[Value], pair: &str, ours: &Value) -> Vec<Bar> {
    let mut bars = Vec::new();
    for what in ["answers", "losses"] {
        let key = format!("same_{what}");
        // What varies from run to run without apex too says nothing of apex.
        let varies = |row: &Value| {
            let apex = row["system"].as_str().is_some_and(|name| name.starts_with("apex"));
            row["pair"] == pair && !apex && row[&key] == false
        };
        let is_same = ours[&key] == true;
        if !is_same && rows.iter().any(varies) {
            continue;
        }
        let name = format!("{pair}: same {what} under apex");
        bars.push(Bar::at_least(name, f64::from(is_same), "", 1.0));
    }
    bars
}

/// In how many of the core pairs that count for the means time-slicing was overloaded: a ratio to such a P95 says more
/// of the length of a turn than of the system.
pub(super) fn overloaded(rows: &[Value]) -> Option<String> {
    let sliced = |row: &&Value| row["core"] == true && row["system"] == "time-slicing";
    let pairs: Vec<&Value> = rows.iter().filter(sliced).collect();
    let over = pairs.iter().filter(|row| p95(row).is_some_and(|p95| p95 > OVERLOADED));
    let names: Vec<&str> = over.filter_map(|row| row["pair"].as_str()).collect();
    let count = format!("{} of {} core pairs", names.len(), pairs.len());
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!(
            "time-slicing was overloaded (P95 above {OVERLOADED} times alone) in {count}: {names}"
        )
    })
}

/// The pairs whose load was another than was asked for: the machine changed its speed after the rate was found.
pub(super) fn other_loads(rows: &[Value], asked: f64) -> Option<String> {
    let sliced = rows.iter().filter(|row| row["system"] == "time-slicing");
    let other = sliced.filter_map(|row| {
        let load = number(row, &["load"]).filter(|load| (load / asked - 1.0).abs() > OTHER_LOAD)?;
        Some(format!("{} {load:.2}", row["pair"].as_str()?))
    });
    let pairs: Vec<String> = other.collect();
    (!pairs.is_empty()).then(|| {
        format!("the load alone was another than the {asked} asked for: {}", pairs.join(", "))
    })
}

/// The plane and the table.
pub(crate) fn print_rows(rows: &[Value]) {
    let points: Vec<Point> = rows.iter().filter_map(point).collect();
    println!("{}", letters(&points));
    println!("{}", line(&COLUMNS.map(|(name, _)| name.to_owned())));
    for row in rows {
        println!("{}", line(&cells(row)));
    }
}

/// Names and widths; the first two stand left.
const COLUMNS: [(&str, usize); 13] = [
    ("pair", 17),
    ("system", 12),
    ("per s", 6),
    ("P50 ms", 7),
    ("P95 ms", 7),
    ("P99 ms", 7),
    ("service ms", 13),
    ("queue P95", 9),
    ("P95 / alone", 17),
    ("training / alone", 17),
    ("P95 / slicing", 17),
    ("train / slicing", 17),
    ("SM %", 5),
];

fn line(cells: &[String; COLUMNS.len()]) -> String {
    let aligned = cells.iter().zip(COLUMNS).enumerate().map(|(nth, (cell, (_, width)))| {
        if nth < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    aligned.collect::<Vec<_>>().join(" ")
}

/// In at most four characters up to 999.
fn short(ratio: f64) -> String {
    let digits = match ratio {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{ratio:.digits$}")
}

fn cells(row: &Value) -> [String; COLUMNS.len()] {
    let word = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let time = |key: &str| number(row, &[key]).map_or("-".into(), |value| format!("{value:.1}"));
    let interval = |key: &str| {
        let part = |name| number(row, &[key, name]);
        match (part("value"), part("low"), part("high")) {
            (Some(value), Some(low), Some(high)) => {
                format!("{} [{}, {}]", short(value), short(low), short(high))
            }
            _ => "-".into(),
        }
    };
    [
        word("pair"),
        word("system"),
        time("requests_per_second"),
        time("p50_ms"),
        time("p95_ms"),
        time("p99_ms"),
        format!("{} / {}", time("service_p50_ms"), time("service_p95_ms")),
        time("queue_p95_ms"),
        interval("p95_over_alone"),
        interval("training_over_alone"),
        interval("p95_over_time_slicing"),
        interval("training_over_time_slicing"),
        time("sm_percent"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(pair: &str, system: &str, p95: f64, training: f64) -> Value {
        let it = |value| json!({"value": value, "low": value, "high": value});
        json!({"pair": pair, "core": pair != "gpu-bound", "system": system,
            "p95_over_alone": it(p95), "training_over_alone": it(training),
            "p95_over_time_slicing": it(p95), "training_over_time_slicing": it(training),
            "same_answers": true, "same_losses": true})
    }

    #[test]
    fn bars_follow_from_the_rows() {
        let rows = [
            measured("gpu-bound", "time-slicing", 90.0, 0.51),
            measured("gpu-bound", "mps-priority", 4.9, 0.58),
            measured("gpu-bound", "mps", 170.0, 0.79),
            measured("gpu-bound", "apex", 1.2, 0.57),
            measured("resnet-resnet", "time-slicing", 2.0, 0.8),
            measured("resnet-resnet", "apex", 1.2, 0.9),
            measured("bert-gpt2", "time-slicing", 1.5, 0.7),
            measured("bert-gpt2", "apex", 1.2, 0.98),
        ];
        let bars = bars(&rows);
        let find = |part: &str| bars.iter().find(|bar| bar.name.contains(part)).unwrap();
        assert!(find("P95 over alone").ok && find("training over alone").ok);
        assert!((find("best MPS point").value - 1.2 / 4.9).abs() < 1e-9);
        // Means of the ratios of the core pairs, to which gpu-bound does not belong.
        assert!((find("P95 over time-slicing").value - 0.7).abs() < 1e-9);
        assert!((find("training over time-slicing").value - 1.2625).abs() < 1e-9);
        assert!(bars.iter().all(|bar| bar.ok));
    }

    #[test]
    fn what_was_not_measured_is_not_promised() {
        assert!(bars(&[measured("gpu-bound", "time-slicing", 90.0, 0.51)]).is_empty());
    }

    #[test]
    fn an_overloaded_neighbour_is_named() {
        let mut rows = vec![
            measured("gpu-bound", "time-slicing", 90.0, 0.51),
            measured("resnet-resnet", "time-slicing", 1.4, 0.86),
            measured("resnet-resnet", "mps", 170.0, 0.86),
        ];
        assert_eq!(overloaded(&rows), None);
        rows.push(measured("prefill-resnet", "time-slicing", 10.1, 0.65));
        let said = overloaded(&rows).unwrap();
        assert!(said.ends_with("in 1 of 2 core pairs: prefill-resnet"), "{said}");
    }

    /// Two turns of one program each, alone and together.
    fn measured_cell(response_ms: [u64; 2], steps_per_second: [[f64; 2]; 2]) -> Cell {
        let turns = |nth: usize| -> Vec<Turn> {
            let request = |at: u64| Request {
                scheduled: at * 10_000_000,
                started: at * 10_000_000,
                first: None,
                ended: at * 10_000_000 + response_ms[nth] * 1_000_000,
            };
            let turn = |rate: f64| Turn {
                requests: (0..300).map(request).collect(),
                steps_per_second: rate,
            };
            steps_per_second[nth].map(turn).into()
        };
        let program = || Program { alone: turns(0), together: turns(1) };
        Cell {
            latency: vec![program()],
            train: vec![program(), program()],
            rates: vec![100.0],
            ..Cell::default()
        }
    }

    #[test]
    fn neighbours_are_compared_turn_by_turn() {
        let case = crate::sched::cases::named("two-training").unwrap();
        // The second turn fell into a slow minute.
        let sliced = measured_cell([2, 8], [[10.0, 8.0], [5.0, 4.0]]);
        let ours = measured_cell([2, 4], [[10.0, 8.0], [5.5, 4.8]]);
        let row = row(&case, System::Mps, &ours, &sliced);
        assert_eq!(row["p95_over_alone"]["value"], 2.0);
        assert_eq!(row["p95_over_time_slicing"], json!({"value": 0.5, "low": 0.5, "high": 0.5}));
        let training = &row["training_over_time_slicing"];
        assert_eq!(*training, json!({"value": 1.1444, "low": 1.1, "high": 1.2}));
        let itself = super::row(&case, System::TimeSlicing, &sliced, &sliced);
        assert!(itself.get("p95_over_time_slicing").is_none());
    }

    #[test]
    fn a_load_that_was_not_asked_for_is_said() {
        let case = crate::sched::cases::named("resnet-resnet").unwrap();
        // 100 requests a second of 2 ms each, alone.
        let sliced = measured_cell([2, 8], [[10.0, 8.0], [5.0, 4.0]]);
        let rows = [row(&case, System::TimeSlicing, &sliced, &sliced)];
        assert_eq!(other_loads(&rows, 0.2), None);
        assert!(other_loads(&rows, 0.5).unwrap().ends_with(": resnet-resnet 0.20"));
    }

    #[test]
    fn lines_of_the_table_are_short() {
        let header = line(&COLUMNS.map(|(name, _)| name.to_owned()));
        assert!(COLUMNS.iter().all(|(name, width)| name.len() <= *width));
        let row = line(&cells(&measured("decode-graph-bert", "mps-priority", 123.45, 99.94)));
        assert_eq!([9.994, 9.996, 99.94, 99.96].map(short), ["9.99", "10.0", "99.9", "100"]);
        assert!(header.len() <= 170 && row.len() == header.len(), "{header}\n{row}");
    }
}
