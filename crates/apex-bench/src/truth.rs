//! How near predictions come: the models of a folder, judged on rows that they have not seen.

use crate::arguments::{BenchPredict, Withheld};
use crate::models::{found, rows as rows_file};
use crate::report::{Bar, Report};
use anyhow::{Context, Result};
use apex_daemon::progress::Progress;
use apex_train::fit::{self, Judged};
use apex_train::models::{self, Manifest};
use apex_train::rows::{self, Row};
use serde_json::{Value, json};

/// Judges the models of a folder on rows that they have not seen.
pub(crate) fn judge(arguments: &BenchPredict) -> Result<Report> {
    let loaded = models::load(&found(arguments.models.as_deref())?)?;
    let data = rows_file(arguments.rows.as_deref(), arguments.models.as_deref())?;
    let mut rows = rows::read(&data)
        .context("the rows that the models were trained from are needed to judge them")?;
    rows.iter_mut().for_each(|row| forget(row, &arguments.without));
    let manifest = &loaded.manifest;
    let at_hand =
        fit::Models { trees: &loaded.trees, small: &loaded.small, large: loaded.large.as_ref() };
    let mut progress = Progress::on_stderr();
    progress.step("judging the models", 1, 1);
    let report = fit::judge(&rows, manifest.report.seed, &manifest.devices, at_hand)?;
    let trees = TreeScores::of(&report)?;
    let mut bars = error_bars(&report, &trees);
    bars.extend(interval_bars(&trees));
    bars.extend(throughput_bars(&report, &trees));
    if !arguments.without.is_empty() {
        bars.clear();
    }
    let device = manifest.devices.keys().cloned().collect::<Vec<_>>().join(", ");
    let driver = rows.first().map_or(0, |row| row.driver);
    let driver = format!("{}.{}", driver / 1000, driver % 1000 / 10);
    let notes = vec![
        format!("held-out kernels: {}", report.held_out_kernels.join(", ")),
        format!(
            "noise from run to run {:.2} %, repeats {:.2} %",
            percent(report.noise),
            percent(report.repeats.mean_error)
        ),
        format!("SM throughput on unseen kernels: R² {:.3}", trees.unseen.sm_throughput.r_squared),
    ];
    let rows = table(&report, manifest)?;
    Ok(Report { bench: "predict-truth", device, driver, rows, bars, notes })
}

/// Takes from a row what is not to be known.
fn forget(row: &mut Row, what: &[Withheld]) {
    for what in what {
        match what {
            Withheld::Text => row.walked.clear(),
            Withheld::Mix => row.mix.clear(),
            Withheld::Work => row.work_known = false,
            Withheld::Arguments => {
                row.parameters.clear();
                row.integers.clear();
                row.allocations.clear();
            }
        }
    }
}

fn percent(share: f64) -> f64 {
    share * 100.0
}

/// What the trees reach, by what was known of the kernel.
struct TreeScores<'a> {
    known: &'a Judged,
    unseen: &'a Judged,
    after_ten: &'a Judged,
}

impl TreeScores<'_> {
    fn of(report: &fit::Report) -> Result<TreeScores<'_>> {
        let find = |split: &str| -> Result<&Judged> {
            let mut judged = report.judged.iter();
            let found = judged.find(|judged| judged.model == "trees" && judged.split == split);
            found.with_context(|| format!("trees was not judged on {split}"))
        };
        let (known, unseen) = (find("known")?, find("unseen")?);
        Ok(TreeScores { known, unseen, after_ten: find("unseen after 10")? })
    }
}

/// How far predicted occupancies and times are off.
fn error_bars(report: &fit::Report, trees: &TreeScores<'_>) -> Vec<Bar> {
    let beside = &report.baselines["unseen"];
    let rivals = [&beside.last_value, &beside.kernel_mean, &beside.roofline];
    let best_rival = rivals.iter().map(|rival| rival.mean_error).fold(f64::INFINITY, f64::min);
    let (asked, equal) = report.occupancy_equal;
    let TreeScores { known, unseen, after_ten } = trees;
    vec![
        Bar::at_least(
            "occupancy equal to the driver's".into(),
            percent(equal as f64 / asked.max(1) as f64),
            "%",
            100.0,
        ),
        Bar::at_most(
            "exact repeats, mean error over noise".into(),
            report.repeats.mean_error / report.noise.max(1e-9),
            "times",
            1.5,
        ),
        Bar::at_most("known kernel, mean error".into(), percent(known.time.mean_error), "%", 8.0),
        Bar::at_least(
            "known kernel, within 10 %".into(),
            percent(known.time.within_10_percent),
            "%",
            90.0,
        ),
        Bar::at_most(
            "unseen kernel after ten, mean error".into(),
            percent(after_ten.time.mean_error),
            "%",
            15.0,
        ),
        Bar::at_most(
            "unseen kernel cold, mean error over the best baseline's".into(),
            unseen.time.mean_error / best_rival,
            "times",
            1.0,
        ),
    ]
}

