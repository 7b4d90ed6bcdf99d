//! What is seen of a launch of a program, as numbers that forests read. What is not known is zero, with a flag beside it.

use super::Rest;
use super::names::{NameFacts, WORDS};
use crate::LaunchShape;
use crate::predict::bound::bound_of;
use crate::predict::exact::{Exact, exact};
use crate::predict::features::COUNT;
use crate::predict::question::{Mix, Question, Walked, Work};
use crate::predict::scale::{counted, log2};

/// Numbers that forests read: as many as other trees read, the rest zero.
pub type Sighted = [f32; COUNT];

/// Instructions within loops, of machine code alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Looped {
    /// The mix is that of machine code.
    pub is_machine: bool,
    /// The kernel has a text too: it is a program's own more often than a library's.
    pub has_text: bool,
    /// All instructions within loops.
    pub total: u32,
    /// Matrix instructions within loops.
    pub tensor: u32,
    /// Bytes of global memory that one turn of every loop moves.
    pub bytes: u32,
    /// Instructions within loops within loops.
    pub nested: u32,
    /// Matrix instructions of four warps together.
    pub wide_tensor: u32,
}

impl Looped {
    /// What machine code says, in the order of [`Looped::NAMES`].
    #[must_use]
    pub fn of_machine([total, tensor, bytes, nested, wide_tensor]: [u32; 5]) -> Looped {
        Looped { is_machine: true, total, tensor, bytes, nested, wide_tensor, ..Looped::default() }
    }

    /// Names of the counts.
    pub const NAMES: [&'static str; 5] = ["total", "tensor", "bytes", "nested", "wide_tensor"];
}

/// What is seen of one launch.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    shape: LaunchShape,
    dynamic_shared: u32,
    registers: u32,
    static_shared: u32,
    local: u32,
    exact: Exact,
    mix: Mix,
    looped: Looped,
    walked: Walked,
    arguments: u8,
    integers: [u64; 8],
    allocated: [f32; 2],
    name: NameFacts,
    by_cupti: bool,
    multiprocessors: u32,
    /// log2 of the nanoseconds that its parts are expected to take.
    pub(super) expected: f32,
}

impl Sight {
    /// Sees a launch. What was not read of it is empty in the question.
    #[must_use]
    pub fn of(question: &Question<'_>, looped: Looped, name: NameFacts, by_cupti: bool) -> Sight {
        let exact = exact(question);
        let work = work_of(question.walked, &exact, question.device.chip.warp_threads);
        let question = &Question { work: work.or(question.work), ..*question };
        let expected = bound_of(question, &exact).expected();
        let arguments = question.arguments;
        let allocations = arguments.allocations.map(|bytes| bytes as f32);
        Sight {
            shape: question.shape,
            dynamic_shared: question.dynamic_shared,
            registers: question.kernel.registers,
            static_shared: question.kernel.static_shared,
            local: question.kernel.local_bytes,
            exact,
            mix: question.kernel.mix,
            looped,
            walked: *question.walked,
            arguments: arguments.count,
            integers: arguments.integers,
            allocated: [allocations.iter().sum(), allocations.iter().copied().fold(0.0, f32::max)],
            name,
            by_cupti,
            multiprocessors: question.device.multiprocessors,
            expected: log2(expected.max(1.0)),
        }
    }

    /// What an answer rests on that knows no time of the kernel.
    pub(super) fn rest(&self) -> Rest {
        match (self.walked.is_known(), self.mix.total > 0) {
            (true, _) => Rest::Walk,
            (false, true) => Rest::Mix,
            (false, false) => Rest::Shape,
        }
    }

    /// Whether both are launches of one configuration.
    pub(super) fn is_like(&self, other: &Sight) -> bool {
        let key = |one: &Sight| (one.shape, one.dynamic_shared, one.integers, one.by_cupti);
        key(self) == key(other)
    }

    /// How far a launch of the same kernel is, in doublings.
    pub(super) fn distance(&self, other: &Sight) -> f32 {
        let apart = |a: f32, b: f32| (a - b).abs();
        let blocks = apart(self.log_blocks(), other.log_blocks());
        let threads = apart(self.log_threads(), other.log_threads());
        let expected = apart(self.expected, other.expected);
        let integers = self.integers.iter().zip(&other.integers);
        let integers: f32 = integers.map(|(a, b)| apart(log_of(*a), log_of(*b))).sum();
        blocks + 2.0 * threads + expected + 0.5 * integers
    }

