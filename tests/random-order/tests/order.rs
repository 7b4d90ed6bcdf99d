//! Random programs see the same with accelerators and without. The program of this package runs more of them.

use apex_random_order::{Asked, Outcome, Way, run};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a busy machine may take until enough was tried.
const LONGEST: Duration = Duration::from_secs(240);

/// Runs programs for so many seconds, and others for as many again until enough was tried.
fn check(way: Way, seconds: u64, stalls: bool, is_enough: fn(&Outcome) -> bool) {
    let program = Path::new(env!("CARGO_BIN_EXE_apex-random-order"));
    let began = Instant::now();
    let mut tried: Option<Outcome> = None;
    loop {
        let seed = 1 + tried.as_ref().map_or(0, |tried| tried.programs);
        let asked = Asked { way, seed, time: Duration::from_secs(seconds), most: u64::MAX, stalls };
        let outcome = run(program, asked).expect("a worker can be started");
        assert!(outcome.failure.is_none(), "{outcome}");
        let all = match tried {
            None => outcome,
            Some(before) => Outcome {
                programs: before.programs + outcome.programs,
                queued: before.queued + outcome.queued,
                in_graphs: before.in_graphs + outcome.in_graphs,
                served: before.served + outcome.served,
                rewritten: before.rewritten + outcome.rewritten,
                stops: before.stops + outcome.stops,
                taken_over: before.taken_over + outcome.taken_over,
                ..outcome
            },
        };
        println!("{all}");
        if is_enough(&all) {
            return;
        }
        assert!(began.elapsed() < LONGEST, "too little was tried: {all}");
        tried = Some(all);
    }
}

#[test]
fn a_queue_of_launches_is_not_seen() {
    check(Way::Bare, 8, false, |tried| {
        tried.programs > 20 && tried.queued > 200 && tried.in_graphs > 10
    });
}

#[test]
fn memory_that_is_handed_out_again_is_not_seen() {
    check(Way::Memory, 8, false, |tried| tried.programs > 20 && tried.served > 20);
}

#[test]
fn launches_that_run_at_once_are_not_seen() {
    check(Way::Overlap, 8, false, |tried| tried.programs > 20 && tried.beside > 10);
}

#[test]
fn kernels_that_are_compiled_again_are_not_seen() {
    check(Way::Specialise, 8, false, |tried| tried.programs > 20 && tried.rewritten > 0);
}

#[test]
fn a_queue_within_the_shim_is_not_seen() {
    check(Way::Shim, 4, false, |tried| tried.programs > 10);
}

#[test]
fn a_queue_on_one_processor_is_not_seen() {
    check(Way::OneProcessor, 4, false, |tried| tried.programs > 40 && tried.queued > 20);
}

#[test]
fn a_queue_whose_thread_stands_still_is_not_seen() {
    check(Way::Bare, 5, true, |tried| tried.stops > 20 && tried.taken_over > 0);
}
