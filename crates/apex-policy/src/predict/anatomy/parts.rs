//! The parts that a launch is taken apart into: one list of what they are called, counted by, and cost.

use crate::predict::exact::Exact;
use crate::predict::question::{Kernel, Mix, Pipe, Question, Walked, Work};

/// What the list below reads.
struct View {
    blocks: f32,
    /// Blocks on the busiest multiprocessor, and their warps.
    blocks_on_one: f32,
    warps_on_one: f32,
    /// Warps of one block: as many wait for each other at a barrier.
    warps_of_block: f32,
    /// Waves, and waves begun; at least one.
    waves: f32,
    whole_waves: f32,
    threads: f32,
    /// Operations of one thread if they run on these units, else none.
    single: f32,
    double: f32,
    tensor: f32,
    /// Bytes of one thread, and the same for a kernel with loops.
    bytes_each: f32,
    looped_each: f32,
    bytes: f32,
    bytes_beyond: f32,
    /// The share of bytes that come from beyond the cache.
    beyond: f32,
    /// The share of local memory that the nearest cache does not hold.
    local_missed: f32,
    /// All warps.
    warps: f32,
    /// What a warp does: by its walk, or as the text says it once.
    walked: Walked,
    /// One where the text was not walked.
    unknown: f32,
}

macro_rules! parts {
    (|$view:ident| $($group:ident { $($name:ident = $value:expr, $cost:expr, $least:expr;)+ })+) => {
        /// Names of the parts, in their order.
        pub const NAMES: &[&str] = &[$($(stringify!($name)),+),+];
        /// How many parts there are.
        pub const PARTS: usize = NAMES.len();
        /// What each part costs on a large GPU in round figures, in nanoseconds, for devices without rows: peak
        /// rates for arithmetic and bytes, usual latencies for the rest.
        pub const USUAL: Costs = [$($($cost),+),+];
        /// About a hundredth of a usual launch's time, in nanoseconds for one of each part: where a kernel's search
        /// for its own costs begins with parts that are free on the device; see `own_costs`.
        pub const LEAST: Costs = [$($($least),+),+];
        /// The group of each part.
        pub(super) const GROUP_OF: [usize; PARTS] = [$($(Group::$group as usize + 0 * stringify!($name).len()),+),+];

        #[inline]
        fn fill($view: &View) -> [f32; PARTS] {
            [$($($value),+),+]
        }
    };
}

/// What parts have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// What every launch costs.
    Launch,
    /// Starting blocks.
    Blocks,
    /// The longest thread of each wave, whatever it computes.
    Chain,
    /// Its arithmetic.
    ChainFlops,
    /// Its memory.
    ChainBytes,
    /// What the busiest multiprocessor issues, whatever that computes.
    Issue,
    /// Its arithmetic.
    IssueFlops,
    /// Its memory.
    IssueBytes,
    /// Bytes from the cache that all share.
    Bytes,
    /// Bytes from beyond it.
    Beyond,
    /// What threads of the whole device do one after the other.
    Serial,
}

/// How many groups there are.
pub const GROUPS: usize = Group::Serial as usize + 1;

/// Nanoseconds of one of each part.
pub type Costs = [f32; PARTS];