    fn log_blocks(&self) -> f32 {
        counted(self.exact.blocks as f32)
    }

    fn log_threads(&self) -> f32 {
        counted(self.exact.threads_per_block as f32)
    }

    fn longest(&self) -> f32 {
        self.integers.iter().map(|&integer| log_of(integer)).fold(0.0, f32::max)
    }
}

/// The operations and bytes that a walk tells: what all warps do, if all do as those that were walked.
fn work_of(walked: &Walked, exact: &Exact, warp_threads: u32) -> Option<Work> {
    let warps = exact.blocks as f64 * f64::from(exact.threads_per_block.div_ceil(warp_threads));
    walked.is_known().then(|| Work {
        flops: f64::from(walked.flops) * warps,
        bytes: f64::from(walked.missed + walked.stored) * SECTOR * warps,
        ..Work::default()
    })
}

/// Bytes of a sector: memory moves no less.
const SECTOR: f64 = 32.0;

/// log2 of one more than an integer; what is larger than any count is no count.
fn log_of(integer: u64) -> f32 {
    if integer < 1 << 40 { counted(integer as f32) } else { 0.0 }
}

fn flag(set: bool) -> f32 {
    f32::from(u8::from(set))
}

/// The share of instructions that is within loops.
fn share(part: u32, all: u32) -> f32 {
    part as f32 / all.max(1) as f32
}

/// A launch of the kernel in another shape, log2 of its time, and how many there are.
type Near<'a> = Option<(&'a Sight, f32, usize)>;

macro_rules! sighted {
    (|$sight:ident, $near:ident, $apart:ident| $($name:ident = $value:expr;)+) => {
        /// Names of the numbers, in their order, before those for the words of a name.
        const OWN: &[&str] = &[$(stringify!($name)),+];

        fn own($sight: &Sight, $near: &Near<'_>) -> [f32; OWN.len()] {
            let $apart = |of: fn(&Sight) -> f32| {
                $near.as_ref().map_or(0.0, |(other, ..)| of($sight) - of(other))
            };
            [$($value),+]
        }
    };
}

