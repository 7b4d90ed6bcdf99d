//! Suggested configurations beside what people do instead, on problems that nobody has seen.
//!
//! A problem is one kernel with one size; its rows are the configurations it was measured in. One problem in four is held
//! out: no row of it is trained on or remembered. There every configuration in turn is the present one, the others
//! are what may be suggested, and since all were measured, what a suggestion would have brought is known. Beside it
//! stand leaving everything as it is, always 256 threads, and the block of the highest occupancy, as
//! `cuOccupancyMaxPotentialBlockSize` finds it. Suggestions are judged twice: where the present configuration has run, as in
//! every recorded program, and where nothing of the problem has.

use crate::arguments::BenchPredict;
use crate::models;
use crate::report::{Bar, Report};
use anyhow::{Context, Result};
use apex_daemon::progress::Progress;
use apex_daemon::speech::say;
use apex_policy::predict::answer::{Knowledge, Models, Time};
use apex_policy::predict::exact::exact;
use apex_policy::predict::features::{FNV_START, fnv};
use apex_policy::predict::question::{Device, Question};
use apex_policy::tune::suggest;
use apex_train::fit::{News, Options, fit};
use apex_train::rows::{self, Row};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Slower by this much is harm.
const HARM: f64 = 0.98;
/// Parts of the problems, held out in turn.
const PARTS: std::ops::Range<u64> = 0..4;

/// One held-out problem: its rows with what was predicted of each.
struct Problem<'a> {
    rows: Vec<&'a Row>,
    times: Vec<Time>,
    occupancy: Vec<f32>,
}

/// What following an adviser brought in one case: the gain that was promised, if any, and the real one.
struct Case {
    promised: Option<f64>,
    gained: f64,
    best: f64,
}

/// Judges the advice with one part of the problems held out after the other.
pub(crate) fn judge(arguments: &BenchPredict) -> Result<Report> {
    let data = models::rows(arguments.rows.as_deref(), arguments.models.as_deref())?;
    let rows: Vec<Row> = rows::read(&data)
        .context("measured rows are needed to judge advice")?
        .into_iter()
        .filter(Row::is_usable)
        .collect();
    let parts = if arguments.quick { 0..1 } else { PARTS };
    let mut judged = Vec::new();
    let mut progress = Progress::on_stderr();
    for part in parts {
        judged.extend(held_out(&rows, part, arguments.quick, &mut progress)?);
    }
    Ok(report(&rows, &judged))
}

/// Problems of one part, predicted by what the others teach.
fn held_out<'a>(
    rows: &'a [Row],
    part: u64,
    quick: bool,
    progress: &mut Progress,
) -> Result<Vec<Problem<'a>>> {
    let (held, kept): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| part_of(row) == part);
    let trained: Vec<Row> = kept.iter().map(|row| (*row).clone()).collect();
    let options = if quick { Options::quick(part) } else { Options::full(part) };
    let options = Options { large_epochs: 0, ..options };
    say(&format!("{} of {} rows are held out", held.len(), rows.len()));
    let fitted = fit(&trained, &options, &mut |news| {
        if let News::Step { what, done, all } = news {
            progress.step(&format!("part {}, {what}", part + 1), done, all);
        }
    })?;
    let device_of = |row: &Row| fitted.peaks.get(&row.device).and_then(|peaks| peaks.device());
    let mut knowledge = Knowledge::remembering(1 << 14, 1 << 10);
    for row in &trained {
        if let Some(device) = device_of(row) {
            ask(row, &device, |question| knowledge.learn(question, row.median_ns as f32));
        }
    }
    let mut problems: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    held.iter().for_each(|row| problems.entry(problem(row)).or_default().push(row));
    let models = Models { small: Some(&fitted.small), trees: Some(&fitted.trees) };
    let mut judged = Vec::new();
    for rows in problems.into_values().filter(|rows| rows.len() > 1) {
        let (mut times, mut occupancy) = (Vec::new(), Vec::new());
        for row in &rows {
            let Some(device) = device_of(row) else { continue };
            ask(row, &device, |question| {
                times.push(knowledge.predict(question, models).time);
                occupancy.push(exact(question).occupancy.fraction);
            });
        }
        if times.len() == rows.len() {
            judged.push(Problem { rows, times, occupancy });
        }
    }
    Ok(judged)
}

/// One of four parts; all configurations of a problem go together.
fn part_of(row: &Row) -> u64 {
    fnv(FNV_START, problem(row).as_bytes()) >> 20 & 3
}

fn problem(row: &Row) -> String {
    format!("{} {} {}", row.device, row.entry, row.parameters)
}

