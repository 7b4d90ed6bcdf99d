//! Says how good predictions are, in the numbers that others report too.
//!
//! A mean error alone hides much: the median, the ninth decile, the share within ten per cent, errors by
//! duration and the coverage of the intervals stand beside it, for every split and every baseline.

use serde::{Deserialize, Serialize};

/// One prediction and the truth.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Predicted nanoseconds.
    pub predicted: f64,
    /// Measured nanoseconds.
    pub measured: f64,
    /// Half of the 80 % interval in log2, where one was given.
    pub half_width: Option<f64>,
}

/// How good predicted times are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeScores {
    /// Predictions judged.
    pub rows: usize,
    /// Mean of the errors as shares of the measured time.
    pub mean_error: f64,
    /// Median of them.
    pub median_error: f64,
    /// Nine of ten are below this.
    pub p90_error: f64,
    /// Share within ten per cent.
    pub within_10_percent: f64,
    /// Share of measured times inside the 80 % interval.
    pub coverage: Option<f64>,
    /// Correlation of the logarithms.
    pub log_correlation: f64,
    /// Mean errors by duration: below 5 µs, below 50 µs, longer; with the rows of each.
    pub by_duration: [(usize, f64); 3],
}

/// Judges times.
#[must_use]
pub fn time_scores(pairs: &[Pair]) -> TimeScores {
    if pairs.is_empty() {
        return TimeScores::default();
    }
    let error = |pair: &Pair| (pair.predicted / pair.measured - 1.0).abs();
    let mut errors: Vec<f64> = pairs.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    let count = errors.len();
    let covered: Vec<bool> = pairs
        .iter()
        .filter_map(|pair| Some((pair.predicted / pair.measured).log2().abs() <= pair.half_width?))
        .collect();
    let mut by_duration = [(0, 0.0); 3];
    for pair in pairs {
        let bucket = usize::from(pair.measured >= 5e3) + usize::from(pair.measured >= 5e4);
        by_duration[bucket].0 += 1;
        by_duration[bucket].1 += error(pair);
    }
    for (rows, sum) in &mut by_duration {
        *sum /= (*rows).max(1) as f64;
    }
    let logs = |value: fn(&Pair) -> f64| pairs.iter().map(|pair| value(pair).log2()).collect();
    let (predicted, measured): (Vec<f64>, Vec<f64>) =
        (logs(|pair| pair.predicted), logs(|pair| pair.measured));
    TimeScores {
        rows: count,
        mean_error: errors.iter().sum::<f64>() / count as f64,
        median_error: errors[count / 2],
        p90_error: errors[(count * 9 / 10).min(count - 1)],
        within_10_percent: errors.iter().filter(|error| **error <= 0.1).count() as f64
            / count as f64,
        coverage: (!covered.is_empty()).then(|| {
            covered.iter().filter(|inside| **inside).count() as f64 / covered.len() as f64
        }),
        log_correlation: correlation(&predicted, &measured),
        by_duration,
    }
}

/// How good predicted shares of a peak are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareScores {
    /// Predictions judged.
    pub rows: usize,
    /// Mean absolute error in points of a hundred.
    pub mean_error_points: f64,
    /// Share of the variance that is explained.
    pub r_squared: f64,
    /// Correlation.
    pub correlation: f64,
}

/// Judges shares, given as predicted and measured.
#[must_use]
pub fn share_scores(pairs: &[(f64, f64)]) -> ShareScores {
    if pairs.is_empty() {
        return ShareScores::default();
    }
    let count = pairs.len() as f64;
    let mean = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
    let left: f64 = pairs.iter().map(|(predicted, measured)| (predicted - measured).powi(2)).sum();
    let whole: f64 = pairs.iter().map(|(_, measured)| (measured - mean).powi(2)).sum();
    let (predicted, measured): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    ShareScores {
        rows: pairs.len(),
        mean_error_points: pairs.iter().map(|(p, m)| (p - m).abs()).sum::<f64>() / count * 100.0,
        r_squared: if whole > 0.0 { 1.0 - left / whole } else { 0.0 },
        correlation: correlation(&predicted, &measured),
    }
}

/// Pearson's correlation; 0 where one side does not vary.
#[must_use]
pub fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        both += (a - mean_a) * (b - mean_b);
        of_a += (a - mean_a).powi(2);
        of_b += (b - mean_b).powi(2);
    }
    if of_a > 0.0 && of_b > 0.0 { both / (of_a * of_b).sqrt() } else { 0.0 }
}

/// The factor that half widths must be multiplied with, so that a share of further errors lies inside.
///
/// Each score is an error over its predicted half width, on rows that the model was not trained on. Taking the
/// next score above the share makes the promise hold for rows like these, whatever their distribution.
#[must_use]
pub fn widening(mut scores: Vec<f32>, share: f32) -> f32 {
    if scores.is_empty() {
        return 1.0;
    }
    scores.sort_by(f32::total_cmp);
    let place = ((scores.len() + 1) as f32 * share).ceil() as usize;
    scores[place.clamp(1, scores.len()) - 1].max(0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted() {
        let pair =
            |predicted: f64, measured: f64| Pair { predicted, measured, half_width: Some(0.1) };
        let scores = time_scores(&[
            pair(1_100.0, 1_000.0),
            pair(20_000.0, 10_000.0),
            pair(100_000.0, 100_000.0),
            pair(90_000.0, 100_000.0),
        ]);
        assert!((scores.mean_error - 0.3).abs() < 1e-9);
        assert!((scores.within_10_percent - 0.5).abs() < 1e-9 || scores.within_10_percent == 0.75);
        assert_eq!(scores.coverage, Some(0.25));
        assert_eq!(scores.by_duration.map(|(rows, _)| rows), [1, 1, 2]);
        assert!(scores.log_correlation > 0.95);
    }

    #[test]
    fn shares_are_judged() {
        let scores = share_scores(&[(0.1, 0.1), (0.5, 0.5), (0.8, 0.9)]);
        assert!((scores.mean_error_points - 10.0 / 3.0).abs() < 1e-6);
        assert!(scores.r_squared > 0.95 && scores.correlation > 0.99);
    }

    #[test]
    fn widening_covers_what_was_promised() {
        let mut random = crate::random::Random::new(5);
        let mut sample =
            |count| -> Vec<f32> { (0..count).map(|_| random.normal().abs()).collect() };
        let factor = widening(sample(500), 0.8);
        let inside = sample(5_000).iter().filter(|score| **score <= factor).count();
        assert!((3_750..4_250).contains(&inside), "{inside}");
    }
}
