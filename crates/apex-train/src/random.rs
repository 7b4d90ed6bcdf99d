//! Random numbers that are the same for ever: a model must come out again from its rows and its seed.
//!
//! xoshiro256++ seeded by splitmix64, as published by Blackman and Vigna; a library's generator may change with
//! its version.

/// A generator.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// A generator for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        let mut state = seed;
        Random(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mixed(state)
        }))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below a bound; zero for no bound.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 24) as f32
    }

    /// A number from the normal distribution.
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - f64::from(self.unit())).ln()).sqrt();
        (radius * (f64::from(self.unit()) * std::f64::consts::TAU).cos()) as f32
    }

    /// Brings a list into random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}

/// A number that depends on a seed and a name, spread evenly.
#[must_use]
pub fn named(seed: u64, name: &str) -> u64 {
    use apex_policy::predict::features::{FNV_START, fnv};
    mixed(fnv(FNV_START ^ mixed(seed), name.as_bytes()))
}

fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut random = Random::new(1);
        assert_eq!([random.bits(), random.bits()], [0xcfc5_d07f_6f03_c29b, 0xbf42_4132_963f_e08d]);
    }

    #[test]
    fn numbers_are_spread_as_they_should() {
        let mut random = Random::new(7);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[random.below(10)] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        let normal: Vec<f32> = (0..10_000).map(|_| random.normal()).collect();
        let mean = normal.iter().sum::<f32>() / 1e4;
        let variance = normal.iter().map(|value| value * value).sum::<f32>() / 1e4;
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
