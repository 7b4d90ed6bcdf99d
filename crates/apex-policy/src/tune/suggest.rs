//! Which of several configurations of one kernel should take the place of the present one.
//!
//! A predicted gain is the ratio of two predictions, and the best of many predictions is also the luckiest. Where the
//! present configuration has run, its measured time also says how well the kernel is understood: what the prediction
//! of it was off by, the others may be off by too. How much is believed was found on measured problems
//! (`apex bench predict --suggest`). Nothing is suggested unless even the lower end of the gain is clearly one:
//! "unchanged" costs nobody anything.

use crate::predict::answer::Time;

/// The configuration that should be taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suggestion {
    /// Its place among those offered.
    pub place: usize,
    /// Expected time before over expected time after.
    pub speedup: f32,
    /// Lower end of the 80 % interval of that.
    pub low: f32,
    /// Upper end.
    pub high: f32,
}

/// The power of a predicted gain that is believed.
const BELIEVED: f32 = 0.95;
/// Times that different parts predicted err apart from each other; log2.
const APART: f32 = 1.0;

/// How sure a gain must be.
struct Rule {
    /// How far a ratio of two predictions may be off, in intervals of the less sure one.
    widened: f32,
    /// What even the lower end must promise.
    least: f32,
}

const MEASURED: Rule = Rule { widened: 1.0, least: 1.2 };
const UNMEASURED: Rule = Rule { widened: 2.0, least: 1.3 };

/// The best of the offered configurations, by their predicted times, if it is surely better than the present one.
/// `measured` is the present one's real time, if it has run.
#[must_use]
pub fn suggest(present: &Time, measured: Option<f32>, offered: &[Time]) -> Option<Suggestion> {
    let measured = measured.filter(|nanos| nanos.is_finite() && *nanos > 0.0);
    let rule = if measured.is_some() { MEASURED } else { UNMEASURED };
    // What the prediction of the present one was off by, in log2.
    let off = measured.map_or(0.0, |nanos| (nanos / present.nanos).log2());
    let half_width = |time: &Time| (time.high / time.nanos.max(f32::MIN_POSITIVE)).log2().max(0.0);
    let own = half_width(present);
    let mut best: Option<Suggestion> = None;
    for (place, time) in offered.iter().enumerate() {
        let ratio = (present.nanos / time.nanos.max(f32::MIN_POSITIVE)).log2();
        // Half way between what is predicted and what was measured of the present one.
        let gain = BELIEVED * (ratio + off / 2.0);
        let other = half_width(time);
        let width = if time.source == present.source {
            rule.widened * own.max(other)
        } else {
            rule.widened * (own + other) + APART
        };
        let unsure = width + off.abs();
        let found = Suggestion {
            place,
            speedup: gain.exp2(),
            low: (gain - unsure).exp2(),
            high: (gain + unsure).exp2(),
        };
        if found.low.is_finite() && best.is_none_or(|best| found.low > best.low) {
            best = Some(found);
        }
    }
    best.filter(|best| best.low > rule.least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::answer::{Basis, Source};

    fn time(nanos: f32, half_width: f32) -> Time {
        let factor = half_width.exp2();
        let (low, high) = (nanos / factor, nanos * factor);
        Time { nanos, low, high, basis: Basis::Model, source: Source::Trees }
    }

    #[test]
    fn only_a_sure_gain_is_suggested() {
        let present = time(100.0, 0.1);
        let offered = [time(95.0, 0.1), time(50.0, 0.1), time(48.0, 2.0)];
        let found = suggest(&present, None, &offered).unwrap();
        assert_eq!(found.place, 1, "a faster one that nobody is sure of is not better");
        assert!(found.low < found.speedup && found.speedup < found.high && found.speedup < 2.0);
        assert_eq!(suggest(&present, None, &[time(90.0, 0.1), time(150.0, 0.1)]), None);
        assert_eq!(suggest(&present, None, &[time(f32::NAN, 0.1)]), None);
        assert_eq!(suggest(&present, None, &[]), None);
        let measured = Time { source: Source::Repeat, ..time(50.0, 0.1) };
        assert_eq!(suggest(&present, None, &[measured]), None, "they err apart");
    }

    #[test]
    fn a_kernel_that_is_not_understood_is_left_alone() {
        let present = time(100.0, 0.1);
        assert!(suggest(&present, Some(100.0), &[time(70.0, 0.1)]).is_some());
        assert_eq!(suggest(&present, Some(300.0), &[time(70.0, 0.1)]), None);
        assert_eq!(suggest(&present, Some(30.0), &[time(70.0, 0.1)]), None);
        assert!(suggest(&present, Some(f32::NAN), &[time(40.0, 0.1)]).is_some());
    }
}
