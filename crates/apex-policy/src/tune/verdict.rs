//! Whether a change made a kernel faster, from runs without it, with it, with it, and without it again.
//!
//! The order takes out what drifts (clocks, temperature). Two runs each say little about noise, so no estimate of it
//! is made: a change wins only when the slower of its runs beats the faster of the others by a margin.

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Faster in every comparison.
    Wins {
        /// Mean time before over mean time after.
        gain: f64,
        /// The least that any pair of runs says.
        low: f64,
        /// The most.
        high: f64,
    },
    /// Slower in every comparison: the mean ratio, below one.
    Loses(f64),
    /// Neither: the difference is within what runs differ by.
    Even(f64),
    /// A run has no time.
    Unknown,
}

/// Judges four times in the order without, with, with, without. A win must be larger than `margin`, a share.
#[must_use]
pub fn verdict(times: [f64; 4], margin: f64) -> Verdict {
    let [before, after, again, at_last] = times;
    if times.iter().any(|time| !time.is_finite() || *time <= 0.0) {
        return Verdict::Unknown;
    }
    let gain = (before + at_last) / (after + again);
    let low = before.min(at_last) / after.max(again);
    let high = before.max(at_last) / after.min(again);
    if low > 1.0 + margin {
        Verdict::Wins { gain, low, high }
    } else if high < 1.0 {
        Verdict::Loses(gain)
    } else {
        Verdict::Even(gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_win_wins() {
        let gain = |times| match verdict(times, 0.01) {
            Verdict::Wins { gain, low, high } => {
                assert!(low <= gain && gain <= high);
                Some(gain)
            }
            _ => None,
        };
        assert!((gain([200.0, 100.0, 100.0, 200.0]).unwrap() - 2.0).abs() < 1e-9);
        assert!(gain([100.0, 90.0, 95.0, 101.0]).is_some());
        assert_eq!(gain([100.0, 90.0, 101.0, 110.0]), None, "one run was no faster");
        assert_eq!(gain([100.0, 99.5, 99.5, 100.0]), None, "too little");
        assert_eq!(verdict([100.0, 120.0, 110.0, 100.0], 0.01), Verdict::Loses(200.0 / 230.0));
        assert_eq!(verdict([100.0, 0.0, 110.0, 100.0], 0.01), Verdict::Unknown);
        assert_eq!(verdict([100.0, f64::NAN, 110.0, 100.0], 0.01), Verdict::Unknown);
    }
}
