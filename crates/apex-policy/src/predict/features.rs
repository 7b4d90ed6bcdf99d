//! The features: every number a model sees of a launch, listed once.
//!
//! Training and inference fill the same list with the same code, and every model file carries the hash of
//! its names: a model made for another list is refused instead of being fed wrong numbers. Whoever changes
//! what a feature means changes its name. Counts and sizes are logarithms, so that a doubling is the same step
//! everywhere; what is not known is zero, with a flag beside it.

use super::bound::{Bound, bound_of};
use super::exact::{Exact, exact};
use super::parts::{Group, same};
use super::question::{ALLOCATIONS, History, INTEGERS, Mix, Near, Pipe, Question};
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
    whole_waves = log2(view.exact.waves.ceil().max(1.0));
    warps = log2((view.exact.blocks as f32 * warps(view)).max(1.0));
    // What one multiprocessor holds, and how evenly blocks fall on all of them.
    active_blocks = log2(active_blocks(view));
    active_warps = log2((active_blocks(view) * warps(view)).max(1.0));
    active_multiprocessors = log2((view.exact.blocks as f32).min(multiprocessors(view)).max(1.0));
    balance = view.exact.blocks as f32 / multiprocessors(view) / busiest(view).max(1.0);
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
    // The largest power of two that divides an integer: strides meet banks and cache lines by it.
    step_0 = step(view, 0);
    step_1 = step(view, 1);
    step_2 = step(view, 2);
    step_3 = step(view, 3);
    // How often a loop runs if the integer is the number of its items, and a thread, a block or all share them.
    trips_thread_0 = trips(view, 0, threads(view));
    trips_thread_1 = trips(view, 1, threads(view));
    trips_thread_2 = trips(view, 2, threads(view));
    trips_block_0 = trips(view, 0, view.exact.blocks as f32);
    trips_block_1 = trips(view, 1, view.exact.blocks as f32);
    trips_block_2 = trips(view, 2, view.exact.blocks as f32);
    trips_inside_0 = trips(view, 0, view.exact.threads_per_block as f32);
    trips_inside_1 = trips(view, 1, view.exact.threads_per_block as f32);
    trips_inside_2 = trips(view, 2, view.exact.threads_per_block as f32);
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
    // What a warp does, by its walk through the text.
    walked_instructions = counted(view.question.walked.instructions);
    walked_cycles = counted(view.question.walked.cycles);
    walked_rounds = counted(view.question.walked.rounds);
    walked_lines = counted(view.question.walked.lines / view.question.walked.accesses.max(1.0));
    walked_sectors = counted(view.exact.blocks as f32 * warps(view) * (view.question.walked.missed + view.question.walked.stored));
    walked_gathered = counted(view.question.walked.gathered);
    walked_shared = counted(view.question.walked.shared);
    walked_constants = counted(view.question.walked.constants);
    walked_local = counted(view.question.walked.local);
    walked_barriers = counted(view.question.walked.barriers);
    walked_crowded = counted(view.exact.blocks as f32 * warps(view) * view.question.walked.contended);
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
    flops_per_warp = counted(per_warp(view, view.bound.work.flops));
    bytes_per_warp = counted(per_warp(view, view.bound.work.bytes));
    busiest_flops = counted(per_block(view, view.bound.work.flops) * busiest(view));
    busiest_bytes = counted(per_block(view, view.bound.work.bytes) * busiest(view));
    touched_over_l2 = counted(touched(view) / view.question.device.l2_bytes.max(1) as f32);
    compute_time = counted(view.bound.compute_nanos);
    memory_time = counted(view.bound.memory_nanos);
    bound_time = counted(view.bound.nanos);
    // The parts of the expected time, and integers that may multiply what threads do.
    ruled_time = log2(view.bound.expected());
    share_launch = view.bound.anatomy.share(Group::Launch);
    share_blocks = view.bound.anatomy.share(Group::Blocks);
    share_chain = view.bound.anatomy.share(Group::Chain);
    share_chain_flops = view.bound.anatomy.share(Group::ChainFlops);
    share_chain_bytes = view.bound.anatomy.share(Group::ChainBytes);
    share_issue = view.bound.anatomy.share(Group::Issue);
    share_issue_flops = view.bound.anatomy.share(Group::IssueFlops);
    share_issue_bytes = view.bound.anatomy.share(Group::IssueBytes);
    share_bytes = view.bound.anatomy.share(Group::Bytes);
    share_beyond = view.bound.anatomy.share(Group::Beyond);
    share_serial = view.bound.anatomy.share(Group::Serial);
    share_own = view.bound.anatomy.own_share();
    own_0 = view.bound.anatomy.own_share() * integer(view, 0);
    own_1 = view.bound.anatomy.own_share() * integer(view, 1);
    own_2 = view.bound.anatomy.own_share() * integer(view, 2);
    own_3 = view.bound.anatomy.own_share() * integer(view, 3);
    // What each resource takes over the time that the kernel's past tells: how busy it is.
    busy_blocks = busy(view, 0);
    busy_chain = busy(view, 1);
    busy_issue = busy(view, 2);
    busy_bytes = busy(view, 3);
    busy_serial = busy(view, 4);
    // Warps that a multiprocessor with work holds on average, as a share of its slots.
    resident = resident(view);
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
    history_near = view.history.near.mean;
    history_doubt = view.history.near.deviation;
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
    place("ruled_time"),
];

