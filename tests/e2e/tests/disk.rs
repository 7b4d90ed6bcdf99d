//! What apex writes: private, and of no consequence to the program when it cannot be written or
//! read.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use apex_daemon::summary::{Kept, Summary};
use apex_e2e::{Place, Watched, linked, tools, until};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Everything under a directory, itself included.
fn tree(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory { found.extend(tree(&path)) } else { found.push(path) }
    }
    found
}

fn check_private(directory: &Path) {
    for path in tree(directory) {
        // A file may go while it is looked at.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_symlink() {
            continue;
        }
        let mode = metadata.mode() & 0o777;
        let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{} has {mode:o}", path.display());
    }
}

#[test]
fn rings_and_sessions_are_private() {
    let place = Place::new();
    // The user's own mask is as open as can be.
    let script = "umask 000; exec \"$@\"";
    let (apex, program) = (tools().apex.to_str().unwrap(), linked("steady"));
    let state = place.state().join("deeper");
    let place = place.with("APEX_STATE", &state);
    let arguments = ["-c", script, "sh", apex, "run", "--", program.to_str().unwrap(), "600"];
    let running = place.start("sh".as_ref(), &arguments);
    let of_program = |place: &Place| {
        let files = tree(&place.rings());
        files.iter().any(|path| path.extension().is_some_and(|end| end == "facts"))
    };
    until("the program is recorded", || of_program(&place));
    std::thread::sleep(std::time::Duration::from_millis(400));
    check_private(&place.rings());
    check_private(&state);
    running.wait().check_success();
    check_private(&state);
    assert!(tree(&state).iter().any(|path| path.ends_with("summary.json")));
}

#[test]
fn a_directory_that_was_there_gets_private_files() {
    let place = Place::new();
    let chosen = place.root().join("chosen");
    fs::create_dir(&chosen).unwrap();
    fs::set_permissions(&chosen, fs::Permissions::from_mode(0o755)).unwrap();
    let program = linked("launch_forms");
    let arguments = ["run", "-o", chosen.to_str().unwrap(), "--", program.to_str().unwrap()];
    place.apex(&arguments).check_success();
    for path in tree(&chosen).iter().filter(|path| **path != chosen) {
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o077, 0, "{}", path.display());
    }
    let again = place.apex(&arguments);
    assert_eq!(again.code, Some(2), "a session is never overwritten");
    assert!(again.stderr.contains("is not empty"), "{}", again.stderr);
}

#[test]
fn a_full_disk_costs_only_the_record() {
    let place = Place::new();
    let program = linked("ring_overflow");
    let plain = place.plain(&program, &[]);
    let state = place.state();
    let script = format!(
        "mount -t tmpfs -o size=64k none {0}; exec {1} run --timing off -- {2}",
        state.display(),
        tools().apex.display(),
        program.display()
    );
    let Some(ended) = place.mounted(&script) else { return };
    ended.check_success();
    assert_eq!(ended.stdout, plain.stdout);
    let said: Vec<&str> =
        ended.stderr.lines().filter(|line| line.contains("cannot be written")).collect();
    assert!(
        !said.is_empty() && said.len() <= 3,
        "it is said, and not again and again:\n{}",
        ended.stderr
    );
    assert!(
        said[0].contains(state.to_str().unwrap()) && said[0].contains("No space"),
        "{}",
        said[0]
    );
    assert!(ended.stderr.contains(" kernels executed"), "the report is made: {}", ended.stderr);
}

fn check_no_room(size: &str) {
    let place = Place::new();
    let program = linked("ring_overflow");
    let (apex, state) = (tools().apex.display(), place.state());
    let script = format!(
        "mount -t tmpfs -o size={size} none {state}; {apex} run --timing off -- {program}; \
         ls {rings} | wc -l; {apex} sessions; {apex} report >&2 || true; ls {rings} | wc -l; \
         mount -o remount,size=64m {state}; {apex} report --json > {root}/summary.json; \
         {apex} export --format ndjson | wc -l",
        state = state.display(),
        program = program.display(),
        rings = place.rings().display(),
        root = place.root().display(),
    );
    let Some(ended) = place.mounted(&script) else { return };
    ended.check_success();
    assert!(!ended.stderr.contains("  kept in "), "{size}: {}", ended.stderr);
    assert!(ended.stderr.contains("  not kept in "), "{size}: {}", ended.stderr);
    let made = ended.number("events");
    let shown = fs::read_to_string(place.root().join("summary.json")).unwrap_or_default();
    let summary: Summary =
        serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}\n{}", ended.stderr));
    let own = &summary.own;
    assert_eq!((own.events + own.lost, own.not_kept), (made, 0), "{size}: {}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let exported = lines.last().map(|line| line.trim().to_owned());
    assert_eq!(exported, Some(own.events.to_string()), "{size}: each is there once");
    assert!(lines.contains(&"1"), "{size}: the rings stay: {}", ended.stdout);
    assert_eq!(summary.exit.and_then(|exit| exit.code), Some(0), "{size}");
    let left = fs::read_dir(place.rings()).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{size}: {}", ended.stderr);
}