sighted! { |sight, near, apart|
    // Geometry.
    grid_x = counted(sight.shape.grid[0] as f32);
    grid_y = counted(sight.shape.grid[1] as f32);
    grid_z = counted(sight.shape.grid[2] as f32);
    block_x = counted(sight.shape.block[0] as f32);
    block_y = counted(sight.shape.block[1] as f32);
    block_z = counted(sight.shape.block[2] as f32);
    blocks = sight.log_blocks();
    block_threads = sight.log_threads();
    threads = sight.log_blocks() + sight.log_threads();
    // What the kernel takes, and what a multiprocessor holds of it.
    registers = sight.registers as f32 / 32.0;
    static_shared = counted(sight.static_shared as f32);
    dynamic_shared = counted(sight.dynamic_shared as f32);
    local = counted(sight.local as f32);
    occupancy = sight.exact.occupancy.fraction;
    blocks_per_sm = counted(sight.exact.occupancy.blocks_per_sm as f32);
    waves = counted(sight.exact.waves);
    lane_fill = sight.exact.lane_fill;
    wave_fill = sight.exact.wave_fill;
    whole_waves = log2(sight.exact.waves.ceil().max(1.0));
    busiest = counted((sight.exact.blocks as f32 / sight.multiprocessors.max(1) as f32).ceil());
    expected = sight.expected;
    by_cupti = flag(sight.by_cupti);
    // Its instructions, and those within loops.
    mix_known = flag(sight.mix.total > 0);
    is_machine = flag(sight.looped.is_machine);
    has_text = flag(sight.looped.has_text);
    mix_total = counted(sight.mix.total as f32);
    mix_float32 = counted(sight.mix.float32 as f32);
    mix_float64 = counted(sight.mix.float64 as f32);
    mix_float16 = counted(sight.mix.float16 as f32);
    mix_tensor = counted(sight.mix.tensor as f32);
    mix_special = counted(sight.mix.special as f32);
    mix_integer = counted(sight.mix.integer as f32);
    mix_convert = counted(sight.mix.convert as f32);
    mix_load_global = counted(sight.mix.load_global as f32);
    mix_store_global = counted(sight.mix.store_global as f32);
    mix_load_shared = counted(sight.mix.load_shared as f32);
    mix_store_shared = counted(sight.mix.store_shared as f32);
    mix_local = counted(sight.mix.local as f32);
    mix_atomic = counted(sight.mix.atomic as f32);
    mix_exchange = counted(sight.mix.exchange as f32);
    mix_barrier = counted(sight.mix.barrier as f32);
    mix_control = counted(sight.mix.control as f32);
    mix_loops = counted(sight.mix.loops as f32);
    mix_global_bytes = counted(sight.mix.global_bytes as f32);
    looped = share(sight.looped.total, sight.mix.total);
    looped_total = counted(sight.looped.total as f32);
    looped_tensor = counted(sight.looped.tensor as f32);
    looped_bytes = counted(sight.looped.bytes as f32);
    nested = counted(sight.looped.nested as f32);
    wide_tensor = counted(sight.looped.wide_tensor as f32);
    moved = counted(sight.mix.global_bytes as f32) + sight.log_blocks() + sight.log_threads();
    // What is passed.
    arguments_known = flag(sight.arguments > 0);
    arguments = f32::from(sight.arguments);
    integer_0 = log_of(sight.integers[0]);
    integer_1 = log_of(sight.integers[1]);
    integer_2 = log_of(sight.integers[2]);
    integer_3 = log_of(sight.integers[3]);
    longest_integer = sight.longest();
    allocated = counted(sight.allocated[0]);
    largest_allocation = counted(sight.allocated[1]);
    // What a warp does.
    walk_known = flag(sight.walked.is_known());
    walked_instructions = counted(sight.walked.instructions);
    walked_cycles = counted(sight.walked.cycles);
    walked_rounds = counted(sight.walked.rounds);
    walked_sectors = counted(sight.walked.missed + sight.walked.stored);
    walked_shared = counted(sight.walked.shared);
    walked_flops = counted(sight.walked.flops);
    walked_gathered = counted(sight.walked.gathered);
    walked_guessed = counted(sight.walked.guessed);
    // What the name says; its words follow.
    tile_rows = sight.name.tile[0];
    tile_columns = sight.name.tile[1];
    tile_depth = sight.name.tile[2];
    // The nearest launch of the kernel in another shape, as differences.
    others = near.map_or(0.0, |(_, _, count)| counted(count as f32));
    near_time = near.map_or(0.0, |(_, time, _)| time);
    near_over = near.map_or(0.0, |(other, time, _)| time - other.expected);
    apart_blocks = apart(Sight::log_blocks);
    apart_threads = apart(Sight::log_threads);
    apart_expected = apart(|one| one.expected);
    apart_waves = apart(|one| counted(one.exact.waves));
    apart_integer = apart(Sight::longest);
    apart_first = apart(|one| log_of(one.integers[0]));
    apart_allocated = apart(|one| counted(one.allocated[0]));
    apart_grid_x = apart(|one| counted(one.shape.grid[0] as f32));
    apart_grid_y = apart(|one| counted(one.shape.grid[1] as f32));
    far = near.map_or(0.0, |(other, ..)| other.distance(sight));
}

/// Names of the numbers, in their order.
pub const NAMES: [&str; OWN.len() + WORDS.len()] = {
    let mut names = [""; OWN.len() + WORDS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = if at < OWN.len() { OWN[at] } else { WORDS[at - OWN.len()].0 };
        at += 1;
    }
    names
};

const _: () = assert!(NAMES.len() <= COUNT);

impl Sight {
    /// All numbers, with those of a launch in another shape.
    pub(super) fn features(&self, near: Near<'_>) -> Sighted {
        let mut all = [0.0; COUNT];
        all[..OWN.len()].copy_from_slice(&own(self, &near));
        let words = self.name.words.map(flag);
        all[OWN.len()..NAMES.len()].copy_from_slice(&words);
        all
    }
}
