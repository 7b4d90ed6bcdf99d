//! From rings to a session on disk and back, with everything that may go wrong on the way.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod synthetic;

use apex_core::event::{LaunchShape, TimeBasis, What};
use apex_core::facts::{Fact, Graph};
use apex_core::knobs::Knobs;
use apex_core::ring::{HEADER_BYTES, RingWord};
use apex_core::time::ticks;
use apex_daemon::document::write_document;
use apex_daemon::lease::{Folders, Lease, is_had};
use apex_daemon::progress::Progress;
use apex_daemon::read::{Stored, document};
use apex_daemon::recording::{OWNER_FILE, Recording};
use apex_daemon::recover::recover;
use apex_daemon::row::call_named;
use apex_daemon::session::{KeptSessions, Record};
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
    sessions: KeptSessions,
    leases: Vec<Lease>,
}

impl Bench {
    fn new() -> Bench {
        let root = tempfile::tempdir().unwrap();
        let rings = root.path().join("rings/20260101-000000-1");
        let knobs = Knobs { state: Some(root.path().join("state")), ..Knobs::default() };
        let sessions = KeptSessions::of(&knobs, |_| None);
        let kept = sessions.create("20260101-000000-1", None).unwrap();
        let session = kept.folder().to_owned();
        let mut leases = vec![kept, Lease::make(&rings).unwrap()];
        let state = sessions.directory().map(Into::into);
        let folders = Folders { rings: rings.clone(), session: Some(session.clone()), state };
        leases.iter_mut().for_each(|lease| lease.note(&folders).unwrap());
        Bench { root, rings, session, sessions, leases }
    }

    fn record(&self) -> Recording {
        let command = ["train".to_owned()];
        Recording::start(&self.rings, Some(&self.session), "20260101-000000-1", &command)
    }

