//! Quantiles, rates and their intervals.
//!
//! Requests near each other wait for the same things, so they are not drawn one by one: whole seconds are, with
//! replacement, and the interval is that of the numbers of such draws.

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

/// P95 of the responses over that of others.
pub(super) fn p95_ratio(with: &[Vec<Request>], alone: &[Vec<Request>], seed: u64) -> Estimate {
    let (with, alone) = (blocks(with), blocks(alone));
    let mut random = Random::new(seed);
    let p95 = |blocks: &[&Vec<f64>]| {
        quantile(
            &mut blocks.iter().flat_map(|times| times.iter().copied()).collect::<Vec<_>>(),
            0.95,
        )
    };
    let all = |blocks: &[Vec<f64>]| p95(&blocks.iter().collect::<Vec<_>>());
    let mut draw = |blocks: &[Vec<f64>]| {
        let drawn: Vec<&Vec<f64>> = (0..blocks.len())
            .filter_map(|_| blocks.get(random.within(0, blocks.len() as u64) as usize))
            .collect();
        p95(&drawn)
    };
    let mut ratios: Vec<f64> = (0..DRAWS).map(|_| draw(&with) / draw(&alone)).collect();
    ratios.retain(|ratio| ratio.is_finite());
    Estimate {
        value: all(&with) / all(&alone),
        low: quantile(&mut ratios, 0.025),
        high: quantile(&mut ratios, 0.975),
    }
}

/// Responses in milliseconds by the second of their arrival, turn by turn.
fn blocks(turns: &[Vec<Request>]) -> Vec<Vec<f64>> {
    let mut blocks = Vec::new();
    for turn in turns {
        let count = turn.iter().map(|it| it.scheduled / BLOCK_NS + 1).max().unwrap_or(0);
        let first = blocks.len();
        blocks.resize(first + count as usize, Vec::new());
        for request in turn {
            blocks[first + (request.scheduled / BLOCK_NS) as usize].push(request.response_ms());
        }
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

/// Mean of the rates over the mean of others.
pub(super) fn rate_ratio(with: &[f64], alone: &[f64]) -> Estimate {
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let least = |rates: &[f64]| rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    // Too few turns to draw from: the interval is all that was seen.
    Estimate {
        value: mean(with) / mean(alone),
        low: least(with) / most(alone),
        high: most(with) / least(alone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(count: u64, response_ns: u64) -> Vec<Request> {
        (0..count)
            .map(|nth| Request {
                scheduled: nth * 20_000_000,
                started: nth * 20_000_000,
                first: None,
                ended: nth * 20_000_000 + response_ns + nth % 10 * 1_000,
            })
            .collect()
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
        assert_eq!((ratio.value, ratio.high), (0.5, 0.6));
    }
}
