//! How long a launch will take: measured times, kept by kernel and shape.
//!
//! The sampler hands every time it has measured to [`learn`], or to [`bound`] where all that is known is that the launch
//! takes no more; [`predicted_ns`] is the one place that is asked before a launch. A kept time moves a quarter of the way to
//! each new one, half of it to a bound, and never by more than half of itself, so one odd measurement does little. Where
//! nothing was measured the models are asked if they are at hand (`predict`); without them the mean of everything that was
//! measured stands in. The table has no lock: an entry is one word, and two kernels that fall into the same place take
//! turns in it.

use crate::predict;
use apex_core::KernelId;
use apex_core::event::LaunchShape;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is assumed before anything was measured.
const UNKNOWN_NS: u64 = 20_000;
/// Kept times are counted in units of so many nanoseconds, to fit half a word.
const UNIT_NS: u64 = 8;
const PLACES: usize = 1 << 13;
const NEIGHBOURS: usize = 4;

/// Key (high half) and time (low half) of each place.
static TIMES: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
/// Mean of all measured times.
static MEAN_NS: AtomicU64 = AtomicU64::new(UNKNOWN_NS);
/// Times that were measured after having been predicted.
static JUDGED: AtomicU64 = AtomicU64::new(0);
/// Their mean error, in millionths of what was measured.
static ERROR_MICRO: AtomicU64 = AtomicU64::new(0);

/// The time a launch is expected to take on the GPU. `nodes` is 1 for a kernel; for a graph that was never
/// timed each of its nodes counts as one unknown kernel.
pub(crate) fn predicted_ns(kernel: KernelId, shape: &LaunchShape, nodes: u64) -> u64 {
    match find(key(kernel, shape)) {
        Some(place) => (TIMES[place].load(Ordering::Relaxed) & 0xffff_ffff) * UNIT_NS,
        None => foretold(kernel, shape, nodes)
            .unwrap_or_else(|| MEAN_NS.load(Ordering::Relaxed).saturating_mul(nodes.max(1))),
    }
}

/// What the models say of a kernel that was never timed in this shape.
#[cold]
fn foretold(kernel: KernelId, shape: &LaunchShape, nodes: u64) -> Option<u64> {
    if nodes > 1 { None } else { predict::predicted_ns(kernel, shape) }
}

/// A launch was measured.
pub(crate) fn learn(kernel: KernelId, shape: &LaunchShape, nanos: u64) {
    let before = predicted_ns(kernel, shape, 1);
    if find(key(kernel, shape)).is_some() && nanos > 0 {
        judge(before.abs_diff(nanos).saturating_mul(1_000_000) / nanos);
    }
    keep(kernel, shape, before, nanos, 4);
}

fn keep(kernel: KernelId, shape: &LaunchShape, before: u64, nanos: u64, part: u64) {
    let key = key(kernel, shape);
    let known = find(key);
    let mean = MEAN_NS.load(Ordering::Relaxed);
    MEAN_NS.store(towards(mean, nanos, 16), Ordering::Relaxed);
    let time = if known.is_some() { towards(before, nanos, part) } else { nanos };
    let place = known.unwrap_or_else(|| free_place(key));
    let word = u64::from(key) << 32 | (time / UNIT_NS).clamp(1, 0xffff_ffff);
    TIMES[place].store(word, Ordering::Relaxed);
}

/// A launch was measured while it waited, for others or for its own host, no longer than `waited_ns`: it takes no more than
/// what was measured, and no less than what is left of that. Where all that is measured is so, as beside a program that is
/// never long at rest, the longest launches would else never be known for what they are.
pub(crate) fn bound(kernel: KernelId, shape: &LaunchShape, nanos: u64, waited_ns: u64) {
    let before = predicted_ns(kernel, shape, 1);
    let least = nanos.saturating_sub(waited_ns);
    if before > nanos {
        keep(kernel, shape, before, nanos, 2);
    } else if least > before.saturating_mul(2) {
        keep(kernel, shape, before, least, 4);
    }
}

