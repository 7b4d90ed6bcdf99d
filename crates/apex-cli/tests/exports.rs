//! Exports, read back: by ourselves, and by the tools that others use.
//!
//! The foreign readers are Python scripts in `tests/foreign`. `cargo xtask test` makes an environment
//! with pyarrow, perfetto and jsonschema and names its Python in `APEX_TEST_PYTHON`.
#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

mod support;

use std::path::Path;
use std::process::Command;
use support::{Apex, text};

#[test]
fn the_program() {
    support::program();
}

/// Runs the made-up program and exports it.
fn exported(format: &str) -> (Apex, std::path::PathBuf) {
    let apex = Apex::with_shim();
    assert!(apex.run_program(&[]).status.success());
    let file = apex.path("out");
    let output = apex.output(&["export", "--format", format, "-o", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty());
    (apex, file)
}

fn foreign(format: &str, script: &str) {
    let python = std::env::var("APEX_TEST_PYTHON")
        .expect("no Python with the foreign readers: run `cargo xtask test`, which makes one");
    let (_apex, file) = exported(format);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign").join(script);
    let output = Command::new(python).arg(script).arg(file).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn pyarrow_reads_parquet() {
    foreign("parquet", "read_parquet.py");
}

#[test]
fn the_official_descriptors_decode_perfetto() {
    foreign("perfetto", "read_perfetto.py");
}

#[test]
fn a_json_schema_accepts_chrome() {
    foreign("chrome", "read_chrome.py");
}

#[test]
fn ndjson_has_one_event_per_line() {
    let (_apex, file) = exported("ndjson");
    let lines = std::fs::read_to_string(file).unwrap();
    let events: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 38);
    let launch = events.iter().find(|event| event["kind"] == "launch").unwrap();
    assert_eq!(launch["kernel_name"], "_Z5saxpyifPfS_");
    assert_eq!((launch["grid_x"].as_u64(), launch["block_x"].as_u64()), (Some(264), Some(256)));
    assert!(launch.get("address").is_none());
}

#[test]
fn a_launch_is_counted_once_by_its_function() {
    let (_apex, file) = exported("ndjson");
    let lines = std::fs::read_to_string(file).unwrap();
    let events: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named = |name: &str| events.iter().filter(|event| event["function"] == name).count();
    assert_eq!((named("cuLaunchKernel"), named("cuLaunchKernelEx")), (12, 5));
    let times: Vec<_> = events.iter().filter(|event| event["kind"] == "gpu-time").collect();
    assert_eq!(times.len(), 11);
    let bare = |event: &&serde_json::Value| {
        event.get("function").is_none() && event.get("kernel_name").is_some()
    };
    assert!(times.iter().all(bare), "{times:?}");
}

#[test]
fn csv_has_a_heading_and_as_many_fields_in_every_line() {
    let (_apex, file) = exported("csv");
    let lines = std::fs::read_to_string(file).unwrap();
    let fields: Vec<usize> = lines.split_terminator("\r\n").map(|l| l.split(',').count()).collect();
    assert_eq!(fields.len(), 39);
    assert!(fields.iter().all(|&count| count == fields[0]), "{fields:?}");
    assert!(lines.starts_with("time_ns,host_ns,process,pid,tid,function,kind,"));
}

#[test]
fn json_is_one_document_with_every_event() {
    let (_apex, file) = exported("json");
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["summary"]["launches"], 15);
    assert_eq!(document["session"]["exit"]["code"], 0);
    let events = document["events"].as_array().unwrap();
    assert_eq!(events.len(), 38);
    assert_eq!(events.iter().filter(|event| event["kind"] == "launch").count(), 17);
}

#[test]
fn a_damaged_segment_is_named_and_the_rest_is_written() {
    let (apex, _) = exported("json");
    let session = std::fs::read_dir(apex.path("state")).unwrap();
    let session = session.filter_map(Result::ok).find(|entry| entry.path().is_dir()).unwrap();
    let first = session.path().join("events-00001.parquet");
    std::fs::copy(&first, session.path().join("events-00002.parquet")).unwrap();
    std::fs::write(&first, "rubbish").unwrap();
    let output = apex.output(&["export", "--format", "ndjson"]);
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).lines().count(), 38);
    assert!(text(&output.stderr).contains("events-00001.parquet is damaged"));
}
