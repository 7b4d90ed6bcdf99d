//! Every rule of the adviser finds what it is for in a program that does it, and not in one that does not.
//!
//! `advice_cases.c` has both for each rule. Rules that no device of the software GPU can provoke are tested beside
//! their code, on evidence alone.

use apex_daemon::advice::Advice;
use apex_e2e::{Place, linked};
use std::os::unix::fs::PermissionsExt;

/// Rules by name, with what their programs need besides.
const CASES: &[(&str, &[(&str, &str)])] = &[
    ("block-not-multiple-of-warp", &[]),
    ("critical-small-block", &[]),
    ("very-large-block", &[]),
    ("small-grid", &[]),
    ("under-utilisation", &[]),
    ("tail-effect", &[]),
    ("excellent", &[]),
    ("occupancy-registers", &[]),
    ("occupancy-shared-memory", &[]),
    ("occupancy-block-size", &[("APEX_SOFTGPU_DEVICE", "t4")]),
    ("register-granule", &[]),
    ("launch-bound", &[("APEX_SAMPLING_PERCENT", "100")]),
    ("repeated-sequence", &[]),
    ("graph-reinstantiation", &[]),
    ("allocation-churn", &[]),
    ("kept-memory", &[]),
    ("pinning-in-loop", &[]),
    ("object-churn", &[]),
    ("implicit-synchronisation", &[]),
    ("pageable-copies", &[]),
    ("tiny-copies", &[]),
    ("redundant-upload", &[]),
    ("default-stream", &[]),
    ("idle-sms", &[]),
    ("fusion-candidate", &[]),
    ("late-loading", &[]),
    ("memory-leak", &[]),
    ("multi-gpu-imbalance", &[("APEX_SOFTGPU_DEVICES", "2"), ("APEX_SOFTGPU_CLOCK", "virtual")]),
    ("device-wide-wait", &[]),
    ("wait-per-launch", &[]),
];

/// No device of the software GPU has so few block slots.
const WITHOUT_PROGRAM: &[&str] = &["occupancy-block-slots"];

fn advice_of(place: &Place, rule: &str, way: &str) -> Advice {
    let program = linked("advice_cases");
    let watched = place.watch_with(&["--mode", "advise"], &program, &[rule, way]);
    watched.ended.check_success();
    let session = watched.session.to_str().expect("a path of ours is text");
    let shown = place.apex(&["report", "--advice", "--json", session]);
    serde_json::from_str(&shown.check_success().stdout).expect("advice is a JSON document")
}

fn check(rule: &str, variables: &[(&str, &str)]) {
    let mut place = Place::new();
    for (name, value) in variables {
        place = place.with(name, value);
    }
    let bad = advice_of(&place, rule, "bad");
    let found = bad.findings.iter().find(|finding| finding.rule == rule);
    let found = found.unwrap_or_else(|| panic!("{rule} finds nothing: {bad:#?}"));
    assert!(!found.what.is_empty() && !found.why.is_empty() && !found.action.is_empty());
    let gain = &found.gain;
    assert!(0.0 <= gain.low && gain.low <= gain.expected && gain.expected <= gain.high);
    assert!(gain.high <= 1.0 && (0.0..=1.0).contains(&found.weight), "{found:#?}");
    let good = advice_of(&place, rule, "good");
    let found = good.findings.iter().find(|finding| finding.rule == rule);
    assert_eq!(found, None, "{rule} must not speak here");
}

// A third each, so that a runner with several cores has something to do.
#[test]
fn rules_of_the_first_third_speak_where_they_should() {
    CASES.iter().step_by(3).for_each(|(rule, variables)| check(rule, variables));
}

#[test]
fn rules_of_the_second_third_speak_where_they_should() {
    CASES.iter().skip(1).step_by(3).for_each(|(rule, variables)| check(rule, variables));
}

#[test]
fn rules_of_the_last_third_speak_where_they_should() {
    CASES.iter().skip(2).step_by(3).for_each(|(rule, variables)| check(rule, variables));
}

