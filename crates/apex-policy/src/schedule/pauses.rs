//! How long to wait after a burst before others go: long enough for the next one of a queue, no longer.
//!
//! A program with requests in its queue begins its next burst within the time of a few calls; letting others
//! go in that moment gains them nothing and puts their work before the burst. A program without comes back
//! after milliseconds; waiting for it wastes the device. The lengths of its pauses tell the two apart.

/// The guards to choose from. The bounds of the counts, too.
const GUARDS_NS: [u64; 7] = [0, 15_000, 30_000, 60_000, 120_000, 250_000, 500_000];
/// What a nanosecond of delay is worth in nanoseconds of idle device: the delay comes back as queueing.
const WORTH: f64 = 2.0;
const FORGET: f64 = 0.98;
const LEAST: f64 = 8.0;

/// Counts of pauses by their length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pauses {
    counts: [f64; GUARDS_NS.len()],
    sums_ns: [f64; GUARDS_NS.len()],
}

impl Pauses {
    pub(super) fn observe(&mut self, pause_ns: u64) {
        let place = GUARDS_NS.iter().rposition(|&guard| pause_ns >= guard).unwrap_or(0);
        for (count, sum) in self.counts.iter_mut().zip(&mut self.sums_ns) {
            *count *= FORGET;
            *sum *= FORGET;
        }
        self.counts[place] += 1.0;
        self.sums_ns[place] += pause_ns as f64;
    }

    /// The guard that costs least, where work let go delays the next burst by `delay_ns`.
    pub(super) fn best_guard_ns(&self, delay_ns: f64) -> u64 {
        let all: f64 = self.counts.iter().sum();
        if all < LEAST {
            return GUARDS_NS[3];
        }
        let cost = |place: usize| {
            let guard = GUARDS_NS[place] as f64;
            let longer: f64 = self.counts[place..].iter().sum();
            let shorter_ns: f64 = self.sums_ns[..place].iter().sum();
            (shorter_ns + longer * guard) + WORTH * delay_ns * longer
        };
        let best = (0..GUARDS_NS.len()).min_by(|&a, &b| cost(a).total_cmp(&cost(b)));
        GUARDS_NS[best.unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pauses: &[u64], delay_ns: f64, expected: u64) {
        let mut seen = Pauses::default();
        (0..60).for_each(|nth| seen.observe(pauses[nth % pauses.len()]));
        assert_eq!(seen.best_guard_ns(delay_ns), expected, "{pauses:?}");
    }

    #[test]
    fn the_pause_inside_a_queue_is_waited_out() {
        check(&[80_000, 12_000_000], 250_000.0, 120_000);
        check(&[10_000, 9_000_000], 250_000.0, 15_000);
    }

    #[test]
    fn long_pauses_are_not_waited_for() {
        check(&[9_000_000, 12_000_000], 250_000.0, 0);
        check(&[400_000, 12_000_000], 30_000.0, 0);
        assert_eq!(Pauses::default().best_guard_ns(1.0), 60_000);
    }
}
