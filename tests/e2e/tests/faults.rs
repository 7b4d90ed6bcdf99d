//! Whatever fails, on either side: the program is not harmed, and what was recorded is kept and
//! said.

use apex_core::ring::Reader;
use apex_daemon::row::call_name;
use apex_e2e::{Place, Watched, linked, until};

#[test]
fn a_killed_program_keeps_its_events() {
    let place = Place::new();
    let program = linked("killed");
    for signal in [9, 11, 6] {
        let watched = place.compare(&program, &[&signal.to_string()]);
        assert_eq!(watched.ended.signal, Some(signal));
        watched.check_expected();
        assert_eq!(watched.summary().exit.and_then(|exit| exit.signal), Some(signal));
    }
}

/// The calls that the threads of a running session are in.
fn calls_under_way(place: &Place) -> Vec<String> {
    let folders = std::fs::read_dir(place.rings()).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten());
    let rings = files
        .flatten()
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == "ring"));
    let readers = rings.filter_map(|path| Reader::open(std::fs::File::open(path).ok()?).ok());
    let calls = readers.flat_map(|reader| reader.calls_under_way().unwrap_or_default());
    calls.map(|(_, call, _)| call_name(call).to_owned()).collect()
}

#[test]
fn a_hang_names_its_call() {
    let place = Place::new();
    let running = place.start_watched(&[], &linked("endless"), &[]);
    until("the program waits", || calls_under_way(&place) == ["cuCtxSynchronize"]);
    running.signal("INT");
    let session = running.session().to_owned();
    let watched = Watched { ended: running.wait(), session };
    assert_eq!(watched.ended.signal, Some(2));
    let summary = watched.summary();
    let [call] = &summary.under_way[..] else { panic!("{:?}", summary.under_way) };
    assert_eq!((call.function.as_str(), call.tid), ("cuCtxSynchronize", call.pid));
    assert!(call.host_ns.is_some_and(|ns| ns > 0 && ns < summary.wall_ns), "{call:?}");
    let said = format!("when it ended, thread {} was in cuCtxSynchronize for ", call.tid);
    assert!(watched.ended.stderr.contains(&said), "{}", watched.ended.stderr);
}

#[test]
fn who_waits_for_nothing_hangs_in_nothing() {
    let place = Place::new();
    let watched = place.watch(&linked("killed"), &["9"]);
    assert_eq!(watched.ended.signal, Some(9));
    assert_eq!(watched.summary().under_way, []);
    assert!(!watched.ended.stderr.contains("when it ended"), "{}", watched.ended.stderr);
}

#[test]
fn a_program_outlives_its_apex_and_the_next_one_keeps_its_events() {
    let place = Place::new();
    let program = linked("steady");
    let code = place.root().join("code");
    let script = format!("{} 1500 7; echo $? > {}", program.display(), code.display());
    let mut running = place.start_watched(&[], "sh".as_ref(), &["-c", &script]);
    let session = running.session().to_owned();
    let ring = || std::fs::read_dir(place.rings()).ok()?.next()?.ok();
    until("the session has begun", || ring().is_some());
    std::thread::sleep(std::time::Duration::from_millis(400));
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert!(!code.exists(), "the program is still running");

    // While it runs nobody takes its rings away.
    let report = place.apex(&["sessions"]);
    report.check_success();
    until("the program has ended", || {
        std::fs::read_to_string(&code).is_ok_and(|text| text.ends_with('\n'))
    });
    assert_eq!(std::fs::read_to_string(&code).unwrap(), "7\n");
    assert_eq!(running.stdout(), "expected launches=1500 sync=1\n");

    let report = place.apex(&["report", session.to_str().unwrap()]);
    report.check_success();
    assert!(report.stderr.contains("cut short"), "{}", report.stderr);
    let watched = apex_e2e::Watched { ended: running.wait(), session };
    let summary = watched.summary();
    // What the killed apex had taken out of the rings and not yet written is gone with it; what
    // came after was kept by nobody but the ring.
    assert!((900..=1500).contains(&summary.launches), "{}", summary.launches);
    assert!(summary.notes.iter().any(|note| note.contains("killed")), "{:?}", summary.notes);
    assert_eq!(summary.own.lost, 0);
    assert_eq!(std::fs::read_dir(place.rings()).unwrap().count(), 0, "no ring is left");
    let again = place.apex(&["report"]);
    again.check_success();
    assert!(!again.stderr.contains("cut short"), "it is said once: {}", again.stderr);
}