fn ask(row: &Row, device: &Device, asked: impl FnOnce(&Question<'_>)) {
    let facts = row.facts();
    asked(&Question {
        device,
        kernel: &facts.kernel,
        shape: row.shape(),
        dynamic_shared: row.dynamic_shared,
        arguments: &facts.arguments,
        work: row.work(),
        walked: &facts.walked,
    });
}

fn report(rows: &[Row], problems: &[Problem<'_>]) -> Report {
    let suggested = |problem: &Problem<'_>, present: usize, measured: Option<f32>| {
        let others: Vec<usize> = (0..problem.rows.len()).filter(|nth| *nth != present).collect();
        let offered: Vec<Time> = others.iter().map(|nth| problem.times[*nth]).collect();
        let found = suggest(&problem.times[present], measured, &offered)?;
        Some((others[found.place], Some(f64::from(found.speedup))))
    };
    let ours = cases(problems, |problem, present| {
        suggested(problem, present, Some(problem.rows[present].median_ns as f32))
    });
    let unseen = cases(problems, |problem, present| suggested(problem, present, None));
    let usual = cases(problems, |problem, present| {
        let threads = |row: &Row| row.shape().threads_per_block();
        let own = problem.rows[present];
        let same = problem.rows.iter().position(|row| {
            threads(row) == 256 && row.dynamic_shared == own.dynamic_shared && threads(own) != 256
        });
        same.map(|nth| (nth, None))
    });
    let occupied = cases(problems, |problem, present| {
        let threads = |nth: usize| problem.rows[nth].shape().threads_per_block();
        let best = (0..problem.rows.len())
            .max_by(|a, b| {
                let by = problem.occupancy[*a].total_cmp(&problem.occupancy[*b]);
                by.then(threads(*a).cmp(&threads(*b)))
            })
            .filter(|best| threads(*best) != threads(present));
        best.map(|nth| (nth, None))
    });
    let unchanged = cases(problems, |_, _| None);
    let mut table = Vec::new();
    for (name, cases) in [
        ("apex, after a run", &ours),
        ("apex, before any", &unseen),
        ("unchanged", &unchanged),
        ("256 threads", &usual),
        ("highest occupancy", &occupied),
    ] {
        table.push(row(name, cases));
    }
    let mean = |cases: &[Case]| geometric(cases.iter().map(|case| case.gained));
    let rivals = mean(&usual).max(mean(&occupied)).max(1.0);
    let mut bars = Vec::new();
    for (when, cases) in [("after a run", &ours), ("before any run", &unseen)] {
        let given: Vec<&Case> = cases.iter().filter(|case| case.promised.is_some()).collect();
        let harmful = given.iter().filter(|case| case.gained < HARM).count();
        let share = 100.0 * harmful as f64 / given.len().max(1) as f64;
        let promised = given.iter().filter_map(|case| Some(case.promised? / case.gained));
        let ratio = middle(promised.collect());
        let name = |what: &str| format!("{what}, {when}");
        bars.extend([
            Bar::at_most(name("harmful suggestions"), share, "%", 2.0),
            Bar::at_least(name("promised over realised gain, median, at least"), ratio, "", 0.8),
            Bar::at_most(name("promised over realised gain, median, at most"), ratio, "", 1.25),
            Bar::at_least(
                name("mean speed-up beside the best of the others"),
                mean(cases) / rivals,
                "times",
                1.0,
            ),
        ]);
    }
    let notes = vec![
        format!("{} problems with {} configurations, each held out once", problems.len(), ours.len()),
        "what the rule believes was set while looking at such problems; rows of another collection judge it \
         independently"
            .into(),
    ];
    let device = rows.first().map_or(String::new(), |row| row.device.clone());
    let driver = rows.first().map_or(0, |row| row.driver);
    let driver = format!("{}.{}", driver / 1000, driver % 1000 / 10);
    Report { bench: "predict-suggest", device, driver, rows: table, bars, notes }
}

/// Every configuration of every problem as the present one.
fn cases(
    problems: &[Problem<'_>],
    adviser: impl Fn(&Problem<'_>, usize) -> Option<(usize, Option<f64>)>,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for problem in problems {
        let fastest = problem.rows.iter().map(|row| row.median_ns).fold(f64::INFINITY, f64::min);
        for (nth, row) in problem.rows.iter().enumerate() {
            let (taken, promised) = adviser(problem, nth).unwrap_or((nth, None));
            cases.push(Case {
                promised,
                gained: row.median_ns / problem.rows[taken].median_ns,
                best: row.median_ns / fastest,
            });
        }
    }
    cases
}

fn row(name: &str, cases: &[Case]) -> Value {
    let changed = cases.iter().filter(|case| (case.gained - 1.0).abs() > 1e-12).count();
    let harmful = cases.iter().filter(|case| case.gained < HARM).count();
    let regret = geometric(cases.iter().map(|case| case.best / case.gained));
    json!({
        "adviser": name,
        "cases": cases.len(),
        "changed": changed,
        "harmful": harmful as f64 / changed.max(1) as f64,
        "mean_speedup": geometric(cases.iter().map(|case| case.gained)),
        "median_speedup_where_changed": middle(
            cases.iter().map(|case| case.gained).filter(|gain| (gain - 1.0).abs() > 1e-12).collect(),
        ),
        "slower_than_the_best": regret,
    })
}

fn geometric(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value.ln();
        count += 1.0;
    }
    (sum / f64::max(count, 1.0)).exp()
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(1.0)
}

/// The advisers as a table.
pub(crate) fn print_rows(rows: &[Value]) {
    println!(
        "{:<20} {:>7} {:>8} {:>9} {:>13} {:>14} {:>16}",
        "adviser",
        "cases",
        "changed",
        "harmful",
        "mean speed-up",
        "where changed",
        "behind the best"
    );
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or(0.0);
        println!(
            "{:<20} {:>7} {:>8} {:>7.1} % {:>13.3} {:>14.3} {:>14.1} %",
            row["adviser"].as_str().unwrap_or(""),
            number("cases"),
            number("changed"),
            number("harmful") * 100.0,
            number("mean_speedup"),
            number("median_speedup_where_changed"),
            (number("slower_than_the_best") - 1.0) * 100.0
        );
    }
}
