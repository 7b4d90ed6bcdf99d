//! What the default policy was asked once, and what it answered then: the same questions get the same answers.
//!
//! `decisions.txt` was made with the simulator. Where a change of the policy is meant, the file is made anew:
//! `cargo test -p apex-policy --test decisions -- --ignored`.
#![expect(clippy::disallowed_methods, reason = "a test, which keeps what it recorded in a file")]

use apex_policy::schedule::simulate::{Gate, Machine, Program, Random, Synthetic, simulate};
use apex_policy::schedule::{
    Bottleneck, Burst, Class, DEFAULT_POLICY, Device, Limits, Observed, Policy, Settings, policy,
};
use std::fmt::Write as _;
use std::sync::mpsc::{Sender, channel};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/decisions.txt");
const LENGTH_NS: u64 = 300_000_000;

/// Whole numbers in a line.
fn numbers(line: &str) -> Vec<u64> {
    line.split(' ').skip(1).map(|word| word.parse().expect("a whole number")).collect()
}

/// A question's program: one line, and one for each of its bursts.
fn asked(program: &Observed<'_>) -> String {
    let sla = program.sla.map_or((0, 0), |sla| ((sla.quantile * 1e6).round() as u64, sla.limit_ns));
    let flags = [program.waiting, program.exclusive].map(u64::from);
    let numbers = [
        program.slot.into(),
        program.class as u64,
        (program.share * 1e3) as u64,
        sla.0,
        sla.1,
        program.open_since_ns.map_or(0, |since| since + 1),
        program.in_flight_ns,
        program.admitted_ns,
        program.waited_ns,
        flags[0],
        flags[1],
    ];
    let mut text = line("program", &numbers);
    for burst in program.bursts {
        let launches = burst.launches.into();
        text += &line("burst", &[burst.start_ns, burst.end_ns, launches, burst.work_ns]);
    }
    text
}

fn answered(limits: &Limits) -> String {
    let open = u64::from(limits.open);
    let Limits { yields_to, budget_ns, guard_ns, allowed_ns, owed_ns, patience_ns, .. } = *limits;
    line("limits", &[open, yields_to, budget_ns, guard_ns, allowed_ns, owed_ns, patience_ns])
}

fn line(word: &str, numbers: &[u64]) -> String {
    let mut text = word.to_owned();
    numbers.iter().for_each(|number| {
        let _ = write!(text, " {number}");
    });
    text + "\n"
}

/// A policy that writes down what it is asked and what it answers.
struct Recorded(Box<dyn Policy>, Sender<String>);

impl Policy for Recorded {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn step(&mut self, now_ns: u64, device: &Device, programs: &[Observed<'_>]) -> Settings {
        let settings = self.0.step(now_ns, device, programs);
        let mut text = line("step", &[now_ns]);
        programs.iter().for_each(|program| text += &asked(program));
        settings.programs.iter().for_each(|limits| text += &answered(limits));
        let _ = self.1.send(text);
        settings
    }
}

/// One that launches one by one and leaves the device idle, a graph with a promise, and two that train.
fn programs() -> Vec<Program> {
    let program = |name: &str, class, kernels, kernel_ns, host_ns, per_second| Synthetic {
        name: name.into(),
        class,
        kernels,
        kernel_ns,
        block_ns: 20_000,
        sms: 132,
        bottleneck: Bottleneck::Unknown,
        host_ns,
        host_spread: 0.0,
        graph: name == "graph",
        waits: class == Class::Latency,
        requests_per_second: per_second,
    };
    let mut random = Random::new(22);
    let mut programs = [
        program("paced", Class::Latency, 40, 8_000, 40_000, 110.0),
        program("graph", Class::Latency, 60, 20_000, 10_000, 130.0),
        program("training", Class::Batch, 100, 90_000, 6_000, 0.0),
        program("other", Class::Batch, 20, 700_000, 6_000, 0.0),
    ]
    .map(|program| program.program(LENGTH_NS, &mut random));
    programs[1].sla = "p90=4ms".parse().ok();
    programs[3].share = 0.5;
    programs.into()
}

#[test]
#[ignore = "makes the file anew"]
fn record() {
    let (send, lines) = channel();
    let policy = policy(DEFAULT_POLICY).expect("there is one");
    let recorded = Gate::Policy(Box::new(Recorded(policy, send)));
    let _ = simulate(&Machine::default(), &programs(), recorded, LENGTH_NS);
    std::fs::write(FILE, lines.into_iter().collect::<String>()).expect("the file is written");
}

#[test]
fn the_same_questions_get_the_same_answers() {
    let text = std::fs::read_to_string(FILE).expect("the file is there");
    let mut policy = policy(DEFAULT_POLICY).expect("there is one");
    let device = Device { sms: 132, shared: true, prioritised: true };
    let mut states = std::collections::BTreeSet::new();
    for step in text.split("step ").skip(1) {
        let now_ns = step.lines().next().and_then(|now| now.parse().ok()).expect("a time");
        let mut programs: Vec<(Vec<u64>, Vec<Burst>)> = Vec::new();
        for line in step.lines() {
            match (line.split(' ').next(), programs.last_mut()) {
                (Some("program"), _) => programs.push((numbers(line), Vec::new())),
                (Some("burst"), Some((_, bursts))) => bursts.push(burst(&numbers(line))),
                _ => {}
            }
        }
        let programs: Vec<Observed<'_>> =
            programs.iter().map(|(numbers, bursts)| observed(numbers, bursts)).collect();
        let answers = policy.step(now_ns, &device, &programs).programs;
        let then = step.lines().filter(|line| line.starts_with("limits"));
        let now: String = answers.iter().map(answered).collect();
        assert_eq!(now.lines().collect::<Vec<_>>(), then.collect::<Vec<_>>(), "at {now_ns}");
        states.insert((answers[2].yields_to, answers[2].owed_ns == u64::MAX));
    }
    // It held for both, then for the graph alone, and in part of its promise for nobody.
    assert!(states.contains(&(3, false)) && states.contains(&(2, false)), "{states:?}");
    assert!(states.contains(&(2, true)), "{states:?}");
}

fn burst(numbers: &[u64]) -> Burst {
    let [start_ns, end_ns, launches, work_ns] = numbers[..] else { panic!("four numbers") };
    let launches = u32::try_from(launches).expect("a number of launches");
    Burst { start_ns, end_ns, launches, work_ns, ..Burst::default() }
}

fn observed<'a>(numbers: &[u64], bursts: &'a [Burst]) -> Observed<'a> {
    let [slot, class, share, quantile, limit, open, in_flight, admitted, waited, waits, exclusive] =
        numbers[..]
    else {
        panic!("eleven numbers")
    };
    let sla = format!("p{}={limit}ns", quantile as f64 / 1e4);
    Observed {
        slot: slot as u8,
        key: slot,
        class: Class::from_code(class as u8).expect("a class"),
        share: share as f32 / 1e3,
        sla: (limit > 0).then(|| sla.parse().expect("a promise")),
        bursts,
        open_since_ns: open.checked_sub(1),
        exclusive: exclusive == 1,
        in_flight_ns: in_flight,
        admitted_ns: admitted,
        waited_ns: waited,
        waiting: waits == 1,
    }
}
