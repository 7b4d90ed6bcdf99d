//! `apex run` around real processes: codes, signals, streams, and what is missing or killed.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};
use std::time::Duration;
use support::{Apex, PROGRAM, WAIT_FOR, text, wait_for};

#[test]
fn the_program() {
    support::program();
}

/// Runs a shell line under `apex run`.
fn run(apex: &Apex, line: &str) -> Output {
    apex.output(&["run", "--", "sh", "-c", line])
}

#[test]
fn the_exit_code_passes_through() {
    let apex = Apex::with_shim();
    for code in [0, 1, 3, 255] {
        assert_eq!(run(&apex, &format!("exit {code}")).status.code(), Some(code));
    }
}

#[test]
fn apex_dies_of_the_signal_that_killed_the_program() {
    let apex = Apex::with_shim();
    for (name, number) in [("KILL", 9), ("TERM", 15), ("PIPE", 13), ("SEGV", 11), ("INT", 2)] {
        let output = run(&apex, &format!("kill -{name} $$"));
        assert_eq!(output.status.signal(), Some(number), "{name}");
        assert!(text(&output.stderr).contains(&format!("killed by signal {number}")));
    }
}

#[test]
fn what_cannot_be_started_is_told_with_the_codes_of_a_shell() {
    let apex = Apex::with_shim();
    let missing = apex.output(&["run", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(
        text(&missing.stderr).contains("no-such-program is not found; check its name and PATH")
    );
    let refused = apex.output(&["run", "--", "/etc/passwd"]);
    assert_eq!(refused.status.code(), Some(126));
    assert!(text(&refused.stderr).contains("/etc/passwd cannot be executed"));
    // Nothing is kept of a program that never ran.
    assert_eq!(fs::read_dir(apex.path("runtime/apex")).unwrap().count(), 0);
    assert!(text(&apex.output(&["sessions"]).stderr).contains("no session is kept"));
}

#[test]
fn signals_are_handed_on() {
    let apex = Apex::with_shim();
    for signal in ["TERM", "INT", "USR1", "HUP"] {
        let ready = apex.path(&format!("ready-{signal}"));
        let line = format!(
            "trap 'exit 7' {signal}; : > {}; i=0; while [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done",
            ready.display()
        );
        let mut child =
            apex.command(&["run", "--", "sh", "-c", &line]).stderr(Stdio::null()).spawn().unwrap();
        wait_for(&ready);
        let pid = child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(7), "{signal}");
    }
}

#[test]
fn the_streams_are_the_programs_own() {
    let apex = Apex::with_shim();
    let mut child = apex
        .command(&["run", "--", "sh", "-c", "cat; echo aside >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "through\n");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("aside\n") && stderr.contains("no CUDA call was seen"), "{stderr}");
}

#[test]
fn switched_off_apex_is_absent() {
    let apex = Apex::with_shim();
    let line = "echo [$LD_PRELOAD$APEX_RINGS]; exit 5";
    let output = apex.command(&["run", "--", "sh", "-c", line]).env("APEX", "0").output().unwrap();
    assert_eq!((text(&output.stdout), output.status.code()), ("[]\n".into(), Some(5)));
    assert!(output.stderr.is_empty());
}

#[test]
fn without_the_shim_the_program_still_runs() {
    let apex = Apex::without_shim();
    let output = run(&apex, "echo [$LD_PRELOAD]; exit 5");
    assert_eq!((text(&output.stdout), output.status.code()), ("[]\n".into(), Some(5)));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("libapex_shim.so is not beside"), "{stderr}");
    assert!(stderr.contains("the program runs without apex"), "{stderr}");
}

#[test]
fn the_program_meets_the_shim_and_keeps_its_own_settings() {
    let apex = Apex::with_shim();
    let line = "echo $LD_PRELOAD; echo $LD_LIBRARY_PATH; echo $APEX_REAL_LIBCUDA; echo $APEX_TIMING; \
                ls -l $APEX_RINGS/lib";
    let output = apex
        .command(&["run", "--timing", "off", "--", "sh", "-c", line])
        .env("LD_LIBRARY_PATH", "/mine")
        .env("APEX_REAL_LIBCUDA", "/opt/libcuda.so.1")
        .output()
        .unwrap();
    let stdout = text(&output.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines[1].ends_with("/lib:/mine"), "{stdout}");
    assert_eq!(lines[2..4], ["/opt/libcuda.so.1", "off"]);
    // Preloaded where it lies: a process that outlives the session finds it still.
    for name in ["libcuda.so.1", "libcuda.so"] {
        assert!(stdout.contains(&format!("{name} -> {}", lines[0])), "{stdout}");
    }
}

#[test]
fn a_program_is_recorded_and_reported() {
    let apex = Apex::with_shim();
    let output = apex.run_program(&[]);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("apex: GPU busy at most "), "{stderr}");
    assert!(
        stderr.contains("21 kernels executed: 15 launches, 6 through 2 graph launches"),
        "{stderr}"
    );
    assert!(stderr.contains("0 lost, 0 damaged, 0 failures"), "{stderr}");
    let report = apex.output(&["report"]);
    assert!(stderr.ends_with(&text(&report.stdout)), "{stderr}");
    for by in ["kernel", "config", "stream", "thread"] {
        let table = text(&apex.output(&["report", "--by", by]).stdout);
        assert!(table.lines().count() >= 2, "{by}: {table}");
    }
    assert_eq!(fs::read_dir(apex.path("runtime/apex")).unwrap().count(), 0);
}

#[test]
fn json_stands_alone_on_stderr_and_is_the_summary_that_is_kept() {
    let apex = Apex::with_shim();
    let stderr = text(&apex.run_program(&["--json"]).stderr);
    let mut printed: serde_json::Value = serde_json::from_str(&stderr).unwrap();
    // Sentences of this machine, about its GPU.
    printed.as_object_mut().unwrap().remove("said");
    assert_eq!(printed["schema"], 1);
    assert_eq!(printed["kernels_executed"], 21);
    let report = apex.output(&["report", "--json"]);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&report.stdout).unwrap(), printed);
}

