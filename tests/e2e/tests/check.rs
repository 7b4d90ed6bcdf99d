//! `apex check` tells a slower program from one that is not, with the exit code that scripts go by.
//!
//! Times are those of the virtual clock, and each launch that is due is timed: the answers do not depend on what else
//! the machine does.

use apex_e2e::{Place, Watched, linked};

fn run(place: &Place, state: &str) -> Watched {
    let watched = place.watch(&linked("changed_kernel"), &[state]);
    watched.ended.check_success();
    watched
}

fn check(place: &Place, baseline: &Watched, session: &Watched) -> (Option<i32>, serde_json::Value) {
    let [baseline, session] = [baseline, session]
        .map(|watched| watched.session.to_str().expect("a path of ours is text"));
    let ended = place.apex(&["check", "--json", "--baseline", baseline, session]);
    let document = serde_json::from_str(&ended.check_no_panic().stdout);
    (ended.code, document.unwrap_or_else(|error| panic!("{error}: {}", ended.stderr)))
}

/// The kernel's line.
fn of_kernel(document: &serde_json::Value) -> &serde_json::Value {
    let mut compared = document["compared"].as_array().expect("a list").iter();
    compared.find(|one| one["kernel"] == "work").unwrap_or_else(|| panic!("{document:#}"))
}

#[test]
fn a_slower_kernel_is_found_with_its_cause() {
    // Compiled kernels do not count their instructions.
    let place = Place::new().with("APEX_SOFTGPU_CLOCK", "virtual").with("APEX_SOFTGPU_JIT", "0");
    let place = place.with("APEX_SAMPLING_PERCENT", "100");
    let base = run(&place, "base");
    let (code, document) = check(&place, &base, &base);
    assert_eq!((code, &document["verdict"]), (Some(0), &"fine".into()), "{document:#}");

    let (code, document) = check(&place, &base, &run(&place, "code"));
    let found = of_kernel(&document);
    assert_eq!((code, &found["verdict"]), (Some(1), &"regression".into()), "{document:#}");
    assert_eq!(found["likely_cause"], "changed code");
    assert!(found["slower"].as_f64().is_some_and(|slower| slower > 0.5), "{found:#}");
    assert!(found["confidence"].as_f64().is_some_and(|confidence| confidence > 0.95));

    let (code, document) = check(&place, &base, &run(&place, "shape"));
    assert_eq!(code, Some(1), "{document:#}");
    assert_eq!(of_kernel(&document)["likely_cause"], "changed configuration");

    let short = run(&place, "short");
    let (code, document) = check(&place, &base, &short);
    assert_eq!((code, &document["verdict"]), (Some(3), &"inconclusive".into()), "{document:#}");

    let text = place.apex(&["check", "--baseline", base.session.to_str().unwrap_or_default()]);
    assert_eq!(text.code, Some(3), "the latest session is the short one: {}", text.stdout);
    assert!(text.stdout.starts_with("inconclusive: "), "{}", text.stdout);
}

#[test]
fn a_program_that_sleeps_is_slower_on_the_host() {
    let place = Place::new().with("APEX_SOFTGPU_CLOCK", "virtual").with("APEX_SOFTGPU_JIT", "0");
    let place = place.with("APEX_SAMPLING_PERCENT", "100");
    let (base, sleeps) = (run(&place, "base"), run(&place, "sleeps"));
    let (code, document) = check(&place, &base, &sleeps);
    assert_eq!((code, &document["verdict"]), (Some(1), &"regression".into()), "{document:#}");
    let mut compared = document["compared"].as_array().expect("a list").iter();
    let wall = compared.find(|one| one["subject"] == "wall-time").expect("it is compared");
    assert_eq!((&wall["verdict"], &wall["likely_cause"]), (&"regression".into(), &"host".into()));
    assert_eq!(of_kernel(&document)["verdict"], "fine", "{document:#}");

    let paths = [&base, &sleeps].map(|watched| watched.session.to_str().expect("text"));
    let text = place.apex(&["diff", paths[0], paths[1]]).check_success().stdout.clone();
    let first = text.lines().next().expect("an answer");
    assert!(first.contains("most of it on the host: +") && !first.contains("work"), "{text}");
}

#[test]
fn what_cannot_be_checked_is_not_called_slower() {
    let place = Place::new();
    let missing = place.apex(&["check", "--baseline", "nowhere"]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(missing.stderr.contains("nowhere"), "{}", missing.stderr);
}
