//! Feeds broken input to every reader of what apex did not write itself.
//!
//! `apex-random-input READER|all [--seconds N] [--seed N] [--pause MICROSECONDS]` breaks good examples at random and hands
//! them to a reader for as long as it is told, with a pause after each; the readers stand in one list. `apex-random-input READER --case N --examples DIR`
//! repeats one case of a run that failed. The files under test are found through `APEX_TEST_BIN`, as those of the other tests.
//!
//! A reader works in a process of its own with bounded memory, because what is looked for ends a process:
//! a crash, a panic, a case that takes too long, an allocation that no input may cause. The number of the case
//! is noted before each. The input follows from that number and the examples, which are kept of a failure.

use anyhow::Context;
use apex_random_input::{Outcome, repeat, run, work};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        eprintln!(
            "apex-random-input READER|all [--seconds N] [--seed N] [--pause MICROSECONDS] [--case N --examples DIR]"
        );
        return Ok(ExitCode::from(2));
    };
    let (mut seconds, mut seed, mut pause) = (60, 1, 0);
    let (mut case, mut kept, mut worker) = (None, None, None);
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        match word.as_str() {
            "--seconds" => seconds = value.parse()?,
            "--seed" => seed = value.parse()?,
            "--pause" => pause = value.parse()?,
            "--case" => case = Some(value.parse()?),
            "--examples" => kept = Some(PathBuf::from(value)),
            "--worker" => worker = Some(value),
            other => anyhow::bail!("{other} is not understood"),
        }
    }
    let (time, pause) = (Duration::from_secs(seconds), Duration::from_micros(pause));
    if let Some(examples) = worker {
        work(&name, examples.as_ref(), seed, time, pause)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(case) = case {
        let kept = kept.context("--case needs the --examples of the run that failed")?;
        repeat(&name, &kept, case)?;
        return Ok(ExitCode::SUCCESS);
    }
    let executable = std::env::current_exe()?;
    let outcomes = run(&executable, &name, seed, time, pause)?;
    for outcome in &outcomes {
        println!("{outcome}");
    }
    let good = outcomes.iter().all(Outcome::is_good);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
