//! What follows from a launch's shape without any model.
//!
//! Occupancy equals the driver's answer (see [`crate::occupancy`]). Block efficiency has no standard meaning;
//! here it is the share of lane slots that hold a thread while the grid's waves pass: lane fill,
//! t / (32 ceil(t / 32)), times wave fill, b / (ceil(b / s) s) with s block slots on the device. No part of it is a
//! guess.

use super::question::Question;
use crate::{Occupancy, occupancy};

/// What a launch is, exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exact {
    /// How full one multiprocessor can be.
    pub occupancy: Occupancy,
    /// Threads of a block as a share of the lanes that its warps have.
    pub lane_fill: f32,
    /// Blocks as a share of the slots that its waves have; 0 if the launch cannot run.
    pub wave_fill: f32,
    /// Blocks as a multiple of the slots of the device; 0 if the launch cannot run.
    pub waves: f32,
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of one block.
    pub threads_per_block: u32,
}

impl Exact {
    /// Lane fill times wave fill.
    #[inline]
    #[must_use]
    pub fn block_efficiency(&self) -> f32 {
        self.lane_fill * self.wave_fill
    }
}

/// Computes what a launch is.
#[inline]
#[must_use]
pub fn exact(question: &Question<'_>) -> Exact {
    let chip = &question.device.chip;
    let threads = question.shape.threads_per_block();
    let blocks = question.shape.blocks();
    let occupancy = occupancy(chip, &question.kernel.needs(question.dynamic_shared), threads);
    let slots = u64::from(occupancy.blocks_per_sm) * u64::from(question.device.multiprocessors);
    let lanes = u64::from(threads.div_ceil(chip.warp_threads)) * u64::from(chip.warp_threads);
    let (wave_fill, waves) = match slots {
        0 => (0.0, 0.0),
        _ => {
            let started = blocks.div_ceil(slots).max(1).saturating_mul(slots);
            ((blocks as f64 / started as f64) as f32, (blocks as f64 / slots as f64) as f32)
        }
    };
    Exact {
        occupancy,
        lane_fill: if lanes == 0 { 0.0 } else { (f64::from(threads) / lanes as f64) as f32 },
        wave_fill,
        waves,
        blocks,
        threads_per_block: threads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::question::{Arguments, Device, Kernel, Walked};
    use crate::{Chip, LaunchShape};

    fn h200() -> Device {
        let chip = Chip::for_capability(9, 0).unwrap();
        Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20)
    }

    fn check(blocks: u32, threads: u32, lane_fill: f64, wave_fill: f64) {
        let (device, arguments) = (h200(), Arguments::default());
        let kernel = Kernel { registers: 32, ..Kernel::default() };
        let shape = LaunchShape { grid: [blocks, 1, 1], block: [threads, 1, 1] };
        let found = exact(&Question {
            device: &device,
            kernel: &kernel,
            shape,
            dynamic_shared: 0,
            arguments: &arguments,
            work: None,
            walked: Walked::NONE,
        });
        assert_eq!(found.lane_fill, lane_fill as f32, "{blocks} x {threads}");
        assert_eq!(found.wave_fill, wave_fill as f32, "{blocks} x {threads}");
        assert_eq!(found.block_efficiency(), (lane_fill as f32) * (wave_fill as f32));
    }

    #[test]
    fn block_efficiency_is_lane_fill_times_wave_fill() {
        // Eight blocks of 256 threads fit on each of 132 multiprocessors: 1,056 slots.
        check(1056, 256, 1.0, 1.0);
        check(1057, 256, 1.0, 1057.0 / 2112.0);
        check(528, 256, 1.0, 0.5);
        check(1056, 255, 255.0 / 256.0, 1.0);
        check(4224, 33, 33.0 / 64.0, 1.0);
        check(1, 1, 1.0 / 32.0, 1.0 / 4224.0);
        // No such block runs at all.
        check(10, 2048, 1.0, 0.0);
    }
}
