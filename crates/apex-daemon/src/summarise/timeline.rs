//! How often something happened over time, in a fixed number of slots.
//!
//! When the time outgrows the slots, two neighbours become one: the memory stays the same however long
//! a program runs, and a slot is never more than a 256th of the whole.

const SLOTS: usize = 512;

/// Counts over time.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    width_ns: u64,
    counts: Vec<u64>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline { width_ns: 100_000, counts: vec![0; SLOTS] }
    }
}

impl Timeline {
    pub(super) fn count(&mut self, time_ns: u64) {
        while time_ns / self.width_ns >= SLOTS as u64 {
            for slot in 0..SLOTS / 2 {
                self.counts[slot] = self.counts[2 * slot] + self.counts[2 * slot + 1];
            }
            self.counts[SLOTS / 2..].fill(0);
            self.width_ns *= 2;
        }
        self.counts[(time_ns / self.width_ns) as usize] += 1;
    }

    /// Mean number per second between two moments, to whole slots; none if no whole slot fits.
    pub(super) fn per_second(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        let first = from_ns.div_ceil(self.width_ns);
        let end = to_ns / self.width_ns;
        if first >= end {
            return None;
        }
        // Slots behind the last count are empty.
        let counted = |slot: u64| self.counts.get(slot as usize).copied().unwrap_or(0);
        let sum: u64 = (first..end.min(SLOTS as u64)).map(counted).sum();
        Some(sum as f64 * 1e9 / ((end - first) * self.width_ns) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_stays_right_when_slots_are_joined() {
        let mut timeline = Timeline::default();
        for millisecond in 0..10_000 {
            timeline.count(millisecond * 1_000_000);
        }
        let rate = timeline.per_second(5_000_000_000, 9_000_000_000).unwrap();
        assert!((rate - 1000.0).abs() < 20.0, "{rate}");
        assert_eq!(timeline.per_second(5, 6), None);
    }
}
