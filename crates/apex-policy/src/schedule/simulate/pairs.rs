//! The pairs on which policies are judged: what `apex bench sched` ran on an H200, described in a few numbers.
//!
//! Service time, rate, launches of a request and the part in which the device is busy are those of the recorded runs
//! (`results/sched/`). The kernels of a training step are those of the network in kind and order,
//! with lengths that add up to the measured step. The lengths of blocks are what the number of their tiles lets one
//! think.

use super::synthetic::{Synthetic, gpt2_training, gpu_bound_pair};
use super::{Kernel, Program, Random, Step};
use crate::schedule::{Bottleneck, Class};
use Bottleneck::{Compute, Memory};

/// Programs that are put together.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The word for them.
    pub name: &'static str,
    make: fn(u64, u64) -> Vec<Program>,
}

/// Every pair, the measured one first: it is `apex sim pair`.
pub const PAIRS: &[Pair] = &[
    Pair { name: "pair", make: |ns, seed| measured(78.0, ns, seed) },
    Pair { name: "gpu-bound", make: gpu_bound },
    Pair {
        name: "decode-graph-bert",
        make: |ns, seed| beside(DECODE_GRAPH, ns, seed, bert_large()),
    },
    Pair { name: "resnet-resnet", make: |ns, seed| beside(RESNET, ns, seed, resnet_training()) },
    Pair { name: "prefill-resnet", make: prefill_resnet },
    Pair { name: "bert-gpt2", make: |ns, seed| beside(BERT_LARGE, ns, seed, gpt2_large()) },
    Pair { name: "decode-bert", make: |ns, seed| beside(DECODE, ns, seed, bert_large()) },
    Pair { name: "resnet-graph-stream", make: |ns, seed| beside(RESNET_GRAPH, ns, seed, stream()) },
    Pair {
        name: "bert-gpt2-medium",
        make: |ns, seed| beside(BERT_BUSY, ns, seed, gpt2_training()),
    },
    Pair { name: "gpu-bound-products", make: gpu_bound_products },
    Pair { name: "two-training", make: two_training },
    Pair { name: "two-serving", make: two_serving },
];

impl Pair {
    /// The programs, with arrivals until `length_ns`.
    #[must_use]
    pub fn programs(&self, length_ns: u64, seed: u64) -> Vec<Program> {
        (self.make)(length_ns, seed)
    }
}

/// One launched by itself every 31 µs: 5.5 ms, of which the device works for a quarter.
const RESNET: Serving = Serving { kernels: 175, kernel_us: 9, block_us: 6, sms: 80, ..PACED }
    .at("resnet50", Compute, 27, 94.0);
const BERT_LARGE: Serving = Serving { kernels: 297, kernel_us: 17, block_us: 10, ..PACED }.at(
    "bert-large",
    Compute,
    85,
    18.0,
);
const DECODE: Serving = Serving { kernels: 500, kernel_us: 5, block_us: 3, ..PACED }.at(
    "llama-decode",
    Memory,
    36,
    22.0,
);
const PREFILL: Serving = Serving { kernels: 690, kernel_us: 16, block_us: 10, ..PACED }.at(
    "llama-prefill",
    Compute,
    33,
    21.0,
);
/// Launched one by one, and the device is behind all the time.
const BERT_BUSY: Serving = Serving { kernels: 180, kernel_us: 35, block_us: 14, ..PACED }.at(
    "bert-base",
    Compute,
    8,
    76.0,
);
const DECODE_GRAPH: Serving =
    Serving { kernels: 500, kernel_us: 4, block_us: 3, graph: true, ..PACED }.at(
        "llama-decode-graph",
        Memory,
        20,
        168.0,
    );
const RESNET_GRAPH: Serving =
    Serving { kernels: 175, kernel_us: 9, block_us: 6, sms: 80, graph: true, ..PACED }.at(
        "resnet50-graph",
        Compute,
        20,
        240.0,
    );
const PACED: Serving = Serving {
    name: "",
    kernels: 0,
    kernel_us: 0,
    block_us: 0,
    sms: 132,
    on: Compute,
    host_us: 0,
    graph: false,
    per_second: 0.0,
};

/// A program that answers requests.
#[derive(Clone, Copy)]
struct Serving {
    name: &'static str,
    kernels: u32,
    kernel_us: u64,
    block_us: u64,
    sms: u32,
    on: Bottleneck,
    host_us: u64,
    graph: bool,
    per_second: f64,
}

impl Serving {
    const fn at(
        self,
        name: &'static str,
        on: Bottleneck,
        host_us: u64,
        per_second: f64,
    ) -> Serving {
        Serving { name, on, host_us, per_second, ..self }
    }

    fn program(&self, length_ns: u64, random: &mut Random) -> Program {
        let numbers = Synthetic {
            name: self.name.into(),
            class: Class::Latency,
            kernels: self.kernels,
            kernel_ns: self.kernel_us * 1_000,
            block_ns: self.block_us * 1_000,
            sms: self.sms,
            bottleneck: self.on,
            host_ns: self.host_us * 1_000,
            // Python's time differs from one request to the next; a graph hardly needs any.
            host_spread: if self.graph { 0.0 } else { 0.15 },
            graph: self.graph,
            waits: true,
            requests_per_second: self.per_second,
        };
        numbers.program(length_ns, random)
    }
}

