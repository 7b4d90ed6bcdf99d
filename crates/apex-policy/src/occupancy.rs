//! How many blocks of a kernel fit on one multiprocessor, and what a launch makes of it.
//!
//! The answer equals the driver's `cuOccupancyMaxActiveBlocksPerMultiprocessor`: each
//! resource alone allows some number of blocks and the smallest number holds. It costs
//! a few divisions, so it is computed for every launch shape instead of asked.
//!
//! Three rules are easy to get wrong:
//! - Registers belong to a sub-partition: a warp that does not fit into what is left of
//!   one cannot borrow from its neighbour. Only whether *one* block may start at all
//!   is decided with its warps rounded up to the number of sub-partitions.
//! - The carve-out is a preference. It caps the blocks only while one block fits into
//!   it; a block that needs more gets the smallest capacity that holds it, not the
//!   largest, so a small carve-out can cost blocks.
//! - The driver's own reserve counts for every block, also one with no shared memory.
//!
//! Two resources are left open because no driver query tells a kernel's need of them.
//! From capability 9.0 on a kernel with many named barriers may fit fewer blocks than
//! said here, and so may one on 10.0 and later that uses tensor memory. Cluster
//! launches have a question of their own and are not answered here.

use core::fmt;

use crate::Chip;

/// What a kernel takes, as the driver's function attributes tell it. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelNeeds {
    /// Registers of one thread.
    pub registers: u32,
    /// Shared memory the kernel declares.
    pub static_shared: u32,
    /// Shared memory this launch asks for on top.
    pub dynamic_shared: u32,
    /// The most dynamic shared memory a launch of this kernel may ask for.
    pub max_dynamic_shared: u32,
    /// How the SM should divide its memory between L1 and shared memory.
    pub carveout: Carveout,
}

/// A kernel's wish how much of an SM's memory should be shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carveout {
    /// No wish; as many blocks as the largest capacity allows.
    #[default]
    Unset,
    /// A share of the largest capacity, 0 to 100.
    Percent(u8),
}

impl Carveout {
    /// Reads `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`.
    ///
    /// The driver refuses to set anything but -1 and 0 to 100, so every other value
    /// means the same as -1.
    pub fn from_attribute(value: i32) -> Carveout {
        match u8::try_from(value) {
            Ok(percent @ 0..=100) => Carveout::Percent(percent),
            _ => Carveout::Unset,
        }
    }
}

/// The grid and the block of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks of the grid by dimension.
    pub grid: [u32; 3],
    /// Threads of a block by dimension.
    pub block: [u32; 3],
}

impl LaunchShape {
    /// Blocks of the whole grid.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().fold(1, |product, &side| u64::from(side).saturating_mul(product))
    }

    /// Threads of one block.
    pub fn threads_per_block(&self) -> u32 {
        self.block.iter().fold(1, |product, &side| side.saturating_mul(product))
    }
}

/// Why no more blocks fit on an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// Nothing: every warp slot is taken.
    None,
    /// Another block of this size exceeds the warp slots, or blocks of this size cannot run.
    Warps,
    /// The SM keeps no more blocks, however small.
    Blocks,
    /// The register file is used up.
    Registers,
    /// The shared memory is used up.
    SharedMemory,
}

impl fmt::Display for Limiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Limiter::None => "none",
            Limiter::Warps => "block size",
            Limiter::Blocks => "blocks per SM",
            Limiter::Registers => "registers",
            Limiter::SharedMemory => "shared memory",
        })
    }
}

/// How full one SM can be with one kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occupancy {
    /// Blocks resident at once; 0 means that the launch is refused.
    pub blocks_per_sm: u32,
    /// Warps resident at once.
    pub warps_per_sm: u32,
    /// Resident warps as a share of the warp slots.
    pub fraction: f32,
    /// What stops the next block; with no block at all, what refuses the first one.
    pub limiter: Limiter,
}

/// What follows from a launch's shape on a whole device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchFacts {
    /// How full one SM can be.
    pub occupancy: Occupancy,
    /// The grid's blocks as multiples of what the device holds at once.
    pub waves: f32,
    /// Waves that fill the device.
    pub full_waves: u64,
    /// The share of the last wave's block slots that stay empty; 0 when all waves are full.
    pub tail_fraction: f32,
    /// Lanes without a thread in the last warp of each block.
    pub idle_lanes: u32,
    /// Lanes with a thread as a share of the lanes a block's warps have.
    pub block_efficiency: f32,
}

/// Computes the occupancy of a kernel with blocks of the given size.
#[inline]
pub fn occupancy(chip: &Chip, needs: &KernelNeeds, threads_per_block: u32) -> Occupancy {
    let lanes = threads_per_block.saturating_add(chip.warp_threads - 1);
    let warps_per_block = divided(lanes, chip.warp_threads);
    // Where several limits are equal, the first one listed is named: block size and blocks
    // per SM hold for every kernel, so relieving a later one would gain nothing.
    let limits = [
        (Limiter::Warps, blocks_by_warps(chip, threads_per_block, warps_per_block)),
        (Limiter::Blocks, chip.max_blocks_per_sm),
        (Limiter::Registers, blocks_by_registers(chip, needs, warps_per_block)),
        (Limiter::SharedMemory, blocks_by_shared_memory(chip, needs)),
    ];
    let mut tightest = limits[0];
    for limit in limits {
        if limit.1 < tightest.1 {
            tightest = limit;
        }
    }
    let (limiter, blocks_per_sm) = tightest;
    let warps_per_sm = blocks_per_sm * warps_per_block;
    let most_warps = most_warps(chip);
    let full = warps_per_sm == most_warps;
    Occupancy {
        blocks_per_sm,
        warps_per_sm,
        fraction: warps_per_sm as f32 / most_warps as f32,
        limiter: if full { Limiter::None } else { limiter },
    }
}

