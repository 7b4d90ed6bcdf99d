//! Predictions of a program's launches: in the report, inside the program, of a kept session, and without models.

use apex_e2e::{Place, Watched, linked, until};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn place() -> Place {
    Place::new().with("APEX_SOFTGPU_CLOCK", "virtual").with("APEX_SAMPLING_PERCENT", "100")
}

/// The models that are kept beside the crates.
fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models")
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
    assert!(said.contains("timed launches were predicted within 10 %"), "{said}");

    let session = watched.session.to_string_lossy().into_owned();
    let chart = place.root().join("p.svg");
    let path = chart.to_string_lossy().into_owned();
    let ended = place.apex(&["predict", "--session", &session, "--json", "--chart", &path]);
    ended.check_success();
    let told: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let list = told.as_array().expect("a list");
    assert_eq!(list.len() as u64, predicted.timed + predicted.not_known);
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
fn a_second_run_begins_with_what_the_first_measured() {
    let place = place();
    let by = |place: &Place, source: &str| {
        let watched = place.watch(&linked("odd_blocks"), &[]);
        watched.ended.check_success();
        let predicted = watched.summary().predicted.expect("launches were timed");
        predicted.by.into_iter().find(|by| by.source == source)
    };
    assert_eq!(by(&place, "history").map(|by| by.timed), None);
    // On the virtual clock the second run takes exactly as long.
    let second = by(&place, "history").expect("the kernels were seen before");
    assert!(second.timed > 0 && second.median_error < 0.001, "{second:?}");

    let list = place.apex(&["history", "list", "--json"]);
    list.check_success();
    let told: Value = serde_json::from_str(&list.stdout).expect("JSON");
    assert!(told["kernels"].as_array().is_some_and(|kernels| !kernels.is_empty()), "{told}");
    let elsewhere = place.root().join("kernels.jsonl").to_string_lossy().into_owned();
    place.apex(&["history", "export", "--output", &elsewhere]).check_success();
    assert_ne!(place.apex(&["history", "forget"]).code, Some(0), "all must be said");
    place.apex(&["history", "forget", "--all"]).check_success();
    assert_eq!(by(&place, "history").map(|by| by.timed), None);
    place.apex(&["history", "forget", "--all"]).check_success();
    place.apex(&["history", "import", &elsewhere]).check_success();
    assert!(by(&place, "history").is_some());
    let without = place.with("APEX_HISTORY", "0");
    assert_eq!(by(&without, "history").map(|by| by.timed), None);
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

#[test]
fn a_model_is_replaced_while_a_program_runs_and_a_broken_one_refused() {
    let place = place();
    let folder = place.root().join("models");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for entry in std::fs::read_dir(shipped()).expect("models are kept beside the crates") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a file has a name").to_owned();
        std::fs::copy(&path, folder.join(name)).expect("a model can be copied");
    }
    let place = place.with("APEX_MODELS", &folder);
    let running = place.start_watched(&[], &linked("steady"), &["9000"]);
    until("the program is recorded", || {
        let folders = std::fs::read_dir(place.rings()).into_iter().flatten().flatten();
        folders.into_iter().any(|folder| folder.path().join("order").exists())
    });
    let trees = folder.join("trees.safetensors");
    let good = std::fs::read(&trees).expect("a model can be read");
    std::fs::write(&trees, &good[..good.len() / 2]).expect("a model can be written");
    until("half a file is refused", || running.stderr().contains("the model in use stays"));
    let part = folder.join("part");
    std::fs::write(&part, &good).expect("a model can be written");
    std::fs::rename(&part, &trees).expect("a model can be renamed");
    until("a whole one is used", || {
        running.stderr().contains("a new trees.safetensors is used from here on")
    });
    running.signal("TERM");
    let session = running.session().to_owned();
    let watched = Watched { ended: running.wait(), session };
    let launches = watched.summary().launches;
    assert!(launches > 0 && launches < 9000, "it ran all the while");
    // Its empty kernels may take no time that could be predicted; those of another program do.
    let watched = place.watch(&linked("odd_blocks"), &[]);
    watched.ended.check_success();
    assert!(watched.summary().predicted.is_some_and(|predicted| predicted.with_models));
}

#[test]
fn guesses_inside_a_program_give_way_to_answers_of_the_trees() {
    // Without times nothing is measured: what the program knows are its guesses and what it is answered.
    let place = place().with("APEX_TIMING", "off").with("APEX_MODELS", shipped());
    let watched = place.watch_with(&["--class", "normal"], &linked("steady"), &["3000"]);
    watched.ended.check_success();
    let predicted = watched.summary().predicted.expect("configurations were answered");
    assert_eq!((predicted.timed, predicted.written_back, predicted.taken), (0, 1, 1));
    assert!(predicted.with_models);
    let said = &watched.ended.stderr;
    assert!(
        said.contains("the trees answered 1 configuration, of which the program had guessed 1"),
        "{said}"
    );

    // Who does not ask is not answered.
    let watched = place.watch(&linked("steady"), &["100"]);
    watched.ended.check_success();
    assert!(watched.summary().predicted.is_none());

    // Without trained models there is nothing that the program could not say itself.
    let nowhere = place.root().join("nowhere");
    let place = place.with("APEX_MODELS", &nowhere);
    let watched = place.watch_with(&["--class", "normal"], &linked("steady"), &["100"]);
    watched.ended.check_success();
    assert!(watched.summary().predicted.is_none());
}
