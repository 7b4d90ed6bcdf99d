//! What apex does with hostile surroundings and wrong calls: temporary folders, files that are none, terminals.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Apex, text, wait_for};

#[test]
fn the_program() {
    support::program();
}

/// Waits until something is so.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(240);
    while !is() {
        assert!(Instant::now() < deadline, "{what}: never");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// A place of temporary files, and a program that says where it is and waits.
fn temporary(apex: &Apex) -> (PathBuf, PathBuf) {
    let (place, program) = (apex.path("tmp"), apex.path("slow"));
    fs::create_dir(&place).unwrap();
    fs::write(
        &program,
        "#!/bin/sh\necho $$ > \"$0.part\"\nmv \"$0.part\" \"$0.begun\"\nexec sleep 600\n",
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (place, program)
}

/// Sends a signal; the command must die of it and leave neither a temporary folder, nor rings, nor its child.
fn dies_clean(apex: &Apex, mut command: Child, (signal, number): (&str, i32), begun: &Path) {
    wait_for(begun);
    let place = apex.path("tmp");
    let made = entries(&place);
    assert!(!made.is_empty());
    for folder in &made {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.contains(&command.id().to_string()), "{name} can be guessed");
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700, "{name}");
    }
    let child = fs::read_to_string(begun).unwrap();
    let sent = Command::new("kill").args(["-s", signal, &command.id().to_string()]).status();
    assert!(sent.unwrap().success());
    assert_eq!(command.wait().unwrap().signal(), Some(number), "{signal}");
    assert_eq!(entries(&place), Vec::<PathBuf>::new(), "{signal}");
    let rings = apex.path("runtime/apex");
    assert!(!rings.exists() || entries(&rings).is_empty(), "{signal}");
    let process = Path::new("/proc").join(child.trim()).join("cmdline");
    until("the child ends", || fs::read(&process).unwrap_or_default().is_empty());
    fs::remove_file(begun).unwrap();
}

#[test]
fn a_signal_leaves_nothing_of_a_tuning() {
    let apex = Apex::with_shim();
    let (place, program) = temporary(&apex);
    for signal in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let command = apex
            .command(&["tune", "--device", "gpu", "--", program.to_str().unwrap()])
            .env("TMPDIR", &place)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        dies_clean(&apex, command, signal, &apex.path("slow.begun"));
    }
}

#[test]
fn a_signal_leaves_nothing_of_a_benchmark_and_no_guessed_folder_is_taken() {
    let apex = Apex::with_shim();
    let (place, program) = temporary(&apex);
    // In the compiler's place.
    let tools = apex.path("tools");
    fs::create_dir(&tools).unwrap();
    std::os::unix::fs::symlink(&program, tools.join("gcc")).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    for signal in [("INT", 2), ("TERM", 15)] {
        let command = apex
            .command(&["bench", "softgpu", "--quick"])
            .envs([("TMPDIR", place.as_os_str()), ("PATH", path.as_ref())])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        dies_clean(&apex, command, signal, &tools.join("gcc.begun"));
    }
}

#[test]
fn a_session_without_a_folder_leaves_nothing_among_temporary_files() {
    let apex = Apex::with_shim();
    let (place, _) = temporary(&apex);
    fs::write(apex.path("file"), "").unwrap();
    let output = apex
        .command(&["run", "--", "sh", "-c", "ls -ld $TMPDIR/*"])
        .env("TMPDIR", &place)
        .env("APEX_STATE", apex.path("file/below"))
        .output()
        .unwrap();
    let stdout = text(&output.stdout);
    assert!(output.status.success() && stdout.starts_with("drwx------"), "{stdout}");
    assert!(!stdout.contains("/rings"), "a name that can be guessed: {stdout}");
    assert!(entries(&place).is_empty());
}

#[test]
fn only_regular_files_are_read() {
    let apex = Apex::with_shim();
    let pipe = apex.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let trace = format!("{pipe}.json");
    assert!(Command::new("mkfifo").arg(&trace).status().unwrap().success());
    let check = |arguments: &[&str], file: &str| {
        let output = apex.command(arguments).env("APEX_CONFIG", file).output().unwrap();
        text(&output.stderr)
    };
    for file in [pipe, "/dev/zero", "/"] {
        let said = check(&["run", "--", "true"], file);
        assert!(said.contains("is not read: it is not a regular file"), "{said}");
        assert_eq!(said.matches("APEX_CONFIG").count(), 1, "{said}");
    }
    let (none, session) = ("", apex.path("session"));
    fs::create_dir(&session).unwrap();
    assert!(Command::new("mkfifo").arg(session.join("session.json")).status().unwrap().success());
    for arguments in [
        &["run", "--tuning", pipe, "--", "true"][..],
        &["daemon", "--config", "/dev/zero"],
        &["sim", &trace],
        &["report", session.to_str().unwrap()],
        &["predict", "--models", "/", "--list", pipe],
        &["predict", "--rows", pipe],
        &["bench", "advice", "--rows", pipe],
    ] {
        let output = apex.command(arguments).env("APEX_CONFIG", none).output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success() && !said.is_empty(), "{arguments:?}: {said}");
        let reason = said.contains("it is not a regular file") || said.contains("models");
        assert!(reason, "{arguments:?}: {said}");
    }
}

#[test]
fn wrong_settings_are_said_once() {
    let apex = Apex::with_shim();
    let output = apex
        .command(&["run", "--", "sh", "-c", ":"])
        .env("APEX_RING_EVENTS", "many")
        .env("APEX_TIMNG", "full")
        .env("APEX_SESSIONS_BYTES", "4G")
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(said.matches("APEX_RING_EVENTS").count(), 1, "{said}");
    assert!(said.contains("APEX_TIMNG is no setting of apex; APEX_TIMING may be meant"), "{said}");
    assert!(!said.contains("APEX_SESSIONS_BYTES"), "{said}");
}

