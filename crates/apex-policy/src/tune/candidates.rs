//! What is worth trying on one kernel.
//!
//! Occupancy is exact arithmetic, so it decides which limits of registers and which carve-outs differ at all, and which
//! blocks fill warps and waves best. It does not decide what is faster: that is measured.

use super::change::{Cache, Change};
use super::reshaped::reshaped;
use crate::{Chip, KernelNeeds, LaunchShape, Limiter, launch_facts, occupancy};

/// A kernel as far as its changes go.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// What one multiprocessor holds.
    pub chip: Chip,
    /// Multiprocessors of the device.
    pub multiprocessors: u32,
    /// What the kernel takes, with the dynamic shared memory of its heaviest launch.
    pub needs: KernelNeeds,
    /// The shape of its heaviest launch.
    pub shape: LaunchShape,
    /// The most threads of a block, by the driver and by the kernel's text.
    pub most_threads: u32,
    /// Whether the driver compiles its image from text.
    pub is_compiled: bool,
    /// For each side whether the text proves that the block may be changed.
    pub free_sides: [bool; 3],
}

/// Limits of registers and blocks that are tried at most.
const MOST_LIMITS: usize = 2;
const MOST_BLOCKS: usize = 3;
/// No compiler keeps a kernel of this size together with fewer.
const FEWEST_REGISTERS: u32 = 16;

/// Threads of blocks along one side that are considered, the usual ones first.
pub const LINEAR_BLOCKS: [u32; 7] = [256, 128, 512, 64, 1024, 192, 32];

/// Blocks that are considered, the usual ones first.
const BLOCKS: [[u32; 3]; 16] = [
    [256, 1, 1],
    [128, 1, 1],
    [512, 1, 1],
    [64, 1, 1],
    [1024, 1, 1],
    [192, 1, 1],
    [32, 1, 1],
    [32, 8, 1],
    [32, 4, 1],
    [64, 4, 1],
    [16, 16, 1],
    [128, 2, 1],
    [32, 16, 1],
    [64, 2, 1],
    [32, 2, 1],
    [32, 4, 2],
];

/// Changes in the order in which they should be tried.
#[must_use]
pub fn candidates(subject: &Subject) -> Vec<Change> {
    let mut list = hints(subject);
    if subject.is_compiled {
        list.extend(limits(subject));
    }
    list.extend(blocks(subject));
    list
}

fn hints(subject: &Subject) -> Vec<Change> {
    let shared = subject.needs.static_shared + subject.needs.dynamic_shared;
    if shared == 0 {
        return vec![Change::Carveout(0), Change::Cache(Cache::L1)];
    }
    let threads = subject.shape.threads_per_block();
    let held = |percent: u32| {
        let carveout = crate::Carveout::from_attribute(percent.cast_signed());
        let needs = KernelNeeds { carveout, ..subject.needs };
        occupancy(&subject.chip, &needs, threads).blocks_per_sm
    };
    let most = occupancy(&subject.chip, &subject.needs, threads).blocks_per_sm;
    // The rest of the memory is cache: the smallest share that costs no block leaves most of it.
    let smallest = (0..=100).step_by(5).find(|percent| held(*percent) >= most);
    let mut list: Vec<Change> =
        smallest.filter(|percent| *percent < 100).map(Change::Carveout).into_iter().collect();
    list.extend([Change::Carveout(100), Change::Cache(Cache::Shared)]);
    list
}

/// The largest limits with which another block fits.
fn limits(subject: &Subject) -> Vec<Change> {
    let threads = subject.shape.threads_per_block();
    let at = |registers: u32| {
        let needs = KernelNeeds { registers, ..subject.needs };
        occupancy(&subject.chip, &needs, threads)
    };
    let own = subject.needs.registers;
    if at(own).limiter != Limiter::Registers {
        return Vec::new();
    }
    let mut list = Vec::new();
    let mut best = at(own).blocks_per_sm;
    // Much below what the compiler wanted, spilled registers cost more than blocks bring.
    let fewest = (own / 2).max(FEWEST_REGISTERS);
    for registers in (fewest..own).rev() {
        let held = at(registers).blocks_per_sm;
        if held > best && list.len() < MOST_LIMITS {
            best = held;
            list.push(Change::Registers(registers));
        }
    }
    list
}

