//! What must hold of every policy, whatever programs meet, and what the virtual GPU must agree with.

use super::*;
use crate::schedule::{MINIMUM_SHARE, policy};
use std::sync::OnceLock;

const SECOND: u64 = 1_000_000_000;

fn under(name: &str) -> Gate {
    Gate::Policy(policy(name).unwrap())
}

fn machine(mode: Mode) -> Machine {
    Machine { mode, ..Machine::default() }
}

/// Responses' P95, services' P50 in milliseconds, and the training share, of the measured pair.
struct Cell {
    p95_ms: f64,
    service_ms: f64,
    training: f64,
}

const FROM: u64 = 4 * SECOND;
const LENGTH: u64 = 20 * SECOND;

fn alone() -> (f64, f64) {
    static ALONE: OnceLock<(f64, f64)> = OnceLock::new();
    *ALONE.get_or_init(measure_alone)
}

fn measure_alone() -> (f64, f64) {
    let pair = gpu_bound_pair(78.0, LENGTH, 7);
    let inference = simulate(&machine(Mode::Mps), &pair[..1], under("none"), LENGTH);
    let training = simulate(&machine(Mode::Mps), &pair[1..], under("none"), LENGTH);
    let p95 = percentile(&inference.programs[0].responses_ns(FROM), 0.95) as f64 / 1e6;
    (p95, training.programs[0].work_after(FROM) as f64)
}

fn pair(mode: Mode, gate: Gate, training_alone: f64) -> Cell {
    let outcome = simulate(&machine(mode), &gpu_bound_pair(78.0, LENGTH, 7), gate, LENGTH);
    let [inference, training] = &outcome.programs[..] else { panic!("a pair") };
    Cell {
        p95_ms: percentile(&inference.responses_ns(FROM), 0.95) as f64 / 1e6,
        service_ms: percentile(&inference.services_ns(FROM), 0.5) as f64 / 1e6,
        training: training.work_after(FROM) as f64 / training_alone,
    }
}

#[track_caller]
fn near(found: f64, measured: f64, part: f64) {
    let off = found / measured - 1.0;
    assert!(off.abs() <= part, "{found:.3} is {:+.1} % off {measured}", off * 100.0);
}

#[test]
fn the_measured_pair_comes_out_nearly_as_measured() {
    let (p95_ms, training) = alone();
    near(p95_ms, 19.3, 0.10);
    let seconds = (LENGTH - FROM) as f64 / 1e9;
    near(gpt2_rounds(training) / seconds, 8.06, 0.03);
    let slices = pair(Mode::TimeSlice, under("none"), training);
    near(slices.service_ms, 16.3, 0.05);
    near(slices.training, 0.51, 0.05);
    assert!(slices.p95_ms > 1_000.0, "overloaded: {}", slices.p95_ms);
    let mps = pair(Mode::Mps, under("none"), training);
    near(mps.service_ms, 17.5, 0.15);
    near(mps.training, 0.79, 0.05);
    assert!(mps.p95_ms > 1_000.0, "overloaded: {}", mps.p95_ms);
    let preferred = pair(Mode::MpsPriority, under("none"), training);
    near(preferred.service_ms, 9.9, 0.15);
    near(preferred.training, 0.58, 0.05);
    near(preferred.p95_ms / p95_ms, 4.9, 0.15);
    let crude = pair(Mode::Mps, Gate::Crude { launches: 8, every: 4, guard_ns: 100_000 }, training);
    near(crude.service_ms, 6.7, 0.05);
    near(crude.training, 0.46, 0.08);
}

/// Rounds of training in the time measured, from its work.
fn gpt2_rounds(work_ns: f64) -> f64 {
    work_ns / gpu_bound_pair(1.0, 1, 1)[1].work_ns() as f64
}

/// P95 and training over what each has alone, of a pair by its word.
fn named(name: &str, policy: &str, mode: Mode) -> (f64, f64) {
    let pair = PAIRS.iter().find(|pair| pair.name == name).unwrap();
    let programs = pair.programs(LENGTH, 3);
    let run = |programs: &[Program], policy: &str| {
        simulate(&machine(mode), programs, under(policy), LENGTH).programs
    };
    let p95 = |of: &[ProgramOutcome]| percentile(&of[0].responses_ns(FROM), 0.95) as f64;
    let work = |of: &[ProgramOutcome]| of[of.len() - 1].work_after(FROM) as f64;
    let both = run(&programs, policy);
    let [first, last] = [&programs[..1], &programs[1..]].map(|only| run(only, "none"));
    (p95(&both) / p95(&first), work(&both) / work(&last))
}

