//! The command `apex`: reads its arguments, calls the part that does the work, says what went wrong.
//!
//! Standard output belongs to the program that is run, or to the document that was asked for; everything
//! apex itself says goes to standard error. Exit code 2 means that apex was called wrongly; `apex run`
//! otherwise ends as its program ended.
#![forbid(unsafe_code)]

mod arguments;
mod clocks;
mod command_table;
mod daemon;
mod dashboard;
mod demo;
mod device;
mod doctor;
mod environment;
mod followed_models;
mod frameworks;
mod history;
mod layout;
mod lower;
mod manual;
mod pages;
mod predict;
mod real_driver;
mod run;
mod sessions;
mod sharing;
mod sim;
mod specialise;
mod supervise;
mod top;
mod train;
mod tune;
mod unpacked;

use apex_core::printable::printable;
use apex_daemon::speech::{release, say};
use apex_daemon::user_setup::own_executable;
use arguments::{Arguments, Verb};
use clap::{CommandFactory, Parser};
use pages::print_page;
use std::ffi::OsString;
use std::process::ExitCode;

/// Called wrongly.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => {
            let code = carry_out(arguments);
            release();
            code
        }
        Err(error) => refused(&error),
    }
}

/// Help that was asked for, or what is wrong with the command line: said of words that no terminal obeys, because
/// sentence and colours come from the parser in one.
fn refused(error: &clap::Error) -> ExitCode {
    let shown = |word: OsString| printable(&word.to_string_lossy()).into_owned();
    if let Err(error) = Arguments::try_parse_from(std::env::args_os().map(shown)) {
        error.exit();
    }
    // A word that is no text was wrong, and shown it is one.
    eprint!("{}", printable(&error.to_string()));
    ExitCode::from(USAGE)
}

fn carry_out(arguments: Arguments) -> ExitCode {
    let unpacked = own_executable().map_err(Into::into).and_then(|it| unpacked::unpack(&it));
    if let Err(error) = unpacked {
        say(&format!("{error:#}"));
    }
    let done = match arguments.verb {
        Verb::Demo => demo::demo(),
        Verb::DemoProgram => demo::program(),
        Verb::Run(run) => run::run(&run),
        Verb::Daemon(arguments) => daemon::daemon(&arguments),
        Verb::Report(report) => sessions::report(&report),
        Verb::Export(export) => sessions::export(&export),
        Verb::Graph(graph) => sessions::graph(&graph),
        Verb::Diff(diff) => sessions::diff(&diff),
        Verb::Check(check) => Ok(sessions::check(&check)),
        Verb::Sessions(list) => sessions::list(&list),
        Verb::Top(top) => top::top(&top),
        Verb::Dashboard(arguments) => dashboard::dashboard(&arguments),
        Verb::Doctor(doctor) => doctor::doctor(&doctor),
        Verb::Train(train) => train::train(&train),
        Verb::Predict(predict) => predict::predict(&predict),
        Verb::History(verb) => history::history(&verb),
        Verb::Sim(arguments) => sim::sim(&arguments),
        Verb::Tune(tune) => tune::tune(&tune),
        Verb::Lower(lower) => lower::lower_file(&lower),
        Verb::Specialise(arguments) => specialise::specialised(&arguments),
        Verb::Bench(bench) => apex_bench::bench(&bench),
        Verb::Completions { shell } => {
            let mut page = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "apex", &mut page);
            print_page(&page)
        }
        Verb::Man { verb, output } => manual::manual(&verb, output.as_deref()),
        Verb::CommandTable { length } => print_page(command_table::table(length).as_bytes()),
        Verb::MappedDriver => {
            real_driver::print_mapped_driver();
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}