/// What launches of one kernel are compared by, by their places in the list: see
/// [`crate::predict::neighbours`].
pub const COMPARED: [usize; 76] = places([
    "walked_instructions",
    "walked_cycles",
    "walked_rounds",
    "walked_lines",
    "walked_sectors",
    "walked_shared",
    "walked_constants",
    "walked_local",
    "walked_crowded",
    "block_x",
    "block_y",
    "block_z",
    "blocks",
    "block_threads",
    "dynamic_shared",
    "occupancy",
    "waves",
    "lane_fill",
    "wave_fill",
    "whole_waves",
    "warps",
    "active_blocks",
    "active_warps",
    "active_multiprocessors",
    "balance",
    "integer_0",
    "integer_1",
    "integer_2",
    "integer_3",
    "integer_4",
    "allocation_0",
    "allocation_1",
    "allocation_2",
    "allocation_3",
    "allocation_4",
    "trips_thread_0",
    "trips_thread_1",
    "trips_thread_2",
    "trips_block_0",
    "trips_block_1",
    "trips_block_2",
    "trips_inside_0",
    "trips_inside_1",
    "trips_inside_2",
    "step_0",
    "step_1",
    "step_2",
    "step_3",
    "flops",
    "bytes",
    "flops_per_thread",
    "bytes_per_thread",
    "flops_per_warp",
    "bytes_per_warp",
    "busiest_flops",
    "busiest_bytes",
    "touched_over_l2",
    "bytes_over_l2",
    "ruled_time",
    "share_launch",
    "share_blocks",
    "share_chain",
    "share_chain_flops",
    "share_chain_bytes",
    "share_issue",
    "share_issue_flops",
    "share_issue_bytes",
    "share_bytes",
    "share_beyond",
    "share_serial",
    "share_own",
    "own_0",
    "own_1",
    "own_2",
    "own_3",
    "bound_time",
]);

/// The place of the number of measured times, as a logarithm.
pub const HISTORY_COUNT: usize = place("history_count");

/// The place of the instructions that a warp issues, as a logarithm; none where nobody walked the kernel's text.
pub const WALKED: usize = place("walked_instructions");

/// All features of a launch.
#[must_use]
pub fn features(question: &Question<'_>, history: &History) -> [f32; COUNT] {
    let exact = exact(question);
    let bound = bound_of(question, &exact);
    fill(&View { question, history, exact, bound, mix: question.kernel.mix.counts() })
}

/// What the kernel's past says of the launch, as log2 over the expected time; 0 for a kernel never seen.
///
/// Models that see the history correct this and not the bare expectation: what they learn of one kernel's errors
/// then holds for others too, instead of each kernel being known again by its instructions.
#[inline]
#[must_use]
pub fn base(features: &[f32; COUNT]) -> f32 {
    const LINE: usize = place("history_line");
    const NEAR: usize = place("history_near");
    const DOUBT: usize = place("history_doubt");
    let near = Near { mean: features[NEAR], deviation: features[DOUBT] };
    past(features[HISTORY_COUNT] > 0.0, &near, features[LINE])
}

#[inline]
fn past(seen: bool, near: &Near, line: f32) -> f32 {
    match seen {
        true if near.deviation > 0.0 => near.mean,
        true => line,
        false => 0.0,
    }
}

/// The square of how far off [`base`] usually is, in log2; for a kernel never seen that of [`unseen_doubt`].
#[inline]
#[must_use]
pub fn doubt(features: &[f32; COUNT]) -> f32 {
    const DOUBT: usize = place("history_doubt");
    const LAUNCH: usize = place("share_launch");
    let deviation =
        if features[DOUBT] > 0.0 { features[DOUBT] } else { unseen_doubt(features[LAUNCH]) };
    deviation * deviation
}

/// How much what is expected of a kernel never seen is doubted, by the share of it that is the launch itself: that
/// is known, whatever the kernel does.
#[inline]
#[must_use]
pub fn unseen_doubt(share_launch: f32) -> f32 {
    (1.0 - share_launch).max(0.1)
}

