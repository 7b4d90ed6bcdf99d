//! `apex bench`: apex side by side with what a user would have without it, in one run.
//!
//! Each benchmark prints a table, or with `--json` one object with its rows and its bars. A bar is a
//! promise: its value is computed from the rows, never typed in. What a benchmark measures is often a child of its
//! own: the command starts itself again with a hidden name of [`arguments::Bench`]. So the benchmarks run only as part of
//! the command `apex`.
#![deny(unsafe_code)]

mod advice;
pub mod arguments;
mod calls;
pub mod child;
mod collect;
mod exec;
mod history;
mod kernels;
mod launch;
mod libraries;
mod memory;
pub mod models;
mod predict;
mod programs;
mod report;
mod sched;
mod shim;
mod side;
mod softgpu;
mod suggestions;
mod truth;
mod zoo;

use anyhow::Result;
use arguments::{Bench, BenchPredict, Zoo};
use report::show;
use std::process::ExitCode;

/// Runs one benchmark and shows it, or does what one asks of a child of the command.
///
/// # Errors
///
/// When nothing could be measured, with what to do about it.
pub fn bench(bench: &Bench) -> Result<ExitCode> {
    match bench {
        &Bench::Shim { quick, json } => show(&shim::measure(quick)?, json, shim::print_rows),
        &Bench::Collect { quick, json } => {
            show(&collect::measure(quick)?, json, collect::print_rows)
        }
        &Bench::Softgpu { quick, json } => {
            show(&softgpu::measure(quick)?, json, softgpu::print_rows)
        }
        &Bench::Exec { quick, explain, json } => {
            show(&exec::measure(quick, explain)?, json, exec::print_rows)
        }
        Bench::Zoo(arguments) => zoo(arguments),
        Bench::Predict(arguments) => predict(arguments),
        Bench::Sched(arguments) => {
            show(&sched::measure(arguments)?, arguments.json, sched::print_rows)
        }
        Bench::Advice(arguments) => {
            show(&advice::measure(arguments)?, arguments.json, advice::print_rows)
        }
        Bench::Launch(arguments) => {
            show(&launch::measure(arguments)?, arguments.json, launch::print_rows)
        }
        Bench::Memory(arguments) => {
            show(&memory::measure(arguments)?, arguments.json, memory::print_rows)
        }
        Bench::MemoryWorker { library } => memory::worker::work(library.as_deref()),
        Bench::LaunchWorker { library } => launch::worker::work(library.as_deref()),
        &Bench::SchedWorker { latency, train } => sched::stand_in::work(latency, train),
        Bench::SoftgpuKernels => kernels::measure(),
        &Bench::CollectCalls { launches, rate } => calls::launch_steadily(launches, rate),
        &Bench::ShimCalls { threads, gate, quick } => calls::measure(threads, gate, quick),
    }
}

/// Fails where a kernel was wrong or did not run.
fn zoo(arguments: &Zoo) -> Result<ExitCode> {
    let report = zoo::measure(arguments)?;
    let shown = show(&report, arguments.json, zoo::print_rows)?;
    Ok(if report.bars.iter().all(|bar| bar.ok) { shown } else { ExitCode::FAILURE })
}

/// Times the predictor, or judges its models or its suggestions.
fn predict(arguments: &BenchPredict) -> Result<ExitCode> {
    if arguments.programs {
        return show(&programs::judged(arguments)?, arguments.json, programs::print_rows);
    }
    if arguments.suggest {
        return show(&suggestions::judge(arguments)?, arguments.json, suggestions::print_rows);
    }
    if arguments.truth {
        return show(&truth::judge(arguments)?, arguments.json, truth::print_rows);
    }
    show(&predict::measure(arguments)?, arguments.json, predict::print_rows)
}
