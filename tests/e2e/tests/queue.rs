//! A queue of launches under the ends that programs come to: killed, forked, left in every way, interrupted.

use apex_e2e::{Ended, Place, linked};
use std::time::{Duration, Instant};

/// The thread that sends what waits.
const SENDER: &str = "apex-submit";

fn place() -> Place {
    Place::new().with("APEX_FAST", "launch")
}

/// Launches that waited in the queue, as the report says.
fn queued(ended: &Ended) -> u64 {
    let line = ended.stderr.lines().find_map(|line| line.trim().strip_prefix("fast: "));
    let count = line.and_then(|line| line.split(' ').next()).map(|count| count.replace(',', ""));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{}", ended.stderr))
}

#[test]
fn two_hundred_killed_programs_lose_no_record() {
    let place = place();
    let watched = place.watch(&linked("queue_killed"), &["200", "1"]);
    watched.ended.check_success();
    let (killed, made) = (watched.ended.number("killed"), watched.ended.number("made"));
    let summary = watched.summary();
    assert_eq!((killed, summary.own.lost), (200, 0));
    // Each may have died between the record of a launch and its own count.
    assert!(
        (made..=made + killed).contains(&summary.launches),
        "{made} made, {} recorded",
        summary.launches
    );
    assert!(queued(&watched.ended) > 1_000, "{}", watched.ended.stderr);
}

#[test]
fn a_thousand_forks_lose_and_repeat_nothing() {
    let place = place();
    let program = linked("queue_forks");
    let plain = place.plain(&program, &[]);
    plain.check_success();
    let watched = place.watch(&program, &[SENDER]);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, plain.stdout);
    assert!(queued(&watched.ended) > 1_000, "{}", watched.ended.stderr);
}

#[test]
fn however_a_program_ends_what_it_launched_is_done() {
    let place = place();
    let program = linked("queue_exit");
    let mut all = 0;
    for (way, code) in [("return", 0), ("exit", 4), ("thread", 5), ("last", 6)] {
        let watched = place.compare(&program, &[way]);
        assert_eq!(watched.ended.code, Some(code), "{way}");
        assert!(watched.ended.stdout.contains("every launch"), "{way}: {}", watched.ended.stdout);
        all += queued(&watched.ended);
    }
    assert!(all > 100, "{all} queued");
}

#[test]
fn signals_stay_the_program_s() {
    let place = place();
    place.plain(&linked("queue_signals"), &[]).check_success();
    // How many launches wait depends on what the machine's processors do beside this.
    let begun = Instant::now();
    loop {
        let watched = place.watch(&linked("queue_signals"), &[]);
        watched.ended.check_success();
        watched.check_expected();
        if queued(&watched.ended) > 100 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(240), "{}", watched.ended.stderr);
    }
}
