//! Every reader survives some seconds of broken input. The program of this package does the same for hours.

use apex_random_input::{Outcome, run};
use std::path::Path;
use std::time::Duration;

#[test]
fn broken_input_is_refused_or_read_but_ends_no_reader() {
    let program = Path::new(env!("CARGO_BIN_EXE_apex-random-input"));
    check(&run(program, "all", 1, Duration::from_secs(20), Duration::ZERO).unwrap());
}

/// A minute, at a pace that leaves most of a processor to the other tests.
#[test]
fn broken_requests_end_no_dashboard_in_a_minute() {
    let program = Path::new(env!("CARGO_BIN_EXE_apex-random-input"));
    let (minute, pause) = (Duration::from_secs(60), Duration::from_millis(10));
    check(&run(program, "dashboard", 2, minute, pause).unwrap());
}

fn check(outcomes: &[Outcome]) {
    let bad: Vec<String> =
        outcomes.iter().filter(|outcome| !outcome.is_good()).map(Outcome::to_string).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
