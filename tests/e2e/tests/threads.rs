//! Many threads at once, and many one after the other.

use apex_core::event::{ObjectKind, What};
use apex_core::ring::Reader;
use apex_e2e::{Place, linked, tools};
use std::collections::BTreeSet;
use std::fs::File;

#[test]
fn two_hundred_threads_are_recorded_or_counted_as_lost() {
    let place = Place::new();
    let program = linked("threads_200");
    let plain = place.plain(&program, &[]);
    let watched = place.watch_with(&["--timing", "off"], &program, &[]);
    watched.ended.check_success();
    assert_eq!(watched.ended.stdout, plain.stdout);
    let summary = watched.summary();
    let all = summary.launches + summary.own.lost;
    let expected = watched.ended.number("launches");
    // What is lost may also be another call of a thread: cuStreamCreate, its birth, its wait.
    assert!(all >= expected && summary.launches <= expected, "{all} of {expected}");
    if summary.own.lost == 0 {
        assert_eq!(summary.launches, expected);
        assert_eq!(summary.threads.len() as u64, watched.ended.number("threads"));
    }
    assert_eq!((summary.own.failures, summary.own.damaged), (0, 0));
}

/// Recorded without `apex run`, so that the rings can be counted.
#[test]
fn rings_of_ended_threads_are_used_again() {
    let place = Place::new();
    let rings = place.rings();
    std::fs::create_dir_all(&rings).unwrap();
    let driver = place.driver();
    let place = place
        .with("LD_PRELOAD", &tools().shim)
        .with("APEX_REAL_LIBCUDA", driver)
        .with("APEX_TIMING", "off")
        .with("APEX_RINGS", &rings);
    let mut running = place.start(&linked("threads_come_and_go"), &[]);
    let file = rings.join(format!("{}-0.ring", running.child.id()));
    let mut reader = None;
    let (mut launches, mut threads, mut used) = (0, BTreeSet::new(), BTreeSet::new());
    loop {
        let ended = running.child.try_wait().unwrap().is_some();
        if reader.is_none() {
            let opened = File::options().read(true).write(true).open(&file).map(Reader::open);
            reader = opened.ok().and_then(Result::ok);
        }
        if let Some(reader) = &mut reader {
            let drained = reader.drain(|ring, event| {
                used.insert(ring);
                match event.what {
                    What::Launch(_) => launches += 1,
                    What::Life(life) if life.object == ObjectKind::Thread => {
                        threads.insert(life.handle);
                    }
                    _ => {}
                }
            });
            drained.unwrap();
        }
        if ended {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let ended = running.wait();
    ended.check_success();
    let counters = reader.expect("the program made its rings").counters().unwrap();
    assert_eq!((counters.lost, counters.damaged), (0, 0));
    assert_eq!(launches, ended.number("launches"));
    assert_eq!(threads.len() as u64, ended.number("threads"));
    assert!(used.len() < 200, "{} rings for {} threads", used.len(), threads.len());
}
