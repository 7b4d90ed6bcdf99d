//! Programs that share a GPU: who is held, who goes on whatever happens to the others, and that nobody's
//! results change. What is asserted is counted on the page or said by the programs; times are only bounds.

use apex_core::gate_page::{
    Files, Own, Setting, Shared, Words, claimed_by, grant, own, process_state,
};
use apex_core::gate_page::{Grant, SLOTS};
use apex_e2e::{Ended, Place, Running, linked, linked_cpp, until};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The page of the one GPU of a place.
struct Page {
    files: Files,
}

impl Page {
    fn of(place: &Place) -> Page {
        until("there is a page", || !Files::all(&place.gate()).is_empty());
        Page { files: Files::all(&place.gate()).remove(0) }
    }

    fn programs(&self) -> Vec<u64> {
        read(&self.files.programs())
    }

    fn settings(&self) -> Vec<u64> {
        read(&self.files.settings())
    }

    /// The slot of the one program that was granted this class.
    fn slot(&self, class: u64) -> usize {
        let mut found = None;
        until("a program of the class is there", || {
            let (programs, settings) = (self.programs(), self.settings());
            found = (0..SLOTS).find(|&slot| {
                let claim = programs[own(slot, Own::Claim)];
                claim != 0
                    && settings[grant(slot, Grant::Claim)] == claim
                    && settings[grant(slot, Grant::Class)] == class
            });
            found.is_some()
        });
        found.expect("looked for until it was there")
    }

    fn word(&self, slot: usize, word: Own) -> u64 {
        self.programs()[own(slot, word)]
    }

    fn pid(&self, slot: usize) -> u32 {
        claimed_by(self.word(slot, Own::Claim))
    }

    fn is_open(&self, slot: usize) -> bool {
        self.programs()[Shared::BurstsOpen as usize] >> slot & 1 == 1
    }
}