#[test]
fn a_session_without_room_is_not_called_kept_and_is_whole_when_there_is_room() {
    for size in ["4k", "16k", "64k"] {
        check_no_room(size);
    }
}

#[test]
fn few_descriptors_cost_no_event() {
    let place = Place::new();
    let program = linked("ring_overflow");
    let session = place.root().join("few");
    // Descriptors that this test's own parent left open would count.
    let script = format!(
        "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 10; exec {} run --json --timing off -o {} -- {}",
        tools().apex.display(),
        session.display(),
        program.display()
    );
    let ended = place.plain(Path::new("sh"), &["-c", &script]);
    ended.check_success();
    let json = ended.stderr.find("{\n").map_or("", |start| &ended.stderr[start..]);
    let own = serde_json::from_str::<Summary>(json).unwrap().own;
    assert_eq!(own.events + own.lost, ended.number("events"), "{}", ended.stderr);
    assert_eq!((own.not_kept, own.kept), (0, Kept::InPlace), "{}", ended.stderr);
    let kept = Watched { ended, session }.events();
    assert_eq!(kept.len() as u64, own.events);
}

#[test]
fn a_program_runs_however_few_descriptors_there_are() {
    let place = Place::new();
    let program = linked("vector_add");
    place.plain(&program, &[]).check_success();
    for descriptors in 3..10 {
        let apex = tools().apex.display();
        let script = format!("ulimit -n {descriptors}; exec {apex} run -- {}", program.display());
        let ended = place.plain(Path::new("sh"), &["-c", &script]);
        // Below its own needs the program fails as it does alone.
        let alone = format!("ulimit -n {descriptors}; exec {}", program.display());
        let alone = place.plain(Path::new("sh"), &["-c", &alone]);
        assert_eq!((ended.code, ended.signal), (alone.code, alone.signal), "{}", ended.stderr);
        assert_eq!(ended.stdout, alone.stdout, "{}", ended.stderr);
    }
}

#[test]
fn full_memory_for_rings_costs_only_the_record() {
    let place = Place::new();
    let program = linked("per_thread_stream");
    let whole = place.watch_with(&["--timing", "off"], &program, &[]);
    whole.ended.check_success();
    // Room for the ring of one thread, of three.
    let tiny = |place: &Path| format!("mount -t tmpfs -o size=1300k none {}; ", place.display());
    let script = format!(
        "{}{}{}exec {} run --json --timing off -o {}/s -- {}",
        tiny(place.rings().parent().unwrap()),
        tiny(Path::new("/dev/shm")),
        tiny(&place.state()),
        tools().apex.display(),
        place.state().display(),
        program.display()
    );
    let Some(ended) = place.mounted(&script) else { return };
    ended.check_success();
    assert_eq!(ended.stdout, whole.ended.stdout);
    assert!(ended.stderr.contains("no ring for it"), "{}", ended.stderr);
    let json = ended.stderr.find("\n{").map_or("", |start| &ended.stderr[start..]);
    let own = serde_json::from_str::<Summary>(json).unwrap().own;
    assert!(own.lost > 0, "{own:?}");
    assert_eq!(own.events + own.lost, whole.summary().own.events, "recorded or lost: {own:?}");
}

#[test]
fn a_read_only_state_directory_costs_only_the_record() {
    let place = Place::new();
    let program = linked("launch_forms");
    let plain = place.plain(&program, &[]);
    let state = place.state();
    let script = format!(
        "mount -t tmpfs -o ro none {0}; exec {1} run -- {2}",
        state.display(),
        tools().apex.display(),
        program.display()
    );
    let Some(ended) = place.mounted(&script) else { return };
    ended.check_success();
    assert_eq!(ended.stdout, plain.stdout);
    let said = ended.stderr.lines().find(|line| line.contains("Read-only")).unwrap_or_default();
    assert!(said.contains(state.to_str().unwrap()), "{}", ended.stderr);
    assert!(ended.stderr.contains("9 kernels executed"), "the report is made: {}", ended.stderr);
}

/// A session with a file changed: whoever needs the file names it, and shows the rest or says why
/// not.
fn check_damage(
    watched: &Watched,
    place: &Place,
    file: &str,
    change: impl Fn(&mut Vec<u8>),
) -> io::Result<()> {
    let path = watched.session.join(file);
    let whole = fs::read(&path)?;
    let mut bytes = whole.clone();
    change(&mut bytes);
    fs::write(&path, &bytes)?;
    // Without its summary a report is made from the events.
    let summary = watched.session.join("summary.json");
    let aside = watched.session.with_extension("aside");
    let of_events = file.starts_with("events");
    if of_events {
        fs::rename(&summary, &aside)?;
    }
    let session = watched.session.to_string_lossy();
    for verb in [&["report"][..], &["report", "--by", "kernel"], &["export", "--format", "ndjson"]]
    {
        let ended = place.apex(&[verb, &[&session]].concat());
        ended.check_no_panic();
        assert_eq!(ended.signal, None, "{}", ended.stderr);
        let needed = file != "summary.json" || verb[0] == "report";
        assert_eq!(ended.stderr.contains(file), needed, "{verb:?} {file}:\n{}", ended.stderr);
    }
    if of_events {
        fs::rename(&aside, &summary)?;
    }
    fs::write(&path, &whole)
}

