//! Programs that were never recorded: one described by a few numbers, the measured pair, and any mix by chance.

use super::{Kernel, Program, Random, Step};
use crate::schedule::{Bottleneck, Class};

/// Requests that differ, before they come again.
const PASSES: usize = 61;

/// A program in a few numbers.
#[derive(Clone, Debug)]
pub struct Synthetic {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// Kernels of one request or round, each launched by itself unless `graph`.
    pub kernels: u32,
    /// Time of one kernel alone.
    pub kernel_ns: u64,
    /// Time of one block.
    pub block_ns: u64,
    /// Multiprocessors that a kernel needs.
    pub sms: u32,
    /// What they press on.
    pub bottleneck: Bottleneck,
    /// Time on the processor before each launch.
    pub host_ns: u64,
    /// By how much that differs from one request to another: the standard deviation of its logarithm.
    pub host_spread: f64,
    /// All kernels are launched as one.
    pub graph: bool,
    /// Waits at the end of each request or round.
    pub waits: bool,
    /// Requests a second by chance; 0: rounds follow each other.
    pub requests_per_second: f64,
}

impl Synthetic {
    /// The program, with arrivals until `length_ns`.
    #[must_use]
    pub fn program(&self, length_ns: u64, random: &mut Random) -> Program {
        let kernel = Kernel {
            nanos: self.kernel_ns,
            block_ns: self.block_ns.min(self.kernel_ns),
            sms: self.sms,
            bottleneck: self.bottleneck,
        };
        let pass = |host_ns: u64| {
            let mut steps = vec![Step::Host(host_ns.max(1_000)), Step::Input];
            if self.graph {
                steps.push(Step::Launch(vec![kernel; self.kernels as usize]));
            } else {
                for _ in 0..self.kernels {
                    steps.extend([Step::Host(host_ns), Step::Launch(vec![kernel])]);
                }
            }
            steps.extend(self.waits.then_some(Step::Wait));
            steps
        };
        let passes = if self.host_spread > 0.0 { PASSES } else { 1 };
        let passes = (0..passes)
            .map(|_| pass((self.host_ns as f64 * random.spread(self.host_spread)) as u64));
        let passes = passes.collect();
        let arrives = self.requests_per_second > 0.0;
        Program {
            name: self.name.clone(),
            class: self.class,
            share: 1.0,
            sla: None,
            arrivals: arrives.then(|| random.poisson(self.requests_per_second, length_ns)),
            passes,
        }
    }
}

/// Lengths of a training step's kernels in groups: how many, nanoseconds, nanoseconds of a block, what they
/// press on.
#[derive(Clone, Debug)]
pub struct Training(pub Vec<(u32, u64, u64, Bottleneck)>);

/// The pair that was measured: BERT-base inference (batch 8, 384 tokens) as one graph, by chance at that rate,
/// beside training of GPT-2-medium (8 times 1,024 tokens). The kernels are those of the models in number and
/// kind; their lengths are scaled so that each alone takes its measured time (6.4 ms; 8.06 steps a second).
#[must_use]
pub fn gpu_bound_pair(requests_per_second: f64, length_ns: u64, seed: u64) -> [Program; 2] {
    use Bottleneck::{Compute, Memory};
    let mut random = Random::new(seed);
    let layer = [
        (58, Compute),
        (58, Compute),
        (58, Compute),
        (8, Memory),
        (105, Compute),
        (8, Memory),
        (58, Compute),
        (8, Memory),
        (12, Memory),
        (100, Compute),
        (8, Memory),
        (20, Memory),
        (92, Compute),
        (8, Memory),
        (12, Memory),
    ];
    let inference: Vec<Kernel> = (0..12)
        .flat_map(|_| layer)
        .map(|(micros, on)| {
            kernel(micros * 853, if on == Compute { micros * 853 / 2 } else { 4_000 }, on)
        })
        .collect();
    let requests = Program {
        name: "bert-base".into(),
        class: Class::Latency,
        share: 1.0,
        sla: None,
        arrivals: Some(random.poisson(requests_per_second, length_ns)),
        passes: vec![vec![
            Step::Host(40_000),
            Step::Input,
            Step::Host(10_000),
            Step::Launch(inference),
            Step::Wait,
            Step::Host(20_000),
        ]],
    };
    [requests, gpt2_training()]
}

/// The training of that pair.
#[must_use]
pub fn gpt2_training() -> Program {
    let launch = |&(count, nanos, block_ns, on): &(u32, u64, u64, Bottleneck)| {
        let launch = Step::Launch(vec![kernel(nanos, block_ns, on)]);
        (0..count).flat_map(move |_| [Step::Host(6_000), launch.clone()])
    };
    Program {
        name: "gpt2-medium".into(),
        class: Class::Batch,
        share: 1.0,
        sla: None,
        arrivals: None,
        passes: vec![gpt2_medium().0.iter().flat_map(launch).collect()],
    }
}

