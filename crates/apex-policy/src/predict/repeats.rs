//! Remembers measured times of exact repeats: the same kernel, geometry and small scalars.
//!
//! Steady programs repeat nearly every launch after one step, so this table answers most questions, and with
//! a measured number. It has a fixed size and open addressing over one short window, so a question costs one
//! cache line or two; when a window is full, the entry that was measured least often makes room. Pointers are
//! no part of the key: where data lies seldom matters, and it would make every launch look new.

use super::question::{Arguments, Question};
use crate::LaunchShape;

/// What was measured of a launch that is asked about again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeat {
    /// The usual time in nanoseconds.
    pub nanos: f32,
    /// Half of an 80 % interval, in log2.
    pub half_width: f32,
    /// Times measured.
    pub count: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: u64,
    nanos: f32,
    half_width: f32,
    count: u32,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Repeats {
    slots: Box<[Slot]>,
}

const WINDOW: usize = 4;
/// How far one measurement may pull the usual time, in half widths.
const FURTHEST: f32 = 4.0;
const FIRST_HALF_WIDTH: f32 = 0.1;
const NARROWEST: f32 = 0.005;
/// Measurements after which older ones fade.
const MEMORY: f32 = 32.0;
/// As many measurements as an earlier run's count for at most.
const RESTORED: u32 = 4;

impl Repeats {
    /// A table for about `entries` configurations.
    #[must_use]
    pub fn new(entries: usize) -> Repeats {
        let slots = (entries.max(WINDOW) * 2).next_power_of_two();
        Repeats { slots: vec![Slot::default(); slots].into() }
    }

    /// What was measured under a key.
    #[inline]
    #[must_use]
    pub fn find(&self, key: u64) -> Option<Repeat> {
        let start = self.start(key);
        let window = self.slots.get(start..start + WINDOW)?;
        let slot = window.iter().find(|slot| slot.key == key && slot.count > 0)?;
        Some(Repeat { nanos: slot.nanos, half_width: slot.half_width, count: slot.count })
    }

    /// Takes in a measured time. A single outlier moves the usual time little and widens the interval.
    pub fn observe(&mut self, key: u64, nanos: f32) {
        if !(nanos.is_finite() && nanos > 0.0) {
            return;
        }
        let start = self.start(key);
        let Some(window) = self.slots.get_mut(start..start + WINDOW) else { return };
        let known = window.iter().position(|slot| slot.key == key && slot.count > 0);
        let place = known.unwrap_or_else(|| {
            let least = window.iter().enumerate().min_by_key(|(_, slot)| slot.count);
            least.map_or(0, |(place, _)| place)
        });
        let slot = &mut window[place];
        if known.is_none() {
            *slot = Slot { key, nanos, half_width: FIRST_HALF_WIDTH, count: 1 };
            return;
        }
        slot.count = slot.count.saturating_add(1);
        let count = slot.count as f32;
        let error = (nanos / slot.nanos).log2();
        let reach = FURTHEST * slot.half_width;
        slot.nanos *= (error.clamp(-reach, reach) / count.min(MEMORY)).exp2();
        slot.half_width = widened(slot.half_width, error, count).max(NARROWEST);
    }

    /// Puts in what an earlier run measured, in the place of what is there. It counts as few measurements: what comes now
    /// says more.
    pub fn restore(&mut self, key: u64, repeat: Repeat) {
        if !(repeat.nanos.is_finite() && repeat.nanos > 0.0) {
            return;
        }
        self.observe(key, repeat.nanos);
        let start = self.start(key);
        let window = self.slots.get_mut(start..start + WINDOW).into_iter().flatten();
        for slot in window.filter(|slot| slot.key == key && slot.count > 0) {
            slot.nanos = repeat.nanos;
            slot.half_width = repeat.half_width.max(NARROWEST);
            slot.count = repeat.count.clamp(1, RESTORED);
        }
    }

    /// Windows begin at even places, so that two of three lie in one cache line.
    fn start(&self, key: u64) -> usize {
        let place = (key >> 32) as usize & (self.slots.len() - 1) & !1;
        place.min(self.slots.len() - WINDOW)
    }
}

/// A half width after one more error: it grows by four parts when an error lies outside and shrinks by one when
/// it lies inside, so it comes to rest where four of five lie inside.
pub(super) fn widened(half_width: f32, error: f32, count: f32) -> f32 {
    let step = (1.0 / count.sqrt()).clamp(0.02, 0.5);
    if error.abs() > half_width {
        half_width * (1.0 + 0.8 * step)
    } else {
        half_width * (1.0 - 0.2 * step)
    }
}

/// The key of a question.
#[inline]
#[must_use]
pub fn key(question: &Question<'_>) -> u64 {
    key_of(question.kernel.identity, &question.shape, question.dynamic_shared, question.arguments)
}

