//! How long a program's bursts last and when the next one comes, from the last few.
//!
//! Of fixed size and without allocation: the shim of a latency-critical program may keep one. What is not
//! regular is said to be unknown; requests that come by chance have no next time.

use super::policy::Burst;

const KEPT: usize = 16;
/// Bursts to see before anything is said.
const LEAST: usize = 4;

/// The last bursts of one program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rhythm {
    lengths: [u64; KEPT],
    periods: [u64; KEPT],
    seen: usize,
    last_start_ns: u64,
}

impl Rhythm {
    /// Takes a burst that has ended.
    pub fn observe(&mut self, burst: &Burst) {
        self.lengths[self.seen % KEPT] = burst.length_ns();
        // The first burst has no period: it takes the place of a second one later.
        if self.seen > 0 {
            self.periods[(self.seen - 1) % KEPT] =
                burst.start_ns.saturating_sub(self.last_start_ns);
        }
        self.last_start_ns = burst.start_ns;
        self.seen += 1;
    }

    /// The usual length of a burst.
    #[must_use]
    pub fn length_ns(&self) -> Option<u64> {
        let [_, middle, _] = spread(&self.lengths, self.seen)?;
        Some(middle)
    }

    /// From one burst's begin to the next one's, where that is regular.
    #[must_use]
    pub fn period_ns(&self) -> Option<u64> {
        let [low, middle, high] = spread(&self.periods, self.seen.saturating_sub(1))?;
        (high - low <= middle / 5).then_some(middle)
    }

    /// Predicted time until the open burst ends, [`u64::MAX`] where it is not known or it is overdue.
    #[must_use]
    pub fn left_ns(&self, open_since_ns: u64, now_ns: u64) -> u64 {
        let passed = now_ns.saturating_sub(open_since_ns);
        self.length_ns().and_then(|length| length.checked_sub(passed)).unwrap_or(u64::MAX)
    }

    /// Predicted time until the next burst begins, [`u64::MAX`] where it is not known or it is overdue.
    #[must_use]
    pub fn next_ns(&self, now_ns: u64) -> u64 {
        let due = self.period_ns().map(|period| self.last_start_ns.saturating_add(period));
        due.and_then(|due| due.checked_sub(now_ns)).unwrap_or(u64::MAX)
    }
}

/// The second least, the middle and the second greatest of the values seen.
fn spread(values: &[u64; KEPT], seen: usize) -> Option<[u64; 3]> {
    if seen < LEAST {
        return None;
    }
    let mut sorted = *values;
    let kept = &mut sorted[..seen.min(KEPT)];
    kept.sort_unstable();
    Some([kept[1], kept[kept.len() / 2], kept[kept.len() - 2]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rhythm(starts: impl IntoIterator<Item = u64>) -> Rhythm {
        let mut rhythm = Rhythm::default();
        for start_ns in starts {
            rhythm.observe(&Burst { start_ns, end_ns: start_ns + 700, ..Burst::default() });
        }
        rhythm
    }

    #[test]
    fn regular_bursts_are_foreseen() {
        let rhythm = rhythm((0..40).map(|nth| nth * 10_000));
        assert_eq!(rhythm.length_ns(), Some(700));
        assert_eq!(rhythm.period_ns(), Some(10_000));
        assert_eq!(rhythm.next_ns(392_000), 8_000);
        assert_eq!(rhythm.next_ns(400_001), u64::MAX);
        assert_eq!(rhythm.left_ns(400_000, 400_500), 200);
        assert_eq!(rhythm.left_ns(400_000, 400_701), u64::MAX);
    }

    #[test]
    fn chance_and_youth_are_unknown() {
        assert_eq!(rhythm([0, 100, 5_000, 5_100, 30_000, 31_000]).period_ns(), None);
        assert_eq!(rhythm([0, 100, 200]).length_ns(), None);
    }
}
