//! Counts lengths of time in buckets, so that a median can be told of them.
//!
//! A mean of few measurements says what one interruption cost. The buckets are narrow enough for a median
//! within 3 %: below sixteen one for each number, above that sixteen to each doubling. A bucket is one word of a
//! ring's header ([`crate::ring`]), so counting is a load and a store of the thread that owns the ring.

/// Buckets; the last takes whatever is longer.
pub const BUCKETS: usize = 480;

const SUB_BITS: u32 = 4;
const SUBS: u64 = 1 << SUB_BITS;

/// The bucket of a length of time.
#[inline]
#[must_use]
pub fn bucket(length: u64) -> usize {
    let doublings = length.max(SUBS).ilog2() - SUB_BITS;
    let place = u64::from(doublings) * SUBS + (length >> doublings);
    (place as usize).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> f64 {
    let place = bucket as u64;
    if place < 2 * SUBS {
        return place as f64;
    }
    let doublings = place / SUBS - 1;
    let (from, width) = ((SUBS + place % SUBS) << doublings, 1_u64 << doublings);
    from as f64 + (width - 1) as f64 / 2.0
}

/// How many lengths fell into each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram(Vec<u64>);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(vec![0; BUCKETS])
    }
}

impl Histogram {
    /// Adds so many of one bucket; beyond the last there is none.
    pub fn add(&mut self, bucket: usize, count: u64) {
        if let Some(there) = self.0.get_mut(bucket) {
            *there = there.saturating_add(count);
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, more: &Histogram) -> Histogram {
        for (bucket, &count) in more.0.iter().enumerate() {
            self.add(bucket, count);
        }
        self
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// The median, within 3 %; nothing if fewer than `least` were counted.
    #[must_use]
    pub fn median(&self, least: u64) -> Option<f64> {
        let count = self.count();
        if count < least.max(1) {
            return None;
        }
        let mut below = 0_u64;
        let half = count.div_ceil(2);
        let found = self.0.iter().position(|&here| {
            below = below.saturating_add(here);
            below >= half
        });
        found.map(middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for length in 0..100_000 {
            let step = bucket(length + 1) - bucket(length);
            assert!(step <= 1, "{length}");
        }
        assert_eq!(
            (bucket(0), bucket(15), bucket(16), bucket(31), bucket(32)),
            (0, 15, 16, 31, 32)
        );
        assert_eq!(bucket(33), 32);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert!(bucket(1 << 32) < BUCKETS, "a second and more is told apart");
    }

    #[test]
    fn one_that_was_interrupted_changes_nothing() {
        let mut own = Histogram::default();
        (0..30).for_each(|_| own.add(bucket(100), 1));
        own.add(bucket(95_000), 1);
        let median = own.median(30).expect("enough were counted");
        assert!((median - 100.0).abs() <= 3.0, "{median}");
    }

    #[test]
    fn from_few_nothing_is_told() {
        let mut own = Histogram::default();
        assert_eq!(own.median(0), None);
        (0..29).for_each(|_| own.add(bucket(100), 1));
        assert_eq!(own.median(30), None);
        own.add(bucket(100), 1);
        assert!(own.median(30).is_some());
        let twice = own.clone().plus(&own);
        assert_eq!((twice.count(), twice.median(60)), (60, own.median(30)));
    }

    proptest! {
        #[test]
        fn a_median_is_within_three_per_cent(mut lengths in prop::collection::vec(1_u64..1 << 32, 1..200)) {
            let mut own = Histogram::default();
            lengths.iter().for_each(|&length| own.add(bucket(length), 1));
            lengths.sort_unstable();
            let exact = lengths[(lengths.len() - 1) / 2] as f64;
            let told = own.median(1).expect("some were counted");
            prop_assert!((told - exact).abs() <= 0.0313 * exact + 0.5, "{told} for {exact}");
        }
    }
}
