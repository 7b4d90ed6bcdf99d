//! How long launches take: one table of times by kernel and shape, for whoever must decide before one runs.
//!
//! A launch is known by its [`LaunchKey`]. The table has no lock: one word holds part of the key and the time, so a
//! reader sees both or neither. Two launches that fall into the same place take turns in it. A time has a
//! [`Origin`], and a better one takes the place of a worse: what was measured stands until the process ends or forks;
//! what a model says stands until it is measured; a guess waits for a better answer.
//!
//! The sampler's times come in through [`learn`], or through [`bound`] where all that is known is that the launch takes
//! no more. A measured time moves a quarter of the way to each new one, and half of it to a bound. It never moves by more
//! than half of itself, so one odd measurement does little. Where nothing is known of a launch, the mean of everything
//! that was measured stands in.

use apex_core::KernelId;
use apex_core::event::LaunchShape;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kernel and shape of a launch as one number, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchKey(u64);

impl LaunchKey {
    /// The key of a numbered kernel in a shape; of graph `grid[0]` where the kernel is 0.
    #[inline(always)]
    pub(crate) fn of(kernel: KernelId, shape: &LaunchShape) -> LaunchKey {
        LaunchKey::of_handle(u64::from(kernel.0), shape)
    }

    /// The key of a handle in a shape, for launches whose kernel has no number yet.
    #[inline(always)]
    pub(crate) fn of_handle(handle: u64, shape: &LaunchShape) -> LaunchKey {
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        let [x, y, z] = shape.grid.map(u64::from);
        let [a, b, c] = shape.block.map(u64::from);
        let shared = u64::from(shape.dynamic_shared);
        let mut mixed = (handle ^ x << 24).wrapping_mul(MIX);
        mixed = (mixed ^ mixed >> 29 ^ y << 32 ^ z).wrapping_mul(MIX);
        mixed = (mixed ^ mixed >> 31 ^ a ^ b << 16 ^ c << 32 ^ shared << 24).wrapping_mul(MIX);
        LaunchKey((mixed ^ mixed >> 32) | 1)
    }

    /// The key as a number whose bits are all well mixed but the lowest, which is set.
    #[inline(always)]
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// Where a time comes from, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub(crate) enum Origin {
    /// From no measurement of the kernel: a better answer may come.
    Guess = 1,
    /// From a model that knows measurements of the kernel.
    Model = 2,
    /// Measured in this process.
    Measured = 3,
}

/// What is known of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    /// How long it takes.
    pub(crate) nanos: u64,
    /// How that is known.
    pub(crate) origin: Origin,
}

/// What is assumed before anything was measured.
const UNKNOWN_NS: u64 = 20_000;
/// Kept times are counted in units of so many nanoseconds, to fit half a word.
const UNIT_NS: u64 = 8;
const PLACES: usize = 1 << 13;
const NEIGHBOURS: usize = 4;

/// Part of the key (30 bits), origin (2 bits) and time (32 bits) of each place; 0 where it is empty.
static TIMES: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
/// Mean of all measured times.
static MEAN_NS: AtomicU64 = AtomicU64::new(UNKNOWN_NS);
/// Times that were measured after having been measured before.
static JUDGED: AtomicU64 = AtomicU64::new(0);
/// Their mean error, in millionths of what was measured.
static ERROR_MICRO: AtomicU64 = AtomicU64::new(0);

const TIME_BITS: u32 = 32;
const ORIGIN_BITS: u32 = 2;

/// What is known of a launch.
#[inline(always)]
pub(crate) fn find(key: LaunchKey) -> Option<Time> {
    place_of(key).map(|place| unpacked(TIMES[place].load(Ordering::Relaxed)))
}

/// The time that a launch is expected to take: what is known, or the mean of all for each of its `nodes` (1 for a
/// kernel).
#[inline(always)]
pub(crate) fn expected_ns(key: LaunchKey, nodes: u64) -> u64 {
    let unknown = || mean_ns().saturating_mul(nodes.max(1));
    find(key).map_or_else(unknown, |time| time.nanos)
}

/// Keeps what a model says, or a guess; a measured time stays.
pub(crate) fn suppose(key: LaunchKey, nanos: u64, origin: Origin) {
    if find(key).is_none_or(|time| time.origin != Origin::Measured) {
        put(key, nanos, origin);
    }
}

/// A launch was measured.
pub(crate) fn learn(key: LaunchKey, nanos: u64) {
    let before = expected_ns(key, 1);
    if find(key).is_some_and(|time| time.origin == Origin::Measured) && nanos > 0 {
        judge(before.abs_diff(nanos).saturating_mul(1_000_000) / nanos);
    }
    measured(key, before, nanos, 4);
}

/// A launch was measured while it waited, for others or for its own host, no longer than `waited_ns`. So it takes no more
/// than what was measured, and no less than what is left of that. Beside a program that is never long at rest all
/// measurements are so: without this the longest launches would never be known for what they are.
pub(crate) fn bound(key: LaunchKey, nanos: u64, waited_ns: u64) {
    let before = expected_ns(key, 1);
    let least = nanos.saturating_sub(waited_ns);
    if before > nanos {
        measured(key, before, nanos, 2);
    } else if least > before.saturating_mul(2) {
        measured(key, before, least, 4);
    }
}

