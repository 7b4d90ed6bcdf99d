//! Random calls of the driver: `fuzz_driver --seconds N [--seed S] [--threads T]`.
//!
//! Ends with the number of calls; a crash or a hang ends it otherwise. The seed is printed first, so that
//! a run can be repeated.

#[path = "../tests/support/fuzz.rs"]
mod fuzz;

/// The kernels of the tests.
const KERNELS: &str = include_str!("../tests/kernels.ptx");

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(default)
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = value("--seed", now.map_or(1, |now| now.as_secs()));
    let seconds = value("--seconds", 10);
    println!("seed {seed}, {seconds} seconds");
    let length = std::time::Duration::from_secs(seconds);
    let calls = fuzz::run(length, seed, value("--threads", 4) as usize);
    println!("{calls} calls");
}
