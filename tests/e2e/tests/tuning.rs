//! `apex tune` on the software GPU: what is safe and faster is kept, what is not proven is not tried, what changes a
//! result is dropped; and what was kept is applied by `apex run`.
//!
//! Registers cost the software GPU nothing, so a limit of them never wins there: that it is tried, verified and
//! passed to the driver's compiler is what can be seen.

use apex_core::outputs;
use apex_e2e::{Place, linked};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Times that are the same in every run; compiled kernels do not count their instructions.
fn place() -> Place {
    Place::new().with("APEX_SOFTGPU_CLOCK", "virtual").with("APEX_SOFTGPU_JIT", "0")
}

fn tune(place: &Place, tier: &str, rounds: &str) -> (Value, PathBuf) {
    tune_program("odd_blocks", place, tier, rounds)
}

fn tune_program(program: &str, place: &Place, tier: &str, rounds: &str) -> (Value, PathBuf) {
    let file = place.root().join("tuning.json");
    let path = file.to_string_lossy().into_owned();
    let program = linked(program).to_string_lossy().into_owned();
    let ended = place
        .apex(&["tune", "-o", &path, "--only", tier, "--rounds", rounds, "--json", "--", &program]);
    ended.check_success();
    let told: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let written = std::fs::read_to_string(&file).expect("the file was written");
    assert_eq!(told, serde_json::from_str::<Value>(&written).expect("JSON"));
    (told, file)
}

fn block<'a>(told: &'a Value, kernel: &str) -> Option<&'a Value> {
    let kernels = told["kernels"].as_array()?;
    kernels.iter().find(|one| one["kernel"] == kernel).map(|one| &one["block"])
}