#[test]
fn adaptive_keeps_the_tail_beside_a_graph() {
    let (p95_ms, training) = alone();
    let adaptive = pair(Mode::MpsPriority, under("adaptive"), training);
    let priority = pair(Mode::MpsPriority, under("priority"), training);
    let shared = pair(Mode::MpsPriority, under("none"), training);
    // Beside a graph little can be gained: see `sharing_costs_a_graph_what_was_measured`.
    assert!(adaptive.training > priority.training, "{}", adaptive.training);
    assert!(adaptive.p95_ms < p95_ms * 1.2, "{} {p95_ms}", adaptive.p95_ms);
    assert!(shared.p95_ms > p95_ms * 2.0, "{} {p95_ms}", shared.p95_ms);
}

#[test]
fn adaptive_gives_more_away_than_priority_where_the_device_is_left_idle() {
    for name in ["resnet-resnet", "prefill-resnet", "bert-gpt2", "decode-bert"] {
        let (p95, training) = named(name, "adaptive", Mode::MpsPriority);
        let (_, strictly) = named(name, "priority", Mode::MpsPriority);
        assert!(p95 < 1.3 && training > 1.4 * strictly, "{name} {p95} {training} {strictly}");
    }
    // Without MPS the device changes between programs, and whoever it is with has it alone.
    let (p95, training) = named("resnet-resnet", "adaptive", Mode::TimeSlice);
    assert!(p95 < 1.05 && training > 0.4, "{p95} {training}");
}

#[test]
fn launches_that_keep_the_device_busy_are_not_disturbed() {
    let (p95, training) = named("bert-gpt2-medium", "adaptive", Mode::MpsPriority);
    assert!(p95 < 1.1 && training > 0.45, "{p95} {training}");
}

/// A service that launches every 125 µs leaves the device idle for seven eighths of its time. Products of 9 ms are longer
/// than every budget, and still need not stand still until a request of 40 ms ends.
#[test]
fn long_launches_go_beside_requests_that_hardly_need_the_device() {
    let length = 20 * SECOND;
    let service = Synthetic {
        name: "service".into(),
        class: Class::Latency,
        kernels: 297,
        kernel_ns: 17_000,
        block_ns: 10_000,
        sms: 132,
        bottleneck: Bottleneck::Compute,
        host_spread: 0.15,
        host_ns: 125_000,
        graph: false,
        waits: true,
        requests_per_second: 12.0,
    };
    let programs = [service.program(length, &mut Random::new(3)), gpt2_training()];
    let run = |programs: &[Program], policy: &str| {
        let outcome = simulate(&machine(Mode::MpsPriority), programs, under(policy), length);
        let last = outcome.programs.last().unwrap().work_after(FROM) as f64;
        (percentile(&outcome.programs[0].responses_ns(FROM), 0.95) as f64, last)
    };
    let (p95, _) = run(&programs[..1], "adaptive");
    let (_, training) = run(&programs[1..], "adaptive");
    let (slow, share) = run(&programs, "adaptive");
    assert!(slow < 1.05 * p95, "{}", slow / p95);
    // Without any gate it is 0.96; where they had to wait 0.91.
    assert!(share > 0.925 * training, "{}", share / training);
}

/// A product of 12 ms is longer than every budget: it must not go between two requests of a queue.
#[test]
fn launches_longer_than_the_budget_do_not_stand_before_a_queue() {
    let length = 12 * SECOND;
    let [requests, _] = gpu_bound_pair(78.0, length, 7);
    let products = Synthetic {
        name: "products".into(),
        class: Class::Batch,
        kernels: 4,
        kernel_ns: 12_000_000,
        block_ns: 400_000,
        sms: 132,
        bottleneck: Bottleneck::Compute,
        host_spread: 0.0,
        host_ns: 6_000,
        graph: false,
        waits: false,
        requests_per_second: 0.0,
    };
    let programs = [requests, products.program(length, &mut Random::new(3))];
    let p95 = |programs: &[Program]| {
        let outcome = simulate(&machine(Mode::MpsPriority), programs, under("adaptive"), length);
        percentile(&outcome.programs[0].responses_ns(2 * SECOND), 0.95) as f64
    };
    let ratio = p95(&programs) / p95(&programs[..1]);
    assert!(ratio < 2.0, "{ratio}");
}

/// One request follows the other for as long as the run lasts, and a program that always has work stands beside them.
fn a_queue_and_what_stands_beside_it() -> [Program; 2] {
    let launches = |count: usize, host_ns: u64, nanos: u64| {
        let kernel = Kernel { nanos, block_ns: 10_000, sms: 132, bottleneck: Bottleneck::Compute };
        (0..count).flat_map(move |_| [Step::Host(host_ns), Step::Launch(vec![kernel])])
    };
    let program = |name: &str, class, passes| Program {
        name: name.into(),
        class,
        share: 1.0,
        sla: None,
        arrivals: None,
        passes: vec![passes],
    };
    let mut request = vec![Step::Input];
    request.extend(launches(4, 300_000, 40_000));
    request.push(Step::Wait);
    [
        program("queue", Class::Latency, request),
        program("beside", Class::Batch, launches(100, 5_000, 30_000).collect()),
    ]
}

