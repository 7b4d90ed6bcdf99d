//! Breaks PTX for as long as it is told and watches that nothing panics.
//!
//! `cargo run -p apex-ptx --release --example fuzz -- --seconds 3600 [--seed N] [file.ptx..]`:
//! without files it starts from those of the tests. A text that breaks a promise, or takes
//! longer than ten seconds, is written to standard output and ends the run with status 1.

mod mutate;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mutate::{Random, check, mutate};

/// Longer than this for a text of some kilobytes means something grows without bound.
const SLOW: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let (mut seconds, mut seed, mut paths) = (60, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|number| number.parse::<u64>().ok());
        match argument.as_str() {
            "--seconds" => seconds = number().unwrap_or(seconds),
            "--seed" => seed = number().unwrap_or(seed),
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let texts = texts(paths);
    if texts.is_empty() {
        eprintln!("there is no PTX to begin with");
        return ExitCode::FAILURE;
    }
    run(&texts, seed, Duration::from_secs(seconds))
}

fn texts(mut paths: Vec<PathBuf>) -> Vec<String> {
    if paths.is_empty() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        for folder in ["golden", "compiled"] {
            let entries = std::fs::read_dir(tests.join(folder)).into_iter().flatten();
            paths.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        }
        paths.sort();
    }
    let texts = paths.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    // A golden file holds two texts.
    texts
        .flat_map(|text| text.split("//---- printed\n").map(str::to_string).collect::<Vec<_>>())
        .collect()
}

fn run(texts: &[String], seed: u64, time: Duration) -> ExitCode {
    let start = Instant::now();
    let (mut tried, mut parsed, mut slowest) = (0_u64, 0_u64, Duration::ZERO);
    let mut random = Random::new(seed);
    let mut before = None;
    while start.elapsed() < time {
        let text = mutate(&mut random, texts);
        let begun = Instant::now();
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| check(&text, &mut before)));
        let taken = begun.elapsed();
        slowest = slowest.max(taken);
        match outcome {
            Ok(was_valid) if taken < SLOW => parsed += u64::from(was_valid),
            _ => {
                eprintln!("text {tried} of seed {seed} failed after {taken:?}:");
                println!("{text}");
                return ExitCode::FAILURE;
            }
        }
        tried += 1;
    }
    eprintln!("{tried} texts, {parsed} of them valid PTX, slowest {slowest:?}: no failure");
    ExitCode::SUCCESS
}