#[test]
fn a_session_goes_where_it_is_told_and_nowhere_twice() {
    let apex = Apex::with_shim();
    let place = apex.path("job");
    let place = place.to_str().unwrap();
    assert!(apex.run_program(&["-o", place]).status.success());
    assert!(fs::exists(format!("{place}/events-00001.parquet")).unwrap());
    let mode = fs::metadata(format!("{place}/session.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(apex.output(&["report", place]).status.success());
    let twice = apex.run_program(&["-o", place]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("is not empty; choose another directory"));
}

#[test]
fn a_state_directory_that_cannot_be_written_costs_only_the_session() {
    let apex = Apex::with_shim();
    fs::write(apex.path("file"), "").unwrap();
    let exe = std::env::current_exe().unwrap();
    let mut arguments = vec!["run", "--", exe.to_str().unwrap()];
    arguments.extend(PROGRAM);
    let output =
        apex.command(&arguments).env("APEX_STATE", apex.path("file/below")).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success());
    assert!(stderr.contains("cannot be written"), "{stderr}");
    assert!(stderr.contains("the session is not kept, the report is still made"), "{stderr}");
    assert!(stderr.contains("21 kernels executed"), "{stderr}");
}

#[test]
fn the_program_outlives_a_killed_apex_and_its_session_is_finished_later() {
    let apex = Apex::with_shim();
    let go = apex.path("go");
    let exe = std::env::current_exe().unwrap();
    let done = apex.path("done");
    let line = format!("{} {}; : > {}", exe.display(), PROGRAM.join(" "), done.display());
    let mut running = apex
        .command(&["run", "--", "sh", "-c", &line])
        .env(WAIT_FOR, &go)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let live = || {
        let entries = fs::read_dir(apex.path("runtime/apex")).into_iter().flatten();
        entries.filter_map(Result::ok).map(|entry| entry.path().join("live.json")).next()
    };
    while live().is_none_or(|path| !path.exists()) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let top = text(&apex.output(&["top", "--json"]).stdout);
    let snapshot: serde_json::Value = serde_json::from_str(&top).unwrap();
    let process = &snapshot["sessions"][0]["processes"][0];
    let counted = ["kernels_executed", "launches"].map(|name| process[name].as_u64());
    assert_eq!(counted, [Some(21), Some(17)], "{top}");
    running.kill().unwrap();
    running.wait().unwrap();
    // Its rings are still written: nobody touches them yet.
    assert_eq!(text(&apex.output(&["sessions"]).stderr), "");
    fs::write(&go, "").unwrap();
    wait_for(&done);
    std::thread::sleep(Duration::from_millis(100));
    let next = apex.output(&["report", "--json"]);
    let stderr = text(&next.stderr);
    assert!(
        stderr.contains("was cut short when its apex was killed; it is finished now"),
        "{stderr}"
    );
    let summary: serde_json::Value = serde_json::from_slice(&next.stdout).unwrap();
    // What apex held in memory when it was killed is lost; what came after is all there.
    assert!(summary["launches"].as_u64().unwrap() >= 7, "{summary}");
    assert!(summary["notes"][0].as_str().unwrap().contains("apex was killed"));
}

#[test]
fn a_process_that_stays_behind_is_named() {
    let apex = Apex::with_shim();
    let go = apex.path("go");
    let exe = std::env::current_exe().unwrap();
    let line = format!(
        "{} {} >/dev/null 2>&1 & while ! ls $APEX_RINGS/*.ring >/dev/null 2>&1; do sleep 0.01; done; sleep 0.2",
        exe.display(),
        PROGRAM.join(" ")
    );
    let output =
        apex.command(&["run", "--", "sh", "-c", &line]).env(WAIT_FOR, &go).output().unwrap();
    fs::write(&go, "").unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.contains("what happens there from now on is not recorded"), "{stderr}");
    assert!(stderr.contains("21 kernels executed"), "{stderr}");
}