/// Blocks that keep every index, best filling first.
fn blocks(subject: &Subject) -> Vec<Change> {
    let from = subject.shape.block;
    let allowed = |to: &[u32; 3]| {
        let kept = (0..3).all(|side| to[side] == from[side] || subject.free_sides[side]);
        kept && *to != from && to.iter().product::<u32>() <= subject.most_threads
    };
    // A side that may not change keeps its own length beside the lengths of the list.
    let beside = |block: &[u32; 3]| -> [u32; 3] {
        std::array::from_fn(|side| if subject.free_sides[side] { block[side] } else { from[side] })
    };
    let mut list: Vec<([u32; 3], f32)> = Vec::new();
    for to in BLOCKS.iter().map(beside).filter(allowed) {
        let filled = fill(subject, to);
        if filled > 0.0 && !list.iter().any(|(known, _)| *known == to) {
            list.push((to, filled));
        }
    }
    // Stable: of equal ones the usual one comes first.
    list.sort_by(|a, b| b.1.total_cmp(&a.1));
    list.truncate(MOST_BLOCKS);
    list.into_iter().map(|(to, _)| Change::Block { from, to }).collect()
}

/// How well a block fills warps, multiprocessors and waves; 0 if it cannot take the place of the program's.
fn fill(subject: &Subject, to: [u32; 3]) -> f32 {
    let Some(shape) = reshaped(&subject.shape, to) else { return 0.0 };
    let facts = launch_facts(&subject.chip, subject.multiprocessors, &subject.needs, &shape);
    let threads = shape.threads_per_block();
    let lanes = threads.div_ceil(subject.chip.warp_threads) * subject.chip.warp_threads;
    let tail = if facts.waves < 8.0 { 1.0 - facts.tail_fraction / 4.0 } else { 1.0 };
    facts.occupancy.fraction * threads as f32 / lanes.max(1) as f32 * tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::Tier;

    fn subject() -> Subject {
        Subject {
            chip: Chip::for_capability(9, 0).unwrap(),
            multiprocessors: 132,
            needs: KernelNeeds {
                registers: 32,
                static_shared: 0,
                dynamic_shared: 0,
                max_dynamic_shared: 0,
                carveout: crate::Carveout::Unset,
            },
            shape: LaunchShape { grid: [65_536, 1, 1], block: [16, 1, 1] },
            most_threads: 1024,
            is_compiled: true,
            free_sides: [true, false, false],
        }
    }

    #[test]
    fn the_safest_come_first_and_unproven_blocks_never() {
        let list = candidates(&subject());
        let tiers: Vec<Tier> = list.iter().map(Change::tier).collect();
        assert!(tiers.is_sorted(), "{list:?}");
        assert_eq!(list[0], Change::Carveout(0));
        assert!(list.contains(&Change::Block { from: [16, 1, 1], to: [256, 1, 1] }), "{list:?}");
        let tied = Subject { free_sides: [false; 3], ..subject() };
        assert!(candidates(&tied).iter().all(|change| change.tier() < Tier::Block));
    }

    #[test]
    fn registers_are_limited_only_where_they_cost_blocks() {
        assert!(!candidates(&subject()).iter().any(|c| c.tier() == Tier::Compile));
        let mut heavy = subject();
        heavy.needs.registers = 96;
        heavy.shape = LaunchShape { grid: [1000, 1, 1], block: [256, 1, 1] };
        let limits: Vec<Change> =
            candidates(&heavy).into_iter().filter(|c| c.tier() == Tier::Compile).collect();
        assert_eq!(limits, [Change::Registers(80), Change::Registers(64)]);
        heavy.is_compiled = false;
        assert!(!candidates(&heavy).iter().any(|c| c.tier() == Tier::Compile));
    }

    #[test]
    fn a_side_that_is_not_free_keeps_its_length() {
        let plane = Subject {
            shape: LaunchShape { grid: [64, 64, 1], block: [8, 4, 1] },
            free_sides: [true, false, false],
            ..subject()
        };
        for change in candidates(&plane) {
            if let Change::Block { to, .. } = change {
                assert_eq!(to[1..], [4, 1]);
            }
        }
        let mut both = Subject { free_sides: [true, true, false], ..plane };
        assert!(candidates(&both).iter().any(|c| c.tier() == Tier::Block));
        both.most_threads = 128;
        let wide = Change::Block { from: [8, 4, 1], to: [32, 8, 1] };
        assert!(!candidates(&both).contains(&wide));
    }

    #[test]
    fn shared_memory_gets_the_smallest_share_that_costs_no_block() {
        let mut tiled = subject();
        tiled.needs.static_shared = 16 << 10;
        tiled.shape = LaunchShape { grid: [1000, 1, 1], block: [512, 1, 1] };
        let list = candidates(&tiled);
        let Change::Carveout(percent) = list[0] else { panic!("{list:?}") };
        assert!((20..60).contains(&percent), "{percent}");
    }
}