fn read(path: &Path) -> Vec<u64> {
    let words = Words::open(path, false).and_then(|words| words.read());
    words.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const BATCH: u64 = 1;
const LATENCY: u64 = 3;

/// A burst that lasts as many milliseconds, at least.
fn long_burst(place: &Place, millis: u32, policy: &str) -> Running {
    let launches = (millis * 2).to_string();
    let options = ["--class", "latency", "--policy", policy];
    place.start_watched(&options, &linked("bursts"), &["1", &launches, "0", "500"])
}

fn batch(place: &Place, launches: &str, policy: &str) -> Running {
    place.start_watched(
        &["--class", "batch", "--policy", policy],
        &linked("fills_gpu"),
        &[launches],
    )
}

/// The sentence about sharing.
#[track_caller]
fn sentence(ended: &Ended) -> &str {
    let found = ended.stderr.lines().find(|line| line.contains("shared the GPU as"));
    found.unwrap_or_else(|| panic!("nothing is said of sharing:\n{}", ended.stderr))
}

/// The bursts it speaks of.
#[track_caller]
fn bursts(ended: &Ended) -> u64 {
    let number = sentence(ended).split(" bursts").next().and_then(|text| text.rsplit(' ').next());
    number.and_then(|digits| digits.replace(',', "").parse().ok()).unwrap_or(0)
}

#[test]
fn the_gpu_itself_waits_while_a_burst_is_open() {
    let place = Place::new();
    let latency = long_burst(&place, 60_000, "priority");
    let page = Page::of(&place);
    let urgent = page.slot(LATENCY);
    until("the burst is open", || page.is_open(urgent));
    let batch = batch(&place, "4000000", "priority");
    let held = page.slot(BATCH);
    until("there are fences", || page.word(held, Own::Fence) > 1);
    until("work waits at one", || page.word(held, Own::HeldNow) > 0);
    // The program launched ahead of what waits: no thread of it is held before the first sixty milliseconds of work.
    assert!(page.word(held, Own::Launches) > 1);
    latency.kill_all();
    // It waits for its launches now and then, so they end.
    let before = page.word(held, Own::Launches);
    until("it goes on", || page.word(held, Own::Launches) > before + 2_000);
    batch.kill_all();
}

#[test]
fn without_fences_a_batch_program_is_held_while_a_burst_is_open() {
    let place = Place::new().with("APEX_FENCES", "0");
    let latency = long_burst(&place, 60_000, "priority");
    let page = Page::of(&place);
    let urgent = page.slot(LATENCY);
    until("the burst is open", || page.is_open(urgent));
    let batch = batch(&place, "4000000", "priority");
    let held = page.slot(BATCH);
    until("it is held beside an open burst", || {
        page.word(held, Own::HeldNow) == 1 && page.is_open(urgent)
    });
    assert_eq!(page.word(urgent, Own::Holds), 0);
    latency.kill_all();
    let before = page.word(held, Own::Launches);
    until("it goes on", || page.word(held, Own::Launches) > before + 2_000);
    batch.kill_all();
}

#[test]
fn results_are_the_same_under_every_policy() {
    let place = Place::new();
    let alone = place.plain(&linked("bursts"), &["30", "10", "1000"]);
    let batch_alone = place.plain(&linked("fills_gpu"), &["5000"]);
    for policy in ["none", "priority", "deadline", "fair", "adaptive"] {
        let options = ["--class", "latency", "--sla", "p95=10ms", "--policy", policy];
        let latency = place.start_watched(&options, &linked("bursts"), &["30", "10", "1000"]);
        let batch = batch(&place, "5000", policy).wait();
        let latency = latency.wait();
        assert_eq!((latency.stdout.as_str(), latency.code), (alone.stdout.as_str(), Some(0)));
        assert_eq!((batch.stdout.as_str(), batch.code), (batch_alone.stdout.as_str(), Some(0)));
        let said = sentence(&latency);
        assert!(said.contains(" as latency under ") && said.contains(" bursts"), "{said}");
        assert!(sentence(&batch).contains("without MPS"), "{}", batch.stderr);
    }
}

#[test]
fn every_form_of_launch_passes_the_gate_unchanged() {
    let place = Place::new();
    let latency = long_burst(&place, 20_000, "adaptive");
    let place = place.with("APEX_CLASS", "batch").with("APEX_SHARE", "0.5");
    for program in ["launch_forms", "graph_capture", "per_thread_stream", "kernel_handle"] {
        place.compare(&linked(program), &[]).check_expected();
    }
    latency.kill_all();
}

#[test]
fn bursts_end_whichever_default_stream_is_waited_for() {
    let place = Place::new();
    let program = linked("per_thread_bursts");
    let ended = place.watch_with(&["--class", "latency"], &program, &[]).ended;
    ended.check_success();
    assert!((40..60).contains(&bursts(&ended)), "{}", ended.stderr);
}

#[test]
fn a_stream_that_nobody_waits_for_holds_no_burst_open() {
    let place = Place::new();
    let ended = place.watch_with(&["--class", "latency"], &linked("forsaken_stream"), &[]).ended;
    ended.check_success();
    // The first ones are one, until it is clear that nobody will.
    assert!((40..70).contains(&bursts(&ended)), "{}", ended.stderr);
}

#[test]
fn a_program_that_asks_instead_of_waiting_ends_its_bursts() {
    let place = Place::new();
    let ended = place.watch_with(&["--class", "latency"], &linked("polls"), &[]).ended;
    ended.check_success();
    assert!((60..90).contains(&bursts(&ended)), "{}", ended.stderr);
}

#[test]
fn what_others_wait_for_is_never_held() {
    let place = Place::new();
    let latency = long_burst(&place, 60_000, "priority");
    let page = Page::of(&place);
    let urgent = page.slot(LATENCY);
    until("the burst is open", || page.is_open(urgent));
    let options = ["--class", "batch", "--policy", "priority"];
    let awaited = place.watch_with(&options, &linked("awaited"), &[]);
    awaited.ended.check_success();
    awaited.check_expected();
    assert!(
        sentence(&awaited.ended).contains(": 0 of 2,000 launches waited"),
        "{}",
        awaited.ended.stderr
    );
    latency.kill_all();
}

#[test]
fn a_controller_that_stands_still_opens_the_gate() {
    let place = Place::new();
    let daemon = place.start(&apex_e2e::tools().apex, &["daemon"]);
    until("the daemon is there", || daemon.stderr().contains("scheduling by adaptive"));
    let latency = long_burst(&place, 60_000, "priority");
    let page = Page::of(&place);
    let urgent = page.slot(LATENCY);
    until("the daemon leads", || {
        page.settings()[Setting::Controller as usize] == u64::from(daemon.child.id())
    });
    let batch = batch(&place, "4000000", "priority");
    let held = page.slot(BATCH);
    until("the batch program is held", || page.word(held, Own::Holds) > 0);
    daemon.signal("STOP");
    let before = page.word(held, Own::Launches);
    until("it goes on, because nobody leads", || {
        page.word(held, Own::Launches) > before + 2_000 && page.word(held, Own::FailedOpen) > 0
    });
    until("the burst is still open", || page.is_open(urgent));
    // Once it goes on, the batch program is held again.
    daemon.signal("CONT");
    let holds = page.word(held, Own::Holds);
    until("it is held again", || page.word(held, Own::Holds) > holds);
    batch.kill_all();
    latency.kill_all();
    daemon.signal("TERM");
    let daemon = daemon.wait();
    assert!(daemon.code == Some(0) && daemon.stderr.contains("every gate is open"));
}

#[test]
fn a_killed_controller_is_followed_by_another() {
    let place = Place::new();
    let daemon = place.start(&apex_e2e::tools().apex, &["daemon"]);
    until("the daemon is there", || daemon.stderr().contains("scheduling by"));
    let latency = long_burst(&place, 60_000, "priority");
    let batch = batch(&place, "4000000", "priority");
    let page = Page::of(&place);
    let (urgent, held) = (page.slot(LATENCY), page.slot(BATCH));
    let leader = |page: &Page| page.settings()[Setting::Controller as usize];
    let daemon_pid = u64::from(daemon.child.id());
    until("the daemon leads", || leader(&page) == daemon_pid);
    daemon.kill_all();
    until("another leads", || leader(&page) != daemon_pid);
    let holds = page.word(held, Own::Holds);
    until("it is held again", || page.word(held, Own::Holds) > holds);
    // Without any controller both run on, as if nobody shared anything.
    let (first, second) = (page.pid(urgent), page.pid(held));
    for running in [&latency, &batch] {
        running.signal("KILL");
    }
    let before = page.word(held, Own::Launches);
    until("it goes on", || page.word(held, Own::Launches) > before + 2_000);
    for pid in [first, second] {
        Running::signal_process(pid, "KILL");
    }
}

#[test]
fn a_stopped_latency_program_holds_nobody() {
    let place = Place::new();
    let plain = place.plain(&linked("fills_gpu"), &["20000"]);
    let latency = long_burst(&place, 60_000, "priority");
    let page = Page::of(&place);
    let urgent = page.slot(LATENCY);
    until("the burst is open", || page.is_open(urgent));
    Running::signal_process(page.pid(urgent), "STOP");
    let batch = batch(&place, "20000", "priority").wait();
    assert!(page.is_open(urgent));
    assert_eq!((batch.stdout, batch.code), (plain.stdout, Some(0)));
    latency.kill_all();
}

/// Programs of one class are killed a hundred times while one of the other goes on.
fn killed_a_hundred_times(victims: &str, seed: &str, survivor: &str, arguments: &[&str]) {
    let place = Place::new();
    let plain = place.plain(&linked(survivor), arguments);
    let class = if victims == "batch" { "latency" } else { "batch" };
    let survivor = place.start_watched(&["--class", class], &linked(survivor), arguments);
    let options = ["--class", victims];
    let killer = place.start_watched(&options, &linked("killed_often"), &["100", seed]).wait();
    killer.check_success();
    assert_eq!(killer.stdout, "killed=100\n");
    let survivor = survivor.wait();
    survivor.check_success();
    assert_eq!(survivor.stdout, plain.stdout);
}

#[test]
fn a_batch_program_survives_a_hundred_deaths_of_latency_programs() {
    killed_a_hundred_times("latency", "1", "fills_gpu", &["150000"]);
}

#[test]
fn a_latency_program_survives_a_hundred_deaths_of_batch_programs() {
    killed_a_hundred_times("batch", "2", "bursts", &["1500", "10", "1000"]);
}

#[test]
fn ten_thousand_bursts_leave_nothing_behind() {
    let place = Place::new();
    let batch = batch(&place, "4000000", "adaptive");
    let page = Page::of(&place);
    page.slot(BATCH);
    let latency = place.watch_with(&["--class", "latency"], &linked("opens_and_closes"), &[]);
    latency.ended.check_success();
    // A pause of the machine in a burst makes two of it.
    assert!((9_990..10_200).contains(&bursts(&latency.ended)), "{}", latency.ended.stderr);
    let waiters = page.programs()[Shared::Waiters as usize];
    assert!(waiters <= 1, "{waiters} sleepers are counted");
    batch.kill_all();
    until("slots are free again", || {
        // Nobody leads any more: the next program takes the slots of the dead.
        place.watch_with(&["--class", "batch"], &linked("fills_gpu"), &["100"]);
        let words = page.programs();
        (0..SLOTS).filter(|&slot| words[own(slot, Own::Claim)] != 0).count() <= 4
    });
}

#[test]
fn none_of_sixteen_programs_starves() {
    let place = Place::new().with("APEX_SOFTGPU_WORKERS", "1");
    for policy in ["fair", "adaptive"] {
        let options = ["--class", "batch", "--policy", policy, "--timing", "off"];
        let many = place.watch_with(&options, &linked("many_share"), &["16", "2000"]).ended;
        many.check_success();
        assert_eq!(many.number("none"), 0, "{}", many.stdout);
        assert!(many.number("least") * 50 >= many.number("most"), "{}", many.stdout);
    }
    // The weakest has its part within two seconds, whatever the strongest does.
    let latency = long_burst(&place, 60_000, "priority");
    let page = Page::of(&place);
    page.slot(LATENCY);
    let options = ["--class", "batch", "--policy", "priority"];
    let many = place.watch_with(&options, &linked("many_share"), &["15", "2000"]).ended;
    many.check_success();
    assert_eq!(many.number("none"), 0, "{}", many.stdout);
    latency.kill_all();
}

#[test]
fn a_program_that_scribbles_over_the_page_holds_nobody() {
    let place = Place::new();
    let plain = place.plain(&linked("fills_gpu"), &["20000"]);
    let latency = long_burst(&place, 60_000, "priority");
    let page = Page::of(&place);
    let urgent = page.slot(LATENCY);
    Running::signal_process(page.pid(urgent), "KILL");
    let batch = batch(&place, "20000", "priority");
    page.slot(BATCH);
    let words = Words::open(&page.files.programs(), true).unwrap();
    let mut batch = Some(batch);
    let since = Instant::now();
    while let Some(running) = &mut batch {
        // Every burst is open for ever, and everything is in flight.
        words.write(Shared::BurstsOpen as usize, &[u64::MAX]).unwrap();
        for slot in (0..SLOTS).filter(|&slot| page.word(slot, Own::Session) == 0) {
            words.write(own(slot, Own::BurstStart), &[u64::MAX; 24]).unwrap();
        }
        if running.child.try_wait().unwrap().is_some() {
            let ended = batch.take().unwrap().wait();
            assert_eq!((ended.stdout, ended.code), (plain.stdout.clone(), Some(0)));
        }
        assert!(since.elapsed() < Duration::from_secs(200), "it is held");
    }
    latency.kill_all();
}

#[test]
fn programs_talk_to_apex_and_run_without_it() {
    let place = Place::new();
    for program in [linked("talks_to_apex"), linked_cpp("talks_to_apex")] {
        let watched = place.compare(&program, &[]);
        watched.ended.check_success();
        assert_eq!(watched.ended.stdout, "talked\n");
    }
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python");
    let place = place.with("PYTHONPATH", python).with("PYTHONDONTWRITEBYTECODE", "1");
    let script = "from apex import scheduler as s, scheduler\n\
        on = s.enable()\n\
        assert on == s.active() and s.profile() == on and not s.metrics().active\n\
        assert bool(s.configure(10.0, True, True)) == on\n\
        assert s.metrics().prediction_accuracy != s.metrics().prediction_accuracy\n\
        s.log_level(s.DEBUG)\n\
        print('talked', on)";
    let program = PathBuf::from("python3");
    let plain = place.plain(&program, &["-c", script]);
    assert_eq!(plain.stdout, "talked False\n", "{}", plain.stderr);
    let watched = place.watch(&program, &["-c", script]).ended;
    assert_eq!(watched.stdout, "talked True\n", "{}", watched.stderr);
}

#[test]
fn a_class_is_told_by_option_environment_or_file_and_nonsense_is_refused() {
    let place = Place::new();
    let file = place.root().join("apex.conf");
    std::fs::write(&file, "# of this container\nAPEX_CLASS = batch\n").unwrap();
    let program = linked("fills_gpu");
    let told = |place: &Place, options: &[&str]| {
        let ended = place.watch_with(options, &program, &["200"]).ended;
        ended.check_success();
        sentence(&ended).to_owned()
    };
    assert!(told(&place, &["--class", "latency"]).contains(" as latency "));
    let place = place.with("APEX_CONFIG", &file);
    assert!(told(&place, &[]).contains(" as batch "));
    assert!(told(&place, &["--class", "normal"]).contains(" as normal "));
    for wrong in [["--class", "urgent"], ["--sla", "fast"], ["--policy", "best"], ["--share", "0"]]
    {
        let ended = place.watch_with(&wrong, &program, &[]).ended;
        assert_eq!(ended.code, Some(2), "{wrong:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty() && !ended.stderr.is_empty());
    }
}

#[test]
fn a_program_that_answers_requests_is_told_so() {
    let place = Place::new();
    let bursts = place.watch(&linked("bursts"), &["150", "5", "5000"]).ended;
    assert!(bursts.stderr.contains("run it with --class latency"), "{}", bursts.stderr);
    let batch = place.watch(&linked("fills_gpu"), &["30000"]).ended;
    assert!(!batch.stderr.contains("--class"), "{}", batch.stderr);
}

/// Where programs are looked for, without what NVIDIA's driver brings.
fn path_without_mps() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let has_none = |part: &&str| !Path::new(part).join("nvidia-cuda-mps-control").exists();
    path.split(':').filter(has_none).collect::<Vec<_>>().join(":")
}

/// A place where this script is the control program of MPS.
fn with_control(place: Place, script: &str) -> Place {
    use std::os::unix::fs::PermissionsExt;
    let tools = place.root().join("tools");
    std::fs::create_dir(&tools).expect("a folder can be made");
    let control = tools.join("nvidia-cuda-mps-control");
    std::fs::write(&control, format!("#!/bin/sh\n{script}\n")).expect("a file can be written");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&control, executable).expect("it is ours");
    let path = format!("{}:{}", tools.display(), path_without_mps());
    place.with("PATH", path)
}