/// The small network's inputs alone, from what was already computed: the same numbers in a tenth of the time.
#[inline(always)]
#[must_use]
pub fn small_inputs(question: &Question<'_>, exact: &Exact, bound: &Bound) -> [f32; SMALL.len()] {
    // Side by side, so that one polynomial serves all of them.
    let mut logs = [
        1.0 + exact.blocks as f32,
        1.0 + exact.threads_per_block as f32,
        1.0 + shared(question),
        1.0 + exact.waves,
        1.0 + bound.work.flops as f32,
        1.0 + bound.work.bytes as f32,
        bound.expected(),
        1.0,
    ];
    for value in &mut logs {
        *value = log2(*value);
    }
    let [blocks, threads, shared, waves, flops, bytes, expected, _] = logs;
    let registers = question.kernel.registers as f32 / 32.0;
    let occupancy = exact.occupancy.fraction;
    [blocks, threads, registers, shared, occupancy, waves, flops - bytes, expected]
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

const fn places<const N: usize>(names: [&str; N]) -> [usize; N] {
    let mut found = [0; N];
    let mut at = 0;
    while at < N {
        found[at] = place(names[at]);
        at += 1;
    }
    found
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

fn threads(view: &View<'_>) -> f32 {
    view.exact.blocks as f32 * view.exact.threads_per_block as f32
}

fn trips(view: &View<'_>, at: usize, sharers: f32) -> f32 {
    let items = view.question.arguments.integers[at] as f32;
    log2((items / sharers.max(1.0)).ceil().max(1.0))
}

fn allocation(view: &View<'_>, at: usize) -> f32 {
    const { assert!(ALLOCATIONS == 6) };
    counted(view.question.arguments.allocations[at] as f32)
}

fn per_thread(view: &View<'_>, work: f64) -> f32 {
    let threads = view.exact.blocks as f64 * f64::from(view.exact.threads_per_block);
    (work / threads.max(1.0)) as f32
}

fn per_block(view: &View<'_>, work: f64) -> f32 {
    (work / (view.exact.blocks as f64).max(1.0)) as f32
}

fn per_warp(view: &View<'_>, work: f64) -> f32 {
    per_block(view, work) / warps(view).max(1.0)
}

/// Warps of one block.
fn warps(view: &View<'_>) -> f32 {
    view.exact.threads_per_block.div_ceil(view.question.device.chip.warp_threads) as f32
}

fn multiprocessors(view: &View<'_>) -> f32 {
    view.question.device.multiprocessors.max(1) as f32
}

/// Blocks that the busiest multiprocessor runs in all.
fn busiest(view: &View<'_>) -> f32 {
    (view.exact.blocks as f32 / multiprocessors(view)).ceil()
}

/// Blocks that the busiest multiprocessor runs at once.
fn active_blocks(view: &View<'_>) -> f32 {
    busiest(view).min(view.exact.occupancy.blocks_per_sm as f32).max(1.0)
}

/// log2 of what a resource takes over the time to expect with the kernel's past; at least a thousandth of it.
fn busy(view: &View<'_>, resource: usize) -> f32 {
    let past = past(view.history.count > 0, &view.history.near, view.history.line);
    let nanos = view.bound.anatomy.resources()[resource];
    log2((nanos / view.bound.expected()).max(1e-3)) - past
}

fn resident(view: &View<'_>) -> f32 {
    let blocks = view.exact.blocks as f32;
    let slots = view.exact.occupancy.blocks_per_sm as f32;
    let each = blocks / blocks.min(multiprocessors(view)).max(1.0);
    // Waves after the first fill up what blocks leave, the last one as far as there are blocks.
    let held = if each <= slots { each } else { slots * view.exact.wave_fill };
    held * warps(view) / view.question.device.chip.max_warps_per_sm() as f32
}

fn touched(view: &View<'_>) -> f32 {
    view.question.arguments.allocations.iter().map(|&bytes| bytes as f32).sum()
}

/// The power of two that divides an integer, at most 32; all of them divide zero.
fn step(view: &View<'_>, at: usize) -> f32 {
    view.question.arguments.integers[at].trailing_zeros().min(5) as f32
}

/// Operations per byte, on the same scale as both.
#[inline(always)]
fn intensity(bound: &Bound) -> f32 {
    counted(bound.work.flops as f32) - counted(bound.work.bytes as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::bound::bound;
    use crate::predict::question::{Arguments, Device, Kernel, Walked, Work};
    use crate::{Chip, LaunchShape};

    #[test]
    fn what_is_mostly_launch_is_doubted_little() {
        let mut features = [0.0; COUNT];
        assert_eq!(doubt(&features), 1.0);
        features[place("share_launch")] = 0.5;
        assert_eq!(doubt(&features), 0.25);
        features[place("history_doubt")] = 2.0;
        assert_eq!(doubt(&features), 4.0);
    }

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
            walked: Walked::NONE,
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
