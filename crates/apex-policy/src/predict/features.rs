//! The features: every number a model sees of a launch, listed once.
//!
//! Training and inference fill the same list with the same code, and every model file carries the hash of
//! its names: a model made for another list is refused instead of being fed wrong numbers. Whoever changes
//! what a feature means changes its name. Counts and sizes are logarithms, so that a doubling is the same step
//! everywhere; what is not known is zero, with a flag beside it.

use super::exact::{Bound, Exact, bound, exact};
use super::question::{ALLOCATIONS, History, INTEGERS, Mix, Pipe, Question};
use super::scale::{counted, log2};
use crate::Limiter;

/// Everything that the list below reads.
struct View<'a> {
    question: &'a Question<'a>,
    history: &'a History,
    exact: Exact,
    bound: Bound,
    mix: [u32; Mix::NAMES.len()],
}

macro_rules! features {
    (|$view:ident| $($name:ident = $value:expr;)+) => {
        /// Names of the features, in their order.
        pub const NAMES: &[&str] = &[$(stringify!($name)),+];
        /// How many features there are.
        pub const COUNT: usize = NAMES.len();

        fn fill($view: &View<'_>) -> [f32; COUNT] {
            [$($value),+]
        }
    };
}

features! { |view|
    // Geometry.
    grid_x = counted(view.question.shape.grid[0] as f32);
    grid_y = counted(view.question.shape.grid[1] as f32);
    grid_z = counted(view.question.shape.grid[2] as f32);
    block_x = counted(view.question.shape.block[0] as f32);
    block_y = counted(view.question.shape.block[1] as f32);
    block_z = counted(view.question.shape.block[2] as f32);
    blocks = counted(view.exact.blocks as f32);
    block_threads = counted(view.exact.threads_per_block as f32);
    threads = counted(view.exact.blocks as f32 * view.exact.threads_per_block as f32);
    // What the kernel takes.
    registers = view.question.kernel.registers as f32 / 32.0;
    static_shared = counted(view.question.kernel.static_shared as f32);
    dynamic_shared = counted(view.question.dynamic_shared as f32);
    shared = counted(shared(view.question));
    local = counted(view.question.kernel.local_bytes as f32);
    // Exact occupancy, waves and tail.
    occupancy = view.exact.occupancy.fraction;
    blocks_per_sm = counted(view.exact.occupancy.blocks_per_sm as f32);
    limited_by_registers = flag(view.exact.occupancy.limiter == Limiter::Registers);
    limited_by_shared = flag(view.exact.occupancy.limiter == Limiter::SharedMemory);
    limited_by_blocks = flag(view.exact.occupancy.limiter == Limiter::Blocks);
    waves = counted(view.exact.waves);
    lane_fill = view.exact.lane_fill;
    wave_fill = view.exact.wave_fill;
    block_efficiency = view.exact.block_efficiency();
    // Arguments, by position.
    integer_0 = integer(view, 0);
    integer_1 = integer(view, 1);
    integer_2 = integer(view, 2);
    integer_3 = integer(view, 3);
    integer_4 = integer(view, 4);
    integer_5 = integer(view, 5);
    integer_6 = integer(view, 6);
    integer_7 = integer(view, 7);
    allocation_0 = allocation(view, 0);
    allocation_1 = allocation(view, 1);
    allocation_2 = allocation(view, 2);
    allocation_3 = allocation(view, 3);
    allocation_4 = allocation(view, 4);
    allocation_5 = allocation(view, 5);
    allocations = counted(view.question.arguments.allocations.iter().map(|&a| a as f32).sum());
    arguments = f32::from(view.question.arguments.count);
    // The instruction mix.
    mix_total = counted(view.mix[0] as f32);
    mix_float32 = counted(view.mix[1] as f32);
    mix_float64 = counted(view.mix[2] as f32);
    mix_float16 = counted(view.mix[3] as f32);
    mix_tensor = counted(view.mix[4] as f32);
    mix_special = counted(view.mix[5] as f32);
    mix_integer = counted(view.mix[6] as f32);
    mix_convert = counted(view.mix[7] as f32);
    mix_load_global = counted(view.mix[8] as f32);
    mix_store_global = counted(view.mix[9] as f32);
    mix_load_shared = counted(view.mix[10] as f32);
    mix_store_shared = counted(view.mix[11] as f32);
    mix_local = counted(view.mix[12] as f32);
    mix_atomic = counted(view.mix[13] as f32);
    mix_exchange = counted(view.mix[14] as f32);
    mix_barrier = counted(view.mix[15] as f32);
    mix_control = counted(view.mix[16] as f32);
    mix_loops = counted(view.mix[17] as f32);
    mix_global_bytes = counted(view.mix[18] as f32);
    // Work and the bound that it sets.
    work_known = flag(view.bound.known);
    flops = counted(view.bound.work.flops as f32);
    bytes = counted(view.bound.work.bytes as f32);
    intensity = intensity(&view.bound);
    double = flag(view.bound.work.pipe == Pipe::Double);
    tensor = flag(view.bound.work.pipe == Pipe::Tensor);
    flops_per_thread = counted(per_thread(view, view.bound.work.flops));
    bytes_per_thread = counted(per_thread(view, view.bound.work.bytes));
    bytes_over_l2 = counted(view.bound.work.bytes as f32 / view.question.device.l2_bytes.max(1) as f32);
    compute_time = counted(view.bound.compute_nanos);
    memory_time = counted(view.bound.memory_nanos);
    bound_time = counted(view.bound.nanos);
    // The device.
    device_multiprocessors = counted(view.question.device.multiprocessors as f32);
    device_bandwidth = log2(view.question.device.bytes_per_second.max(1.0));
    device_flops = log2(view.question.device.flops_per_second.max(1.0));
    // The kernel's history.
    history_count = counted(view.history.count as f32);
    history_last = view.history.last;
    history_mean = view.history.mean;
    history_spread = view.history.spread;
    history_line = view.history.line;
    history_nearest = view.history.near.nearest;
    history_near = view.history.near.mean;
    history_distance = view.history.near.distance;
}

