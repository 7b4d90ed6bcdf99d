//! Occupancy, waves and tail of a kernel with a shape, from the facts of its process.

use crate::summary::Fit;
use apex_core::event::LaunchShape;
use apex_core::facts::{Device, Kernel};
use apex_policy::{Carveout, Chip, KernelNeeds, launch_facts};

/// Nothing where the chip is not known, the shape was not kept, or a cluster was asked for: clusters
/// follow rules of their own.
pub(crate) fn fit(device: &Device, kernel: &Kernel, shape: &LaunchShape) -> Option<Fit> {
    if shape.block == [0; 3] || shape.cluster.iter().any(|&side| side > 1) {
        return None;
    }
    let chip = chip(device)?;
    let needs = needs(kernel, shape.dynamic_shared);
    let shape = apex_policy::LaunchShape { grid: shape.grid, block: shape.block.map(u32::from) };
    let facts = launch_facts(&chip, narrow(device.sms), &needs, &shape);
    Some(Fit {
        occupancy: f64::from(facts.occupancy.fraction),
        limiter: facts.occupancy.limiter.to_string(),
        blocks_per_sm: u64::from(facts.occupancy.blocks_per_sm),
        waves: f64::from(facts.waves),
        tail_fraction: f64::from(facts.tail_fraction),
        idle_lanes: u64::from(facts.idle_lanes),
    })
}

/// What a kernel takes with so much dynamic shared memory.
pub(crate) fn needs(kernel: &Kernel, dynamic_shared: u32) -> KernelNeeds {
    KernelNeeds {
        registers: narrow(kernel.registers),
        static_shared: narrow(kernel.static_shared),
        dynamic_shared,
        max_dynamic_shared: narrow(kernel.max_dynamic_shared).max(dynamic_shared),
        carveout: Carveout::from_attribute(i32::try_from(kernel.carveout).unwrap_or(-1)),
    }
}

/// The capability's limits, with what the device itself says put over them.
#[must_use]
pub fn chip(device: &Device) -> Option<Chip> {
    let mut chip = Chip::for_capability(narrow(device.major), narrow(device.minor))?;
    let overwrite = |field: &mut u32, reported: u64| {
        if reported > 0 {
            *field = narrow(reported);
        }
    };
    overwrite(&mut chip.max_threads_per_sm, device.threads_per_sm);
    overwrite(&mut chip.max_blocks_per_sm, device.blocks_per_sm);
    overwrite(&mut chip.registers_per_sm, device.registers_per_sm);
    overwrite(&mut chip.shared_per_sm, device.shared_per_sm);
    overwrite(&mut chip.reserved_shared_per_block, device.reserved_shared_per_block);
    overwrite(&mut chip.max_shared_per_block_optin, device.shared_per_block_optin);
    Some(chip)
}

pub(crate) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
