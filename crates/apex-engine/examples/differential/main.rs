//! Compares the tiers on many random kernels, or kernels with what `apex_ptx::specialise` makes of them.
//!
//! `cargo run --release -p apex-engine --example differential -- FIRST COUNT [--threads N] [--specialised]`
//!
//! Seeds are dealt out one by one, so a thread that meets a long kernel holds up no other.

mod compare;
mod generate;
mod specialised;

use compare::Verdict;
use std::num::ParseIntError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Differences shown with their kernel, the others by one line each.
const SHOWN: u64 = 3;

/// What is asked for.
struct Asked {
    first: u64,
    count: u64,
    threads: u64,
    check: fn(u64) -> Verdict,
}

fn asked() -> Result<Asked, ParseIntError> {
    let mut numbers = Vec::new();
    let mut threads = 1;
    let mut check: fn(u64) -> Verdict = compare::check;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--threads" {
            threads = arguments.next().unwrap_or_default().parse()?;
        } else if argument == "--specialised" {
            check = specialised::check;
        } else {
            numbers.push(argument.parse()?);
        }
    }
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    Ok(Asked { first: number(0, 1), count: number(1, 100_000), threads, check })
}

fn main() {
    let Ok(Asked { first, count, threads, check }) = asked() else {
        eprintln!("usage: differential FIRST COUNT [--threads N] [--specialised]");
        std::process::exit(2);
    };
    let [next, same, skipped, different] = [const { AtomicU64::new(0) }; 4];
    let work = || loop {
        let taken = next.fetch_add(1, Ordering::Relaxed);
        if taken >= count {
            break;
        }
        let found = match check(first + taken) {
            Verdict::Same => &same,
            Verdict::NotCompiled => &skipped,
            Verdict::Different(report) => {
                let whole = different.load(Ordering::Relaxed) < SHOWN;
                println!("{}", if whole { &report } else { report.lines().next().unwrap_or("") });
                &different
            }
        };
        found.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let [same, skipped, different] = [same, skipped, different].map(AtomicU64::into_inner);
    println!(
        "{} kernels compared from seed {first} on, {different} differed, {skipped} not compiled",
        same + different
    );
    std::process::exit(i32::from(different != 0));
}
