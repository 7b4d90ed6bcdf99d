//! Programs that become several, or others, or end in their own way.

use apex_e2e::{Place, linked, until};
use std::collections::BTreeSet;

#[test]
fn forked_children_are_recorded_as_themselves() {
    let place = Place::new();
    let watched = place.compare(&linked("fork_child"), &[]);
    let events = watched.check_expected();
    let by_blocks = |blocks: u32| {
        let launches: Vec<_> =
            events.iter().filter(|line| line.kind == "launch" && line.grid_x == blocks).collect();
        let pids: BTreeSet<u32> = launches.iter().map(|line| line.pid).collect();
        assert_eq!(pids.len(), 1, "launches of {blocks} blocks are of one process");
        (launches.len(), launches[0].pid)
    };
    let (early, before, late, after) = (by_blocks(1), by_blocks(2), by_blocks(3), by_blocks(4));
    assert_eq!([early.0, before.0, late.0, after.0], [10, 100, 30, 200]);
    assert_eq!(before.1, after.1, "the parent stays the parent");
    assert_eq!(BTreeSet::from([early.1, before.1, late.1]).len(), 3);
    let known = watched.known();
    for process in &known.processes {
        // Whoever is refused has no kernel.
        let kernels = usize::from(process.pid != late.1);
        assert_eq!(process.kernels.len(), kernels, "each tells its own kernels: {process:?}");
        let said = process.process.as_ref().map(|said| said.pid);
        assert_eq!(said, Some(u64::from(process.pid)));
    }
}

#[test]
fn a_thousand_children_lose_nothing() {
    let place = Place::new();
    place.compare(&linked("fork_many"), &[]).check_expected();
    let rings = std::fs::read_dir(place.rings()).unwrap().count();
    assert_eq!(rings, 0, "no ring is left");
}

#[test]
fn a_program_that_becomes_another_keeps_both_lives() {
    let place = Place::new();
    let watched = place.compare(&linked("exec_child"), &[]);
    let events = watched.check_expected();
    let launches = |blocks: u32| {
        let meant =
            events.iter().filter(move |line| line.kind == "launch" && line.grid_x == blocks);
        let lives: BTreeSet<(u32, u32)> =
            meant.clone().map(|line| (line.pid, line.process)).collect();
        assert_eq!(lives.len(), 1);
        (meant.count(), *lives.first().unwrap())
    };
    let ((first, one), (second, other)) = (launches(1), launches(2));
    assert_eq!((first, second), (40, 60));
    assert!(one.0 == other.0 && one.1 != other.1, "one process id, two images");
}

#[test]
fn calls_after_main_are_recorded() {
    let place = Place::new();
    let program = linked("exit_order");
    let watched = place.compare(&program, &[]);
    watched.ended.check_success();
    watched.check_expected();
    let watched = place.compare(&program, &["now"]);
    assert_eq!(watched.ended.code, Some(7));
    watched.check_expected();
}

#[test]
fn a_child_never_waits_for_what_stayed_in_its_parent() {
    let place = Place::new();
    let watched = place.compare(&linked("fork_threads"), &[]);
    watched.ended.check_success();
    let events = watched.check_expected();
    let refused = events.iter().filter(|line| line.kind == "launch" && line.result != 0);
    assert!(refused.into_iter().all(|line| line.grid_x == 2), "only children are refused");
}

#[test]
fn a_child_may_outlive_the_session() {
    let place = Place::new();
    let program = linked("outlive");
    let said = place.root().join("said");
    let is_said = || std::fs::read_to_string(&said).is_ok_and(|text| text == "all went well\n");
    let watched = place.watch(&program, &[said.to_str().unwrap()]);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, "the parent ends\n");
    assert!(watched.ended.stderr.contains("still running"), "{}", watched.ended.stderr);
    assert!(!is_said(), "the child goes on");
    until("the child has ended well", is_said);
}
