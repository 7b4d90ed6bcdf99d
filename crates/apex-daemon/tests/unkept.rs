//! A session whose directory takes nothing: what is not kept is counted, waits, and is kept later, once.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod synthetic;

use apex_core::knobs::Knobs;
use apex_daemon::document::write_document;
use apex_daemon::lease::{LOCK_FILE, Lease};
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::recording::{OWNER_FILE, Recording};
use apex_daemon::recover::recover;
use apex_daemon::session::{KeptSessions, Record, create_private_directory};
use apex_daemon::show::{Layout, report};
use apex_daemon::summary::{Exit, Kept, Summary};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use synthetic::Program;

const ID: &str = "20260101-000000-1";

/// A place for one session, with a directory that takes no file: it is none.
struct Bench {
    root: tempfile::TempDir,
    rings: PathBuf,
    session: PathBuf,
    sessions: KeptSessions,
}

impl Bench {
    fn new() -> Bench {
        let root = tempfile::tempdir().unwrap();
        let rings = root.path().join("rings").join(ID);
        // As after the end of who had them: the locks are there, and nobody holds one.
        drop(Lease::make(&rings).unwrap());
        let knobs = Knobs { state: Some(root.path().join("state")), ..Knobs::default() };
        let sessions = KeptSessions::of(&knobs, |_| None);
        let session = sessions.create(ID, None).unwrap().folder().to_owned();
        Bench { root, rings, session, sessions }
    }

    fn record(&self) -> Recording {
        Recording::start(&self.rings, Some(&self.session), ID, &["train".to_owned()])
    }

    fn take_room(&self) {
        fs::remove_dir_all(&self.session).unwrap();
        fs::write(&self.session, "").unwrap();
    }

    fn give_room(&self) {
        fs::remove_file(&self.session).unwrap();
        create_private_directory(&self.session).unwrap();
    }

    /// What the next apex command does.
    fn recover(&self) -> Vec<String> {
        recover(&[self.root.path().join("rings")], &self.sessions)
    }

    fn shown(&self, summary: &Summary) -> String {
        let place = self.session.display().to_string();
        report(summary, Some(&place), Layout { width: 120, colour: false })
    }
}

fn success() -> Option<Exit> {
    Some(Exit { code: Some(0), signal: None })
}

#[test]
fn what_finds_no_room_is_counted_and_waits_until_there_is_some() {
    let bench = Bench::new();
    let mut recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    program.work();
    std::thread::sleep(apex_daemon::live::INTERVAL);
    recording.look();
    assert!(bench.rings.join("live.json").exists());
    bench.take_room();
    program.end();
    let (summary, notes) = recording.finish(success());
    assert_eq!(summary.kernels_executed, 21);
    assert_eq!(summary.own.not_kept, Program::EVENTS, "{notes:?}");
    assert_eq!(summary.own.kept, Kept::Waits(bench.rings.clone()));
    let shown = bench.shown(&summary);
    assert!(shown.contains("not kept in ") && shown.contains("wait in "), "{shown}");
    assert!(notes.iter().any(|note| note.contains("cannot be written")), "{notes:?}");

    assert!(!bench.rings.join("live.json").exists(), "it runs no more");

    // No room yet: said, and nothing is taken away.
    let sentences = bench.recover();
    assert!(sentences[0].contains("waits in "), "{sentences:?}");
    bench.give_room();
    let sentences = bench.recover();
    assert!(sentences[0].contains("found room"), "{sentences:?}");
    assert!(!bench.rings.exists());

    let mut stored = Stored::open(&bench.session).unwrap();
    assert_eq!(stored.record.exit, success());
    let kept = stored.summary(&mut Progress::silent());
    assert_eq!((kept.own.not_kept, &kept.own.kept), (0, &Kept::InPlace));
    assert_eq!(stored.summarise(&mut Progress::silent()), kept);
    assert_eq!((kept.kernels_executed, kept.own.events), (21, Program::EVENTS));
    assert_eq!(stored.complaints, Vec::<String>::new());
    assert_eq!(bench.sessions.find(None).unwrap(), bench.session);
    assert!(bench.shown(&kept).contains("  kept in "));
}