#[test]
fn mps_is_started_by_the_first_and_stopped_by_the_last() {
    // A machine without it: a sentence, and the program runs.
    let place = Place::new().with("PATH", path_without_mps());
    let program = linked("fills_gpu");
    let ended = place.watch_with(&["--mps", "--class", "batch"], &program, &["200"]).ended;
    ended.check_success();
    assert!(
        ended.stderr.contains("nvidia-cuda-mps-control is not on the PATH"),
        "{}",
        ended.stderr
    );
    assert!(sentence(&ended).contains("without MPS"));
    // One that notes what it is told.
    let place = Place::new();
    let log = place.root().join("mps.log");
    let script = format!(
        "if [ \"$1\" = -d ]; then echo start $CUDA_MPS_PIPE_DIRECTORY >> {log}; exit 0; fi\n\
         read line; echo $line >> {log}; grep -q start {log}",
        log = log.display()
    );
    let place = with_control(place, &script);
    let shows = "echo $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_CLIENT_PRIORITY";
    let ended = place.watch_with(&["--mps", "--class", "batch"], "sh".as_ref(), &["-c", shows]);
    let pipe = place.gate().join("mps/pipe");
    assert_eq!(ended.ended.stdout, format!("{} 1\n", pipe.display()));
    let noted = std::fs::read_to_string(&log).unwrap();
    let start = format!("start {}", pipe.display());
    assert_eq!(noted.lines().collect::<Vec<_>>(), [&start, "quit"]);
}