/// Inputs of the small network, by their places in the list.
pub const SMALL: [usize; 8] = [
    place("blocks"),
    place("block_threads"),
    place("registers"),
    place("shared"),
    place("occupancy"),
    place("waves"),
    place("intensity"),
    place("bound_time"),
];

/// All features of a launch.
#[must_use]
pub fn features(question: &Question<'_>, history: &History) -> [f32; COUNT] {
    fill(&View {
        question,
        history,
        exact: exact(question),
        bound: bound(question),
        mix: question.kernel.mix.counts(),
    })
}

/// What the kernel's past says of the launch, as log2 over the bound; 0 for a kernel never seen.
///
/// Models that see the history correct this and not the bare bound: what they learn of one kernel's errors then
/// holds for others too, instead of each kernel being known again by its instructions.
#[inline]
#[must_use]
pub fn base(features: &[f32; COUNT]) -> f32 {
    const SEEN: usize = place("history_count");
    const LINE: usize = place("history_line");
    const NEAR: usize = place("history_near");
    if features[SEEN] > 0.0 { 0.5 * (features[LINE] + features[NEAR]) } else { 0.0 }
}

/// The small network's inputs alone, from what was already computed: the same numbers in a tenth of the time.
#[inline(always)]
#[must_use]
pub fn small_inputs(question: &Question<'_>, exact: &Exact, bound: &Bound) -> [f32; SMALL.len()] {
    [
        counted(exact.blocks as f32),
        counted(exact.threads_per_block as f32),
        question.kernel.registers as f32 / 32.0,
        counted(shared(question)),
        exact.occupancy.fraction,
        counted(exact.waves),
        intensity(bound),
        counted(bound.nanos),
    ]
}