#[test]
fn sessions_are_compared() {
    let apex = Apex::with_shim();
    for place in ["one", "two"] {
        assert!(apex.run_program(&["-o", apex.path(place).to_str().unwrap()]).status.success());
    }
    let (one, two) = (apex.path("one"), apex.path("two"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let text_form = text(&apex.output(&["diff", one, two]).stdout);
    assert!(text_form.starts_with("wall time "), "{text_form}");
    assert!(text_form.contains("kernels executed 21 → 21 (same)"), "{text_form}");
    let json = apex.output(&["diff", "--json", one, two]).stdout;
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap()["schema"], 1);
    let missing = apex.output(&["diff", one, "nowhere"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("there is no session nowhere"));
}

#[test]
fn help_pages_and_the_doctor_speak() {
    let apex = Apex::without_shim();
    for shell in ["bash", "zsh", "fish"] {
        let script = apex.output(&["completions", shell]);
        assert!(script.status.success() && text(&script.stdout).contains("apex"));
    }
    assert!(text(&apex.output(&["man"]).stdout).contains(".TH apex"));
    assert!(text(&apex.output(&["run", "--help"]).stdout).contains("--timing"));
    let doctor = apex.output(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    let stdout = text(&doctor.stdout);
    assert!(stdout.contains("FAIL  shim") && stdout.contains("cargo build"), "{stdout}");
    let json = apex.output(&["doctor", "--json"]).stdout;
    let document: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(document["checks"][0]["verdict"], "fail");
}

#[test]
fn sessions_are_listed_with_a_header_found_as_latest_and_pinned() {
    let apex = Apex::with_shim();
    let keep_two = |arguments: &[&str]| {
        let output = apex.command(arguments).env("APEX_SESSIONS_KEPT", "2").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    keep_two(&["run", "--", "true"]);
    let first = text(&keep_two(&["sessions"]).stdout);
    let lines: Vec<Vec<&str>> =
        first.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["session", "end", "duration", "size", "kept", "command"]);
    assert!(lines[1].ends_with(&["-", "true"]), "{first}");
    let id = lines[1][0];
    assert!(text(&keep_two(&["sessions", "pin", "latest"]).stderr).contains(id));
    for _ in 0..4 {
        keep_two(&["run", "--", "true"]);
    }
    let listed = text(&keep_two(&["sessions", "--json"]).stdout);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), ids[0]), (3, id), "the pinned one and the two newest");
    assert_eq!((&listed[0]["pinned"], &listed[1]["pinned"]), (&true.into(), &false.into()));
    assert!(listed[0]["duration_ns"].as_u64() > Some(0) && listed[0]["bytes"].as_u64() > Some(0));
    let newest = text(&keep_two(&["report", "latest", "--json"]).stdout);
    assert!(newest.contains(ids[2]), "{newest}");
    assert!(keep_two(&["diff", id, "latest"]).status.success());
    keep_two(&["sessions", "unpin", id]);
    keep_two(&["run", "--", "true"]);
    assert!(!text(&keep_two(&["sessions"]).stdout).contains(id));
}
