//! From rings to a session on disk and back, with everything that may go wrong on the way.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod synthetic;

use apex_core::event::{LaunchShape, TimeBasis, What};
use apex_core::knobs::Knobs;
use apex_core::ring::{HEADER_BYTES, RingWord};
use apex_daemon::progress::Progress;
use apex_daemon::read::{Stored, document};
use apex_daemon::recording::{OWNER_FILE, Owner, Recording};
use apex_daemon::recover::recover;
use apex_daemon::session::{Record, Sessions};
use apex_daemon::store::write_document;
use apex_daemon::summary::{Exit, Summary};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use synthetic::Program;

/// A place for one session.
struct Bench {
    root: tempfile::TempDir,
    rings: PathBuf,
    session: PathBuf,
    sessions: Sessions,
}

impl Bench {
    fn new() -> Bench {
        let root = tempfile::tempdir().unwrap();
        let rings = root.path().join("rings/20260101-000000-1");
        apex_daemon::session::create_private_directory(&rings).unwrap();
        let knobs = Knobs { state: Some(root.path().join("state")), ..Knobs::default() };
        let sessions = Sessions::of(&knobs, |_| None);
        let session = sessions.create("20260101-000000-1", None).unwrap();
        Bench { root, rings, session, sessions }
    }

    fn record(&self) -> Recording {
        let command = ["train".to_owned()];
        Recording::start(&self.rings, Some(&self.session), "20260101-000000-1", &command)
    }

    fn stored(&self) -> Stored {
        Stored::open(&self.session).unwrap()
    }
}

fn success() -> Option<Exit> {
    Some(Exit { code: Some(0), signal: None })
}

fn kernel<'a>(summary: &'a Summary, name: &str) -> &'a apex_daemon::summary::KernelSummary {
    let found = summary.kernels.iter().find(|kernel| kernel.name.starts_with(name));
    found.unwrap_or_else(|| panic!("no kernel {name}"))
}

#[test]
fn a_program_is_recorded_kept_and_read_back_alike() {
    let bench = Bench::new();
    let mut recording = bench.record();
    recording.look();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    program.work();
    program.end();
    let (summary, notes) = recording.finish(success());
    assert_eq!(notes, Vec::<String>::new());

    assert_eq!((summary.launches, summary.graph_launches, summary.graph_kernels), (15, 2, 6));
    assert_eq!(summary.kernels_executed, 21);
    assert_eq!((summary.captured_launches, summary.failed_launches), (1, 1));
    assert_eq!(summary.own.events, Program::EVENTS);
    assert_eq!((summary.own.lost, summary.own.damaged), (0, 0));
    let saxpy = kernel(&summary, "saxpy");
    assert_eq!((saxpy.calls, saxpy.graph_calls), (14, 4));
    let gpu = saxpy.gpu.as_ref().unwrap();
    assert!((gpu.total_ns - 20_000.0).abs() < 1e-6 && gpu.timed == 10, "{gpu:?}");
    let gemm = kernel(&summary, "gemm").gpu.as_ref().unwrap();
    assert!((gemm.total_ns - 50_000.0).abs() < 1e-6 && gemm.basis == "event-pair-idle", "{gemm:?}");
    let fit = saxpy.fit.as_ref().unwrap();
    assert!((fit.occupancy - 1.0).abs() < 1e-6 && (fit.waves - 0.25).abs() < 1e-6, "{fit:?}");
    let busy = summary.gpu_busy.as_ref().unwrap();
    assert_eq!((busy.kernel_ns, busy.upper_bound, busy.timed), (70_000, true, 11));
    let bound = summary.launch_bound.as_ref().unwrap();
    assert!((bound.share - 1.0 / 11.0).abs() < 1e-9);
    let copies = &summary.copies[0];
    assert_eq!(
        (copies.direction.as_str(), copies.count, copies.bytes),
        ("host-to-device", 2, 5096)
    );
    assert_eq!((copies.pageable_count, copies.pageable_bytes), (1, 1000));
    assert_eq!(summary.memory.device_peak_bytes, 1 << 20);
    assert_eq!(summary.memory.device_live_bytes, 0);
    assert_eq!(summary.syncs.count, 1);
    assert_eq!(summary.errors.len(), 2);
    assert_eq!((summary.threads[0].tid, summary.threads[0].launches), (77, 17));
    assert_eq!(summary.devices[0].name, "H200");
    assert_eq!(summary.driver.as_deref(), Some("13.0"));

    let mut stored = bench.stored();
    assert_eq!(stored.summary(&mut Progress::silent()), summary);
    assert_eq!(stored.summarise(&mut Progress::silent()), summary);
    assert_eq!(stored.complaints, Vec::<String>::new());
    assert!(!bench.rings.exists());
    Recording::enter(&bench.sessions, &bench.session).unwrap();
    assert_eq!(bench.sessions.find(None).unwrap(), bench.session);
}

