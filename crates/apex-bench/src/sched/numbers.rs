//! Quantiles, rates and their intervals.
//!
//! Requests near each other wait for the same things, so they are not drawn one by one: whole seconds are, with
//! replacement, and the interval is that of the numbers of such draws. Two sides have the same arrivals, turn by turn,
//! so a second is drawn for both at once: a rush is in both or in neither, and what remains is how they differ.

use super::workers::Request;
use apex_policy::schedule::simulate::Random;

const DRAWS: usize = 400;
const BLOCK_NS: u64 = 1_000_000_000;

/// A number with the interval in which 95 of 100 draws lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Estimate {
    /// Of nothing.
    pub(super) const NONE: Estimate = Estimate { value: f64::NAN, low: f64::NAN, high: f64::NAN };

    /// The sum of two; its interval is as wide as both.
    pub(super) fn plus(self, other: Estimate) -> Estimate {
        let sum = |of: fn(&Estimate) -> f64| of(&self) + of(&other);
        Estimate { value: sum(|it| it.value), low: sum(|it| it.low), high: sum(|it| it.high) }
    }

    /// A part of it.
    pub(super) fn over(self, count: f64) -> Estimate {
        let Estimate { value, low, high } = self;
        Estimate { value: value / count, low: low / count, high: high / count }
    }
}

/// The quantile of times in milliseconds; NaN of none.
pub(super) fn quantile(times: &mut [f64], part: f64) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    let place = (part * times.len() as f64).ceil().max(1.0) as usize - 1;
    times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// P95 of the responses over that of others that came at the same moments. Turns that only one side has count for the
/// value and are not drawn: nothing is their other half, and to draw the sides apart would make of every interval a
/// wide one because of a turn that was lost.
pub(super) fn p95_ratio(with: &[Vec<Request>], other: &[Vec<Request>], seed: u64) -> Estimate {
    let pairs = paired_blocks(with, other);
    let mut random = Random::new(seed);
    let mut draw = || {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..pairs.len() {
            let (with, other) = &pairs[random.within(0, pairs.len() as u64) as usize];
            ours.extend_from_slice(with);
            theirs.extend_from_slice(other);
        }
        quantile(&mut ours, 0.95) / quantile(&mut theirs, 0.95)
    };
    let mut ratios: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    ratios.retain(|ratio| ratio.is_finite());
    let all = |turns: &[Vec<Request>]| {
        let mut times: Vec<f64> = turns.iter().flatten().map(Request::response_ms).collect();
        quantile(&mut times, 0.95)
    };
    Estimate {
        value: all(with) / all(other),
        low: quantile(&mut ratios, 0.025),
        high: quantile(&mut ratios, 0.975),
    }
}

/// Responses of both sides in milliseconds by the second of their arrival, turn by turn. One that fell behind has not
/// answered the last of them: its last seconds are empty.
fn paired_blocks(with: &[Vec<Request>], other: &[Vec<Request>]) -> Vec<(Vec<f64>, Vec<f64>)> {
    let turns = with.iter().zip(other);
    turns
        .flat_map(|(with, other)| {
            let (mut with, mut other) = (blocks(with), blocks(other));
            let count = with.len().max(other.len());
            with.resize(count, Vec::new());
            other.resize(count, Vec::new());
            with.into_iter().zip(other)
        })
        .collect()
}

fn blocks(turn: &[Request]) -> Vec<Vec<f64>> {
    let second = |request: &Request| (request.scheduled / BLOCK_NS) as usize;
    let mut blocks = vec![Vec::new(); turn.iter().map(|it| second(it) + 1).max().unwrap_or(0)];
    for request in turn {
        blocks[second(request)].push(request.response_ms());
    }
    blocks
}

/// Steps a second of a turn: between the first and the last end within it, so that no part of a step counts.
pub(super) fn rate(ends: &[u64], seconds: f64) -> f64 {
    let within: Vec<u64> =
        ends.iter().copied().filter(|&end| end as f64 <= seconds * 1e9).collect();
    match (within.first(), within.last()) {
        (Some(first), Some(last)) if last > first => {
            (within.len() - 1) as f64 * 1e9 / (last - first) as f64
        }
        _ => within.len() as f64 / seconds,
    }
}

/// Mean of the rates over the mean of others. Too few turns to draw from: the interval is all that was seen of a turn
/// over the other's same turn, which was a neighbour in time.
pub(super) fn rate_ratio(with: &[f64], other: &[f64]) -> Estimate {
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let ratios = with.iter().zip(other).map(|(with, other)| with / other);
    Estimate {
        value: mean(with) / mean(other),
        low: ratios.clone().fold(f64::NAN, f64::min),
        high: ratios.fold(f64::NAN, f64::max),
    }
}

