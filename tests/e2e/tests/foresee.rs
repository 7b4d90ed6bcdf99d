//! Allocations of recorded programs are kept, learned from and foreseen by every method.

use apex_e2e::{Place, linked};

#[test]
fn methods_are_judged_on_recorded_programs() {
    let place = Place::new();
    let traces = place.root().join("allocations.csv");
    let traces = traces.to_str().expect("a path of ours is text");
    let mut words = vec!["train", "foresee", "--traces", traces, "--epochs", "2", "--json"];
    let program = linked("allocating");
    let programs = ["solver_cg", "thrust_loop", "video"];
    let sessions = programs.map(|name| {
        let watched = place.watch(&program, &[name]);
        watched.ended.check_success();
        watched.session.to_str().expect("a path of ours is text").to_owned()
    });
    words.extend(sessions.iter().map(String::as_str));
    let said = place.apex(&words);
    let report: serde_json::Value =
        serde_json::from_str(&said.check_success().stdout).expect("a JSON document");
    let own_name = program.file_name().expect("a file").to_string_lossy();
    assert_eq!(report["unseen"], serde_json::json!([format!("{own_name} solver_cg")]));
    // Four vectors and five small blocks, sixty times.
    assert_eq!(report["allocations"], 540);
    let rows = report["rows"].as_array().expect("a row for each method");
    let share = |row: usize, name: &str| rows[row][name].as_f64().expect("a share");
    assert_eq!(rows.len(), 5);
    // The pool alone asks the driver for five blocks; what comes next is among eight classes once a period was there.
    assert!((share(0, "driver_calls_left") - 5.0 / 540.0).abs() < 1e-9, "{rows:?}");
    assert!(share(1, "hit_at_8") > 0.9, "{rows:?}");
}