    /// The sessions of another state directory.
    fn others(&self) -> KeptSessions {
        let knobs = Knobs { state: Some(self.root.path().join("other")), ..Knobs::default() };
        KeptSessions::of(&knobs, |_| None)
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
    assert!((bound.found_idle - 1.0 / 11.0).abs() < 1e-9);
    assert!((0.0..=1.0).contains(&bound.share), "{bound:?}");
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
fn what_the_gpu_decides_to_run_makes_the_count_a_bound() {
    let bench = Bench::new();
    let mut recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    let graph = |id, conditional_nodes, device_launch| {
        let plain = Graph { id, kernel_nodes: 3, nodes: 4, ..Graph::default() };
        Fact::Graph(Graph { conditional_nodes, device_launch, ..plain })
    };
    program.fact(&graph(2, 1, false));
    program.fact(&graph(3, 0, true));
    for graph in [1, 2, 2, 3] {
        let what = What::GraphLaunch { graph, kernels: 3, nodes: 4, captured: false };
        program.push("cuGraphLaunch", 0, what);
    }
    recording.look();
    program.end();
    let (summary, _) = recording.finish(success());
    assert_eq!((summary.kernels_executed, summary.open_graph_launches), (12, 3));
    assert_eq!(bench.stored().summarise(&mut Progress::silent()), summary);
}

#[test]
fn one_slow_recording_is_not_what_recording_takes() {
    let bench = Bench::new();
    let recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    // Each event counts one cost of fifty ticks; see `Program::push`.
    (0..20).for_each(|_| program.launch(1));
    program.writer.count_cost(100_000_000);
    let few = recording.finish(success()).0.own;
    assert_eq!((few.median_ns, few.share_of_wall), (None, None), "22 were measured");

    let bench = Bench::new();
    let recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    (0..40).for_each(|_| program.launch(1));
    (0..10).for_each(|_| program.writer.count_cost(100_000_000));
    program.end();
    let own = recording.finish(success()).0.own;
    let median = own.median_ns.expect("more than thirty were measured");
    assert!(median > 0.0 && median < 1_000.0, "{median}");
    assert!(own.share_of_wall.is_some());
}

#[test]
fn a_call_that_never_returned_is_told_with_its_thread() {
    let bench = Bench::new();
    let recording = bench.record();
    let program = Program::start(&bench.rings, "1-0", 64);
    program.writer.enter(call_named("cuCtxSynchronize"), ticks());
    program.end();
    let (summary, _) = recording.finish(Some(Exit { code: None, signal: Some(2) }));
    let [call] = &summary.under_way[..] else { panic!("{:?}", summary.under_way) };
    assert_eq!((call.pid, call.tid), (u32::MAX / 2, 77));
    assert_eq!(call.function, "cuCtxSynchronize");
    assert!(call.host_ns.is_some_and(|ns| ns > 0), "{call:?}");
    assert_eq!(bench.stored().summarise(&mut Progress::silent()), summary);
}

#[test]
fn who_still_runs_has_not_hung() {
    let bench = Bench::new();
    let recording = bench.record();
    let program = Program::start(&bench.rings, "1-0", 64);
    program.writer.enter(call_named("cuCtxSynchronize"), ticks());
    assert_eq!(recording.finish(success()).0.under_way, []);
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
fn losses_are_said_while_the_program_runs() {
    let bench = Bench::new();
    let mut recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 64);
    (0..199).for_each(|_| program.launch(1));
    recording.look();
    std::thread::sleep(apex_daemon::live::INTERVAL);
    recording.look();
    let notes = recording.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("lower bounds"), "{notes:?}");
    std::thread::sleep(apex_daemon::live::INTERVAL);
    recording.look();
    assert_eq!(recording.take_notes(), Vec::<String>::new());
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
    let mut bench = Bench::new();
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
    keep_drained_rows(&mut bench, recording);
    for _ in 0..7 {
        two.launch(2);
    }

    let places = [bench.root.path().join("rings")];
    let touch_nothing = |sessions: &KeptSessions, why: &str| {
        assert_eq!(recover(&places, sessions), Vec::<String>::new(), "{why}");
        assert!(bench.rings.exists() && bench.stored().record.ended_unix_ns.is_none(), "{why}");
    };
    touch_nothing(&bench.sessions, "the second process still writes its rings");
    two.end();
    touch_nothing(&bench.others(), "it is another state directory's");
    let other_command = Lease::inherit(&bench.rings).unwrap();
    touch_nothing(&bench.sessions, "another command is at it");
    drop(other_command);
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
fn keep_drained_rows(bench: &mut Bench, recording: Recording) {
    let kept = bench.root.path().join("kept");
    fs::create_dir(&kept).unwrap();
    for entry in fs::read_dir(&bench.rings).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, kept.join(path.file_name().unwrap())).unwrap();
    }
    // The rings of the second process must stay the same file: its writer has them mapped.
    let held = bench.root.path().join("held");
    fs::rename(bench.rings.join("2-0.ring"), &held).unwrap();
    let record: Record = document(&bench.session.join("session.json")).unwrap();
    recording.finish(success());
    write_document(&bench.session.join("session.json"), &record).unwrap();
    bench.leases.clear();
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
fn what_was_killed_before_it_began_is_removed_and_nothing_else() {
    let bench = Bench::new();
    let places = [bench.root.path().join("rings")];
    std::os::unix::fs::symlink("/nowhere", bench.root.path().join("link")).unwrap();
    fs::create_dir(bench.rings.join("lib")).unwrap();
    fs::rename(bench.root.path().join("link"), bench.rings.join("lib/libcuda.so.1")).unwrap();
    let empty = |place: &std::path::Path, id: &str| {
        let folder = place.join(id);
        apex_daemon::session::create_private_directory(&folder).unwrap();
        folder
    };
    let state = bench.sessions.directory().unwrap();
    let unborn = [empty(&places[0], "20260101-000000-2"), empty(state, "20260101-000000-2")];
    let others = [empty(state, "my-folder"), empty(state, "20260101-000000-3")];
    fs::write(others[1].join("file"), "").unwrap();
    fs::write(bench.rings.join(format!("{OWNER_FILE}.7.part")), "{").unwrap();
    assert_eq!(recover(&places, &bench.sessions), Vec::<String>::new());
    assert!(is_had(&bench.rings) && is_had(&bench.session), "its apex lives");
    let Bench { root: _root, rings, session, sessions, leases } = bench;
    drop(leases);
    // The session's folder is empty while its rings are being finished: whoever comes by leaves it.
    let other_command = Lease::inherit(&rings).unwrap();
    assert_eq!(recover(&places, &sessions), Vec::<String>::new());
    assert!(rings.exists() && session.exists(), "another command is at it");
    drop(other_command);
    assert_eq!(recover(&places, &sessions), Vec::<String>::new());
    for gone in unborn.iter().chain([&rings, &session]) {
        assert!(!gone.exists(), "{}", gone.display());
    }
    assert!(others.iter().all(|folder| folder.exists()), "what is not ours stays");
}

#[test]
fn the_lock_of_one_that_was_killed_after_it_had_finished_goes() {
    let mut bench = Bench::new();
    bench.record().finish(success());
    let lock = bench.session.join("lock");
    assert_eq!(recover(&[], &bench.sessions), Vec::<String>::new());
    assert!(lock.exists(), "its apex lives");
    bench.leases.clear();
    assert_eq!(recover(&[], &bench.sessions), Vec::<String>::new());
    assert!(!lock.exists() && bench.stored().record.exit == success());
}

#[test]
fn a_running_session_is_shown_as_one() {
    let bench = Bench::new();
    let mut recording = bench.record();
    let mut program = Program::start(&bench.rings, "1-0", 256);
    let summary = bench.stored().summary(&mut Progress::silent());
    assert!(summary.running && summary.calls == 0, "{summary:?}");
    program.work();
    std::thread::sleep(apex_daemon::live::INTERVAL);
    recording.look();
    let mut stored = bench.stored();
    assert!(stored.complaints[0].contains("still runs"), "{:?}", stored.complaints);
    let summary = stored.summary(&mut Progress::silent());
    assert!(summary.running && summary.launches == 15, "{summary:?}");
    let places = [bench.root.path().join("rings")];
    assert_eq!(apex_daemon::live::snapshots(&places).len(), 1);
    assert!(bench.sessions.listed()[0].running);
    let (rings, session) = (bench.rings.clone(), bench.session.clone());
    let Bench { root: _root, sessions, leases, .. } = bench;
    drop(leases);
    assert_eq!(apex_daemon::live::snapshots(&places).len(), 0, "killed is not running");
    assert!(!sessions.listed()[0].running && rings.exists() && session.exists());
}

#[test]
fn a_process_without_a_ring_is_named() {
    use apex_core::refusal::{Refusal, tell};
    let bench = Bench::new();
    let mut recording = bench.record();
    let user = nix::unistd::Uid::effective().as_raw();
    let why = "Permission denied".to_owned();
    assert!(tell(&bench.rings, &Refusal { pid: 7, user: user + 1, why: why.clone() }));
    recording.look();
    assert!(tell(&bench.rings, &Refusal { pid: 8, user, why }));
    let (summary, _) = recording.finish(success());
    let said = &summary.unrecorded;
    assert!(said[0].contains(&format!("process 7 had become user {}", user + 1)), "{said:?}");
    assert_eq!(said[1], "process 8 could have no ring: Permission denied");
    assert_eq!(bench.stored().summarise(&mut Progress::silent()).unrecorded, *said);
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