#[test]
fn a_mistyped_option_is_a_wrong_call() {
    let apex = Apex::with_shim();
    let output = apex.output(&["run", "--clas", "latency", "--", "ls"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--clas") && said.contains("--class"), "{said}");
    let output = apex.output(&["run", "echo", "-n", "--clas"]);
    assert_eq!(text(&output.stdout), "--clas");
}

#[test]
fn a_promise_makes_a_latency_program() {
    let apex = Apex::with_shim();
    let output = apex
        .command(&["run", "--sla", "p95=10ms", "--", "sh", "-c", "echo $APEX_CLASS $APEX_SLA"])
        .env("APEX_GATE", apex.path("gate"))
        .env_remove("APEX_CLASS")
        .output()
        .unwrap();
    let told = text(&output.stdout);
    assert!(told.starts_with("latency p95="), "{told}{}", text(&output.stderr));
}

#[test]
fn a_document_stands_alone() {
    let apex = Apex::with_shim();
    let exe = std::env::current_exe().unwrap();
    let mut arguments = vec!["run", "--json", exe.to_str().unwrap()];
    arguments.extend(support::PROGRAM);
    let output = apex.command(&arguments).env("APEX_RING_EVENTS", "many").output().unwrap();
    let alone = text(&output.stderr);
    let document: serde_json::Value = serde_json::from_str(&alone).expect(&alone);
    assert_eq!(document["launches"], 15);
    let said = document["said"].as_array().unwrap();
    assert!(said[0].as_str().unwrap().starts_with("APEX_RING_EVENTS=many"), "{said:?}");

    let file = apex.path("report.json");
    let beside = apex.run_program(&[&format!("--json={}", file.display())]);
    assert!(text(&beside.stderr).contains("kernels executed"), "{}", text(&beside.stderr));
    let document: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(document["launches"], 15);

    // What cannot be started leaves a sentence and no document.
    let missing = text(&apex.output(&["run", "--json", "no-such-program"]).stderr);
    assert!(missing.contains("apex: no-such-program is not found"), "{missing}");
    let wrong = apex.output(&["run", "--json=/no/such/folder/a", "--", "true"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
}

#[test]
fn a_terminal_is_not_made_to_obey() {
    let apex = Apex::with_shim();
    let name = "evil\x1b[2J\u{9b}31m";
    for arguments in [
        &["run", "--", name][..],
        &["report", name],
        &["run", "--", "true", name],
        &["report"],
        &["sessions"],
        &["diff", "2", "2"],
        &[name],
        &["run", "--device", name],
        &["predict", "--models", name, "--grid", "1"],
        &["man", name],
    ] {
        let output = apex.output(arguments);
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(!told.contains(['\x1b', '\u{9b}']), "{arguments:?}: {told:?}");
        assert!(!told.contains("evil") || told.contains("\\u{1b}[2J"), "{arguments:?}: {told:?}");
    }
    assert!(text(&apex.output(&["sessions"]).stdout).contains("evil\\u{1b}[2J"));
}

#[test]
fn the_manual_has_every_page_that_it_names() {
    let apex = Apex::without_shim();
    let folder = apex.path("man1");
    assert!(apex.output(&["man", "-o", folder.to_str().unwrap()]).status.success());
    let mut pages = 0;
    for page in entries(&folder) {
        let text = fs::read_to_string(&page).unwrap().replace("\\-", "-");
        for word in text.split_whitespace().filter(|word| word.starts_with("apex-")) {
            let named = word.split("(1)").next().unwrap();
            if word.contains("(1)") {
                pages += 1;
                assert!(folder.join(format!("{named}.1")).exists(), "{word} in {}", page.display());
            }
        }
    }
    assert!(pages > 20, "{pages}");
    let page = text(&apex.output(&["man", "bench", "shim"]).stdout);
    assert!(page.contains("apex\\-bench\\-shim"), "{page}");
    let wrong = apex.output(&["man", "flee"]);
    assert!(text(&wrong.stderr).contains("apex has no verb flee"), "{}", text(&wrong.stderr));
}

#[test]
fn models_are_looked_for_and_missed() {
    let apex = Apex::without_shim();
    for arguments in [&["bench", "predict"][..], &["bench", "advice"], &["predict", "--grid", "1"]]
    {
        let mut command = apex.command(arguments);
        let output =
            command.current_dir(apex.root.path()).env_remove("APEX_MODELS").output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
        assert!(said.contains("no trained models are found"), "{arguments:?}: {said}");
    }
    // Beside the executable, as apex run finds them.
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");
    std::os::unix::fs::symlink(models, apex.path("models")).unwrap();
    let output = apex.command(&["bench", "advice", "--json"]).current_dir("/").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = apex.output(&["predict", "--grid", "1", "--block", "4096"]);
    let said = text(&output.stdout);
    assert!(said.contains("cannot be launched: its block has 4,096 threads"), "{said}");
    assert!(!said.contains("µs"), "{said}");
}

#[test]
fn a_reason_is_given_once() {
    let apex = Apex::with_shim();
    for arguments in [
        &["predict", "--models", "/none", "--grid", "1"][..],
        &["train", "fit", "--rows", "/none"],
        &["run", "--tuning", "/none", "--", "true"],
        &["bench", "advice", "--rows", "/none"],
    ] {
        let said = text(&apex.output(arguments).stderr);
        assert_eq!(said.matches("No such file").count(), 1, "{arguments:?}: {said}");
        assert!(!said.contains("entity"), "{said}");
    }
}
