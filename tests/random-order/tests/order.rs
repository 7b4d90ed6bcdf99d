//! Random programs see the same with accelerators and without. The program of this package runs more of them.

use apex_random_order::{Asked, Outcome, Way, run};
use std::path::Path;
use std::time::Duration;

fn check(way: Way, seconds: u64, stalls: bool) -> Outcome {
    let program = Path::new(env!("CARGO_BIN_EXE_apex-random-order"));
    let asked = Asked { way, seed: 1, time: Duration::from_secs(seconds), most: u64::MAX, stalls };
    let outcome = run(program, asked).expect("a worker can be started");
    assert!(outcome.failure.is_none(), "{outcome}");
    println!("{outcome}");
    outcome
}

#[test]
fn a_queue_of_launches_is_not_seen() {
    let outcome = check(Way::Bare, 8, false);
    // Else nothing was tried.
    assert!(outcome.programs > 20 && outcome.queued > 200 && outcome.in_graphs > 10, "{outcome}");
}

#[test]
fn memory_that_is_handed_out_again_is_not_seen() {
    let outcome = check(Way::Memory, 8, false);
    assert!(outcome.programs > 20 && outcome.served > 20, "{outcome}");
}

#[test]
fn a_queue_within_the_shim_is_not_seen() {
    let outcome = check(Way::Shim, 4, false);
    assert!(outcome.programs > 10, "{outcome}");
}

#[test]
fn a_queue_on_one_processor_is_not_seen() {
    let outcome = check(Way::OneProcessor, 4, false);
    assert!(outcome.programs > 40 && outcome.queued > 20, "{outcome}");
}

#[test]
fn a_queue_whose_thread_stands_still_is_not_seen() {
    let outcome = check(Way::Bare, 5, true);
    assert!(outcome.stops > 20 && outcome.taken_over > 0, "{outcome}");
}
