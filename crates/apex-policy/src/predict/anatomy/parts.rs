//! The parts that a launch is taken apart into: one list of what they are called, counted by, and cost.

use crate::predict::exact::Exact;
use crate::predict::question::{Mix, Pipe, Question, Work};

/// What the list below reads.
struct View<'a> {
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
    /// Further rows of a block that a warp reaches into: each is an access of its own.
    further_rows: f32,
    mix: &'a Mix,
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
        fn fill($view: &View<'_>) -> [f32; PARTS] {
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
        chain_instructions = view.waves * view.mix.total as f32, 1.0, 0.5;
        chain_loads = view.waves * view.mix.load_global as f32, 5.0, 20.0;
        chain_beyond = view.waves * view.beyond, 300.0, 30.0;
        chain_loads_beyond = view.waves * view.mix.load_global as f32 * view.beyond, 50.0, 20.0;
        chain_special = view.waves * view.mix.special as f32, 20.0, 10.0;
        chain_barriers = view.waves * view.mix.barrier as f32, 100.0, 20.0;
        chain_barrier_warps = view.waves * view.mix.barrier as f32 * view.warps_of_block, 0.0, 3.0;
    }
    ChainFlops {
        chain_single = view.waves * view.single, 1.0, 1.0;
        chain_double = view.waves * view.double, 1.0, 0.1;
        chain_tensor = view.waves * view.tensor, 0.05, 0.03;
    }
    ChainBytes {
        chain_bytes = view.waves * view.bytes_each, 0.0, 3.0;
        chain_looped_bytes = view.waves * view.looped_each, 25.0, 3.0;
        chain_looped_beyond = view.waves * view.looped_each * view.beyond, 25.0, 3.0;
    }
    Issue {
        warps = view.warps_on_one, 0.0, 1.0;
        issue_instructions = view.warps_on_one * view.mix.total as f32, 0.02, 0.02;
        issue_accesses = view.warps_on_one * (view.mix.load_global + view.mix.store_global) as f32, 0.0, 0.7;
        issue_special = view.warps_on_one * view.mix.special as f32, 1.0, 0.9;
        issue_atomics = view.warps_on_one * view.mix.atomic as f32, 1.0, 1.0;
        issue_local = view.warps_on_one * view.mix.local as f32, 0.5, 0.7;
        issue_rows = view.warps_on_one * accesses(view.mix) * view.further_rows, 0.7, 0.7;
    }
    IssueFlops {
        issue_single = view.warps_on_one * view.single, 0.063, 0.06;
        issue_double = view.warps_on_one * view.double, 0.13, 2e-3;
        issue_tensor = view.warps_on_one * view.tensor, 0.0043, 2e-3;
    }
    IssueBytes {
        issue_bytes = view.warps_on_one * view.bytes_each, 0.1, 0.1;
        issue_looped_bytes = view.warps_on_one * view.looped_each, 0.1, 0.1;
    }
    Bytes {
        bytes = view.bytes, 1e-4, 5e-5;
        local = view.threads * view.mix.local as f32, 1e-4, 1e-3;
    }
    Beyond {
        bytes_beyond_cache = view.bytes_beyond, 2e-4, 1e-5;
    }
    Serial {
        threads = view.threads, 0.0, 6e-4;
        atomics = view.threads * view.mix.atomic as f32, 1e-3, 5e-4;
    }
}

fn accesses(mix: &Mix) -> f32 {
    (mix.load_global + mix.store_global + mix.atomic) as f32
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
        further_rows: lanes / along_x - 1.0,
        mix: &question.kernel.mix,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::exact::exact;
    use crate::predict::question::{Arguments, Device, Kernel};
    use crate::{Chip, LaunchShape};

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
                work: Some(Work { bytes: 12e6, ..Work::default() }),
            };
            let parts = parts(&question, &exact(&question), &question.work.unwrap());
            parts[NAMES.iter().position(|name| *name == "issue_rows").unwrap()]
        };
        assert_eq!((shaped([32, 8, 1]), shaped([256, 1, 1])), (0.0, 0.0));
        assert!(shaped([1, 128, 1]) > 4.0 * shaped([8, 16, 1]));
    }
}