#[test]
fn two_processes_keep_their_kernels_apart() {
    let bench = Bench::new();
    let mut recording = bench.record();
    let mut one = Program::start(&bench.rings, "1-0", 256);
    let mut two = Program::start(&bench.rings, "1-1", 256);
    two.kernel(1, "other");
    one.launch(1);
    two.launch(1);
    recording.look();
    let (summary, notes) = recording.finish(success());
    assert_eq!((kernel(&summary, "saxpy").calls, kernel(&summary, "other").calls), (1, 1));
    assert_eq!(summary.processes, 2);
    let own = std::process::id();
    let running =
        format!("still running: {own}, {own}; what happens there from now on is not recorded");
    assert_eq!(notes, [running]);
}

#[test]
fn a_full_ring_counts_what_it_loses() {
    let bench = Bench::new();
    let mut recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 64);
    for _ in 0..199 {
        program.launch(1);
    }
    recording.look();
    program.end();
    let (summary, _) = recording.finish(success());
    assert_eq!((summary.own.events, summary.own.lost), (64, 136));
}

#[test]
fn a_ring_that_was_scribbled_over_is_counted_and_survived() {
    let bench = Bench::new();
    let mut recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 64);
    for _ in 0..9 {
        program.launch(1);
    }
    let file = fs::File::options().write(true).open(&program.path).unwrap();
    let third = 2 * HEADER_BYTES as u64 + 3 * 64;
    file.write_all_at(&[0xab; 64], third).unwrap();
    recording.look();
    let head = HEADER_BYTES as u64 + 8 * RingWord::Head as u64;
    file.write_all_at(&u64::MAX.to_le_bytes(), head).unwrap();
    recording.look();
    program.end();
    let (summary, _) = recording.finish(success());
    assert_eq!((summary.own.events, summary.own.damaged), (9, 2));
}

#[test]
fn a_file_that_is_no_ring_is_named_and_passed_over() {
    let bench = Bench::new();
    let mut recording = bench.record();
    fs::write(bench.rings.join("9-0.ring"), [7; 8192]).unwrap();
    let mut program = Program::start(&bench.rings, "1-0", 64);
    program.launch(1);
    recording.look();
    let notes = recording.take_notes();
    assert!(notes[0].contains("9-0.ring is passed over: not a ring file"), "{notes:?}");
    program.end();
    assert_eq!(recording.finish(success()).0.launches, 1);
}

#[test]
fn a_damaged_segment_is_named_and_the_rest_is_shown() {
    let bench = Bench::new();
    let recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 64);
    program.launch(1);
    program.end();
    recording.finish(success());
    let first = bench.session.join("events-00001.parquet");
    let second = bench.session.join("events-00002.parquet");
    fs::copy(&first, &second).unwrap();
    assert_eq!(bench.stored().summarise(&mut Progress::silent()).launches, 2);
    let bytes = fs::read(&first).unwrap();
    for cut in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&first, &bytes[..cut]).unwrap();
        let mut stored = bench.stored();
        let summary = stored.summarise(&mut Progress::silent());
        assert_eq!(summary.launches, 1, "cut at {cut}");
        assert_eq!(stored.complaints.len(), 1);
        assert!(stored.complaints[0].contains("events-00001.parquet is damaged"));
    }
    for place in (0..bytes.len()).step_by(bytes.len() / 50) {
        let mut wrong = bytes.clone();
        wrong[place] ^= 0x55;
        fs::write(&first, wrong).unwrap();
        let mut stored = bench.stored();
        assert_eq!(stored.summarise(&mut Progress::silent()).launches, 1, "byte {place}");
        assert!(stored.complaints[0].contains("changed since it was written"));
    }
}

#[test]
fn a_damaged_summary_is_made_anew() {
    let bench = Bench::new();
    let recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 64);
    program.launch(1);
    program.end();
    let (summary, _) = recording.finish(success());
    fs::write(bench.session.join("summary.json"), "{\"schema\": 1").unwrap();
    let mut stored = bench.stored();
    assert_eq!(stored.summary(&mut Progress::silent()).kernels, summary.kernels);
    assert!(stored.complaints[0].contains("summary.json is damaged"), "{:?}", stored.complaints);
    fs::write(bench.session.join("session.json"), "{\"schema\": 9}").unwrap();
    assert!(Stored::open(&bench.session).is_err());
}

#[test]
fn a_full_disk_is_told_once_and_the_report_is_still_made() {
    let bench = Bench::new();
    // Whatever is written to this device finds no space left.
    let part = format!("events-00001.parquet.{}.part", std::process::id());
    std::os::unix::fs::symlink("/dev/full", bench.session.join(part)).unwrap();
    let recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    program.work();
    program.end();
    let (summary, notes) = recording.finish(success());
    assert_eq!(summary.kernels_executed, 21);
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("No space left on device"), "{notes:?}");
    assert!(notes[0].contains("choose another place with -o DIR"), "{notes:?}");
}

