//! Compares the tiers on many random kernels.
//!
//! `cargo run --release -p apex-engine --example differential -- [kernels] [first seed]`

mod compare;
mod generate;

use compare::Verdict;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|n| n.parse::<u64>());
    let mut number = |default| arguments.next().and_then(Result::ok).unwrap_or(default);
    let (kernels, first) = (number(100_000), number(1));
    let (mut same, mut skipped, mut different) = (0, 0, 0);
    for seed in first..first + kernels {
        match compare::check(seed) {
            Verdict::Same => same += 1,
            Verdict::NotCompiled => skipped += 1,
            Verdict::Different(report) => {
                different += 1;
                if different <= 3 {
                    println!("{report}");
                }
            }
        }
    }
    println!("{same} agree, {different} differ, {skipped} not compiled");
    std::process::exit(i32::from(different != 0));
}