/// The hash that a model file must carry: over names and order.
#[must_use]
pub fn list_hash() -> u64 {
    NAMES.iter().fold(FNV_START, |hash, name| fnv(fnv(hash, name.as_bytes()), b";"))
}

/// FNV-1a, the hash of lists and files here: no key, no state, the same everywhere.
#[must_use]
pub fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Where [`fnv`] begins.
pub const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// The place of a feature; fails the build for a name that is not in the list.
const fn place(name: &str) -> usize {
    let mut at = 0;
    while at < COUNT {
        if same(NAMES[at].as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("no such feature")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

fn flag(set: bool) -> f32 {
    if set { 1.0 } else { 0.0 }
}

fn shared(question: &Question<'_>) -> f32 {
    question.kernel.static_shared as f32 + question.dynamic_shared as f32
}

fn integer(view: &View<'_>, at: usize) -> f32 {
    const { assert!(INTEGERS == 8) };
    counted(view.question.arguments.integers[at] as f32)
}

fn allocation(view: &View<'_>, at: usize) -> f32 {
    const { assert!(ALLOCATIONS == 6) };
    counted(view.question.arguments.allocations[at] as f32)
}

fn per_thread(view: &View<'_>, work: f64) -> f32 {
    let threads = view.exact.blocks as f64 * f64::from(view.exact.threads_per_block);
    (work / threads.max(1.0)) as f32
}

/// Operations per byte, on the same scale as both.
#[inline(always)]
fn intensity(bound: &Bound) -> f32 {
    counted(bound.work.flops as f32) - counted(bound.work.bytes as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::question::{Arguments, Device, Kernel, Work};
    use crate::{Chip, LaunchShape};

    fn ask(check: impl FnOnce(&Question<'_>)) {
        let chip = Chip::for_capability(9, 0).unwrap();
        let device = Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20);
        let mix = Mix { total: 40, float32: 9, loops: 1, global_bytes: 12, ..Mix::default() };
        let kernel = Kernel { registers: 40, static_shared: 1024, mix, ..Kernel::default() };
        let arguments = Arguments::of(&[1 << 20, 7], &[4 << 20, 8 << 20]);
        check(&Question {
            device: &device,
            kernel: &kernel,
            shape: LaunchShape { grid: [4096, 2, 1], block: [96, 1, 1] },
            dynamic_shared: 512,
            arguments: &arguments,
            work: Some(Work { flops: 3e6, bytes: 12e6, ..Work::default() }),
        });
    }

    #[test]
    fn the_small_network_sees_a_part_of_the_same_list() {
        ask(|question| {
            let all = features(question, &History::default());
            let small = small_inputs(question, &exact(question), &bound(question));
            assert_eq!(small, SMALL.map(|place| all[place]));
        });
    }

    #[test]
    fn every_feature_is_finite_and_named_once() {
        ask(|question| {
            assert!(features(question, &History::default()).iter().all(|value| value.is_finite()));
        });
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNT);
        assert_eq!(Mix::NAMES.len(), NAMES.iter().filter(|name| name.starts_with("mix_")).count());
        for (mix, name) in Mix::NAMES.iter().zip(NAMES.iter().filter(|n| n.starts_with("mix_"))) {
            assert_eq!(format!("mix_{mix}"), **name);
        }
    }

    #[test]
    fn arguments_and_history_are_seen() {
        ask(|question| {
            let history = History { count: 3, last: 0.5, ..History::default() };
            let all = features(question, &history);
            assert_eq!(all[place("integer_0")], counted(1_048_576.0));
            assert_eq!(all[place("allocation_1")], counted(8_388_608.0));
            assert_eq!(all[place("arguments")], 4.0);
            assert_eq!(all[place("history_count")], 2.0);
            assert_eq!(all[place("history_last")], 0.5);
        });
    }
}