/// Times of a block of a product.
const SHORT: u64 = 14_000;
const MIDDLE: u64 = 50_000;
const LONG: u64 = 170_000;

/// One training step of GPT-2-medium: forward, head and loss, backward, optimiser.
fn gpt2_medium() -> Training {
    use Bottleneck::{Compute, Memory};
    // A block of a product lasts as its inner length: 1,024 long ones are short, those over all tokens (the
    // gradients of weights) and attention are long.
    let forward = [
        (1, 50_000, 4_000, Memory),
        (1, 170_000, SHORT, Compute),
        (3, 35_000, 3_000, Memory),
        (1, 190_000, LONG, Compute),
        (1, 70_000, SHORT, Compute),
        (2, 30_000, 3_000, Memory),
        (1, 50_000, 4_000, Memory),
        (1, 230_000, SHORT, Compute),
        (5, 55_000, 3_000, Memory),
        (1, 220_000, MIDDLE, Compute),
        (2, 30_000, 3_000, Memory),
    ];
    let backward = [
        (2, 35_000, 3_000, Memory),
        (1, 220_000, SHORT, Compute),
        (1, 220_000, LONG, Compute),
        (1, 40_000, 4_000, Memory),
        (6, 60_000, 3_000, Memory),
        (1, 225_000, MIDDLE, Compute),
        (1, 225_000, LONG, Compute),
        (2, 70_000, 4_000, Memory),
        (1, 75_000, SHORT, Compute),
        (1, 75_000, LONG, Compute),
        (1, 420_000, LONG, Compute),
        (3, 35_000, 3_000, Memory),
        (1, 170_000, MIDDLE, Compute),
        (1, 170_000, LONG, Compute),
        (2, 65_000, 4_000, Memory),
    ];
    // The products with 50,257 columns, as long as they were measured: requests that came upon one waited for nearly all
    // that was left of it, so a block lasts as long as the kernel.
    let head = [
        (1, 5_700_000, 5_700_000, Compute),
        (3, 1_300_000, 48_000, Memory),
        (1, 6_000_000, 6_000_000, Compute),
        (1, 8_700_000, 8_700_000, Compute),
        (1, 900_000, 30_000, Memory),
    ];
    let optimiser = [(12, 1_270_000, 4_000, Memory)];
    let mut groups = Vec::new();
    (0..24).for_each(|_| groups.extend(forward));
    (0..24).for_each(|_| groups.extend(backward));
    groups.extend(optimiser);
    // So that a step takes its measured time.
    groups.iter_mut().for_each(|group| group.1 = group.1 * 6 / 7);
    let (forward, rest) = groups.split_at(24 * forward.len());
    Training([forward, &head, rest].concat())
}

fn kernel(nanos: u64, block_ns: u64, bottleneck: Bottleneck) -> Kernel {
    // A kernel that waits for memory is as fast on fewer multiprocessors.
    let sms = if bottleneck == Bottleneck::Memory { 120 } else { 132 };
    Kernel { nanos, block_ns: block_ns.min(nanos), sms, bottleneck }
}

/// Up to 16 programs of any kind: short and long kernels, few and many multiprocessors, requests by chance up to
/// overload, training with and without waits. At least one is latency-critical and one is not.
#[must_use]
pub fn random_mix(seed: u64, length_ns: u64) -> Vec<Program> {
    let mut random = Random::new(seed);
    let count = random.within(2, 17);
    (0..count)
        .map(|nth| {
            let class = match (nth, random.within(0, 3)) {
                (0, _) => Class::Latency,
                (1, _) | (_, 0) => Class::Batch,
                (_, 1) => Class::Normal,
                _ => Class::Latency,
            };
            let kernel_ns = (10_f64.powf(3.7 + 2.8 * random.part())) as u64;
            let kernels = random.within(1, 60) as u32;
            let work_ns = kernel_ns * u64::from(kernels);
            let requests = class == Class::Latency || random.within(0, 4) == 0;
            let load = 0.05 + 1.2 * random.part();
            let program = Synthetic {
                name: format!("{class}-{nth}"),
                class,
                kernels,
                kernel_ns,
                block_ns: random.within(2_000, kernel_ns.max(2_001)),
                sms: random.within(4, 133) as u32,
                bottleneck: [Bottleneck::Unknown, Bottleneck::Compute, Bottleneck::Memory]
                    [(random.within(0, 3) as usize).min(2)],
                host_spread: 0.0,
                host_ns: random.within(2_000, 60_000),
                graph: random.within(0, 3) == 0,
                waits: requests || random.within(0, 2) == 0,
                requests_per_second: if requests { load * 1e9 / work_ns as f64 } else { 0.0 },
            };
            program.program(length_ns, &mut random)
        })
        .collect()
}
