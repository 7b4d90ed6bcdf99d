//! Why a device refuses a launch, in words.
//!
//! The driver answers a number for a dozen mistakes. What it checks beforehand follows from the launch and the device
//! alone. So the reason can be told, and no time is promised for what cannot run.

use crate::amounts::{bytes, count};
use crate::{Chip, KernelNeeds, LaunchShape, Limiter, occupancy};

/// The longest sides of a grid.
pub const GRID_LIMIT: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// The longest sides of a block.
pub const BLOCK_LIMIT: [u32; 3] = [1024, 1024, 64];

/// Why a launch cannot run; nothing if it can.
#[must_use]
pub fn refusal(chip: &Chip, needs: &KernelNeeds, shape: &LaunchShape) -> Option<String> {
    let threads = shape.threads_per_block();
    let held = occupancy(chip, needs, threads);
    if threads > chip.max_threads_per_block {
        let most = count(chip.max_threads_per_block.into());
        return Some(format!(
            "its block has {} threads, {most} are the most",
            count(threads.into())
        ));
    }
    let sides = [("block", shape.block, BLOCK_LIMIT), ("grid", shape.grid, GRID_LIMIT)];
    for (what, given, most) in sides {
        let long = (0..3).find(|&side| !(1..=most[side]).contains(&given[side]));
        if let Some(side) = long {
            let (axis, most) = (["x", "y", "z"][side], count(most[side].into()));
            let given = count(given[side].into());
            return Some(format!("its {what} is {given} long in {axis}, 1 to {most} are allowed"));
        }
    }
    match held.limiter {
        _ if held.blocks_per_sm > 0 => None,
        Limiter::Registers if needs.registers > chip.max_registers_per_thread => {
            let most = chip.max_registers_per_thread;
            Some(format!("it needs {} registers a thread, {most} are the most", needs.registers))
        }
        Limiter::Registers => Some(format!(
            "its block needs more than the {} registers there are: {} threads with {} each",
            count(chip.max_registers_per_block.into()),
            count(threads.into()),
            needs.registers
        )),
        _ => Some(shared(chip, needs)),
    }
}

fn shared(chip: &Chip, needs: &KernelNeeds) -> String {
    let asked = u64::from(needs.static_shared) + u64::from(needs.dynamic_shared);
    let most = if asked > chip.max_shared_per_block_optin.into() {
        chip.max_shared_per_block_optin
    } else {
        chip.max_shared_per_block
    };
    let (asked, most) = (bytes(asked), bytes(most.into()));
    format!("its block needs {asked} of shared memory, {most} are the most that it may have")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Carveout;

    #[test]
    fn every_limit_is_named() {
        let chip = Chip::for_capability(9, 0).unwrap();
        let check = |grid, block, registers, dynamic_shared, max_dynamic_shared, said: &str| {
            let carveout = Carveout::Unset;
            let needs = KernelNeeds {
                registers,
                static_shared: 0,
                dynamic_shared,
                max_dynamic_shared,
                carveout,
            };
            let found = refusal(&chip, &needs, &LaunchShape { grid, block });
            assert_eq!(found.as_deref().unwrap_or(""), said);
        };
        check([1; 3], [1024, 1, 1], 64, 48 << 10, 0, "");
        check([i32::MAX as u32, 65_535, 65_535], [8, 2, 64], 32, 0, 0, "");
        check([1; 3], [4096, 1, 1], 32, 0, 0, "its block has 4,096 threads, 1,024 are the most");
        check([1; 3], [1, 1, 65], 32, 0, 0, "its block is 65 long in z, 1 to 64 are allowed");
        let long = "its grid is 65,536 long in y, 1 to 65,535 are allowed";
        check([1, 65_536, 1], [32, 1, 1], 32, 0, 0, long);
        let many =
            "its block needs more than the 65,536 registers there are: 1,024 threads with 128 each";
        check([1; 3], [1024, 1, 1], 128, 0, 0, many);
        check([1; 3], [32, 1, 1], 300, 0, 0, "it needs 300 registers a thread, 256 are the most");
        let much =
            "its block needs 64.0 KiB of shared memory, 48.0 KiB are the most that it may have";
        check([1; 3], [32, 1, 1], 32, 64 << 10, 0, much);
        check([1; 3], [32, 1, 1], 32, 64 << 10, 64 << 10, "");
        let most =
            "its block needs 256 KiB of shared memory, 227 KiB are the most that it may have";
        check([1; 3], [32, 1, 1], 32, 256 << 10, 256 << 10, most);
    }
}
