//! `apex sim` as a user calls it, and the session that it plays.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

#[allow(dead_code, reason = "the other tests use the rest of it")]
mod support;

use std::fs;
use support::{Apex, text};

const PROGRAMS: &str = r#"[
    {"name": "web", "class": "latency", "kernels": 10, "kernel_us": 50, "requests_per_second": 200},
    {"name": "job", "class": "batch", "kernels": 100, "kernel_us": 200, "block_us": 50}
]"#;

/// The made-up program that `apex run` starts in these tests.
#[test]
fn the_program() {
    support::program();
}

#[test]
fn described_programs_are_played() {
    let apex = Apex::with_shim();
    let path = apex.path("programs.json");
    fs::write(&path, PROGRAMS).unwrap();
    let play = |policy: &str| -> serde_json::Value {
        let file = path.to_str().unwrap();
        let output = apex.output(&[
            "sim",
            file,
            "--policy",
            policy,
            "--seconds",
            "4",
            "--mode",
            "mps",
            "--json",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (free, held) = (play("none"), play("priority"));
    let p95 = |report: &serde_json::Value| report["programs"][0]["p95_ms"].as_f64().unwrap();
    let share = |report: &serde_json::Value| report["programs"][1]["share"].as_f64().unwrap();
    assert!(p95(&held) < p95(&free), "{} {}", p95(&held), p95(&free));
    assert!(share(&held) > 0.5 && share(&held) < 1.0, "{}", share(&held));
}

#[test]
fn a_session_is_played() {
    let apex = Apex::with_shim();
    let directory = apex.path("session");
    let directory = directory.to_str().unwrap();
    assert!(apex.run_program(&["-o", directory]).status.success());
    let trace = format!("batch={directory}");
    let output = apex.output(&["sim", &trace, "--seconds", "1", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["programs"][0]["class"], "batch");
    let share = report["programs"][0]["share"].as_f64().unwrap();
    assert!((0.99..=1.01).contains(&share), "{share}");
}

#[test]
fn what_cannot_be_played_is_said() {
    let apex = Apex::with_shim();
    let refused = |arguments: &[&str], word: &str| {
        let output = apex.output(arguments);
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    };
    refused(&["sim", "pair", "--policy", "best"], "adaptive");
    refused(&["sim", "urgent=pair"], "no class");
    refused(&["sim", "nowhere"], "no session");
    refused(&["sim", "nothing.json"], "cannot be read");
    refused(&["sim", "pair", "--seconds", "0"], "--seconds");
    refused(&["bench", "sched", "--load", "2"], "--load");
    refused(&["bench", "sched", "--system", "magic"], "time-slicing");
    refused(&["bench", "sched", "--only", "magic"], "gpu-bound");
}
