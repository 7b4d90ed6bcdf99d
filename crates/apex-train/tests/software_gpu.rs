//! The whole way on the software GPU: collect, train, predict, replace a model under load, refuse broken ones.
//!
//! The times are those of a CPU, so nothing is asked of how near predictions come; everything else is as on a GPU.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apex_exec::{Device, Executor};
use apex_models::Model as _;
use apex_policy::predict::features::list_hash;
use apex_policy::predict::trees::Trees;
use apex_train::ask::{Asked, answer};
use apex_train::collect::{Plan, collect};
use apex_train::fit::{Fitted, Options, fit};
use apex_train::matmul::Threads;
use apex_train::models;
use apex_train::reload::{FollowedModel, Looked};
use apex_train::rows::{self, Row};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

const POINTS: usize = 300;

fn collected(folder: &Path) -> Vec<Row> {
    let executor = Executor::new(Device::Soft(0)).expect("the software GPU");
    let path = folder.join("rows.parquet");
    let plan = Plan { runs: 3, repeat_runs: 1, ..Plan::of(POINTS) };
    let first = collect(&executor, &plan, &path, &mut |_| {}).unwrap();
    assert!(first.rows.len() + first.failed == POINTS, "{} rows", first.rows.len());
    assert!(first.failed <= POINTS / 20, "{:?}", first.complaints);
    // A collection that goes on measures nothing twice.
    let again = collect(&executor, &Plan { resume: true, ..plan }, &path, &mut |_| {}).unwrap();
    assert_eq!(again.rows, first.rows);
    assert_eq!(rows::read(&path).unwrap(), first.rows);
    first.rows
}

fn trained(rows: &[Row], seed: u64) -> Fitted {
    let options = Options {
        threads: Threads::one(),
        trees: 30,
        small_epochs: 10,
        large_epochs: 1,
        likeness_steps: 10,
        ..Options::quick(seed)
    };
    fit(rows, &options, &mut |_| {}).unwrap()
}

/// Puts a file in place as a trainer does, with a moment of its own.
fn place(path: &Path, bytes: &[u8], nth: u64) {
    let part = path.with_extension("part");
    fs::write(&part, bytes).unwrap();
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + nth);
    fs::File::options().write(true).open(&part).unwrap().set_modified(moment).unwrap();
    fs::rename(&part, path).unwrap();
}

#[test]
fn from_measuring_to_replacing_models_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let rows = collected(folder.path());
    let (first, second) = (trained(&rows, 1), trained(&rows, 2));
    assert!(!first.report.held_out_kernels.is_empty());
    let (asked, equal) = first.report.occupancy_equal;
    assert!(asked > 0 && asked == equal, "occupancy equals the driver's on {equal} of {asked}");

    models::write(folder.path(), &first, 7).unwrap();
    let loaded = models::load(folder.path()).unwrap();
    let launches: Vec<Asked> = rows.iter().take(40).map(Asked::from_row).collect();
    for answer in answer(&loaded, &launches).unwrap() {
        assert!(answer.refused.is_none(), "{answer:?}");
        assert!(answer.time_ns.is_some_and(|time| time.is_finite() && time > 0.0), "{answer:?}");
        assert!(answer.low_ns <= answer.time_ns && answer.time_ns <= answer.high_ns, "{answer:?}");
    }
    // The same launch again is answered with what was measured.
    let twice = [launches[0].clone(), launches[0].clone()];
    assert_eq!(answer(&loaded, &twice).unwrap()[1].basis, "measured");

    replaced_under_load(folder.path(), &first, &second);
    broken_files_are_refused(folder.path(), &first);
}

fn replaced_under_load(folder: &Path, first: &Fitted, second: &Fitted) {
    let path = folder.join("watched.safetensors");
    let files = [first, second].map(|fitted| fitted.trees.write(&first.golden, &[]));
    let features = first.golden[0];
    let said = |trees: &Trees| trees.outputs(&features);
    let answers = [said(&first.trees), said(&second.trees)];
    assert_ne!(answers[0], answers[1]);
    place(&path, &files[0], 0);
    // Without a check set no model is worse than another.
    let mut watched = FollowedModel::<Trees>::open(&path, Default::default()).unwrap();
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut reader = watched.reader();
                let (done, reads, answers) = (&done, &reads, &answers);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let found = said(reader.get());
                        assert!(answers.contains(&found), "a torn model answers {found:?}");
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        // On a busy machine it may take a while until the readers have a processor at all.
        let begun = Instant::now();
        let mut nth = 0;
        while nth < 40 || reads.load(Ordering::Relaxed) < 100 && begun.elapsed().as_secs() < 240 {
            nth += 1;
            place(&path, &files[nth % 2], nth as u64);
            assert!(matches!(watched.look(), Looked::Replaced));
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        let reads = reads.load(Ordering::Relaxed);
        assert!(reads >= 100, "{reads} reads");
    });
}

fn broken_files_are_refused(folder: &Path, fitted: &Fitted) {
    let path = folder.join("guarded.safetensors");
    let good = fitted.trees.write(&fitted.golden, &[]);
    place(&path, &good, 0);
    let mut watched = FollowedModel::<Trees>::open(&path, fitted.check.clone()).unwrap();
    let features = fitted.golden[0];
    let before = watched.reader().get().over_expected(&features);
    let changed = |from: &str, to: &str| {
        let mut bytes = good.clone();
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes());
        let at = at.unwrap_or_else(|| panic!("{from} is not in the file"));
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 0x40;
    let mut endless = good.clone();
    endless[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    // Far too long for everything. Far too short would be off by a hundred per cent at most, and on a busy machine
    // the rows may be so few and so noisy that the good one is not better.
    let mut worse = fitted.trees.clone();
    worse.caution = worse.caution.map(|caution| caution - 60.0);
    let mut infinite = fitted.trees.clone();
    infinite.widening[0] = f32::INFINITY;
    let hash = format!("{:016x}", list_hash());
    let broken: [(&str, Vec<u8>); 11] = [
        ("empty", Vec::new()),
        ("half", good[..good.len() / 2].to_vec()),
        ("no length", endless),
        ("no JSON", changed("{\"__metadata__\"", "{!__metadata__\"")),
        ("other kind", changed("boosted-trees", "busted-trees!")),
        ("other features", changed(&hash, "0000000000000000")),
        ("a flipped bit", flipped),
        ("a tensor missing", changed("likeness.bends", "likeness.bents")),
        ("another type", changed("F32", "I32")),
        ("not finite", infinite.write(&fitted.golden, &[])),
        ("worse", worse.write(&fitted.golden, &[])),
    ];
    for (nth, (what, bytes)) in (10..).zip(broken) {
        place(&path, &bytes, nth);
        match watched.look() {
            Looked::Refused(error) => assert!(!error.to_string().is_empty()),
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(watched.reader().get().over_expected(&features), before, "{what}");
    }
}