/// Whether intervals hold as many times as they promise, and no more.
fn interval_bars(trees: &TreeScores<'_>) -> Vec<Bar> {
    let TreeScores { known, unseen, after_ten } = trees;
    let splits = [("known", known), ("unseen", unseen), ("unseen after 10", after_ten)];
    let of_split = |(split, judged): (&str, &&Judged)| {
        let coverage = percent(judged.time.coverage.unwrap_or(0.0));
        [
            Bar::at_least(format!("80 % interval, {split}, at least"), coverage, "%", 75.0),
            Bar::at_most(format!("80 % interval, {split}, at most"), coverage, "%", 85.0),
        ]
    };
    splits.into_iter().flat_map(of_split).collect()
}

/// What counters say of a launch: achieved occupancy and throughput.
fn throughput_bars(report: &fit::Report, trees: &TreeScores<'_>) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (split, judged, most) in [("known", trees.known, 5.0), ("unseen", trees.unseen, 10.0)] {
        let found = &judged.achieved_occupancy;
        if found.rows == 0 {
            continue;
        }
        bars.push(Bar::at_most(
            format!("achieved occupancy, {split}, mean error"),
            found.mean_error_points,
            "points",
            most,
        ));
        bars.push(Bar::at_least(
            format!("achieved occupancy, {split}, correlation"),
            found.correlation,
            "",
            0.95,
        ));
        let shape = report.occupancy_baseline[split].mean_error_points;
        bars.push(Bar::at_most(
            format!("achieved occupancy, {split}, error over theoretical times wave fill"),
            found.mean_error_points / shape,
            "times",
            1.0,
        ));
    }
    let throughput = &trees.known.sm_throughput;
    if throughput.rows > 0 {
        let what = "SM throughput, known, R²".into();
        bars.push(Bar::at_least(what, throughput.r_squared, "", 0.9));
    }
    bars
}

/// A row for each model and each baseline on each split.
fn table(report: &fit::Report, manifest: &Manifest) -> Result<Vec<Value>> {
    // The transformer is trained for comparison and kept nowhere: its scores are those of the training.
    let transformer = manifest.report.judged.iter().filter(|judged| judged.model == "transformer");
    let judged = report.judged.iter().chain(transformer).map(serde_json::to_value);
    let mut table = judged.collect::<Result<Vec<Value>, _>>()?;
    for (split, baselines) in &report.baselines {
        for (name, time) in [
            ("last value", &baselines.last_value),
            ("kernel mean", &baselines.kernel_mean),
            ("roofline", &baselines.roofline),
        ] {
            table.push(json!({"model": name, "split": split, "time": time}));
        }
    }
    Ok(table)
}

/// The scores as a table.
pub(crate) fn print_rows(rows: &[Value]) {
    println!(
        "{:<22} {:<16} {:>6} {:>8} {:>8} {:>8} {:>8}",
        "model", "split", "rows", "mean", "median", "±10 %", "in 80 %"
    );
    for row in rows {
        let time = &row["time"];
        let percent = |name: &str| {
            time[name].as_f64().map_or("-".into(), |share| format!("{:.1} %", share * 100.0))
        };
        println!(
            "{:<22} {:<16} {:>6} {:>8} {:>8} {:>8} {:>8}",
            row["model"].as_str().unwrap_or(""),
            row["split"].as_str().unwrap_or(""),
            time["rows"].as_u64().unwrap_or(0),
            percent("mean_error"),
            percent("median_error"),
            percent("within_10_percent"),
            percent("coverage")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_forgotten() {
        let known = || Row {
            walked: "1,2".into(),
            mix: "3".into(),
            integers: "4".into(),
            allocations: "5".into(),
            work_known: true,
            ..Row::default()
        };
        let mut row = known();
        forget(&mut row, &[Withheld::Text, Withheld::Arguments]);
        assert_eq!((&*row.walked, &*row.integers, &*row.allocations), ("", "", ""));
        assert!(row.mix == "3" && row.work_known);
        forget(&mut row, &[Withheld::Mix, Withheld::Work]);
        assert!(row.mix.is_empty() && !row.work_known);
    }
}