parts! { |view|
    Launch {
        launch = 1.0, 2_000.0, 100.0;
    }
    Blocks {
        blocks = view.blocks, 0.5, 0.1;
        blocks_on_one = view.blocks_on_one, 0.0, 10.0;
    }
    Chain {
        waves = view.waves, 50.0, 30.0;
        whole_waves = view.whole_waves, 50.0, 30.0;
        chain_cycles = view.waves * view.walked.cycles, 0.5, 0.1;
        chain_rounds = view.waves * view.walked.rounds, 300.0, 20.0;
        chain_beyond = view.waves * view.beyond, 300.0, 30.0;
        chain_rounds_beyond = view.waves * view.walked.rounds * view.beyond, 200.0, 20.0;
        chain_barriers = view.waves * view.walked.barriers, 20.0, 20.0;
        chain_barrier_warps = view.waves * view.walked.barriers * view.warps_of_block, 0.0, 3.0;
    }
    ChainFlops {
        chain_single = view.unknown * view.waves * view.single, 1.0, 1.0;
        chain_double = view.unknown * view.waves * view.double, 1.0, 0.1;
        chain_tensor = view.unknown * view.waves * view.tensor, 0.05, 0.03;
    }
    ChainBytes {
        chain_bytes = view.unknown * view.waves * view.bytes_each, 0.0, 3.0;
        chain_looped_bytes = view.unknown * view.waves * view.looped_each, 25.0, 3.0;
        chain_looped_beyond = view.unknown * view.waves * view.looped_each * view.beyond, 25.0, 3.0;
    }
    Issue {
        warps = view.warps_on_one, 0.0, 1.0;
        issue_instructions = view.warps_on_one * view.walked.instructions, 0.12, 0.02;
        issue_lines = view.warps_on_one * view.walked.lines, 0.5, 0.3;
        issue_missed = view.warps_on_one * (view.walked.missed + view.walked.stored), 0.3, 0.2;
        issue_special = view.warps_on_one * view.walked.special, 1.0, 0.9;
        issue_shared = view.warps_on_one * view.walked.shared, 0.5, 0.1;
        issue_constants = view.warps_on_one * view.walked.constants, 0.5, 0.1;
        issue_atomics = view.warps_on_one * view.walked.meeting, 1.0, 1.0;
        issue_local = view.warps_on_one * view.walked.local, 2.0, 0.7;
    }
    IssueFlops {
        issue_single = view.warps_on_one * view.single, 0.063, 0.06;
        issue_double = view.warps_on_one * view.double, 0.13, 2e-3;
        issue_tensor = view.warps_on_one * view.tensor, 0.0043, 2e-3;
    }
    IssueBytes {
        issue_bytes = view.unknown * view.warps_on_one * view.bytes_each, 0.1, 0.1;
        issue_looped_bytes = view.unknown * view.warps_on_one * view.looped_each, 0.1, 0.1;
    }
    Bytes {
        bytes = view.bytes, 1e-4, 5e-5;
        sectors = view.warps * (view.walked.missed + view.walked.stored), 5e-3, 1e-3;
        local = view.warps * view.walked.local * view.local_missed, 2e-2, 1e-2;
    }
    Beyond {
        bytes_beyond_cache = view.bytes_beyond, 2e-4, 1e-5;
        gathered_beyond = view.warps * view.walked.gathered * view.beyond, 5e-3, 1e-3;
    }
    Serial {
        threads = view.threads, 0.0, 6e-4;
        atomics = view.warps * view.walked.atomics, 1e-3, 5e-4;
        contended = view.warps * view.walked.contended, 2.0, 0.5;
    }
}

/// What a text says once, for a launch whose text nobody walked: neighbouring lanes are taken to reach neighbouring
/// words of one row each.
fn by_text(mix: &Mix, rows: f32) -> Walked {
    let of = |counts: &[u32]| counts.iter().sum::<u32>() as f32;
    let accesses = of(&[mix.load_global, mix.store_global]);
    Walked {
        instructions: of(&[mix.total]),
        cycles: 4.0 * of(&[mix.total]) + 20.0 * of(&[mix.special]),
        rounds: of(&[mix.load_global]).min(2.0),
        special: of(&[mix.special]),
        accesses,
        lines: rows * accesses,
        missed: 4.0 * rows * of(&[mix.load_global]),
        stored: 4.0 * rows * of(&[mix.store_global]),
        shared: of(&[mix.load_shared, mix.store_shared]),
        local: of(&[mix.local]),
        barriers: of(&[mix.barrier]),
        atomics: 32.0 * of(&[mix.atomic]),
        meeting: of(&[mix.atomic]),
        ..Walked::default()
    }
}

/// A walk that had to guess how often loops turn, with as many turns as the operations tell.
fn scaled(walked: &Walked, flops: f32, warps: f32) -> Walked {
    let counted = walked.flops * warps;
    if walked.guessed == 0.0 || counted == 0.0 || flops == 0.0 {
        return *walked;
    }
    let factor = (flops / counted).clamp(1e-3, 1e3);
    Walked::from_numbers(&walked.numbers().map(|number| number * factor))
}

/// A walk with what the text does not show: registers that the compiler had no room for go through local memory.
fn spilled(walked: Walked, kernel: &Kernel) -> Walked {
    if walked.local > 0.0 || kernel.local_bytes == 0 {
        return walked;
    }
    let words = kernel.local_bytes as f32 / 4.0;
    let share = words / (words + kernel.registers as f32);
    Walked { local: walked.instructions * share, ..walked }
}

/// Bytes of the cache that a multiprocessor has for itself.
const NEAREST_BYTES: f32 = 131_072.0;

/// The share of local memory that so many threads find only beyond that; never quite nothing.
fn local_missed(kernel: &Kernel, threads: f32) -> f32 {
    let bytes = threads * kernel.local_bytes as f32;
    (1.0 - NEAREST_BYTES / bytes.max(NEAREST_BYTES)).max(0.01)
}

/// The share of the second-level cache that holds what the launch before left.
const KEPT: f32 = 0.6;

/// The share of what a launch touches that comes from beyond the cache. What is too much for the cache drives out
/// what would have fitted before it is read again, so the share that hits falls with the third power.
#[inline]
fn beyond(touched: f32, l2_bytes: u64) -> f32 {
    let fits = (KEPT * l2_bytes as f32 / touched.max(1.0)).min(1.0);
    1.0 - fits * fits * fits
}

