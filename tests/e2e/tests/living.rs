//! Who lives is told by a lock: no command ends a session that runs, whatever its binary is called and wherever
//! it looks from, and exactly one finishes a session that is dead.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use apex_e2e::{Ended, Place, Running, Watched, linked, tools, until};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of this kind below the folders of running sessions.
fn rings(place: &Place) -> Vec<PathBuf> {
    let folders = fs::read_dir(place.rings()).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
    let paths = files.flatten().map(|file| file.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "ring")).collect()
}

/// The program twice, and between the two a time in which none of it runs.
fn with_a_gap(place: &Place, launches: u32) -> (String, PathBuf, PathBuf) {
    let (between, go) = (place.root().join("between"), place.root().join("go"));
    let program = linked("steady");
    let script = format!(
        "{0} {launches}; : > {1}; while ! [ -e {2} ]; do sleep 0.01; done; {0} {launches}",
        program.display(),
        between.display(),
        go.display()
    );
    (script, between, go)
}

/// An apex of another name, with all that belongs to it.
fn renamed(place: &Place, name: &str, is_link: bool) -> PathBuf {
    let folder = place.root().join("renamed");
    fs::create_dir(&folder).unwrap();
    let path = folder.join(name);
    if is_link {
        symlink(&tools().apex, &path).unwrap();
    } else {
        fs::hard_link(&tools().apex, &path).unwrap();
        symlink(&tools().shim, folder.join("libapex_shim.so")).unwrap();
    }
    path
}

fn check_left_alone(place: &Place, apex: &Path, look: impl Fn() -> Ended) {
    let (script, between, go) = with_a_gap(place, 200);
    let session = place.root().join("session");
    let arguments = ["run", "-o", session.to_str().unwrap(), "--", "sh", "-c", &script];
    let running = place.start(apex, &arguments);
    until("the first program has ended and its rings are gone", || {
        between.exists() && rings(place).is_empty()
    });
    let looked = look();
    looked.check_success();
    fs::write(&go, "").unwrap();
    let watched = Watched { ended: running.wait(), session };
    assert_eq!(looked.stderr.lines().find(|line| line.contains("finished")), None);
    watched.ended.check_success();
    let summary = watched.summary();
    assert_eq!((summary.launches, summary.own.lost), (400, 0));
    assert_eq!(watched.events().iter().filter(|line| line.kind == "launch").count(), 400);
}

#[test]
fn a_binary_may_bear_any_name() {
    for is_link in [false, true] {
        let place = Place::new();
        let apex = renamed(&place, "apex-0.1.0", is_link);
        check_left_alone(&place, &apex, || place.apex(&["sessions"]));
    }
}

#[test]
fn a_look_from_another_namespace_ends_nothing() {
    let place = Place::new();
    let mut attempt = Command::new("unshare");
    attempt.args(["-pf", "--mount-proc", "true"]).stderr(Stdio::null());
    let possible = attempt.status().is_ok_and(|it| it.success());
    if !possible {
        eprintln!("left out: this user may not make a namespace of process ids");
        return;
    }
    let apex = tools().apex.to_str().unwrap();
    let arguments = ["-pf", "--mount-proc", apex, "sessions"];
    let look = || place.start(Path::new("unshare"), &arguments).wait();
    check_left_alone(&place, &tools().apex, look);
}

/// Kills apex while the program runs.
fn kill_apex(place: &Place, program: &Path, arguments: &[&str]) -> (Running, PathBuf) {
    let done = place.root().join("done");
    let words = [program.to_str().unwrap()].iter().chain(arguments).copied().collect::<Vec<_>>();
    let script = format!("{}; echo $? > {}", words.join(" "), done.display());
    let mut running = place.start_watched(&[], Path::new("sh"), &["-c", &script]);
    let is_recorded = || {
        let folders = fs::read_dir(place.rings()).into_iter().flatten().flatten();
        folders.map(|folder| folder.path().join("order")).any(|path| path.exists())
    };
    until("the program is recorded", is_recorded);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    (running, done)
}

fn has_ended(done: &Path) -> bool {
    fs::read_to_string(done).is_ok_and(|text| text == "0\n")
}

#[test]
fn a_program_that_closes_its_descriptors_still_lives() {
    let place = Place::new();
    let (running, done) = kill_apex(&place, &linked("closes_descriptors"), &["1500"]);
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let looked = place.apex(&["sessions"]);
        assert!(!looked.stderr.contains("finished") || has_ended(&done), "{}", looked.stderr);
    }
    until("the program has ended", || has_ended(&done));
    until("its rings are finished", || {
        place.apex(&["sessions"]).check_success();
        rings(&place).is_empty()
    });
    let session = running.session().to_owned();
    let watched = Watched { ended: running.wait(), session };
    let summary = watched.summary();
    assert!((900..=1500).contains(&summary.launches), "{}", summary.launches);
    assert_eq!(summary.own.lost, 0);
}

