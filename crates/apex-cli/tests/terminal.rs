//! What apex shows on a terminal, and that it leaves the terminal as it found it.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

#[path = "support/pty.rs"]
mod pty;
mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pty::{Left, OnTerminal, Streams, has_colour};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use support::{Apex, PROGRAM, WAIT_FOR, text};

const LEAVES: &str = "\x1b[?1049l";
const SHOWS_CURSOR: &str = "\x1b[?25h";

#[test]
fn the_program() {
    support::program();
}

fn on_terminal(command: &mut Command) -> OnTerminal {
    command.env_remove("NO_COLOR");
    OnTerminal::start(command, Streams::All)
}

fn assert_given_back(left: &Left, how: &str) {
    assert!(left.restored, "{how}");
    let after = &left.shown[left.shown.find("\x1b[?1049h").unwrap()..];
    assert!(after.contains(LEAVES) && after.contains(SHOWS_CURSOR), "{how}: {after:?}");
}

#[test]
fn top_gives_the_terminal_back_however_it_ends() {
    let apex = Apex::with_shim();
    for key in ["q", "\x03"] {
        let mut top = on_terminal(&mut apex.command(&["top"]));
        top.wait_for("quit");
        top.types(key);
        let left = top.left();
        assert_eq!(left.status.code(), Some(0), "{key:?}");
        assert_given_back(&left, key);
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let top = on_terminal(&mut apex.command(&["top"]));
        top.wait_for("quit");
        kill(Pid::from_raw(top.child.id().try_into().unwrap()), signal).unwrap();
        let left = top.left();
        assert_eq!(left.status.signal(), Some(signal as i32));
        assert_given_back(&left, signal.as_str());
    }
}

#[test]
fn q_in_the_help_leaves_top_running() {
    let apex = Apex::with_shim();
    let mut top = on_terminal(&mut apex.command(&["top"]));
    top.wait_for("quit");
    top.types("?");
    top.wait_for("unfold");
    top.types("qq");
    assert_eq!(top.left().status.code(), Some(0));
}

#[test]
fn top_shows_each_process_and_honours_no_color() {
    let apex = Apex::with_shim();
    let go = apex.path("go");
    let exe = std::env::current_exe().unwrap();
    let mut arguments = vec!["run", "--", exe.to_str().unwrap()];
    arguments.extend(PROGRAM);
    let mut running = apex
        .command(&arguments)
        .env(WAIT_FOR, &go)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for (refusal, expected) in [("", true), ("1", false)] {
        let mut command = apex.command(&["top"]);
        let mut top = OnTerminal::start(command.env("NO_COLOR", refusal), Streams::All);
        // The made-up program says that this is its command.
        top.wait_for("--fast");
        top.types("q");
        assert_eq!(has_colour(&top.left().shown), expected, "NO_COLOR={refusal}");
    }
    std::fs::write(&go, "").unwrap();
    running.wait().unwrap();
}

#[test]
fn report_and_doctor_are_coloured_on_a_terminal_alone() {
    let apex = Apex::with_shim();
    apex.run_program(&[]);
    for verb in [&["report"][..], &["report", "--by", "kernel"], &["doctor"]] {
        let piped = text(&apex.output(verb).stdout);
        assert!(!piped.contains('\x1b'), "{verb:?}: {piped}");
        let coloured = on_terminal(&mut apex.command(verb)).left().shown;
        assert!(coloured.contains("\x1b["), "{verb:?}: {coloured}");
        let mut refused = apex.command(verb);
        let plain = OnTerminal::start(refused.env("NO_COLOR", "1"), Streams::All).left().shown;
        assert!(!plain.contains('\x1b'), "{verb:?}: {plain}");
    }
    let doctor = on_terminal(&mut apex.command(&["doctor"])).left().shown;
    assert!(doctor.contains("\x1b[32mok   \x1b[0m"), "{doctor}");
}

#[test]
fn long_work_says_on_a_terminal_how_far_it_is() {
    let apex = Apex::with_shim();
    apex.run_program(&[]);
    let export = || apex.command(&["export", "--format", "ndjson"]);
    let mut command = export();
    let shown =
        OnTerminal::start(command.stdout(Stdio::null()), Streams::StandardError).left().shown;
    assert!(shown.contains("reading segment, 0 s"), "{shown:?}");
    assert!(shown.ends_with("\r\x1b[K"), "nothing of it stays: {shown:?}");
    let piped = export().output().unwrap();
    assert_eq!(text(&piped.stderr), "");
    assert!(!text(&piped.stdout).contains('\x1b'));
}
