//! Predictions of a program's launches: in the report, inside the program, of a kept session, and without models.

use apex_e2e::{Place, linked};
use serde_json::Value;

fn place() -> Place {
    Place::new().with("APEX_SOFTGPU_CLOCK", "virtual").with("APEX_SAMPLING_PERCENT", "25")
}

#[test]
fn timed_launches_are_predicted_before_they_are_learned() {
    let place = place().with("APEX_PREDICT", "1");
    let watched = place.watch(&linked("odd_blocks"), &[]);
    watched.ended.check_success();
    let predicted = watched.summary().predicted.expect("launches were timed");
    assert!(predicted.timed > 4 && predicted.configurations >= 3, "{predicted:?}");
    // On the virtual clock a repeat takes exactly as long.
    let repeats = predicted.by.iter().find(|by| by.source == "repeat").expect("launches repeat");
    assert!(repeats.timed > 0 && repeats.median_error < 0.001, "{predicted:?}");
    let said = &watched.ended.stderr;
    assert!(said.contains("predicted within"), "{said}");
    assert!(said.contains("timed launches were predicted within 10 %"), "{said}");

    let session = watched.session.to_string_lossy().into_owned();
    let chart = place.root().join("p.svg");
    let path = chart.to_string_lossy().into_owned();
    let ended = place.apex(&["predict", "--session", &session, "--json", "--chart", &path]);
    ended.check_success();
    let told: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let list = told.as_array().expect("a list");
    assert_eq!(list.len() as u64, predicted.timed);
    assert!(
        list.iter().any(|one| one["basis"] == "measured" && one["time_ns"] == one["measured_ns"])
    );
    assert!(list.iter().all(|one| one["occupancy"].as_f64().is_some_and(|o| o > 0.0)));
    assert!(std::fs::read_to_string(&chart).expect("a picture").starts_with("<svg"));
    let ended = place.apex(&["predict", "--session", &session, "--csv"]);
    ended.check_success();
    assert_eq!(ended.stdout.lines().count(), list.len() + 1);
}

#[test]
fn a_broken_folder_of_models_is_named_and_the_program_runs() {
    let place = place();
    let folder = place.root().join("models");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    std::fs::write(folder.join("manifest.json"), "{").expect("a file can be written");
    let place = place.with("APEX_MODELS", &folder);
    let watched = place.watch(&linked("odd_blocks"), &[]);
    watched.ended.check_success();
    let said = &watched.ended.stderr;
    assert!(
        said.contains("no trained models are used") && said.contains("manifest.json"),
        "{said}"
    );
    assert!(watched.summary().predicted.is_some_and(|predicted| !predicted.with_models));
}