/// One less the mean relative error of the predictions that could be judged, not below 0; none before any.
pub(crate) fn accuracy() -> Option<f64> {
    let error = ERROR_MICRO.load(Ordering::Relaxed) as f64 / 1e6;
    (JUDGED.load(Ordering::Relaxed) > 0).then(|| (1.0 - error).max(0.0))
}

/// Mean of everything that was measured.
pub(crate) fn mean_ns() -> u64 {
    MEAN_NS.load(Ordering::Relaxed)
}

/// In a forked child kernels are numbered anew.
pub(crate) fn forget() {
    TIMES.iter().for_each(|time| time.store(0, Ordering::Relaxed));
}

fn judge(error_micro: u64) {
    let judged = JUDGED.fetch_add(1, Ordering::Relaxed);
    let error = error_micro.min(10_000_000);
    let mean = ERROR_MICRO.load(Ordering::Relaxed);
    let weight = (judged + 1).min(256);
    let moved = mean as i64 + (error as i64 - mean as i64) / weight as i64;
    ERROR_MICRO.store(moved.max(0) as u64, Ordering::Relaxed);
}

/// A part of the way from `old` to `new`, at most half of `old`.
fn towards(old: u64, new: u64, part: u64) -> u64 {
    let step = (old.abs_diff(new) / part).min(old / 2 + 1);
    if new > old { old + step } else { old - step.min(old) }
}

fn find(key: u32) -> Option<usize> {
    neighbourhood(key).find(|&place| TIMES[place].load(Ordering::Relaxed) >> 32 == u64::from(key))
}

fn free_place(key: u32) -> usize {
    let empty = |&place: &usize| TIMES[place].load(Ordering::Relaxed) == 0;
    let mut places = neighbourhood(key);
    places.find(empty).unwrap_or(key as usize % PLACES)
}

fn neighbourhood(key: u32) -> impl Iterator<Item = usize> {
    (0..NEIGHBOURS).map(move |nth| (key as usize + nth) % PLACES)
}

/// Kernel and shape as one number, never zero.
#[inline(always)]
fn key(kernel: KernelId, shape: &LaunchShape) -> u32 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let [x, y, z] = shape.grid.map(u64::from);
    let [a, b, c] = shape.block.map(u64::from);
    let mut mixed = (u64::from(kernel.0) ^ x << 24).wrapping_mul(MIX);
    mixed = (mixed ^ mixed >> 29 ^ y << 32 ^ z).wrapping_mul(MIX);
    mixed = (mixed ^ mixed >> 31 ^ a ^ b << 16 ^ c << 32).wrapping_mul(MIX);
    (mixed >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(blocks: u32) -> LaunchShape {
        LaunchShape { grid: [blocks, 1, 1], block: [256, 1, 1], ..LaunchShape::default() }
    }

    #[test]
    fn what_was_measured_is_predicted_and_one_odd_time_does_little() {
        let kernel = KernelId(77_001);
        for _ in 0..8 {
            learn(kernel, &shape(10), 80_000);
        }
        assert_eq!(predicted_ns(kernel, &shape(10), 1), 80_000);
        learn(kernel, &shape(10), 80_000_000);
        assert!(predicted_ns(kernel, &shape(10), 1) <= 120_008);
        for _ in 0..40 {
            learn(kernel, &shape(10), 40_000);
        }
        assert!(predicted_ns(kernel, &shape(10), 1).abs_diff(40_000) < 1_000);
        assert!(accuracy().is_some_and(|accuracy| (0.0..=1.0).contains(&accuracy)));
        // What was made to wait says how long it takes at most, and at least.
        bound(kernel, &shape(10), 90_000, 60_000);
        assert!(predicted_ns(kernel, &shape(10), 1).abs_diff(40_000) < 1_000);
        bound(kernel, &shape(10), 20_000, 60_000);
        assert!(predicted_ns(kernel, &shape(10), 1) < 39_000);
        bound(kernel, &shape(12), 13_000_000, 9_000_000);
        assert_eq!(predicted_ns(kernel, &shape(12), 1), 4_000_000);
        // Another shape is another thing, and a graph of many nodes is longer than a kernel.
        let unknown = predicted_ns(kernel, &shape(11), 1);
        assert_eq!(predicted_ns(kernel, &shape(11), 10), unknown * 10);
    }
}