#[test]
fn without_a_directory_nothing_is_kept_and_the_report_is_still_made() {
    let bench = Bench::new();
    let file = bench.root.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(bench.sessions.create("x", Some(&file.join("below"))).is_err());
    let recording = Recording::start(&bench.rings, None, "id", &["train".to_owned()]);
    let mut program = Program::start(&bench.rings, "1-0", 256);
    program.work();
    program.end();
    let (summary, notes) = recording.finish(success());
    assert_eq!((summary.kernels_executed, notes.len()), (21, 0));
}

#[test]
fn a_session_whose_apex_was_killed_is_finished_by_the_next() {
    let bench = Bench::new();
    let mut recording = bench.record();
    let mut one = Program::start(&bench.rings, "1-0", 256);
    one.work();
    recording.look();
    one.end();
    std::thread::sleep(std::time::Duration::from_millis(300));
    recording.look();
    // What was drained is on disk; now apex is killed, and the second process writes on alone.
    let mut two = Program::start(&bench.rings, "2-0", 256);
    recording.look();
    let mut owner: Owner = document(&bench.rings.join(OWNER_FILE)).unwrap();
    keep_drained_rows(&bench, recording);
    for _ in 0..7 {
        two.launch(2);
    }
    two.end();
    owner.pid = u32::MAX / 2;
    write_document(&bench.rings.join(OWNER_FILE), &owner).unwrap();

    let places = [bench.root.path().join("rings")];
    apex_daemon::session::create_private_directory(&places[0]).unwrap();
    let sentences = recover(&places, &bench.sessions);
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(sentences[0].contains("was cut short when its apex was killed; it is finished now"));
    assert_eq!(recover(&places, &bench.sessions), Vec::<String>::new());
    assert!(!bench.rings.exists());

    let mut stored = bench.stored();
    let summary = stored.summary(&mut Progress::silent());
    assert_eq!(summary.launches, 15 + 7);
    assert_eq!(kernel(&summary, "gemm").calls, 5 + 7 + 2);
    assert_eq!(summary.processes, 2);
    assert!(summary.notes[0].contains("apex was killed"));
    let record: Record = document(&bench.session.join("session.json")).unwrap();
    assert_eq!(record.exit, None);
    assert_eq!(stored.summarise(&mut Progress::silent()).launches, 22);
}

/// Ends a recording as a kill after its last segment would: the rows are on disk, nothing else is.
fn keep_drained_rows(bench: &Bench, recording: Recording) {
    let kept = bench.root.path().join("kept");
    fs::create_dir(&kept).unwrap();
    for entry in fs::read_dir(&bench.rings).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, kept.join(path.file_name().unwrap())).unwrap();
    }
    // The rings of the second process must stay the same file: its writer has them mapped.
    let held = bench.root.path().join("held");
    fs::rename(bench.rings.join("2-0.ring"), &held).unwrap();
    recording.finish(success());
    for name in ["summary.json", "processes.parquet", "kernels.parquet", "graphs.parquet"] {
        fs::remove_file(bench.session.join(name)).unwrap();
    }
    apex_daemon::session::create_private_directory(&bench.rings).unwrap();
    for entry in fs::read_dir(&kept).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if name != "2-0.ring" {
            fs::copy(&path, bench.rings.join(name)).unwrap();
        }
    }
    fs::rename(&held, bench.rings.join("2-0.ring")).unwrap();
}

#[test]
fn times_by_cupti_are_summed_and_joined() {
    let bench = Bench::new();
    let recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 64);
    for _ in 0..4 {
        program.launch(1);
        program.time(1, 3_000, TimeBasis::Cupti);
    }
    let unknown = What::GpuTime {
        kernel: apex_core::KernelId(0),
        shape: LaunchShape::default(),
        nanos: 5,
        basis: TimeBasis::Cupti,
    };
    program.push("cuLaunchKernel", 0, unknown);
    program.end();
    let (summary, _) = recording.finish(success());
    let saxpy = kernel(&summary, "saxpy").gpu.as_ref().unwrap();
    assert!((saxpy.total_ns - 12_000.0).abs() < 1e-6 && saxpy.basis == "cupti");
    assert_eq!(kernel(&summary, "(unknown kernel)").calls, 0);
    let busy = summary.gpu_busy.as_ref().unwrap();
    assert!(busy.basis == "cupti" && busy.timed == 5 && busy.kernel_ns <= 12_005, "{busy:?}");
}

#[test]
fn a_thousand_children_are_collected() {
    let bench = Bench::new();
    let mut recording = bench.record();
    for child in 0..1_000 {
        let mut program = Program::start(&bench.rings, &format!("{child}-0"), 64);
        program.launch(1);
        program.end();
        if child % 100 == 99 {
            std::thread::sleep(std::time::Duration::from_millis(260));
            recording.look();
        }
    }
    let (summary, _) = recording.finish(success());
    assert_eq!((summary.processes, summary.launches, summary.own.lost), (1_000, 1_000, 0));
}
