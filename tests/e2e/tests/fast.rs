//! `apex run --fast`: what its report says, and that it says so of programs that end badly.

use apex_daemon::summary::{FastSummary, SpecialisedSummary};
use apex_e2e::{Place, Watched, linked};
use std::time::{Duration, Instant};

fn fast(watched: &Watched) -> FastSummary {
    watched.ended.check_no_panic();
    watched.summary().fast.expect("the report says what was done")
}

fn direct(fast: &FastSummary) -> u64 {
    fast.direct.iter().map(|direct| direct.launches).sum()
}

/// A queue needs a second processor.
fn has_room() -> bool {
    std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1)
}

#[test]
fn every_launch_was_queued_or_went_directly_for_a_reason() {
    let place = Place::new();
    let watched = place.watch_with(&["--fast"], &linked("bursts"), &["20", "400", "0"]);
    watched.check_expected();
    let fast = fast(&watched);
    assert_eq!(
        (fast.words.as_str(), fast.has_queue, fast.failed),
        ("launch,memory", has_room(), 0)
    );
    if !has_room() {
        return;
    }
    assert_eq!(fast.queued + direct(&fast), 20 * 400, "{fast:?}");
    // How many wait depends on what the machine's processors do beside this.
    assert!(fast.in_graphs <= fast.queued, "{fast:?}");
    assert!(fast.changed_nodes <= fast.in_graphs && fast.graph_launches <= fast.in_graphs);
    let plain = place.plain(&linked("bursts"), &["20", "400", "0"]);
    assert_eq!(plain.stdout, watched.ended.stdout);
    let said = &watched.ended.stderr;
    assert!(said.contains("  fast: ") && said.contains(" launches queued"), "{said}");
}

#[test]
fn the_same_figures_come_out_of_report_and_export() {
    let place = Place::new();
    let watched = place.watch_with(&["--fast"], &linked("bursts"), &["3", "300", "0"]);
    let told = fast(&watched);
    let session = watched.session.to_str().unwrap().to_owned();
    let document = |arguments: &[&str]| -> serde_json::Value {
        let ended = place.apex(arguments);
        ended.check_success();
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let told = serde_json::to_value(&told).unwrap();
    assert_eq!(document(&["report", "--json", &session])["fast"], told);
    let export = document(&["export", "--format", "json", &session]);
    assert_eq!((&export["summary"]["fast"], &export["session"]["fast"]), (&told, &told));
    // Made anew from the events it is the same.
    std::fs::remove_file(watched.session.join("summary.json")).unwrap();
    assert_eq!(document(&["report", "--json", &session])["fast"], told);
}

#[test]
fn a_killed_program_has_left_its_counts() {
    let place = Place::new();
    let watched = place.watch_with(&["--fast"], &linked("killed"), &[]);
    assert_eq!(watched.ended.signal, Some(9));
    let fast = fast(&watched);
    let counted = if has_room() { 5000 } else { 0 };
    assert_eq!(fast.queued + direct(&fast), counted, "{fast:?}");
}

#[test]
fn a_child_counts_for_itself() {
    let place = Place::new();
    let watched = place.watch_with(&["--fast"], &linked("fork_child"), &[]);
    watched.check_expected();
    let fast = fast(&watched);
    let launches = watched.events().iter().filter(|line| line.kind == "launch").count() as u64;
    if has_room() {
        assert_eq!(fast.queued + direct(&fast), launches, "{fast:?}");
    }
}

#[test]
fn freed_memory_is_handed_out_again_and_nothing_else_changes() {
    let place = Place::new().with("APEX_SOFTGPU_MEMORY", "256M");
    let plain = place.plain(&linked("reused_memory"), &[]);
    plain.check_success();
    for words in ["--fast=memory", "--fast", "--fast=memory,strict"] {
        let watched = place.watch_with(&[words], &linked("reused_memory"), &[]);
        watched.ended.check_success();
        assert_eq!(watched.ended.stdout, plain.stdout, "{words}");
        let pool = fast(&watched).pool.expect("the pool was switched on");
        // One block on one stream, and three on two streams, are allocated 500 times each.
        assert!(pool.served >= 1_990 && pool.asked <= 20, "{words}: {pool:?}");
        assert!(pool.given_back >= 8, "{words}: {pool:?}");
        assert_eq!(pool.stream_waits > 0, words != "--fast=memory,strict", "{words}: {pool:?}");
    }
}

#[test]
fn a_kernel_that_is_called_the_same_way_is_compiled_again() {
    for form in ["module", "library"] {
        let place = Place::new();
        let plain = place.plain(&linked("same_calls"), &[form]);
        plain.check_success();
        for words in ["--fast=specialise", "--fast=launch,memory,specialise"] {
            // Nothing is known from earlier runs.
            let place = Place::new();
            let watched = place.watch_with(&[words], &linked("same_calls"), &[form]);
            watched.ended.check_success();
            assert_eq!(watched.ended.stdout, plain.stdout, "{form} {words}");
            let found = fast(&watched).specialised.expect("it was switched on");
            // The program goes on until both forms were timed and one has won.
            assert!(found.tried >= 1 && found.launches >= 1, "{form} {words}: {found:?}");
            assert!(found.won + found.lost >= 1, "{form} {words}: {found:?}");
            let told = |outcome| found.kernels.iter().filter(move |it| it.outcome == outcome);
            assert_eq!(told("refused").count(), 0, "{form} {words}: {found:?}");
            let left: Vec<&str> = told("left").map(|it| it.kernel.as_str()).collect();
            assert_eq!(left, ["clock"], "{form} {words}: {found:?}");
            // The number that is never the same is not written into it, and pointers are not.
            let written = |kernel: &str| match kernel {
                "work" => "block 64x1x1, grid 4x1x1, 1=0x100, 2=0x3c, 3=0x0",
                // Its bits were compared.
                "mixed" => "block 64x1x1, grid 4x1x1, 2=0x100, 3=0x14",
                _ => "block 64x1x1, grid 4x1x1, 1=0x100",
            };
            let ended: Vec<_> = told("won").chain(told("lost")).collect();
            assert!(ended.iter().any(|it| it.kernel == "mixed"), "{form} {words}: {found:?}");
            for kernel in ended {
                assert_eq!(kernel.what, written(&kernel.kernel), "{form} {words}");
            }
            assert!(watched.ended.stderr.contains("compiled again for what they are called with"));
            knows_from_earlier(&place, words, form, &found);
        }
    }
}

/// A second run in the same place begins with the winners, and does not try again what has lost.
fn knows_from_earlier(place: &Place, words: &str, form: &str, first: &SpecialisedSummary) {
    let winners = first.kernels.iter().filter(|it| it.outcome == "won");
    let winners: Vec<&str> = winners.map(|it| it.kernel.as_str()).collect();
    let awaited = winners.join(",");
    let watched = place.watch_with(&[words], &linked("same_calls"), &[form, &awaited]);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, "right\n");
    let found = fast(&watched).specialised.expect("it was switched on");
    for kernel in ["work", "mixed"] {
        let outcome = |summary: &SpecialisedSummary| {
            let one = summary.kernels.iter().find(|it| it.kernel == kernel);
            one.map(|it| it.outcome.clone())
        };
        match winners.contains(&kernel) {
            // It may be looked at again meanwhile, and lose.
            true => assert!(outcome(&found).is_some(), "{kernel} {words}: {found:?}"),
            false => assert_eq!(outcome(&found), None, "{kernel} {words}: {first:?} {found:?}"),
        }
    }
}