#[test]
fn a_program_at_rest_is_not_thought_to_disturb_bursts() {
    let place = with_control(Place::new(), "exit 0");
    let start = |class, program, words: &[&str]| {
        place.start_watched(&["--mps", "--class", class], &linked(program), words)
    };
    let latency = start("latency", "bursts", &["1000000", "4", "3000", "300"]);
    let page = Page::of(&place);
    let urgent = page.slot(LATENCY);
    // One burst of its own, and then a pause of ten minutes.
    let resting = start("batch", "bursts", &["2", "400", "600000000", "250"]);
    let at_rest = page.slot(BATCH);
    until("it has launched", || page.word(at_rest, Own::Launches) >= 400);
    until("bursts come upon nothing", || page.word(urgent, Own::BurstAhead) == 0);
    let seen = page.word(urgent, Own::Bursts);
    until("a hundred bursts pass", || page.word(urgent, Own::Bursts) > seen + 100);
    assert_eq!(page.word(urgent, Own::BurstAhead), 0);
    [resting, latency].into_iter().for_each(Running::kill_all);
}

/// The lines that speak of MPS beside the one about sharing.
fn said_of_mps(ended: &Ended) -> Vec<&str> {
    let is_of_mps = |line: &&str| line.contains("MPS") && !line.contains("shared the GPU as");
    ended.stderr.lines().filter(is_of_mps).collect()
}

