//! Counts the parts of a launch: how often it has what each of them costs for.

use crate::predict::exact::Exact;
use crate::predict::parts::{self, PARTS, View};
use crate::predict::question::{Kernel, Mix, Pipe, Question, Walked, Work};

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
pub fn parts_of(question: &Question<'_>, exact: &Exact, work: &Work) -> [f32; PARTS] {
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
    parts::counts(&View {
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
        parts::NAMES.iter().position(|known| *known == name).unwrap()
    }

    fn found(kernel: &Kernel, walked: &Walked, work: Work) -> [f32; PARTS] {
        let chip = Chip::for_capability(9, 0).unwrap();
        let device = Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20);
        let shape = LaunchShape { grid: [4096, 1, 1], block: [256, 1, 1] };
        let question = Question::by_shape(&device, kernel, shape, 0);
        let question = Question { walked, work: Some(work), ..question };
        parts_of(&question, &exact(&question), &work)
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
            let parts = parts_of(&question, &exact(&question), &question.work.unwrap());
            parts[place("issue_lines")]
        };
        // Blocks of as many warps each.
        assert_eq!(shaped([32, 8, 1]), shaped([256, 1, 1]));
        assert!(shaped([8, 32, 1]) > 3.0 * shaped([32, 8, 1]));
        assert!(shaped([1, 256, 1]) > 7.0 * shaped([8, 32, 1]));
    }
}