#[test]
fn a_damaged_session_is_named_and_the_rest_is_shown() -> io::Result<()> {
    let place = Place::new();
    let watched = place.watch(&linked("vector_add"), &["2000"]);
    watched.ended.check_success();
    let check = |file: &str, change: fn(&mut Vec<u8>)| check_damage(&watched, &place, file, change);
    let events = "events-00001.parquet";
    check(events, |bytes| bytes.truncate(bytes.len() / 2))?;
    check(events, Vec::clear)?;
    check(events, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].fill(0xa5);
    })?;
    check(events, |bytes| {
        let end = bytes.len();
        bytes[end - 40..end - 8].fill(0xff);
    })?;
    check(events, |bytes| bytes.fill(b'x'))?;
    check("summary.json", |bytes| bytes.truncate(100))?;
    check("session.json", |bytes| bytes.truncate(10))?;
    place.apex(&["report", &watched.session.to_string_lossy()]).check_success();
    Ok(())
}

#[test]
fn any_flipped_byte_is_survived() {
    let place = Place::new();
    let watched = place.watch(&linked("launch_forms"), &[]);
    let path = watched.session.join("events-00001.parquet");
    let whole = fs::read(&path).unwrap();
    let step = (whole.len() / 60).max(1);
    for place_of_flip in (0..whole.len()).step_by(step) {
        let mut bytes = whole.clone();
        bytes[place_of_flip] ^= 0x55;
        fs::write(&path, &bytes).unwrap();
        let ended = place.apex(&["export", "--format", "csv", watched.session.to_str().unwrap()]);
        ended.check_no_panic();
        assert_eq!(ended.signal, None, "byte {place_of_flip}: {}", ended.stderr);
        assert!(
            ended.stderr.contains("events-00001.parquet"),
            "byte {place_of_flip}: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_damaged_index_is_done_without() {
    let place = Place::new();
    let program = linked("launch_forms");
    place.apex(&["run", "--", program.to_str().unwrap()]).check_success();
    fs::write(place.state().join("index.json"), "{ not json").unwrap();
    let listed = place.apex(&["sessions"]);
    listed.check_success();
    assert!(listed.stdout.contains("launch_forms"), "{}", listed.stdout);
    place.apex(&["report"]).check_success();
}

#[test]
fn folders_of_the_user_are_left_alone() {
    let place = Place::new().with("APEX_SESSIONS_KEPT", "2");
    let elsewhere = place.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "").unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.state().join("link")).unwrap();
    for nth in 0..60 {
        let own = place.state().join(format!("own-{nth}"));
        fs::create_dir(&own).unwrap();
        fs::write(own.join("file"), "").unwrap();
    }
    for _ in 0..4 {
        place.apex(&["run", "--", "true"]).check_success();
    }
    let entries = || fs::read_dir(place.state()).unwrap().flatten();
    let kept = entries().filter(|entry| entry.path().join("session.json").exists()).count();
    assert_eq!(kept, 2, "sessions are thrown away");
    let own = entries().filter(|entry| entry.path().join("file").exists()).count();
    assert_eq!(own, 61, "nothing else is");
}

#[test]
fn a_home_of_another_user_keeps_nothing() {
    let place = Place::new().without("APEX_STATE").without("XDG_STATE_HOME");
    let home = place.root().join("home");
    fs::create_dir_all(home.join(".local")).unwrap();
    let place = place.with("HOME", &home);
    if std::os::unix::fs::chown(home.join(".local"), Some(65_534), None).is_err() {
        eprintln!("left out: this user may not give a folder away");
        return;
    }
    let ended = place.apex(&["run", "--", linked("launch_forms").to_str().unwrap()]);
    ended.check_success();
    let said = ended.stderr.lines().filter(|line| line.contains("the session is not kept")).count();
    assert_eq!(said, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("belongs to another user"), "{}", ended.stderr);
    assert!(ended.stderr.contains("9 kernels executed"), "{}", ended.stderr);
    assert!(!home.join(".local/state").exists(), "nothing is made there");
}

#[test]
fn without_proc_the_program_runs_and_is_recorded() {
    let place = Place::new();
    let program = linked("launch_forms");
    let plain = place.plain(&program, &[]);
    let script = format!(
        "mount -t tmpfs none /proc; export PATH={}:$PATH; exec apex run -- {}",
        tools().apex.parent().unwrap().display(),
        program.display()
    );
    let place = place.with("APEX_REAL_LIBCUDA", "").with("APEX_DEVICE", "soft");
    let Some(ended) = place.mounted(&script) else { return };
    ended.check_success();
    assert_eq!(ended.stdout, plain.stdout);
    assert!(ended.stderr.starts_with("apex: /proc is hidden here"), "{}", ended.stderr);
    assert!(ended.stderr.contains("9 kernels executed"), "{}", ended.stderr);
}
