//! `apex run` is like the program itself: its exit code, its signals, its input and output.

use apex_e2e::{Place, linked};
use std::path::Path;

#[test]
fn exit_codes_pass_through() {
    let place = Place::new();
    for code in ["0", "1", "77", "255"] {
        let watched = place.compare(Path::new("sh"), &["-c", &format!("exit {code}")]);
        assert_eq!(watched.ended.code.map(|code| code.to_string()).as_deref(), Some(code));
    }
}

#[test]
fn what_cannot_be_started_is_said_as_shells_say_it() {
    let place = Place::new();
    let missing = place.apex(&["run", "--", "no-such-program-anywhere"]);
    assert_eq!(missing.code, Some(127));
    assert!(missing.stderr.contains("no-such-program-anywhere"), "{}", missing.stderr);
    let directory = place.apex(&["run", "--", place.root().to_str().unwrap()]);
    assert_eq!(directory.code, Some(126));
    assert_eq!(place.apex(&["run"]).code, Some(2), "called wrongly");
    assert_eq!(std::fs::read_dir(place.rings()).map_or(0, Iterator::count), 0, "nothing is left");
}

#[test]
fn signals_are_handed_on() {
    let place = Place::new();
    for (name, number) in [("TERM", 15), ("HUP", 1), ("USR1", 10)] {
        let running = place.start_watched(&[], &linked("steady"), &["20000"]);
        let has_begun = || {
            let folders = std::fs::read_dir(place.rings()).into_iter().flatten().flatten();
            folders.into_iter().any(|folder| folder.path().join("order").exists())
        };
        apex_e2e::until("the program is recorded", has_begun);
        std::thread::sleep(std::time::Duration::from_millis(200));
        running.signal(name);
        let session = running.session().to_owned();
        let watched = apex_e2e::Watched { ended: running.wait(), session };
        assert_eq!(watched.ended.signal, Some(number));
        let summary = watched.summary();
        assert_eq!(summary.exit.and_then(|exit| exit.signal), Some(number));
        assert!(summary.launches > 0 && summary.launches < 20000);
    }
}

#[test]
fn a_program_may_handle_its_signals_itself() {
    let place = Place::new();
    let script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.02; done";
    let running = place.start_watched(&[], Path::new("sh"), &["-c", script]);
    apex_e2e::until("the program is ready", || running.stdout() == "ready\n");
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!((ended.stdout.as_str(), ended.code), ("ready\ncaught\n", Some(5)));
}

#[test]
fn a_program_without_cuda_is_left_alone() {
    let place = Place::new();
    let watched =
        place.compare(Path::new("sh"), &["-c", "echo one; echo two >&2; ls /proc/self/fd | wc -l"]);
    watched.ended.check_success();
    assert!(watched.ended.stderr.contains("two\n"));
    assert_eq!(watched.summary().calls, 0);
}