#[test]
fn a_control_daemon_that_never_quits_is_told_by_a_signal() {
    // As when a client never ends: `quit` is not answered, and the daemon stays.
    let place = with_control(
        Place::new(),
        "if [ \"$1\" = -d ]; then\n\
         (while :; do sleep 1; done) < /dev/null > /dev/null 2>&1 &\n\
         echo $! > $CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid\n\
         exit 0; fi\n\
         exec sleep 1000",
    );
    let since = Instant::now();
    let ended = place.watch_with(&["--mps"], "echo".as_ref(), &["done"]).ended;
    assert_eq!((ended.stdout.as_str(), ended.code), ("done\n", Some(0)), "{}", ended.stderr);
    assert!(since.elapsed() < Duration::from_secs(200), "{:?}", since.elapsed());
    let pid = place.gate().join("mps/pipe/nvidia-cuda-mps-control.pid");
    let pid = std::fs::read_to_string(pid).expect("it wrote down its number");
    let said = said_of_mps(&ended);
    let told = format!("(process {}) was told by a signal", pid.trim());
    assert!(said.len() == 1 && said[0].ends_with(&told), "{}", ended.stderr);
    // Whoever took it over need not have looked how it ended.
    let state = process_state(pid.trim().parse().expect("a number"));
    assert!(state.is_none_or(|(state, _)| state == 'Z'), "it still runs: {state:?}");
}

#[test]
fn a_control_program_that_never_answers_is_done_without() {
    let place = with_control(Place::new(), "exec sleep 1000");
    let options = ["--mps", "--class", "batch"];
    let since = Instant::now();
    let ended = place.watch_with(&options, &linked("fills_gpu"), &["200"]).ended;
    ended.check_success();
    assert!(since.elapsed() < Duration::from_secs(200), "{:?}", since.elapsed());
    let said = said_of_mps(&ended);
    assert!(said.len() == 1 && said[0].contains("did not start in 10 s"), "{}", ended.stderr);
    assert!(sentence(&ended).contains("without MPS"), "{}", ended.stderr);
}
