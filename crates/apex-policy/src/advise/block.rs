//! Which block size would be faster, and by how much: a model of the fullest multiprocessor.
//!
//! A kernel ends when its fullest multiprocessor does. That one has to pass the warps of its blocks, and passes
//! them the faster the more are resident, up to half of its slots: beyond, more of them rarely hide more. Lanes
//! without threads take part in this, and every launch has a floor that no shape changes. On the 5,600 launches
//! measured on an H200 (`models/h200.parquet`, `apex bench advice`) what this expects is what is gained, in the
//! median, where the change is of the kind below.
//!
//! It answers only where threads are all alike as far as can be seen: one dimension, no shared memory, no local
//! memory (smaller blocks change what its caches hold), and never with fewer multiprocessors at work. In two
//! dimensions the shape of a block decides how memory is read, which no arithmetic here knows.

use crate::{Chip, KernelNeeds, LaunchShape, Limiter, occupancy};

/// Sizes that are worth trying: whole warps, from two to sixteen.
pub const SIZES: &[u32] = &[64, 96, 128, 160, 192, 256, 384, 512];

/// What even a kernel that does nothing takes, in nanoseconds.
const FLOOR_NS: f64 = 2_000.0;
/// Blocks above this are very large.
const LARGEST: u32 = 512;
/// Less than this is not worth a change.
const LEAST: f64 = 0.10;
/// Of sizes that are alike, the one nearest to the usual size is taken.
const ALIKE: f64 = 1.05;
const USUAL: f64 = 256.0;

/// A launch, as far as its block size is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// What one multiprocessor holds.
    pub chip: &'a Chip,
    /// Multiprocessors.
    pub sms: u32,
    /// What the kernel takes.
    pub needs: KernelNeeds,
    /// Local memory of one thread in bytes.
    pub local_bytes: u32,
    /// Grid and block.
    pub shape: LaunchShape,
    /// Its GPU time, where known.
    pub mean_ns: Option<f64>,
}

/// A block size that should be faster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Better {
    /// Threads of a block.
    pub threads: u32,
    /// The share of the launch's time that it saves.
    pub gain: f64,
}

/// The best of `sizes`, if it saves enough and the launch is of the kind that can be judged.
#[must_use]
pub fn better_block(launch: &Launch<'_>, sizes: &[u32]) -> Option<Better> {
    let LaunchShape { grid, block } = launch.shape;
    let plain = grid[1..] == [1, 1] && block[1..] == [1, 1];
    let needs = launch.needs;
    let shared = needs.static_shared > 0 || needs.dynamic_shared > 0;
    if !plain || shared || launch.local_bytes > 0 || !is_odd(launch, block[0]) {
        return None;
    }
    let threads = u64::from(grid[0]) * u64::from(block[0]);
    let now = relative_time(launch, u64::from(grid[0]), block[0])?;
    let busy = |blocks: u64| blocks.min(u64::from(launch.sms));
    let judged = sizes.iter().filter_map(|&size| {
        let blocks = threads.div_ceil(u64::from(size));
        let time = relative_time(launch, blocks, size)?;
        (busy(blocks) >= busy(u64::from(grid[0]))).then_some((size, time))
    });
    let judged: Vec<(u32, f64)> = judged.collect();
    let best = judged.iter().map(|&(_, time)| time).fold(f64::INFINITY, f64::min);
    let unusual = |size: u32| (f64::from(size) / USUAL).log2().abs();
    let alike = judged.iter().filter(|(_, time)| *time <= ALIKE * best);
    let &(size, time) = alike.min_by(|(a, _), (b, _)| unusual(*a).total_cmp(&unusual(*b)))?;
    let floor = launch.mean_ns.map_or(0.0, |mean| (FLOOR_NS / mean).min(1.0));
    let gain = (1.0 - floor) * (1.0 - time / now);
    (size != block[0] && gain >= LEAST).then_some(Better { threads: size, gain })
}

/// Whether a size is one that rules speak of: empty lanes, a single warp, very large, or one that leaves a quarter
/// of the slots empty by itself. Among the others differences are small, and as often wrong as right.
fn is_odd(launch: &Launch<'_>, size: u32) -> bool {
    let occupancy = occupancy(launch.chip, &launch.needs, size);
    let by_itself = matches!(occupancy.limiter, Limiter::Warps | Limiter::Blocks);
    let warp = launch.chip.warp_threads;
    !size.is_multiple_of(warp)
        || size <= warp
        || size > LARGEST
        || (by_itself && occupancy.fraction < 0.75)
}

/// The time of the fullest multiprocessor, in warps over resident warps; none where no block fits.
fn relative_time(launch: &Launch<'_>, blocks: u64, size: u32) -> Option<f64> {
    let fits = u64::from(occupancy(launch.chip, &launch.needs, size).blocks_per_sm);
    if fits == 0 || blocks == 0 || launch.sms == 0 {
        return None;
    }
    let warps = u64::from(size.div_ceil(launch.chip.warp_threads));
    let most = blocks.div_ceil(u64::from(launch.sms));
    let enough = u64::from(launch.chip.max_warps_per_sm() / 2);
    let resident = (most.min(fits) * warps).min(enough.max(1));
    Some((most * warps) as f64 / resident as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Carveout;

    fn ask(blocks: u32, threads: u32, mean_ns: f64) -> Option<Better> {
        let chip = Chip::for_capability(9, 0).unwrap();
        let needs = KernelNeeds {
            registers: 32,
            static_shared: 0,
            dynamic_shared: 0,
            max_dynamic_shared: 48 << 10,
            carveout: Carveout::Unset,
        };
        let shape = LaunchShape { grid: [blocks, 1, 1], block: [threads, 1, 1] };
        let launch =
            Launch { chip: &chip, sms: 132, needs, local_bytes: 0, shape, mean_ns: Some(mean_ns) };
        better_block(&launch, SIZES)
    }

    #[test]
    fn half_empty_warps_are_half_of_the_time() {
        let better = ask(65_536, 16, 1e9).unwrap();
        assert_eq!(better.threads, 256);
        assert!((better.gain - 0.5).abs() < 0.02, "{better:?}");
        assert_eq!(ask(65_536, 256, 1e9), None);
    }

    #[test]
    fn a_short_launch_is_all_floor_and_a_small_grid_is_not_made_smaller() {
        assert_eq!(ask(65_536, 16, 2_000.0), None);
        assert_eq!(ask(132, 32, 1e6), None, "larger blocks would leave multiprocessors idle");
    }
}
