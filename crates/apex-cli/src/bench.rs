//! `apex bench`: apex side by side with what a user would have without it, in one run.
//!
//! Each benchmark prints a table, or with `--json` one object with its rows and its bars. A bar is a
//! promise: its value is computed from the rows, never typed in.

mod advice;
pub(crate) mod calls;
mod exec;
pub(crate) mod kernels;
mod predict;
pub(crate) mod sched;
mod shim;
mod softgpu;
mod suggestions;
mod zoo;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// What one benchmark found.
#[derive(Serialize)]
pub(crate) struct Report {
    bench: &'static str,
    device: String,
    driver: String,
    rows: Vec<serde_json::Value>,
    bars: Vec<Bar>,
    notes: Vec<String>,
}

/// A promise and what became of it.
#[derive(Serialize)]
pub(crate) struct Bar {
    name: String,
    value: f64,
    unit: &'static str,
    limit: f64,
    /// Whether the limit is the least that is promised, and not the most.
    at_least: bool,
    ok: bool,
}

impl Bar {
    /// A value that may be at most `limit`.
    fn at_most(name: String, value: f64, unit: &'static str, limit: f64) -> Bar {
        Bar { name, value, unit, limit, at_least: false, ok: value <= limit }
    }

    /// A value that must be at least `limit`.
    fn at_least(name: String, value: f64, unit: &'static str, limit: f64) -> Bar {
        Bar { name, value, unit, limit, at_least: true, ok: value >= limit }
    }
}

/// Runs the shim's benchmark and shows it.
pub(crate) fn shim(quick: bool, json: bool) -> Result<ExitCode> {
    show(&shim::measure(quick)?, json, shim::print_rows)
}

/// Times the predictor, or judges its models, and shows it.
pub(crate) fn predict(arguments: &crate::arguments::BenchPredict) -> Result<ExitCode> {
    if arguments.suggest {
        return show(&suggestions::judge(arguments)?, arguments.json, suggestions::print_rows);
    }
    if arguments.truth {
        return show(&predict::truth(arguments)?, arguments.json, predict::print_scores);
    }
    show(&predict::measure(arguments)?, arguments.json, predict::print_times)
}

/// Measures pairs of programs that share the GPU and shows them; fails where nothing could be measured.
pub(crate) fn sched(arguments: &crate::arguments::BenchSched) -> Result<ExitCode> {
    show(&sched::measure(arguments)?, arguments.json, sched::print_rows)
}

/// Follows the advice and shows what became of it.
pub(crate) fn advice(arguments: &crate::arguments::BenchAdvice) -> Result<ExitCode> {
    show(&advice::measure(arguments)?, arguments.json, advice::print_rows)
}

/// Runs the software GPU's benchmark and shows it.
pub(crate) fn softgpu(quick: bool, json: bool) -> Result<ExitCode> {
    show(&softgpu::measure(quick)?, json, softgpu::print_rows)
}

/// Runs the executor's benchmark and shows it.
pub(crate) fn exec(quick: bool, explain: bool, json: bool) -> Result<ExitCode> {
    show(&exec::measure(quick, explain)?, json, exec::print_rows)
}

/// Runs the kernel zoo and shows it; fails where a kernel was wrong or did not run.
pub(crate) fn zoo(arguments: &crate::arguments::Zoo) -> Result<ExitCode> {
    let report = zoo::measure(arguments)?;
    let shown = show(&report, arguments.json, zoo::print_rows)?;
    Ok(if report.bars.iter().all(|bar| bar.ok) { shown } else { ExitCode::FAILURE })
}

fn show(report: &Report, json: bool, print_rows: fn(&[serde_json::Value])) -> Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?);
        return Ok(ExitCode::SUCCESS);
    }
    print_rows(&report.rows);
    println!();
    for Bar { name, value, unit, limit, at_least, ok } in &report.bars {
        let word = if *ok { "holds" } else { "MISSED" };
        let side = if *at_least { "at least" } else { "at most" };
        println!("{word:<7} {name}: {value:.2} {unit} ({side} {limit} {unit})");
    }
    for note in &report.notes {
        println!("note: {note}");
    }
    Ok(ExitCode::SUCCESS)
}

/// A library of ours, found as the shim is.
fn library(name: &str) -> Result<PathBuf> {
    let executable = std::env::current_exe().context("apex cannot find its own executable")?;
    match apex_daemon::find::library(&executable, name) {
        Some(path) => Ok(path),
        None => bail!("{name} is not beside {}; build it with cargo build", executable.display()),
    }
}