#[test]
fn a_move_that_was_interrupted_counts_nothing_twice() {
    let bench = Bench::new();
    let recording = bench.record();
    bench.take_room();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    program.work();
    program.end();
    recording.finish(success());
    bench.give_room();
    // The first segment came over and was not yet removed; of the second try a stump is left.
    let first = "events-00001.parquet";
    fs::copy(bench.rings.join("unkept").join(first), bench.session.join(first)).unwrap();
    fs::write(bench.session.join("kernels.parquet.1.part"), "stump").unwrap();
    bench.recover();
    let mut stored = Stored::open(&bench.session).unwrap();
    assert_eq!(stored.summarise(&mut Progress::silent()).own.events, Program::EVENTS);
    assert_eq!(stored.complaints, Vec::<String>::new());
}

#[test]
fn without_room_anywhere_all_is_counted_as_not_kept() {
    let bench = Bench::new();
    let recording = bench.record();
    bench.take_room();
    fs::write(bench.rings.join("unkept"), "").unwrap();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    program.work();
    program.end();
    let (summary, _) = recording.finish(success());
    assert_eq!((summary.own.not_kept, &summary.own.kept), (Program::EVENTS, &Kept::Nowhere));
    let shown = bench.shown(&summary);
    assert!(!shown.contains("  kept in ") && shown.contains("nowhere else"), "{shown}");
    assert!(!bench.rings.exists());
}

#[test]
fn room_that_comes_back_while_the_program_runs_is_used() {
    let bench = Bench::new();
    let mut recording = bench.record();
    bench.take_room();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    program.work();
    recording.look();
    bench.give_room();
    program.end();
    let (summary, _) = recording.finish(success());
    assert_eq!((summary.own.not_kept, summary.own.kept), (0, Kept::InPlace));
    let mut stored = Stored::open(&bench.session).unwrap();
    assert_eq!(stored.summarise(&mut Progress::silent()).own.events, Program::EVENTS);
}

#[test]
fn rings_that_found_no_descriptor_are_counted_and_stay() {
    let bench = Bench::new();
    let recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    (0..7).for_each(|_| program.launch(2));
    program.end();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 3, hard).unwrap();
    let (summary, notes) = recording.finish(success());
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    assert_eq!((summary.own.lost, &summary.own.kept), (1, &Kept::Nowhere));
    assert!(notes[0].contains("cannot be read for now"), "{notes:?}");
    bench.recover();
    let mut stored = Stored::open(&bench.session).unwrap();
    assert_eq!(stored.summary(&mut Progress::silent()).launches, 7);
    assert!(!bench.rings.exists());
}

#[test]
fn rings_left_by_a_session_that_has_ended_are_added_to_it() {
    let bench = Bench::new();
    let mut recording = bench.record();
    let mut one = Program::start(&bench.rings, "1-0", 256);
    one.work();
    recording.look();
    let kept = bench.root.path().join("kept");
    fs::create_dir(&kept).unwrap();
    for name in [LOCK_FILE, OWNER_FILE, "order", "1-0.facts"] {
        fs::copy(bench.rings.join(name), kept.join(name)).unwrap();
    }
    one.end();
    let (before, _) = recording.finish(success());
    fs::rename(&kept, &bench.rings).unwrap();
    let mut two = Program::start(&bench.rings, "2-0", 256);
    (0..7).for_each(|_| two.launch(2));
    two.end();
    // As a collector says that could not open them.
    let path = bench.session.join("session.json");
    let mut record: Record = apex_daemon::read::document(&path).unwrap();
    record.own.lost = 1;
    write_document(&path, &record).unwrap();

    create_private_directory(&bench.root.path().join("rings")).unwrap();
    fs::set_permissions(&bench.rings, fs::Permissions::from_mode(0o700)).unwrap();
    let sentences = bench.recover();
    assert!(sentences[0].contains("are added now"), "{sentences:?}");
    let mut stored = Stored::open(&bench.session).unwrap();
    let summary = stored.summary(&mut Progress::silent());
    assert_eq!((summary.launches, summary.processes, summary.own.lost), (15 + 7, 2, 0));
    assert_eq!((summary.exit, summary.wall_ns), (success(), before.wall_ns));
    assert!(summary.notes.iter().all(|note| !note.contains("killed")), "{:?}", summary.notes);
    assert_eq!(stored.summarise(&mut Progress::silent()).own.events, summary.own.events);
}
