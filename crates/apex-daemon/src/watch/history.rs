//! What a session or a process did in the last minute, kept by whoever watches it.
//!
//! Each sample covers the time between two snapshots. A curve cuts the minute into as many parts as it has columns;
//! the parts begin at whole multiples of their length, so that a curve moves by whole columns and does not flicker.

use serde::Serialize;
use std::collections::VecDeque;

/// How far back a curve reaches.
pub const SPAN_NS: u64 = 60_000_000_000;

/// What was done per second between two snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Launches a second, graph launches included.
    pub launches: f64,
    /// Share of the time in which kernels ran, from 0 to 1.
    pub busy: f64,
    /// Time waited over the time; several waiting threads may bring it above 1.
    pub waited: f64,
    /// Bytes copied and set a second, in all directions together.
    pub copied_bytes: f64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    from_ns: u64,
    to_ns: u64,
    rates: Rates,
}

/// The samples of the last minute.
#[derive(Clone, Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
}

impl History {
    /// Adds what was done between two moments.
    pub fn add(&mut self, from_ns: u64, to_ns: u64, rates: Rates) {
        self.samples.push_back(Sample { from_ns, to_ns, rates });
        // A part of the curve may begin before the minute does.
        let oldest = to_ns.saturating_sub(2 * SPAN_NS);
        while self.samples.front().is_some_and(|sample| sample.to_ns <= oldest) {
            self.samples.pop_front();
        }
    }

    /// The last minute in `columns` parts, the latest last: the mean of each, none where nothing is known.
    #[must_use]
    pub fn curve(&self, columns: usize, of: impl Fn(&Rates) -> f64) -> Vec<Option<f64>> {
        let (Some(last), Some(length)) =
            (self.samples.back(), SPAN_NS.checked_div(columns as u64).filter(|&part| part > 0))
        else {
            return vec![None; columns];
        };
        let end = last.to_ns.div_ceil(length) as i128;
        (0..columns as i128)
            .map(|column| {
                let begin = (end - columns as i128 + column) * i128::from(length);
                self.mean(begin, begin + i128::from(length), &of)
            })
            .collect()
    }

    /// The samples of the last minute: when each ended, and what was done.
    pub fn last_minute(&self) -> impl Iterator<Item = (u64, Rates)> {
        let last_ns = self.samples.back().map_or(0, |sample| sample.to_ns);
        let recent = move |sample: &&Sample| sample.to_ns + SPAN_NS >= last_ns;
        self.samples.iter().filter(recent).map(|sample| (sample.to_ns, sample.rates))
    }

    fn mean(&self, begin: i128, end: i128, of: &impl Fn(&Rates) -> f64) -> Option<f64> {
        let (mut sum, mut covered) = (0.0, 0.0);
        for sample in &self.samples {
            let (from, to) = (i128::from(sample.from_ns), i128::from(sample.to_ns));
            let overlap = (to.min(end) - from.max(begin)) as f64;
            if overlap > 0.0 {
                sum += overlap * of(&sample.rates);
                covered += overlap;
            }
        }
        (covered > 0.0).then(|| sum / covered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn rates(launches: f64) -> Rates {
        Rates { launches, ..Rates::default() }
    }

    #[test]
    fn a_curve_ends_with_the_latest_and_begins_with_nothing() {
        let mut history = History::default();
        assert_eq!(history.curve(2, |rates| rates.launches), [None, None]);
        for second in 0..30 {
            history.add(second * SECOND, (second + 1) * SECOND, rates(second as f64));
        }
        let curve = history.curve(60, |rates| rates.launches);
        assert_eq!((curve[29], curve[30], curve[59]), (None, Some(0.0), Some(29.0)));
        // Half the columns: each is the mean of two.
        let curve = history.curve(30, |rates| rates.launches);
        assert_eq!((curve[15], curve[29]), (Some(0.5), Some(28.5)));
        assert_eq!(history.curve(0, |rates| rates.launches), []);
    }

    #[test]
    fn a_curve_moves_by_whole_columns() {
        let mut history = History::default();
        for second in 0..100 {
            history.add(second * SECOND, (second + 1) * SECOND, rates(second as f64));
        }
        let before = history.curve(30, |rates| rates.launches);
        history.add(100 * SECOND, 101 * SECOND, rates(100.0));
        let after = history.curve(30, |rates| rates.launches);
        assert_eq!(before[1..], after[..29]);
    }

    #[test]
    fn what_is_older_than_any_curve_is_forgotten() {
        let mut history = History::default();
        for second in 0..1_000 {
            history.add(second * SECOND, (second + 1) * SECOND, rates(1.0));
        }
        assert_eq!(history.samples.len(), 120);
    }
}