/// The mean; none of nothing.
pub(super) fn mean_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// To four digits after the point, which are enough to keep.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(count: u64, response_ns: u64) -> Vec<Request> {
        answered(count, |nth| response_ns + nth % 10 * 1_000)
    }

    fn answered(count: u64, response_ns: impl Fn(u64) -> u64) -> Vec<Request> {
        (0..count)
            .map(|nth| Request {
                scheduled: nth * 20_000_000,
                started: nth * 20_000_000,
                first: None,
                ended: nth * 20_000_000 + response_ns(nth),
            })
            .collect()
    }

    /// Fifty requests a second; in some seconds they wait long, in most hardly.
    fn rushes(parts_of_hundred: u64) -> Vec<Request> {
        let mut random = Random::new(7);
        let seconds: Vec<u64> = (0..30).map(|_| random.within(100, 1_000).pow(2)).collect();
        answered(1_500, |nth| seconds[(nth / 50) as usize] * parts_of_hundred + nth % 50)
    }

    /// The draws as they would be with each side drawn for itself.
    fn width_apart(with: &[Request], other: &[Request]) -> f64 {
        let mut random = Random::new(1);
        let (with, other) = (blocks(with), blocks(other));
        let mut draw = |blocks: &[Vec<f64>]| {
            let pick = |_| blocks[random.within(0, blocks.len() as u64) as usize].clone();
            quantile(&mut (0..blocks.len()).flat_map(pick).collect::<Vec<f64>>(), 0.95)
        };
        let mut ratios: Vec<f64> = (0..DRAWS).map(|_| draw(&with) / draw(&other)).collect();
        quantile(&mut ratios, 0.975) - quantile(&mut ratios, 0.025)
    }

    #[test]
    fn the_same_arrivals_make_a_narrow_interval() {
        let (with, other) = (rushes(105), rushes(100));
        let apart = width_apart(&with, &other);
        let ratio = p95_ratio(&[with], &[other], 1);
        // A difference of a twentieth is seen though seconds differ by a hundredfold.
        assert!(ratio.low > 1.04 && ratio.high < 1.06, "{ratio:?}");
        assert!((ratio.high - ratio.low) * 20.0 < apart, "{ratio:?}, apart {apart}");
    }

    #[test]
    fn what_differs_by_chance_keeps_its_width() {
        // Rushes at other moments: a difference of a twentieth may not be seen.
        let mut other = rushes(100);
        other.rotate_left(500);
        for (nth, request) in other.iter_mut().enumerate() {
            let response = request.ended - request.scheduled;
            request.scheduled = nth as u64 * 20_000_000;
            request.ended = request.scheduled + response;
        }
        let ratio = p95_ratio(&[rushes(100)], &[other], 1);
        assert!(ratio.low < 0.95 && ratio.high > 1.05, "{ratio:?}");
    }

    #[test]
    fn a_side_that_fell_behind_has_empty_seconds() {
        // Two seconds were answered of eight, and of the second turn none.
        let pairs =
            paired_blocks(&[turn(100, 9_000_000), vec![]], &[turn(400, 1_000), turn(50, 1_000)]);
        let lengths: Vec<_> = pairs.iter().map(|(a, b)| (a.len(), b.len())).collect();
        assert_eq!(lengths[..3], [(50, 50), (50, 50), (0, 50)]);
        assert_eq!((lengths.len(), lengths[8]), (9, (0, 50)));
        // A turn without its other half counts for the value.
        let all = [turn(400, 2_000_000), turn(400, 8_000_000)];
        let ratio = p95_ratio(&all, &[turn(400, 2_000_000)], 1);
        assert!((3.9..4.1).contains(&ratio.value) && ratio.high < 1.1, "{ratio:?}");
    }

    #[test]
    fn a_ratio_lies_in_its_interval() {
        let ratio = p95_ratio(&[turn(400, 3_000_000)], &[turn(400, 2_000_000)], 1);
        assert!((1.49..1.51).contains(&ratio.value), "{ratio:?}");
        assert!(ratio.low <= ratio.value && ratio.value <= ratio.high);
        assert!(p95_ratio(&[], &[], 1).value.is_nan());
    }

    #[test]
    fn a_rate_counts_whole_steps() {
        assert_eq!(rate(&[100_000_000, 200_000_000, 300_000_000, 9_000_000_000], 1.0), 10.0);
        assert_eq!(rate(&[], 2.0), 0.0);
        let ratio = rate_ratio(&[5.0, 6.0], &[10.0, 12.0]);
        assert_eq!((ratio.value, ratio.low, ratio.high), (0.5, 0.5, 0.5));
        // Both turns of a slow minute: nothing is said by that.
        let ratio = rate_ratio(&[4.5, 9.0], &[10.0, 18.0]);
        assert_eq!((ratio.low, ratio.high), (0.45, 0.5));
        let none = rate_ratio(&[1.0], &[]);
        assert!(none.value.is_nan() && none.low.is_nan() && none.high.is_nan());
    }
}
