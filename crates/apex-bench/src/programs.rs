//! How near predictions of programs come: the forests of a folder, judged on programs that they have not seen.

use crate::arguments::BenchPredict;
use crate::models::found;
use crate::report::{Bar, Report};
use anyhow::{Context, Result};
use apex_core::small_file;
use apex_daemon::progress::Progress;
use apex_models::programs;
use apex_models::tensor_file::TensorFile;
use apex_train::models;
use apex_train::programs::{Judged, PROGRAMS_FILE, ROWS_FILE, SEED_WORD, Table, judge};
use apex_train::rows;
use serde_json::{Value, json};

/// What must be reached where, in per cent of the measured time: the median at most, and the share within 10 % at least.
const WANTED: [(&str, f64, Option<f64>); 5] = [
    ("second run, first launches", 4.0, Some(85.0)),
    ("code with PTX, first sight", 35.0, None),
    ("code with PTX, after 1", 12.0, None),
    ("machine code only, first sight", 30.0, None),
    ("machine code only, by the history of other programs", 10.0, None),
];
/// Fewer answers say nothing of intervals.
const LEAST_JUDGED: usize = 50;

pub(crate) fn judged(arguments: &BenchPredict) -> Result<Report> {
    let folder = found(arguments.models.as_deref())?;
    let manifest = models::load(&folder)?.manifest;
    let path = folder.join(PROGRAMS_FILE);
    let bytes = small_file::read(&path, small_file::MADE).with_context(|| {
        format!("{} cannot be read: make it with apex train programs", path.display())
    })?;
    let model = programs::read(&bytes).with_context(|| path.display().to_string())?;
    let seed = TensorFile::parse(&bytes)?.word(SEED_WORD).and_then(|seed| seed.parse().ok());
    let seed = seed.context("the forests do not say which programs judge")?;
    let data = arguments.rows.clone().unwrap_or_else(|| folder.join(ROWS_FILE));
    let measured =
        rows::read(&data).context("the rows are needed that the forests were grown from")?;
    let again = arguments.again.as_deref().map(rows::read).transpose()?.unwrap_or_default();
    let mut progress = Progress::on_stderr();
    progress.step("judging the forests", 1, 1);
    let table = judge(&model, &measured, &again, &manifest.devices, seed);
    drop(progress);
    let driver = measured.first().map_or(0, |row| row.driver);
    Ok(Report {
        bench: "predict-programs",
        device: manifest.devices.keys().cloned().collect::<Vec<_>>().join(", "),
        driver: format!("{}.{}", driver / 1000, driver % 1000 / 10),
        rows: table.judged.iter().map(row).collect(),
        bars: bars(&table),
        notes: notes(&table),
    })
}

fn percent(share: f64) -> f64 {
    share * 100.0
}

fn bars(table: &Table) -> Vec<Bar> {
    let find =
        |split: &str| table.judged.iter().find(|one| one.split == split && one.forests.rows > 0);
    let mut bars = Vec::new();
    for (split, median, near) in WANTED {
        let Some(one) = find(split) else { continue };
        let found = percent(one.forests.median_error);
        bars.push(Bar::at_most(format!("{split}, median error"), found, "%", median));
        if let Some(near) = near {
            let found = percent(one.forests.within_10_percent);
            bars.push(Bar::at_least(format!("{split}, within 10 %"), found, "%", near));
        }
    }
    for one in table.judged.iter().filter(|one| one.forests.rows >= LEAST_JUDGED) {
        if let Some(coverage) = one.by_program {
            let coverage = percent(coverage);
            let split = &one.split;
            bars.push(Bar::at_least(
                format!("80 % interval, {split}, at least"),
                coverage,
                "%",
                75.0,
            ));
            bars.push(Bar::at_most(
                format!("80 % interval, {split}, at most"),
                coverage,
                "%",
                85.0,
            ));
        }
    }
    bars
}

fn notes(table: &Table) -> Vec<String> {
    let [programs, rows, kernels] = table.grown_from;
    vec![
        format!("grown from {rows} rows of {kernels} kernels in {programs} programs"),
        format!(
            "judged on {} rows of {} kernels in {}",
            table.rows,
            table.kernels,
            table.programs.join(", ")
        ),
    ]
}

fn row(one: &Judged) -> Value {
    let time = &one.forests;
    json!({
        "known": one.split, "rows": time.rows, "median_error": time.median_error,
        "program_median_error": one.program_median, "within_10_percent": time.within_10_percent, "mean_error": time.mean_error, "p90_error": time.p90_error,
        "in_interval": time.coverage, "in_interval_by_program": one.by_program, "answered": one.answered,
        "last_value_median": one.last_value.median_error, "kernel_mean_median": one.kernel_mean.median_error,
        "roofline_median": one.roofline.median_error,
    })
}

/// The scores as a table.
pub(crate) fn print_rows(rows: &[Value]) {
    println!(
        "{:<52} {:>6} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8} {:>9}",
        "what was known",
        "rows",
        "median",
        "±10 %",
        "in 80 %",
        "answered",
        "last",
        "mean",
        "roofline"
    );
    for row in rows {
        let share = |name: &str| {
            row[name].as_f64().map_or("-".into(), |share| format!("{:.1} %", percent(share)))
        };
        println!(
            "{:<52} {:>6} {:>8} {:>8} {:>8} {:>9} {:>8} {:>8} {:>9}",
            row["known"].as_str().unwrap_or(""),
            row["rows"],
            share("median_error"),
            share("within_10_percent"),
            share("in_interval_by_program"),
            share("answered"),
            share("last_value_median"),
            share("kernel_mean_median"),
            share("roofline_median")
        );
    }
}