#[test]
fn one_of_many_commands_finishes_a_session_and_no_other_state_directory_does() {
    let place = Place::new();
    let (running, done) = kill_apex(&place, &linked("steady"), &["600"]);
    until("the program has ended", || has_ended(&done));
    let elsewhere = place.root().join("elsewhere");
    let script = format!("APEX_STATE={} {} sessions", elsewhere.display(), tools().apex.display());
    let other = place.start(Path::new("sh"), &["-c", &script]).wait();
    assert!(!other.stderr.contains("cut short"), "{}", other.stderr);
    assert_eq!(rings(&place).len(), 1, "another state directory's commands leave it alone");
    let commands: Vec<Running> =
        (0..6).map(|_| place.start(&tools().apex, &["sessions"])).collect();
    let said: Vec<String> = commands.into_iter().map(|command| command.wait().stderr).collect();
    let finished = said.iter().filter(|text| text.contains("it is finished now")).count();
    assert_eq!(finished, 1, "{said:?}");
    assert!(said.iter().all(|text| text.lines().count() <= 1), "{said:?}");
    let session = running.session().to_owned();
    let watched = Watched { ended: running.wait(), session };
    let summary = watched.summary();
    assert!((300..=600).contains(&summary.launches), "{}", summary.launches);
    assert_eq!((summary.own.lost, fs::read_dir(place.rings()).unwrap().count()), (0, 0));
}

#[test]
fn a_process_that_nobody_waits_for_is_dead() {
    let place = Place::new();
    let pid = place.root().join("pid");
    // The shell becomes a program that never asks for its child.
    let script =
        format!("{} 20 & echo $$ > {}; exec sleep 1000", linked("steady").display(), pid.display());
    let running = place.start_watched(&[], Path::new("sh"), &["-c", &script]);
    until("the child is recorded", || !rings(&place).is_empty());
    until("its rings go when it is a zombie", || rings(&place).is_empty());
    let pid = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    Running::signal_process(pid, "TERM");
    let session = running.session().to_owned();
    let watched = Watched { ended: running.wait(), session };
    assert!(!watched.ended.stderr.contains("still running"), "{}", watched.ended.stderr);
    assert_eq!(watched.summary().launches, 20);
}

#[test]
fn a_running_session_says_that_it_runs() {
    let place = Place::new();
    let program = linked("steady");
    let running = place.start(&tools().apex, &["run", "--", program.to_str().unwrap(), "20000"]);
    let counted = || place.apex(&["report"]).stdout.contains(" kernels executed");
    until("something is counted", counted);
    let report = place.apex(&["report"]);
    assert!(report.stdout.starts_with("apex: still running, for "), "{}", report.stdout);
    assert!(report.stdout.contains("; still running"), "{}", report.stdout);
    assert!(!report.stdout.contains("escapes"), "{}", report.stdout);
    let by = place.apex(&["report", "latest", "--by", "kernel"]);
    assert!(by.stdout.contains("nothing") && by.stderr.contains("still runs"), "{}", by.stdout);
    let export = place.apex(&["export", "latest", "--format", "csv"]);
    assert!(export.stderr.contains("still runs"), "{}", export.stderr);
    let listed = place.apex(&["sessions"]);
    assert!(listed.stdout.contains(" running "), "{}", listed.stdout);
    let top = place.apex(&["top", "--json"]);
    assert!(top.stdout.contains("\"running\": true"), "{}", top.stdout);
    running.signal("TERM");
    assert_eq!(running.wait().signal, Some(15));
    let report = place.apex(&["report"]);
    assert!(report.stdout.contains("killed by signal 15"), "{}", report.stdout);
    assert!(!report.stdout.contains("still running"), "{}", report.stdout);
}

#[test]
fn a_program_without_a_ring_is_told_with_the_reason() {
    let place = Place::new();
    let program = linked("steady");
    let program = program.to_str().unwrap();
    let script = format!("ulimit -f 100; exec {program} 10");
    let watched = place.watch(Path::new("sh"), &["-c", &script]);
    watched.ended.check_success();
    let said = &watched.ended.stderr;
    let first = said.lines().find(|line| line.contains("nothing was recorded in"));
    let why = "the limit on file sizes (ulimit -f) leaves no room for rings";
    assert!(first.is_some_and(|line| line.ends_with(why)), "{said}");
    assert!(!said.contains("escapes"), "{said}");

    let as_nobody = ["--reuid=65534", "--clear-groups"];
    let mut attempt = Command::new("setpriv");
    attempt.args(as_nobody).args([program, "1"]);
    attempt.env("LD_LIBRARY_PATH", place.driver().parent().unwrap());
    if !attempt.output().is_ok_and(|it| it.status.success()) {
        eprintln!("left out: this user may not become another, or the other not read these files");
        return;
    }
    let arguments = [as_nobody[0], as_nobody[1], program, "10"];
    let watched = place.watch(Path::new("setpriv"), &arguments);
    watched.ended.check_success();
    let said = &watched.ended.stderr;
    let line = said.lines().find(|line| line.contains("nothing was recorded in"));
    let why = "had become user 65534 before its first CUDA call";
    assert!(line.is_some_and(|line| line.contains(why)), "{said}");
    let again = place.apex(&["report", watched.session.to_str().unwrap()]);
    assert!(again.stdout.contains(why), "{}", again.stdout);
}
