//! The command `apex`: reads its arguments, calls the part that does the work, says what went wrong.
//!
//! Standard output belongs to the program that is run, or to the document that was asked for; everything
//! apex itself says goes to standard error. Exit code 2 means that apex was called wrongly; `apex run`
//! otherwise ends as its program ended.
#![deny(unsafe_code)]

mod arguments;
mod bench;
mod clocks;
mod daemon;
mod device;
mod doctor;
mod environment;
mod models;
mod place;
mod predict;
mod run;
mod sessions;
mod sharing;
mod sim;
mod supervise;
mod top;
mod train;
mod tune;
mod unmask;

use arguments::{Arguments, Bench, Verb};
use clap::{CommandFactory, Parser};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.verb {
        Verb::Run(run) => run::run(&run),
        Verb::Daemon(arguments) => daemon::daemon(&arguments),
        Verb::Report(report) => sessions::report(&report),
        Verb::Export(export) => sessions::export(&export),
        Verb::Diff(diff) => sessions::diff(&diff),
        Verb::Check(check) => Ok(sessions::check(&check)),
        Verb::Sessions(list) => sessions::list(&list),
        Verb::Top(top) => top::top(&top),
        Verb::Doctor(doctor) => doctor::doctor(&doctor),
        Verb::Train(train) => train::train(&train),
        Verb::Predict(predict) => predict::predict(&predict),
        Verb::Sim(arguments) => sim::sim(&arguments),
        Verb::Bench(Bench::Sched(arguments)) => bench::sched(&arguments),
        Verb::Bench(Bench::SchedWorker { latency, train }) => {
            bench::sched::stand_in::work(latency, train)
        }
        Verb::Tune(tune) => tune::tune(&tune),
        Verb::Bench(Bench::Predict(arguments)) => bench::predict(&arguments),
        Verb::Bench(Bench::Shim { quick, json }) => bench::shim(quick, json),
        Verb::Bench(Bench::ShimCalls { threads, gate, quick }) => {
            bench::calls::measure(threads, gate, quick)
        }
        Verb::Bench(Bench::Softgpu { quick, json }) => bench::softgpu(quick, json),
        Verb::Bench(Bench::Exec { quick, explain, json }) => bench::exec(quick, explain, json),
        Verb::Bench(Bench::Advice(arguments)) => bench::advice(&arguments),
        Verb::Bench(Bench::Zoo(arguments)) => bench::zoo(&arguments),
        Verb::Bench(Bench::SoftgpuKernels) => bench::kernels::measure(),
        Verb::Completions { shell } => {
            let mut page = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "apex", &mut page);
            print_page(&page)
        }
        Verb::Man => {
            let mut page = Vec::new();
            match clap_mangen::Man::new(Arguments::command()).render(&mut page) {
                Ok(()) => print_page(&page),
                Err(error) => Err(error.into()),
            }
        }
        Verb::MappedDriver => {
            environment::print_mapped_driver();
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

/// One sentence to the user.
fn say(sentence: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr(), "apex: {sentence}");
}

fn print_page(page: &[u8]) -> anyhow::Result<ExitCode> {
    match std::io::stdout().write_all(page) {
        // Whoever reads may have seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}
