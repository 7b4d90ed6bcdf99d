//! When a gate once let launches go, with fences and without: the same programs go at the same moments.
//!
//! `moments.txt` was made with the simulator, which runs the gate's own state machines. Nothing in these programs is
//! random, and every number is made by additions and products, so each machine comes to the same nanosecond. Where a
//! change of the gate is meant, the file is made anew: `cargo test -p apex-policy --test moments -- --ignored`.
#![expect(clippy::disallowed_methods, reason = "a test, which keeps what it recorded in a file")]

use apex_policy::schedule::simulate::{Gate, Kernel, Machine, Prediction, Program, Step, simulate};
use apex_policy::schedule::{Bottleneck, Class, policy};
use std::fmt::Write as _;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/moments.txt");
const LENGTH_NS: u64 = 200_000_000;

/// So many launches of one kernel, each after so much time on the processor.
fn launches(count: usize, host_ns: u64, nanos: u64, block_ns: u64) -> impl Iterator<Item = Step> {
    let kernel = Kernel { nanos, block_ns, sms: 132, bottleneck: Bottleneck::Compute };
    (0..count).flat_map(move |_| [Step::Host(host_ns), Step::Launch(vec![kernel])])
}

/// A program that answers requests, some of them out of a queue, and one that trains.
fn programs() -> [Program; 2] {
    let program = |name: &str, class, arrivals, steps: Vec<Step>| Program {
        name: name.into(),
        class,
        share: 1.0,
        sla: None,
        arrivals,
        passes: vec![steps],
    };
    let mut request = vec![Step::Input];
    request.extend(launches(12, 20_000, 70_000, 20_000));
    request.push(Step::Wait);
    // In threes: the second and third come while the one before is answered.
    let arrivals = (0..60).map(|nth: u64| nth / 3 * 11_000_000 + nth % 3 * 400_000).collect();
    let round = launches(40, 5_000, 90_000, 15_000).chain(launches(1, 5_000, 3_000_000, 3_000_000));
    [
        program("serving", Class::Latency, Some(arrivals), request),
        program("training", Class::Batch, None, round.collect()),
    ]
}

/// A line for each request and round: when it came, began and ended.
fn moments() -> String {
    let mut text = String::new();
    for fences in [true, false] {
        let machine = Machine { prediction: Prediction::Exact, fences, ..Machine::default() };
        let adaptive = Gate::Policy(policy("adaptive").expect("there is one"));
        let outcome = simulate(&machine, &programs(), adaptive, LENGTH_NS);
        for program in &outcome.programs {
            let longest_ns = program.longest_wait_ns;
            let _ = writeln!(text, "{} fences {fences} longest wait {longest_ns}", program.name);
            for (arrived, begun, ended) in &program.passes {
                let _ = writeln!(text, "{arrived} {begun} {ended}");
            }
        }
    }
    text
}

#[test]
#[ignore = "makes the file anew"]
fn record() {
    std::fs::write(FILE, moments()).expect("the file is written");
}

#[test]
fn the_same_programs_go_at_the_same_moments() {
    let kept = std::fs::read_to_string(FILE).expect("the file is there");
    let now = moments();
    for (nth, (now, kept)) in now.lines().zip(kept.lines()).enumerate() {
        assert_eq!(now, kept, "line {}", nth + 1);
    }
    assert_eq!(now.lines().count(), kept.lines().count());
    // The file says something: each way held the training.
    let waits =
        kept.lines().filter_map(|line| line.rsplit_once("training fences ").map(|rest| rest.1));
    for wait in waits {
        let nanos: u64 = wait.rsplit(' ').next().and_then(|ns| ns.parse().ok()).expect("a number");
        assert!(nanos > 500_000, "{wait}");
    }
}