#[test]
fn a_slow_clock_is_not_the_programs_fault() {
    for (mask, speaks) in [("0x0000000000000004", true), ("0x0000000000000000", false)] {
        let place = Place::new();
        let reader = place.root().join("nvidia-smi");
        let script = format!("#!/bin/sh\nwhile echo 1200, 1980, {mask}, 90; do sleep 0.02; done\n");
        std::fs::write(&reader, script).expect("a script can be written");
        std::fs::set_permissions(&reader, PermissionsExt::from_mode(0o755)).expect("and run");
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", place.root().display());
        let place = place.with("PATH", path);
        let advice = advice_of(&place, "clock-throttling", "bad");
        let said = advice.findings.iter().find(|finding| finding.rule == "clock-throttling");
        assert_eq!(said.is_some(), speaks, "{said:?}");
    }
}

#[test]
fn what_a_gpu_is_built_of_is_no_advice_on_this_cpu() {
    let place = Place::new();
    let advice = advice_of(&place, "small-grid", "bad");
    let found = advice.findings.iter().find(|finding| finding.rule == "small-grid");
    let found = found.expect("the document has it");
    assert_eq!(
        (found.holds_for.as_deref(), found.worth_it, found.saving),
        (Some("H200"), false, 0.0)
    );
    let session = place.root().join("session-0");
    let session = session.to_str().expect("a path of ours is text");
    let text = place.apex(&["report", "--advice", session]).check_success().stdout.clone();
    assert!(!text.contains("small-grid") && !text.contains(" SMs"), "{text}");
    assert!(text.contains("would hold for the H200, not for this CPU"), "{text}");
    assert!(!text.contains("saves about 0 %") && !text.contains("saves about <"), "{text}");
}

#[test]
fn every_rule_has_a_case() {
    let page = include_str!("../../../docs/advice.md");
    let rules: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(rules.len() > 25, "{rules:?}");
    for rule in rules {
        let has_program = CASES.iter().any(|(name, _)| *name == rule) || rule == "clock-throttling";
        assert!(has_program || WITHOUT_PROGRAM.contains(&rule), "{rule} has no program");
    }
}

/// On launches that were measured on a GPU: what is recommended is faster, and by as much as is said.
#[test]
fn recommended_blocks_hold_on_measured_launches() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/h200.parquet");
    let ended = Place::new().apex(&["bench", "advice", "--json", "--rows", data]);
    let text = &ended.check_success().stdout;
    let report: serde_json::Value = serde_json::from_str(text).expect("a JSON document");
    let rows = report["rows"].as_array().expect("a list");
    assert!(rows[0]["launches"].as_u64().is_some_and(|count| count > 100), "{}", rows[0]);
    let bars = report["bars"].as_array().expect("a list");
    assert_eq!(bars.len(), 3, "{bars:?}");
    assert!(bars.iter().all(|bar| bar["ok"] == true), "{bars:#?}");
}

#[test]
fn a_run_ends_with_the_findings_that_save_most() {
    let place = Place::new();
    let program = linked("advice_cases");
    let watched = place.watch_with(&["--mode", "advise"], &program, &["late-loading", "bad"]);
    let said = &watched.ended.check_success().stderr;
    let report = said.find("apex itself:").expect("the report comes first");
    let advice = said.find("advice, what saves most first:").expect("advice comes after it");
    assert!(report < advice, "{said}");
    assert!(said[advice..].lines().count() <= 2 + 5 * 4, "{said}");
    assert!(said.contains("apex report --advice "), "{said}");
    let session = watched.session.to_str().expect("a path of ours is text");
    let text = place.apex(&["report", "--advice", session]).check_success().stdout.clone();
    assert!(text.contains("late-loading [") && text.contains("why: "), "{text}");
    // Without being asked for, there is no advice and no closer look.
    let plain = place.watch(&program, &["late-loading", "bad"]);
    assert!(!plain.ended.stderr.contains("advice"), "{}", plain.ended.stderr);
    assert!(plain.events().iter().all(|line| line.kind != "passed" && line.kind != "contents"));
}
