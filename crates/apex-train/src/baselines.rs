//! What a model must beat: the last value, the kernel's mean, and the roofline with one constant.
//!
//! All three see exactly what the model sees. For a kernel never seen the first two have only what other kernels
//! did, which is their honest answer.

use crate::examples::Example;
use crate::metrics::{Pair, TimeScores, time_scores};
use serde::{Deserialize, Serialize};

/// The scores of the baselines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baselines {
    /// The last measured time of the kernel, whatever its shape was.
    pub last_value: TimeScores,
    /// The mean measured time of the kernel.
    pub kernel_mean: TimeScores,
    /// The bound times one constant for all kernels.
    pub roofline: TimeScores,
}

/// What is taken from the training rows.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// Median of log2 of time.
    log_nanos: f32,
    /// Median of log2 of time over the bound.
    over_bound: f32,
}

impl Constants {
    /// The medians of training examples.
    #[must_use]
    pub fn of(examples: &[Example]) -> Constants {
        let median = |mut values: Vec<f32>| {
            values.sort_by(f32::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(0.0)
        };
        Constants {
            log_nanos: median(examples.iter().map(|e| e.measured().log2() as f32).collect()),
            over_bound: median(examples.iter().map(over_bound).collect()),
        }
    }
}

/// log2 of a measured time over the bound.
fn over_bound(example: &Example) -> f32 {
    (example.measured() / f64::from(example.bound_nanos)).log2() as f32
}

/// Judges the baselines on examples.
#[must_use]
pub fn baselines(examples: &[Example], constants: Constants) -> Baselines {
    let judged = |predict: &dyn Fn(&Example) -> f64| {
        let pair = |example: &Example| Pair {
            predicted: predict(example),
            measured: example.measured(),
            half_width: None,
        };
        time_scores(&examples.iter().map(pair).collect::<Vec<_>>())
    };
    let usual = f64::from(constants.log_nanos).exp2();
    Baselines {
        last_value: judged(&|example| example.past.map_or(usual, |(last, _)| last)),
        kernel_mean: judged(&|example| example.past.map_or(usual, |(_, mean)| mean)),
        roofline: judged(&|example| {
            f64::from(example.bound_nanos) * f64::from(constants.over_bound).exp2()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{Shown, Source, tests};
    use crate::split::Part;

    #[test]
    fn a_constant_over_the_bound_beats_time_without_work() {
        let rows = tests::fixture(4, 60);
        let parts = vec![Part::Train; rows.len()];
        let source = Source::new(&rows, tests::device);
        let examples = source.examples(&parts, Part::Train, Shown::AllOthers, 1);
        let found = baselines(&examples, Constants::of(&examples));
        assert_eq!(found.roofline.rows, 240);
        assert!(found.roofline.mean_error < found.last_value.mean_error);
        assert!(found.roofline.mean_error < found.kernel_mean.mean_error);
    }
}
