//! Runs random programs with accelerators and without, and says where they are seen to differ.
//!
//! `apex-random-order [--way bare|shim|one-processor|memory|specialise|overlap] [--seed N] [--seconds N] [--programs N]
//! [--stalls yes]` runs programs from a seed on; `--show N` writes one to be read, `--pairs N` counts the launches of N
//! programs that are kept in order. The files under test are found through `APEX_TEST_BIN`, as those of
//! the other tests.

use anyhow::{Result, bail};
use apex_random_order::{Asked, Way, pairs, run, show, work};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let mut asked = Asked {
        way: Way::Bare,
        seed: 1,
        time: Duration::from_secs(60),
        most: u64::MAX,
        stalls: false,
    };
    let mut worker = None;
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        match word.as_str() {
            "--way" => asked.way = Way::named(&value)?,
            "--seed" => asked.seed = value.parse()?,
            "--seconds" => asked.time = Duration::from_secs(value.parse()?),
            "--programs" => asked.most = value.parse()?,
            "--stalls" => asked.stalls = value == "yes",
            "--worker" => worker = Some(PathBuf::from(value)),
            "--pairs" => {
                let found = pairs(asked.seed, value.parse()?)?;
                println!("{found}");
                return Ok(if found.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
            "--show" => {
                println!("{}", show(value.parse()?));
                return Ok(ExitCode::SUCCESS);
            }
            other => bail!("{other} is not understood"),
        }
    }
    if let Some(state) = worker {
        work(asked.way, &state, asked.seed, asked.time, asked.most)?;
        return Ok(ExitCode::SUCCESS);
    }
    let outcome = run(&std::env::current_exe()?, asked)?;
    println!("{outcome}");
    Ok(if outcome.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