#[test]
fn strict_waits_for_each_answer() {
    let place = Place::new();
    let watched = place.watch_with(&["--fast=strict"], &linked("bursts"), &["2", "50", "0"]);
    watched.check_expected();
    let fast = fast(&watched);
    assert_eq!(
        (fast.words.as_str(), fast.has_queue, fast.queued),
        ("launch,memory,strict", false, 0)
    );
    assert!(
        watched.ended.stderr.contains("strict, so each call waited"),
        "{}",
        watched.ended.stderr
    );
}

#[test]
fn without_it_nothing_is_said_of_it() {
    let place = Place::new().with("APEX_FAST", "launch");
    let watched = place.watch_with(&["--fast=none"], &linked("bursts"), &["2", "50", "0"]);
    assert_eq!(watched.summary().fast, None);
    assert!(!watched.ended.stderr.contains("fast:"), "{}", watched.ended.stderr);
    let by_environment = place.watch(&linked("bursts"), &["2", "50", "0"]);
    assert_eq!(fast(&by_environment).words, "launch");
}

#[test]
fn a_wrong_word_is_answered_with_those_there_are() {
    let place = Place::new();
    let ended = place.apex(&["run", "--fast=lunch", "--", "true"]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("'lunch'")
            && ended.stderr.contains("launch, memory, specialise, overlap, strict"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_session_without_graphs_of_launches_is_not_drawn() {
    let place = Place::new();
    let watched = place.watch_with(&["--fast=launch,overlap"], &linked("bursts"), &["1", "5", "0"]);
    watched.check_expected();
    let found = fast(&watched).overlap.expect("it was switched on");
    assert_eq!((found.looked, found.sequences.len()), (0, 0));
    let ended = place.apex(&["graph", watched.session.to_str().unwrap()]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("--fast=launch,overlap"), "{}", ended.stderr);
}

#[test]
fn launches_that_became_a_graph_are_drawn() {
    let place = Place::new();
    let ways = ["--fast=launch,overlap"];
    // How many launches wait depends on what the machine's processors do beside this.
    let begun = Instant::now();
    let (found, session) = loop {
        let watched = place.watch_with(&ways, &linked("bursts"), &["40", "400", "0"]);
        watched.check_expected();
        let found = fast(&watched).overlap.expect("it was switched on");
        let path = watched.session.to_str().unwrap().to_owned();
        if !found.sequences.is_empty() {
            break (found, path);
        }
        assert!(begun.elapsed() < Duration::from_secs(240), "no launches became a graph");
    };
    assert!(found.sequences.iter().all(|it| it.launches.len() >= 2 && !it.kernels.is_empty()));
    let picture = |format: &str| {
        let ended = place.apex(&["graph", "--format", format, &session]);
        ended.check_success();
        ended.stdout
    };
    assert!(picture("svg").starts_with("<svg"));
    assert!(picture("dot").starts_with("digraph"));
    let trace: serde_json::Value = serde_json::from_str(&picture("perfetto")).unwrap();
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 4));
}

#[test]
fn measured_costs_reach_the_queue() {
    let place = Place::new();
    let ended =
        place.apex(&["bench", "launch", "--calibrate", "--quick", "--device", "soft", "--json"]);
    ended.check_success();
    let measured: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let watched = place.watch_with(&["--fast"], &linked("bursts"), &["2", "50", "0"]);
    if !has_room() {
        return;
    }
    let costs = fast(&watched).costs.expect("the program said what it believes");
    assert!(costs.measured_here);
    assert_eq!(measured["rows"][0]["launch_ns"], costs.launch_ns);
    assert_eq!(measured["rows"][0]["build_ns"], costs.build_ns);
}