/// It was 0.13 to 0.25 of the device while work that was past a fence went for nothing.
#[test]
fn between_the_requests_of_a_queue_nothing_slips_through() {
    let [queue, beside] = a_queue_and_what_stands_beside_it();
    for fences in [true, false] {
        let machine = Machine { fences, ..machine(Mode::TimeSlice) };
        let share = |gate: Gate| {
            let programs = [queue.clone(), beside.clone()];
            let outcome = simulate(&machine, &programs, gate, 3 * SECOND);
            outcome.programs[1].work_after(SECOND) as f64 / (2 * SECOND) as f64
        };
        let (held, free) = (share(under("priority")), share(under("none")));
        assert!((MINIMUM_SHARE / 2.0..0.1).contains(&held), "fences {fences}: {held}");
        assert!(free > 0.3, "fences {fences}: {free}");
    }
}

#[test]
fn a_promise_decides_how_much_is_given_away() {
    let (p95_ms, training) = alone();
    let with = |sla: &str| {
        let mut programs = gpu_bound_pair(78.0, LENGTH, 7);
        programs[0].sla = Some(sla.parse().unwrap());
        let outcome = simulate(&machine(Mode::MpsPriority), &programs, under("adaptive"), LENGTH);
        let p95 = percentile(&outcome.programs[0].responses_ns(FROM), 0.95) as f64 / 1e6;
        (p95, outcome.programs[1].work_after(FROM) as f64 / training)
    };
    let (loose_p95, loose) = with("p95=40ms");
    let (tight_p95, tight) = with("p95=10ms");
    assert!(loose > tight + 0.03, "{loose} {tight}");
    assert!(loose_p95 < 44.0, "{loose_p95}");
    assert!(tight_p95 < p95_ms * 1.12, "{tight_p95}");
}

/// Every program that always has work gets its minimum, or one launch if that is more, in every two seconds.
#[test]
fn nobody_starves_in_any_mix() {
    let (window, length) = (2 * SECOND, 4 * SECOND);
    for seed in 0..18 {
        let programs = random_mix(seed, length);
        let mode = [Mode::TimeSlice, Mode::Mps, Mode::MpsPriority][seed as usize % 3];
        let name = ["adaptive", "priority", "deadline"][seed as usize / 3 % 3];
        let outcome = simulate(&machine(mode), &programs, under(name), length);
        let least = MINIMUM_SHARE / 2.0 / programs.len() as f64 * window as f64;
        for (program, got) in programs.iter().zip(&outcome.programs) {
            if program.arrivals.is_some() {
                continue;
            }
            let got = got.least_in_window(window, SECOND / 2, length) as f64;
            let launch = longest_kernel(program) as f64;
            assert!(
                got >= least.min(launch) && got > 0.0,
                "seed {seed}, {name}, {mode:?}, {} of {}: {got} of {least}",
                program.name,
                programs.len()
            );
        }
    }
}

fn longest_kernel(program: &Program) -> u64 {
    program.launches().flatten().map(|kernel| kernel.nanos).max().unwrap_or(0)
}

/// A burst waits for the others' budget and one launch of theirs, never for a queue of theirs.
#[test]
fn the_wait_of_a_burst_is_bounded() {
    let length = 3 * SECOND;
    for seed in 100..112 {
        let mut programs = random_mix(seed, length);
        // One latency-critical program that is not overloaded, so that it never waits for its like.
        let mut first = true;
        programs.retain(|program| {
            program.class != Class::Latency || std::mem::replace(&mut first, false)
        });
        let rate = 0.3 * 1e9 / programs[0].work_ns() as f64;
        programs[0].arrivals = Some(Random::new(seed).poisson(rate, length));
        let name = ["adaptive", "priority"][seed as usize % 2];
        let outcome = simulate(&machine(Mode::Mps), &programs, under(name), length);
        let launch = programs[1..]
            .iter()
            .flat_map(Program::launches)
            .map(|kernels| kernels.iter().map(|kernel| kernel.nanos).sum())
            .max()
            .unwrap_or(0_u64);
        // Predictions are off by a half in the worst of some hundred launches; a device that is shared runs
        // the work ahead at half its speed.
        let bound = 2 * (launch * 3 / 2 + 500_000 * 3 / 2) + 100_000;
        let longest = outcome.programs[0].first_waits_ns.iter().max().copied().unwrap_or(0);
        assert!(longest <= bound, "seed {seed}, {name}: {longest} over {bound}");
    }
}