/// Computes what a launch makes of a device with `sms` multiprocessors.
///
/// A launch that cannot run has no waves.
pub fn launch_facts(
    chip: &Chip,
    sms: u32,
    needs: &KernelNeeds,
    shape: &LaunchShape,
) -> LaunchFacts {
    let threads = shape.threads_per_block();
    let occupancy = occupancy(chip, needs, threads);
    let blocks = shape.blocks();
    let slots = u64::from(occupancy.blocks_per_sm) * u64::from(sms);
    let (waves, full_waves, last_wave) = match slots {
        0 => (0.0, 0, 0),
        _ => ((blocks as f64 / slots as f64) as f32, blocks / slots, blocks % slots),
    };
    let lanes = u64::from(threads.div_ceil(chip.warp_threads)) * u64::from(chip.warp_threads);
    LaunchFacts {
        occupancy,
        waves,
        full_waves,
        tail_fraction: match last_wave {
            0 => 0.0,
            _ => ((slots - last_wave) as f64 / slots as f64) as f32,
        },
        idle_lanes: (lanes - u64::from(threads)) as u32,
        block_efficiency: match lanes {
            0 => 0.0,
            _ => (f64::from(threads) / lanes as f64) as f32,
        },
    }
}

/// The kernel's own bound on its block size is no matter here: the driver counts blocks that it would
/// refuse to launch (seen with driver 580).
#[inline]
fn blocks_by_warps(chip: &Chip, threads_per_block: u32, warps_per_block: u32) -> u32 {
    if threads_per_block == 0 || threads_per_block > chip.max_threads_per_block {
        return 0;
    }
    most_warps(chip) / warps_per_block
}

#[inline]
fn blocks_by_registers(chip: &Chip, needs: &KernelNeeds, warps_per_block: u32) -> u32 {
    if needs.registers > chip.max_registers_per_thread {
        return 0;
    }
    let per_warp = round_up(needs.registers * chip.warp_threads, chip.register_unit);
    if per_warp == 0 || warps_per_block == 0 {
        return u32::MAX;
    }
    // The hardware checks a block as if all sub-partitions took equally many of its warps.
    let checked_warps = round_up(warps_per_block, chip.sub_partitions);
    if u64::from(per_warp) * u64::from(checked_warps) > u64::from(chip.max_registers_per_block) {
        return 0;
    }
    let warps_per_sub_partition = divided(chip.registers_per_sm, chip.sub_partitions) / per_warp;
    warps_per_sub_partition * chip.sub_partitions / warps_per_block
}

#[inline]
fn blocks_by_shared_memory(chip: &Chip, needs: &KernelNeeds) -> u32 {
    // Sums of sizes that no device has stay at the largest number: refused either way.
    let bare = needs.static_shared.saturating_add(needs.dynamic_shared);
    // A limit that was set below the usual size of a block is not held to (seen with driver 580).
    if needs.dynamic_shared > needs.max_dynamic_shared && bare > chip.max_shared_per_block {
        return 0;
    }
    let reserved = needs.static_shared.saturating_add(chip.reserved_shared_per_block);
    let opted_in = reserved.saturating_add(needs.max_dynamic_shared) > chip.max_shared_per_block;
    let most = if opted_in { chip.max_shared_per_block_optin } else { chip.max_shared_per_block };
    let most = most + chip.reserved_shared_per_block;
    let asked = reserved.saturating_add(needs.dynamic_shared);
    if asked > most {
        return 0;
    }
    let allocated = round_up(asked, chip.shared_unit);
    if allocated > most {
        return 0;
    }
    if allocated == 0 {
        return u32::MAX;
    }
    let capacity = match needs.carveout {
        // The largest capacity holds every block that may run.
        Carveout::Unset => capacity_holding(chip, chip.shared_per_sm),
        Carveout::Percent(percent) => {
            let preferred = u64::from(chip.shared_per_sm) * u64::from(percent) / 100;
            capacity_holding(chip, preferred as u32).max(capacity_holding(chip, allocated))
        }
    };
    capacity / allocated
}

/// The smallest capacity of the carve-out that holds so many bytes.
///
/// A device that reports more shared memory than its capability lists has that much.
#[inline]
fn capacity_holding(chip: &Chip, bytes: u32) -> u32 {
    if chip.shared_capacities.last().is_none_or(|&largest| largest <= bytes) {
        return chip.shared_per_sm.max(chip.shared_capacities.last().copied().unwrap_or(0));
    }
    let mut listed = chip.shared_capacities.iter().copied();
    listed.find(|&capacity| capacity >= bytes).unwrap_or(chip.shared_per_sm)
}

/// The next multiple of a unit. Every unit of a chip is a power of two, for which no division is needed.
#[inline]
fn round_up(value: u32, unit: u32) -> u32 {
    if unit.is_power_of_two() {
        value.saturating_add(unit - 1) & !(unit - 1)
    } else {
        value.next_multiple_of(unit)
    }
}

/// Warps that one SM holds.
#[inline]
fn most_warps(chip: &Chip) -> u32 {
    divided(chip.max_threads_per_sm, chip.warp_threads)
}

/// A quotient, without a division where the divisor is a power of two.
#[inline]
fn divided(value: u32, by: u32) -> u32 {
    if by.is_power_of_two() { value >> by.trailing_zeros() } else { value / by }
}
