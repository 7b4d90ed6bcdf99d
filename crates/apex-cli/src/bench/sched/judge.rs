//! What the cells say: rows, the promises that they decide, and the table.

use super::cases::Case;
use super::cell::{Cell, Program, Turn};
use super::numbers::{Estimate, p95_ratio, quantile, rate_ratio};
use super::picture::{Point, letters};
use super::systems::System;
use super::workers::Request;
use super::{mean_of, rounded};
use crate::bench::Bar;
use serde_json::{Value, json};

fn requests(turns: &[Turn]) -> Vec<Vec<Request>> {
    turns.iter().map(|turn| turn.requests.clone()).collect()
}

fn rates(turns: &[Turn]) -> Vec<f64> {
    turns.iter().map(|turn| turn.steps_per_second).collect()
}

/// One row. Of several programs that answer requests the one counts that lost most; trainings are added up.
pub(super) fn row(case: &Case, system: System, cell: &Cell, alone: &Cell) -> Value {
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
    let mut row = json!({
        "pair": case.name,
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
    row
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
        for what in ["answers", "losses"] {
            let key = format!("same_{what}");
            // What varies from run to run without apex too says nothing of apex.
            let own = |row: &&Value| {
                let apex = row["system"].as_str().is_some_and(|name| name.starts_with("apex"));
                row["pair"] == pair && !apex && row[&key] == false
            };
            if rows.iter().any(|row| own(&row)) {
                continue;
            }
            let same = f64::from(ours[&key] == true);
            bars.push(Bar::at_least(format!("{pair}: same {what} under apex"), same, "", 1.0));
        }
    }
    bars
}

/// The plane and the table.
pub(crate) fn print_rows(rows: &[Value]) {
    let points: Vec<Point> = rows.iter().filter_map(point).collect();
    println!("{}", letters(&points));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(pair: &str, system: &str, p95: f64, training: f64) -> Value {
        let it = |value| json!({"value": value, "low": value, "high": value});
        json!({"pair": pair, "core": true, "system": system, "p95_over_alone": it(p95),
            "training_over_alone": it(training), "same_answers": true, "same_losses": true})
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