#[test]
fn shares_are_kept_among_equals() {
    let length = 6 * SECOND;
    let mut random = Random::new(3);
    let trainer = |name: &str, share: f32, kernel_ns: u64, random: &mut Random| {
        let numbers = Synthetic {
            name: name.into(),
            class: Class::Batch,
            kernels: 50,
            kernel_ns,
            block_ns: 20_000,
            sms: 132,
            bottleneck: Bottleneck::Compute,
            host_spread: 0.0,
            host_ns: 5_000,
            graph: false,
            waits: false,
            requests_per_second: 0.0,
        };
        Program { share, ..numbers.program(length, random) }
    };
    // The second has launches forty times as long: by launches it would get nearly everything.
    let programs =
        [trainer("a", 3.0, 50_000, &mut random), trainer("b", 1.0, 2_000_000, &mut random)];
    let outcome = simulate(&machine(Mode::Mps), &programs, under("fair"), length);
    let [a, b] = [0, 1].map(|at| outcome.programs[at].work_after(SECOND) as f64);
    assert!((2.4..3.6).contains(&(a / b)), "{}", a / b);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let programs = random_mix(5, SECOND);
    let run = || simulate(&machine(Mode::MpsPriority), &programs, under("adaptive"), SECOND);
    let (one, other) = (run(), run());
    for (a, b) in one.programs.iter().zip(&other.programs) {
        assert_eq!((a.work_ns, &a.passes), (b.work_ns, &b.passes));
    }
}

#[test]
fn empty_programs_do_no_harm() {
    let nothing = Program {
        name: "nothing".into(),
        class: Class::Batch,
        share: 1.0,
        sla: None,
        arrivals: None,
        passes: Vec::new(),
    };
    let ends = Program { arrivals: Some(vec![0, 5]), ..nothing.clone() };
    let outcome = simulate(&Machine::default(), &[ends], under("adaptive"), 1_000_000);
    assert_eq!(outcome.programs[0].passes.len(), 2);
    let outcome = simulate(&Machine::default(), &[nothing], under("adaptive"), 100_000);
    assert_eq!(outcome.programs[0].work_ns, 0);
    assert_eq!(percentile(&[], 0.5), 0);
}

/// How much slower a graph is beside work that never ends, and how fast that work is.
fn beside(nanos: u64, block_ns: u64, bottleneck: Bottleneck) -> (f64, f64) {
    let [mut graph, _] = gpu_bound_pair(78.0, SECOND, 7);
    graph.arrivals = None;
    let work = Synthetic {
        name: "work".into(),
        class: Class::Batch,
        kernels: 100,
        kernel_ns: nanos,
        block_ns,
        sms: 132,
        bottleneck,
        host_spread: 0.0,
        host_ns: 2_000,
        graph: false,
        waits: false,
        requests_per_second: 0.0,
    };
    let programs = [graph, work.program(SECOND, &mut Random::new(3))];
    let run = |programs: &[Program]| {
        simulate(&machine(Mode::MpsPriority), programs, under("none"), SECOND)
    };
    let (alone, work, both) = (run(&programs[..1]), run(&programs[1..]), run(&programs));
    let done = |outcome: &Outcome, nth: usize| outcome.programs[nth].work_after(0) as f64;
    (done(&alone, 0) / done(&both, 0), done(&both, 1) / done(&work, 0))
}

/// Delay of the graph per nanosecond of work beside it, as measured on an H200 (`results/sched/overlap-h200-2026-11-16.json`); the
/// lengths of blocks are what the number of their tiles lets one think.
#[test]
fn sharing_costs_a_graph_what_was_measured() {
    use Bottleneck::{Compute, Memory};
    let seen = [
        ("product", 109_000, 55_000, Compute, 0.98),
        ("product of the head", 2_224_000, 64_000, Compute, 0.87),
        ("attention", 60_000, 25_000, Compute, 0.85),
        ("softmax", 754_000, 48_000, Memory, 0.92),
        ("times a number", 66_000, 2_500, Memory, 0.81),
        ("cast", 50_000, 2_500, Memory, 0.73),
        ("copy", 255_000, 2_500, Memory, 0.80),
        ("optimiser", 70_000, 4_000, Memory, 0.72),
    ];
    for (name, nanos, block_ns, on, measured) in seen {
        let (slower, speed) = beside(nanos, block_ns, on);
        let delay = (slower - 1.0) / (slower * speed);
        assert!((delay - measured).abs() < 0.2, "{name}: {delay:.2} for {measured}");
    }
}
