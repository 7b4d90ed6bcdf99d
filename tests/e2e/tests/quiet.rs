//! A recorded launch makes no system call, allocates nothing and waits for no lock: shown, not
//! read. The driver under it is one that does nothing: what a driver does is its own affair.

use apex_e2e::{Place, linked, tools};

const SIGSYS: i32 = 31;

fn check(timing: &str, fault: &str) {
    check_with(&["--timing", timing], fault);
}

fn check_with(options: &[&str], fault: &str) {
    let place = Place::with_driver(&tools().standin).with("APEX_FAULT", fault);
    let watched = place.watch_with(options, &linked("quiet_path"), &[]);
    watched.ended.check_success();
    assert_eq!(watched.ended.number("allocations"), 0);
    assert_eq!(watched.ended.number("locks"), 0);
    let summary = watched.summary();
    let expected = watched.ended.number("launches");
    let all = summary.launches + summary.own.lost;
    assert!(all >= expected && summary.launches <= expected, "{all} of {expected}");
    assert_eq!((summary.own.failures, summary.own.damaged), (0, 0));
}

#[test]
fn a_launch_without_timing_is_quiet() {
    check("off", "none");
}

#[test]
fn a_launch_with_sampling_is_quiet() {
    check("sampled", "none");
}

#[test]
fn a_launch_that_reads_no_clock_is_quiet() {
    check("sampled", "slow-clock");
}

#[test]
fn a_launch_through_an_open_gate_is_quiet() {
    check_with(&["--timing", "sampled", "--class", "batch"], "none");
    check_with(&["--timing", "off", "--class", "latency"], "none");
}

#[test]
fn the_filter_kills_whoever_is_not() {
    let place = Place::with_driver(&tools().standin);
    let watched = place.watch_with(&["--timing", "off"], &linked("quiet_path"), &["prove"]);
    assert_eq!(watched.ended.signal, Some(SIGSYS));
    assert_eq!(watched.ended.stdout, "");
}