/// The counts of every part of a launch.
#[inline]
#[must_use]
pub fn parts(question: &Question<'_>, exact: &Exact, work: &Work) -> [f32; PARTS] {
    let device = question.device;
    let threads_per_block = exact.threads_per_block as f32;
    let blocks = exact.blocks as f32;
    let threads = (blocks * threads_per_block).max(1.0);
    let blocks_on_one = (blocks / device.multiprocessors.max(1) as f32).ceil();
    let warps = exact.threads_per_block.div_ceil(device.chip.warp_threads) as f32;
    let (flops, bytes) = (work.flops as f32, work.bytes as f32);
    let only = |pipe: Pipe| if work.pipe == pipe { flops / threads } else { 0.0 };
    let touched: f32 = question.arguments.allocations.iter().map(|bytes| *bytes as f32).sum();
    let touched = if touched > 0.0 { touched } else { bytes };
    let beyond = beyond(touched, device.l2_bytes);
    let bytes_each = bytes / threads;
    let lanes = threads_per_block.min(device.chip.warp_threads as f32).max(1.0);
    let known = question.walked.is_known();
    let resident = blocks_on_one.min(exact.occupancy.blocks_per_sm as f32) * threads_per_block;
    let along_x = (question.shape.block[0] as f32).clamp(1.0, lanes);
    fill(&View {
        blocks,
        blocks_on_one,
        warps_on_one: blocks_on_one * warps,
        warps_of_block: warps,
        waves: exact.waves.max(1.0),
        whole_waves: exact.waves.ceil().max(1.0),
        threads,
        single: only(Pipe::Single),
        double: only(Pipe::Double),
        tensor: only(Pipe::Tensor),
        bytes_each,
        looped_each: if question.kernel.mix.loops > 0 { bytes_each } else { 0.0 },
        bytes,
        bytes_beyond: bytes * beyond,
        beyond,
        local_missed: local_missed(question.kernel, resident),
        warps: blocks * warps,
        walked: match known {
            true => spilled(scaled(question.walked, flops, blocks * warps), question.kernel),
            false => by_text(&question.kernel.mix, lanes / along_x),
        },
        unknown: if known { 0.0 } else { 1.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::exact::exact;
    use crate::predict::question::{Arguments, Device, Kernel, Walked};
    use crate::{Chip, LaunchShape};

    fn place(name: &str) -> usize {
        NAMES.iter().position(|known| *known == name).unwrap()
    }

    fn found(kernel: &Kernel, walked: &Walked, work: Work) -> [f32; PARTS] {
        let chip = Chip::for_capability(9, 0).unwrap();
        let device = Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20);
        let shape = LaunchShape { grid: [4096, 1, 1], block: [256, 1, 1] };
        let question = Question::by_shape(&device, kernel, shape, 0);
        let question = Question { walked, work: Some(work), ..question };
        parts(&question, &exact(&question), &work)
    }

    #[test]
    fn a_walk_that_guessed_turns_believes_the_operations() {
        let kernel = Kernel { registers: 32, ..Kernel::default() };
        let warps = 4096.0 * 8.0;
        let walked = Walked { instructions: 100.0, flops: 640.0, ..Walked::default() };
        let work = Work { flops: 4.0 * 640.0 * warps, ..Work::default() };
        let of = |walked: &Walked| found(&kernel, walked, work)[place("issue_instructions")];
        let sure = of(&walked);
        let guessed = of(&Walked { guessed: 1.0, ..walked });
        assert!((guessed / sure - 4.0).abs() < 1e-3, "{sure} {guessed}");
    }

    #[test]
    fn registers_without_room_go_through_local_memory() {
        let walked = Walked { instructions: 100.0, ..Walked::default() };
        let local = |bytes: u32| {
            let kernel = Kernel { registers: 64, local_bytes: bytes, ..Kernel::default() };
            found(&kernel, &walked, Work::default())[place("issue_local")]
        };
        assert_eq!(local(0), 0.0);
        assert!(local(512) > local(64) && local(64) > 0.0);
    }

    #[test]
    fn a_warp_that_reaches_into_many_rows_costs_more() {
        let chip = Chip::for_capability(9, 0).unwrap();
        let device = Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20);
        let mix = Mix { total: 20, load_global: 2, store_global: 1, ..Mix::default() };
        let kernel = Kernel { registers: 32, mix, ..Kernel::default() };
        let arguments = Arguments::default();
        let shaped = |block: [u32; 3]| {
            let question = Question {
                device: &device,
                kernel: &kernel,
                shape: LaunchShape { grid: [4096, 1, 1], block },
                dynamic_shared: 0,
                arguments: &arguments,
                walked: Walked::NONE,
                work: Some(Work { bytes: 12e6, ..Work::default() }),
            };
            let parts = parts(&question, &exact(&question), &question.work.unwrap());
            parts[place("issue_lines")]
        };
        // Blocks of as many warps each.
        assert_eq!(shaped([32, 8, 1]), shaped([256, 1, 1]));
        assert!(shaped([8, 32, 1]) > 3.0 * shaped([32, 8, 1]));
        assert!(shaped([1, 256, 1]) > 7.0 * shaped([8, 32, 1]));
    }
}