fn beside(serving: Serving, length_ns: u64, seed: u64, training: Program) -> Vec<Program> {
    vec![serving.program(length_ns, &mut Random::new(seed)), training]
}

fn measured(per_second: f64, length_ns: u64, seed: u64) -> Vec<Program> {
    gpu_bound_pair(per_second, length_ns, seed).to_vec()
}

/// The measured pair with tensor cores: 4.6 ms a request.
fn gpu_bound(length_ns: u64, seed: u64) -> Vec<Program> {
    let mut programs = measured(109.0, length_ns, seed);
    for step in programs[0].passes.iter_mut().flatten() {
        if let Step::Launch(kernels) = step {
            for kernel in kernels {
                (kernel.nanos, kernel.block_ns) = (kernel.nanos * 7 / 10, kernel.block_ns * 7 / 10);
            }
        }
    }
    programs
}

/// Beside products of 12 ms, longer than every budget.
fn gpu_bound_products(length_ns: u64, seed: u64) -> Vec<Program> {
    let mut programs = measured(78.0, length_ns, seed);
    programs[1] = training("products", 6, &[(4, 12_000, 400, Compute)]);
    programs
}

fn two_training(length_ns: u64, seed: u64) -> Vec<Program> {
    let mut programs = gpu_bound(length_ns, seed);
    programs.push(resnet_training());
    programs
}

fn two_serving(length_ns: u64, seed: u64) -> Vec<Program> {
    let mut programs = measured(39.0, length_ns, seed);
    programs.insert(
        1,
        Serving { per_second: 47.0, ..RESNET }.program(length_ns, &mut Random::new(seed)),
    );
    programs
}

/// A prefill is two bursts: a short one of four launches, and the long one that follows at once.
fn prefill_resnet(length_ns: u64, seed: u64) -> Vec<Program> {
    let mut programs = beside(PREFILL, length_ns, seed, resnet_training());
    for pass in &mut programs[0].passes {
        let first = pass.iter().filter(|step| matches!(step, Step::Launch(_))).take(4).cloned();
        let mut steps = vec![Step::Input, Step::Host(400_000)];
        steps.extend(first.collect::<Vec<_>>());
        steps.push(Step::Wait);
        steps.append(pass);
        *pass = steps;
    }
    programs
}

/// A program that trains: its kernels as (how many, microseconds, microseconds of a block, what they press on).
fn training(name: &str, host_us: u64, groups: &[(u32, u64, u64, Bottleneck)]) -> Program {
    let launch = |&(count, micros, block_us, bottleneck): &(u32, u64, u64, Bottleneck)| {
        let sms = if bottleneck == Memory { 120 } else { 132 };
        let kernel = Kernel { nanos: micros * 1_000, block_ns: block_us * 1_000, sms, bottleneck };
        (0..count).flat_map(move |_| [Step::Host(host_us * 1_000), Step::Launch(vec![kernel])])
    };
    Program {
        name: name.into(),
        class: Class::Batch,
        share: 1.0,
        sla: None,
        arrivals: None,
        passes: vec![groups.iter().flat_map(launch).collect()],
    }
}

/// So many layers forward and back, then the optimiser.
type Groups<'a> = &'a [(u32, u64, u64, Bottleneck)];

fn network(
    layers: usize,
    forward: Groups<'_>,
    backward: Groups<'_>,
    rest: Groups<'_>,
) -> Vec<(u32, u64, u64, Bottleneck)> {
    let mut groups = forward.repeat(layers);
    groups.extend(backward.repeat(layers));
    groups.extend(rest);
    groups
}

/// ResNet-50, 256 images: 18 steps a second; the device is the bottleneck.
fn resnet_training() -> Program {
    let forward = [(1, 245, 40, Compute), (1, 118, 3, Memory), (1, 60, 3, Memory)];
    let backward =
        [(1, 80, 3, Memory), (1, 190, 3, Memory), (1, 175, 40, Compute), (1, 175, 60, Compute)];
    training("resnet50", 10, &network(53, &forward, &backward, &[(20, 30, 3, Memory)]))
}

/// BERT-large: 9 steps a second; it waits for Python for a quarter of the time.
fn bert_large() -> Program {
    let forward = [(4, 150, 30, Compute), (1, 80, 40, Compute), (8, 30, 3, Memory)];
    let backward = [(8, 150, 40, Compute), (1, 170, 60, Compute), (14, 35, 3, Memory)];
    training("bert-large", 105, &network(24, &forward, &backward, &[(20, 500, 4, Memory)]))
}

/// GPT-2-large: 7 steps a second; the device and Python are about as fast. The head's products are long.
fn gpt2_large() -> Program {
    let forward = [(4, 170, 50, Compute), (1, 150, 100, Compute), (8, 35, 3, Memory)];
    let backward = [(8, 170, 50, Compute), (1, 350, 120, Compute), (14, 40, 3, Memory)];
    let rest = [(3, 3_000, 3_000, Compute), (24, 500, 4, Memory)];
    training("gpt2-large", 88, &network(36, &forward, &backward, &rest))
}

/// Memory without end.
fn stream() -> Program {
    training("stream", 10, &[(64, 700, 3, Memory)])
}
