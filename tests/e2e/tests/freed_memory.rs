//! Memory that `--fast` hands out again: whatever is asked about it, wherever it is lacking and however programs end, they see
//! what they see without.

use apex_daemon::summary::PoolSummary;
use apex_e2e::{Place, Watched, linked};

fn pool(watched: &Watched) -> PoolSummary {
    watched.ended.check_no_panic();
    watched.summary().fast.and_then(|fast| fast.pool).expect("the pool was switched on")
}

/// Runs a program without and with every sort of pool: it says the same. What each pool did is returned.
fn check(place: &Place, name: &str) -> Vec<PoolSummary> {
    let plain = place.plain(&linked(name), &[]);
    plain.check_success();
    let words = ["--fast=memory", "--fast", "--fast=memory,strict"];
    let same = words.map(|words| {
        let watched = place.watch_with(&[words], &linked(name), &[]);
        watched.ended.check_success();
        assert_eq!(watched.ended.stdout, plain.stdout, "{words}");
        pool(&watched)
    });
    same.into()
}

#[test]
fn questions_about_memory_are_answered_as_without() {
    for pool in check(&Place::new(), "freed_asked") {
        assert!(pool.served >= 8 && pool.kept_pools == 1, "{pool:?}");
        assert!(pool.held_bytes >= pool.peak_bytes && pool.peak_bytes > 3 << 20, "{pool:?}");
    }
}

#[test]
fn what_another_process_sees_is_not_handed_out_again() {
    for pool in check(&Place::new(), "freed_shared") {
        assert!(pool.given_back >= 8 && pool.served >= 24, "{pool:?}");
    }
}

#[test]
fn what_lies_idle_is_in_nobodys_way() {
    let place = Place::new().with("APEX_SOFTGPU_MEMORY", "64M");
    for pool in check(&place, "freed_full") {
        assert!(pool.given_back >= 60, "{pool:?}");
        assert!(pool.held_bytes <= 64 << 20, "{pool:?}");
    }
}

#[test]
fn a_child_has_no_pool() {
    for pool in check(&Place::new(), "freed_forks") {
        assert!(pool.served > 100, "{pool:?}");
    }
}

#[test]
fn a_wait_of_another_context_ends_nothing() {
    let place = Place::new();
    for order in ["created", "set"] {
        for words in ["--fast=memory", "--fast"] {
            let watched = place.watch_with(&[words], &linked("freed_contexts"), &[order]);
            watched.ended.check_success();
            assert_eq!(watched.ended.stdout, "holds 2\n", "{words} {order}");
            assert_eq!(pool(&watched).served, 1, "{words} {order}");
        }
    }
}

#[test]
fn streams_may_end_while_others_wait_for_them() {
    for pool in check(&Place::new(), "freed_streams") {
        assert!(pool.served > 10_000, "{pool:?}");
    }
}

#[test]
fn two_hundred_killed_programs_harm_nobody() {
    let place = Place::new();
    let arguments = ["200", "3", "2", "40"];
    let watched = place.watch_with(&["--fast"], &linked("killed_often"), &arguments);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, "killed=200\n");
    let pool = pool(&watched);
    assert!(pool.served > 2_000 && pool.held_bytes >= pool.peak_bytes, "{pool:?}");
    assert_eq!(watched.summary().own.lost, 0);
}