#[test]
fn proven_kernels_get_whole_warps_and_others_keep_their_block() {
    let place = place();
    let (told, file) = tune(&place, "block", "1");
    for kernel in ["index", "stride"] {
        let block = block(&told, kernel).unwrap_or_else(|| panic!("{told:#}"));
        assert_eq!(block["from"][0], 33, "{told:#}");
        assert_eq!(block["to"][0].as_u64().unwrap_or(1) % 32, 0, "{told:#}");
    }
    assert!(told["gain"].as_f64().is_some_and(|gain| gain > 1.05), "{told:#}");
    assert!(told["verified"]["copies"] == 5 && told["verified"]["standard_output"] == true);
    let refused = |kernel: &str| {
        let list = told["refused"].as_array().expect("a list");
        let found = list.iter().find(|one| one["kernel"] == kernel);
        found.and_then(|one| one["reason"].as_str()).unwrap_or_default().to_owned()
    };
    assert!(refused("sharing").contains("shared memory"), "{told:#}");
    assert!(refused("place").contains("%tid.x is used beside the index"), "{told:#}");
    assert!(refused("demanding").contains(".reqntid"), "{told:#}");

    let program = linked("odd_blocks");
    let plain = place.plain(&program, &[]);
    let path = file.to_string_lossy().into_owned();
    let watched = place.watch_with(&["--tuning", &path], &program, &[]);
    watched.ended.check_success();
    assert_eq!(plain.stdout, watched.ended.stdout);
    assert_eq!(watched.ended.stdout, "0 of 84480 values are wrong\n");
    let threads = |kernel: &str| -> Vec<(u32, u32)> {
        let events = watched.events();
        let of = events
            .iter()
            .filter(|line| line.kind == "launch" && line.kernel_name.as_deref() == Some(kernel));
        of.map(|line| (line.grid_x, line.block_x)).collect()
    };
    assert!(
        threads("index").iter().all(|(grid, block)| grid * block == 33 * 512 && block % 32 == 0)
    );
    assert!(
        threads("stride").iter().all(|(grid, block)| grid * block == 33 * 128 && block % 32 == 0)
    );
    assert!(threads("place").iter().all(|(_, block)| *block == 33));
    assert_eq!(threads("index").len(), 6);

    // Another device, other code: ignored, and said.
    let other = std::fs::read_to_string(&file).expect("it is there").replace("(H200)", "(A100)");
    let path = place.root().join("other.json");
    std::fs::write(&path, other).expect("a file can be written");
    let watched = place.watch_with(&["--tuning", &path.to_string_lossy()], &program, &[]);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, plain.stdout);
    assert!(watched.ended.stderr.contains("for another device"), "{}", watched.ended.stderr);
    assert!(watched.events().iter().all(|line| line.kind != "launch" || line.block_x == 33));
    let ended = place.apex(&["run", "--tuning", "/dev/null", "--", "true"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
}

#[test]
fn a_change_that_changes_a_result_is_dropped() {
    let place = place().with("APEX_FAULT", "short-grid");
    let (told, _) = tune(&place, "block", "1");
    // A loop over the grid comes to the same with a block less; an index does not.
    assert!(block(&told, "index").is_none(), "{told:#}");
    let tried = told["tried"].as_array().expect("a list");
    let index = tried.iter().find(|one| one["kernel"] == "index");
    let outcome = index.and_then(|one| one["outcome"].as_str());
    assert_eq!(outcome, Some("the program computes something else"), "{told:#}");
    let stride = tried.iter().find(|one| one["kernel"] == "stride").expect("it was tried too");
    assert_ne!(stride["outcome"], "the program computes something else", "{told:#}");
}

#[test]
fn hints_are_applied_and_none_is_kept_that_does_nothing() {
    let place = place();
    let (told, _) = tune(&place, "hint", "1");
    assert_eq!(told["kernels"].as_array().map(Vec::len), Some(0), "{told:#}");
    let tried = told["tried"].as_array().expect("a list");
    assert!(tried.iter().any(|one| one["change"] == "carve-out 0 %"), "{told:#}");
    assert!(tried.iter().all(|one| one["outcome"] != "faster"), "{told:#}");
}

#[test]
fn limits_of_registers_are_tried_and_verified_and_none_is_kept_that_gains_nothing() {
    let (told, _) = tune_program("many_registers", &place(), "compile", "2");
    let tried = told["tried"].as_array().expect("a list");
    assert!(!tried.is_empty(), "{told:#}");
    for one in tried {
        let change = one["change"].as_str().unwrap_or_default();
        assert!(change.starts_with("at most ") && change.ends_with(" registers"), "{told:#}");
        assert_eq!(one["outcome"], "no difference beyond noise", "{told:#}");
    }
    // Each was run twice, and what came out compared each time.
    let runs = told["verified"]["runs"].as_u64().expect("a number");
    assert!(runs >= 2 * tried.len() as u64, "{told:#}");
    assert_eq!(told["verified"]["copies"], 1, "{told:#}");
    assert_eq!(told["kernels"].as_array().map(Vec::len), Some(0), "{told:#}");
}

#[test]
fn a_limit_of_registers_that_was_kept_is_passed_to_the_compiler() {
    let place = place();
    let folder = place.root().join("outputs");
    let place = place.with("APEX_OUTPUTS", &folder);
    let program = linked("many_registers");
    let plain = place.watch(&program, &[]);
    plain.ended.check_success();
    let known = plain.known();
    let mut kernels = known.processes.iter().flat_map(|process| process.kernels.values());
    let kernel = kernels.find(|kernel| kernel.name == "crowded").expect("it ran");
    let device = &plain.summary().devices[0].name;
    let write = |file: &str, image: u64| {
        let kept = json!({
            "schema": 1, "apex": "", "device": device, "driver": "", "command": [], "gain": null,
            "verified": {"runs": 0, "copies": 0, "bytes": 0, "standard_output": true},
            "kernels": [{"kernel": "crowded", "image": format!("{image:016x}"), "max_registers": 40}],
        });
        let path = place.root().join(file);
        std::fs::write(&path, kept.to_string()).expect("a file can be written");
        path.to_string_lossy().into_owned()
    };
    let compiled = |tuning: &str| {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let watched = place.watch_with(&["--tuning", tuning], &program, &[]);
        watched.ended.check_success();
        // The results, and what the driver wrote to the program's own option.
        assert_eq!(watched.ended.stdout, plain.ended.stdout);
        outputs::read_all(&folder).expect("numbers of the run")
    };
    let limited = compiled(&write("kept.json", kernel.image_hash));
    assert_eq!((limited.compiled, limited.refused), (1, 0));
    let other = compiled(&write("other.json", kernel.image_hash ^ 1));
    assert_eq!((other.compiled, other.refused), (0, 0), "other code is compiled as it is");
}