#[test]
fn a_ring_that_nobody_empties_counts_what_it_cannot_hold() {
    let place = Place::new().with("APEX_RING_EVENTS", "64");
    let program = linked("steady");
    let code = place.root().join("code");
    let script = format!("{} 1000 3; echo $? > {}", program.display(), code.display());
    let mut running = place.start_watched(&["--timing", "off"], "sh".as_ref(), &["-c", &script]);
    let session = running.session().to_owned();
    let is_recorded = || {
        let rings = std::fs::read_dir(place.rings()).into_iter().flatten().flatten();
        rings.map(|entry| entry.path().join("order")).any(|path| path.exists())
    };
    until("the program is recorded", is_recorded);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    until("the program has ended", || {
        std::fs::read_to_string(&code).is_ok_and(|text| text == "3\n")
    });
    place.apex(&["report", session.to_str().unwrap()]).check_success();
    let watched = apex_e2e::Watched { ended: running.wait(), session };
    let summary = watched.summary();
    // cuInit, a context, a module, a thread's birth, a thousand launches and a wait; less what the
    // killed apex had taken and not yet written.
    let known = summary.own.events + summary.own.lost;
    assert!((900..=1005).contains(&known), "{:?}", summary.own);
    assert!(summary.own.lost >= 500, "{:?}", summary.own);
}

#[test]
fn what_a_small_ring_loses_is_counted_and_shown() {
    let place = Place::new().with("APEX_RING_EVENTS", "64");
    let program = linked("ring_overflow");
    let plain = place.plain(&program, &[]);
    let watched = place.watch_with(&["--timing", "off"], &program, &[]);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, plain.stdout);
    let summary = watched.summary();
    assert!(summary.own.lost > 0);
    assert_eq!(summary.own.events + summary.own.lost, watched.ended.number("events"));
    let last = watched.events().iter().filter(|line| line.grid_x == 777).count() as u64;
    assert_eq!(last, watched.ended.number("last"), "after a pause there is room again");
    let shown = watched.ended.stderr.lines().last().unwrap_or_default();
    assert!(shown.contains("lost") && !shown.contains(" 0 lost"), "{shown}");
}

#[test]
fn a_panic_inside_apex_costs_the_program_nothing() {
    let place = Place::new().with("APEX_FAULT", "panic-in-record");
    let watched = place.compare(&linked("vector_add"), &[]);
    watched.ended.check_success();
    let said = |line: &&str| line.contains("a part of apex failed");
    assert_eq!(watched.ended.stderr.lines().filter(said).count(), 1, "{}", watched.ended.stderr);
    let summary = watched.summary();
    assert!(summary.own.failures > 0);
    assert_eq!(summary.launches, 0);
    let shown = watched.ended.stderr.lines().last().unwrap_or_default();
    assert!(shown.contains("failures") && !shown.contains(" 0 failures"), "{shown}");
}

#[test]
fn a_program_that_scribbles_over_its_ring_harms_only_its_record() {
    let place = Place::new();
    let watched = place.compare(&linked("scribbler"), &[]);
    watched.ended.check_success();
    let summary = watched.summary();
    let launches = watched.ended.number("launches");
    assert!(summary.launches <= launches, "{} of {launches} believed", summary.launches);
    assert!(summary.own.damaged > 0, "{:?}", summary.own);
    assert!(watched.ended.stderr.contains("damaged"), "{}", watched.ended.stderr);
    for line in watched.events() {
        assert!(line.kind != "launch" || (line.grid_x, line.block_x) == (1, 32), "{line:?}");
    }
    // What cannot be is not shown: no program spends more than its time, nor loses more than it
    // did.
    let own = &summary.own;
    assert!(own.share_of_wall.is_none_or(|share| share < 100.0), "{own:?}");
    assert!(own.facts_lost < 1_000_000 && own.lost < 1_000_000, "{own:?}");
}