/// The key of a launch. Products are independent of each other, so that they overlap in the processor.
#[inline]
#[must_use]
pub fn key_of(kernel: u64, shape: &LaunchShape, dynamic_shared: u32, arguments: &Arguments) -> u64 {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let ints = &arguments.integers;
    let geometry = fold(
        pair(shape.grid[0], shape.grid[1]) ^ SECRETS[0],
        pair(shape.grid[2], dynamic_shared) ^ SECRETS[1],
    ) ^ fold(
        pair(shape.block[0], shape.block[1] << 16 ^ shape.block[2]) ^ SECRETS[2],
        kernel ^ SECRETS[3],
    );
    let scalars = fold(ints[0] ^ SECRETS[4], ints[1] ^ SECRETS[5])
        ^ fold(ints[2] ^ SECRETS[6], ints[3] ^ SECRETS[7])
        ^ fold(ints[4] ^ SECRETS[1], ints[5] ^ SECRETS[2]).rotate_left(17)
        ^ fold(ints[6] ^ SECRETS[3], ints[7] ^ SECRETS[0]).rotate_left(31);
    fold(geometry ^ SECRETS[5], scalars ^ SECRETS[6])
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

const SECRETS: [u64; 8] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x8ebc_6af0_9c88_c6e3,
    0x5895_11f5_4f7b_d5bd,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn some_key(kernel: u64, x: u32, value: u64) -> u64 {
        let shape = LaunchShape { grid: [x, 1, 1], block: [256, 1, 1] };
        key_of(kernel, &shape, 0, &Arguments::of(&[value], &[]))
    }

    #[test]
    fn repeats_are_found_and_others_are_not() {
        let mut table = Repeats::new(1000);
        for x in 1..500 {
            table.observe(some_key(7, x, 3), x as f32);
        }
        let found = (1..500)
            .filter(|&x| table.find(some_key(7, x, 3)).is_some_and(|r| r.nanos == x as f32))
            .count();
        assert!(found > 490, "{found} of 499");
        assert_eq!(table.find(some_key(8, 1, 3)), None);
        assert_eq!(table.find(some_key(7, 1, 4)), None);
    }

    #[test]
    fn keys_differ_in_every_part() {
        let mut keys = std::collections::HashSet::new();
        let mut add = |grid: [u32; 3], block: [u32; 3], shared, integers: &[u64]| {
            let shape = LaunchShape { grid, block };
            assert!(keys.insert(key_of(1, &shape, shared, &Arguments::of(integers, &[]))));
        };
        add([1, 2, 3], [4, 5, 6], 7, &[8, 9]);
        add([2, 1, 3], [4, 5, 6], 7, &[8, 9]);
        add([1, 3, 2], [4, 5, 6], 7, &[8, 9]);
        add([1, 2, 3], [5, 4, 6], 7, &[8, 9]);
        add([1, 2, 3], [4, 6, 5], 7, &[8, 9]);
        add([1, 2, 3], [4, 5, 6], 8, &[8, 9]);
        add([1, 2, 3], [4, 5, 6], 7, &[9, 8]);
        add([1, 2, 3], [4, 5, 6], 7, &[8, 9, 1]);
        for at in 0..8 {
            let mut integers = [0; 8];
            integers[at] = 5;
            add([1, 1, 1], [32, 1, 1], 0, &integers);
        }
    }

    #[test]
    fn an_outlier_moves_little_and_a_change_is_followed() {
        let (mut table, key) = (Repeats::new(16), some_key(1, 1, 1));
        for _ in 0..50 {
            table.observe(key, 1000.0);
        }
        table.observe(key, 50_000.0);
        let after = table.find(key).unwrap().nanos;
        assert!((after - 1000.0).abs() < 20.0, "{after}");
        for _ in 0..400 {
            table.observe(key, 1500.0);
        }
        let after = table.find(key).unwrap().nanos;
        assert!((after - 1500.0).abs() < 40.0, "{after}");
    }

    #[test]
    fn nonsense_is_not_learned_and_memory_is_bounded() {
        let mut table = Repeats::new(16);
        for nanos in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            table.observe(5, nanos);
        }
        assert_eq!(table.find(5), None);
        let slots = table.slots.len();
        for x in 0..10_000 {
            table.observe(some_key(1, x, 1), 1.0);
        }
        assert_eq!(table.slots.len(), slots);
    }

    #[test]
    fn what_an_earlier_run_measured_gives_way_to_what_comes() {
        let mut repeats = Repeats::new(8);
        let earlier = Repeat { nanos: 1_000.0, half_width: 0.2, count: 5_000 };
        repeats.restore(7, earlier);
        let found = repeats.find(7).unwrap();
        assert_eq!((found.nanos, found.half_width, found.count), (1_000.0, 0.2, RESTORED));
        for _ in 0..20 {
            repeats.observe(7, 1_500.0);
        }
        assert!((repeats.find(7).unwrap().nanos / 1_500.0 - 1.0).abs() < 0.1);
        repeats.restore(8, Repeat { nanos: f32::NAN, ..earlier });
        assert_eq!(repeats.find(8), None);
    }
}