fn measured(key: LaunchKey, before: u64, nanos: u64, part: u64) {
    let was_measured = find(key).is_some_and(|time| time.origin == Origin::Measured);
    let mean = MEAN_NS.load(Ordering::Relaxed);
    MEAN_NS.store(towards(mean, nanos, 16), Ordering::Relaxed);
    let time = if was_measured { towards(before, nanos, part) } else { nanos };
    put(key, time, Origin::Measured);
}

/// One less the mean relative error of the measured times that were measured again, not below 0; none before any.
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

fn put(key: LaunchKey, nanos: u64, origin: Origin) {
    let place = place_of(key).unwrap_or_else(|| free_place(key));
    let time = (nanos / UNIT_NS).clamp(1, (1 << TIME_BITS) - 1);
    let word = tag(key) << (TIME_BITS + ORIGIN_BITS) | (origin as u64) << TIME_BITS | time;
    TIMES[place].store(word, Ordering::Relaxed);
}

#[inline(always)]
fn unpacked(word: u64) -> Time {
    let origin = match word >> TIME_BITS & 3 {
        1 => Origin::Guess,
        2 => Origin::Model,
        _ => Origin::Measured,
    };
    Time { nanos: (word & ((1 << TIME_BITS) - 1)) * UNIT_NS, origin }
}

/// The part of the key that stands in the word; its place is found by the rest.
#[inline(always)]
fn tag(key: LaunchKey) -> u64 {
    key.number() >> (TIME_BITS + ORIGIN_BITS)
}

#[inline(always)]
fn place_of(key: LaunchKey) -> Option<usize> {
    let tag = tag(key);
    neighbourhood(key).find(|&place| {
        let word = TIMES[place].load(Ordering::Relaxed);
        word != 0 && word >> (TIME_BITS + ORIGIN_BITS) == tag
    })
}

fn free_place(key: LaunchKey) -> usize {
    let empty = |&place: &usize| TIMES[place].load(Ordering::Relaxed) == 0;
    let mut places = neighbourhood(key);
    places.find(empty).unwrap_or(home(key))
}

#[inline(always)]
fn neighbourhood(key: LaunchKey) -> impl Iterator<Item = usize> {
    (0..NEIGHBOURS).map(move |nth| (home(key) + nth) % PLACES)
}

#[inline(always)]
fn home(key: LaunchKey) -> usize {
    (key.number() >> 1) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kernel: u32, blocks: u32) -> LaunchKey {
        let shape = LaunchShape { grid: [blocks, 1, 1], block: [256, 1, 1], ..Default::default() };
        LaunchKey::of(KernelId(kernel), &shape)
    }

    #[test]
    fn what_was_measured_is_predicted_and_one_odd_time_does_little() {
        let ten = key(77_001, 10);
        for _ in 0..8 {
            learn(ten, 80_000);
        }
        assert_eq!(expected_ns(ten, 1), 80_000);
        learn(ten, 80_000_000);
        assert!(expected_ns(ten, 1) <= 120_008);
        for _ in 0..40 {
            learn(ten, 40_000);
        }
        assert!(expected_ns(ten, 1).abs_diff(40_000) < 1_000);
        assert!(accuracy().is_some_and(|accuracy| (0.0..=1.0).contains(&accuracy)));
        // What was made to wait says how long it takes at most, and at least.
        bound(ten, 90_000, 60_000);
        assert!(expected_ns(ten, 1).abs_diff(40_000) < 1_000);
        bound(ten, 20_000, 60_000);
        assert!(expected_ns(ten, 1) < 39_000);
        let twelve = key(77_001, 12);
        bound(twelve, 13_000_000, 9_000_000);
        assert_eq!(expected_ns(twelve, 1), 4_000_000);
        // Another shape is another thing, and a graph of many nodes is longer than a kernel.
        let unknown = key(77_001, 11);
        assert_eq!(find(unknown), None);
        assert_eq!(expected_ns(unknown, 10), mean_ns() * 10);
    }

    #[test]
    fn a_better_source_takes_the_place_of_a_worse_and_not_the_other_way_round() {
        let launch = key(77_002, 3);
        suppose(launch, 7_000, Origin::Guess);
        assert_eq!(find(launch), Some(Time { nanos: 7_000, origin: Origin::Guess }));
        suppose(launch, 8_000, Origin::Model);
        assert_eq!(find(launch), Some(Time { nanos: 8_000, origin: Origin::Model }));
        // The first measurement stands as it is: there is no measured time that it could only move.
        learn(launch, 40_000);
        assert_eq!(find(launch), Some(Time { nanos: 40_000, origin: Origin::Measured }));
        suppose(launch, 8_000, Origin::Model);
        assert_eq!(expected_ns(launch, 1), 40_000);
    }

    #[test]
    fn a_word_holds_key_and_time() {
        let (one, other) = (key(77_003, 1), key(77_003, 2));
        assert_ne!(one, other);
        assert_ne!(key(77_004, 1), one);
        suppose(one, 7_000, Origin::Model);
        suppose(other, 9_000, Origin::Model);
        assert_eq!((expected_ns(one, 1), expected_ns(other, 1)), (7_000, 9_000));
    }
}
