//! Programs that become several, or others, or end in their own way.

use apex_e2e::{Place, Running, Watched, linked, until};
use std::collections::BTreeSet;
use std::path::Path;

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

#[test]
fn children_that_outlive_the_program_are_waited_for() {
    let place = Place::new();
    let said = place.root().join("said");
    let watched = place.watch_with(&["--wait"], &linked("outlive"), &[said.to_str().unwrap()]);
    watched.ended.check_success();
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "all went well\n");
    assert!(!watched.ended.stderr.contains("still running"), "{}", watched.ended.stderr);
    assert_eq!(watched.summary().launches, 601);
    // A server that has left its session and its parents, and calls CUDA when the program has long ended.
    let script = format!("(setsid sh -c 'sleep 0.3; {} 50' &); exit 5", linked("steady").display());
    let watched = place.watch_with(&["--wait"], Path::new("sh"), &["-c", &script]);
    assert_eq!((watched.ended.code, watched.summary().launches), (Some(5), 50));
    assert!(watched.ended.stderr.contains("Ctrl-C ends the waiting"), "{}", watched.ended.stderr);
}

#[test]
fn a_signal_ends_the_waiting_with_the_report() {
    let place = Place::new();
    let gone = place.root().join("gone");
    // Says its number when the program is no more, and stays.
    let server = format!(
        "while kill -0 $1 2>/dev/null; do sleep 0.01; done; echo $$ > {}; exec sleep 1000",
        gone.display()
    );
    let script = format!("setsid sh -c '{server}' sh $$ & exit 6");
    let running = place.start_watched(&["--wait"], Path::new("sh"), &["-c", &script]);
    let pid = || std::fs::read_to_string(&gone).ok()?.trim().parse().ok();
    until("the program has ended", || pid().is_some());
    running.signal("INT");
    let session = running.session().to_owned();
    let watched = Watched { ended: running.wait(), session };
    Running::signal_process(pid().unwrap(), "KILL");
    assert_eq!(watched.ended.code, Some(6));
    assert!(watched.ended.stderr.contains("no CUDA call was seen"), "{}", watched.ended.stderr);
}
