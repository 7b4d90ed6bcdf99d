//! The small network for kernels never seen: 8 inputs, 16 and 8 hidden neurons, 4 outputs.
//!
//! It answers in tens of nanoseconds inside the program. Sizes are part of the type, so that loops have known
//! lengths and nothing is checked at run time; weights are kept by input, so that the sums of a layer run side
//! by side in vector registers. It corrects the device's bound instead of predicting time outright: launch
//! geometry alone does not determine time.

use super::features::SMALL;

/// Inputs of the small network.
pub const INPUTS: usize = SMALL.len();
/// Outputs of the small network.
pub const OUTPUTS: usize = 4;
const FIRST: usize = 16;
const SECOND: usize = 8;

/// A layer: every output is a weighted sum of all inputs.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
pub struct Layer<const IN: usize, const OUT: usize> {
    /// By input, then output.
    pub weights: [[f32; OUT]; IN],
    /// Added to each output.
    pub bias: [f32; OUT],
}

impl<const IN: usize, const OUT: usize> Layer<IN, OUT> {
    #[inline(always)]
    fn run(&self, inputs: &[f32; IN]) -> [f32; OUT] {
        let mut sums = self.bias;
        for (input, weights) in inputs.iter().zip(&self.weights) {
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum += input * weight;
            }
        }
        sums
    }
}

#[inline(always)]
fn rectified<const N: usize>(mut values: [f32; N]) -> [f32; N] {
    for value in &mut values {
        *value = value.max(0.0);
    }
    values
}

/// What the small network says of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmallAnswer {
    /// log2 of time over the expected time.
    pub over_expected: f32,
    /// Half of an 80 % interval, in log2.
    pub half_width: f32,
    /// Warps active on average, as a share of the warp slots.
    pub achieved_occupancy: f32,
    /// Throughput of the multiprocessors as a share of their peak.
    pub sm_throughput: f32,
}

/// The network with its normalisation.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallNetwork {
    /// Subtracted from each input.
    pub mean: [f32; INPUTS],
    /// Multiplied with each input afterwards.
    pub scale: [f32; INPUTS],
    /// From inputs to the first hidden neurons.
    pub first: Layer<INPUTS, FIRST>,
    /// From those to the second.
    pub second: Layer<FIRST, SECOND>,
    /// From those to the outputs.
    pub third: Layer<SECOND, OUTPUTS>,
    /// What the predicted half width is multiplied with, so that 80 % of unseen times lie inside.
    pub widening: f32,
    /// Whether shares of peaks were learned: without counters they cannot be.
    pub knows_shares: bool,
}

impl SmallNetwork {
    /// The bare outputs. Never inlined: merged with what fills the inputs, the sums lose their vector registers and
    /// take twice as long.
    #[inline(never)]
    #[must_use]
    pub fn outputs(&self, inputs: &[f32; INPUTS]) -> [f32; OUTPUTS] {
        let mut normal = [0.0; INPUTS];
        for at in 0..INPUTS {
            normal[at] = (inputs[at] - self.mean[at]) * self.scale[at];
        }
        let first = rectified(self.first.run(&normal));
        let second = rectified(self.second.run(&first));
        self.third.run(&second)
    }

    /// The outputs with their meaning, each within the range that it can have.
    #[inline]
    #[must_use]
    pub fn answer(&self, inputs: &[f32; INPUTS]) -> SmallAnswer {
        let [over_expected, half_width, achieved_occupancy, sm_throughput] = self.outputs(inputs);
        SmallAnswer {
            over_expected,
            half_width: half_width.max(NARROWEST) * self.widening,
            achieved_occupancy: achieved_occupancy.clamp(0.0, 1.0),
            sm_throughput: sm_throughput.clamp(0.0, 1.0),
        }
    }
}

/// The least half of an interval, in log2: no prediction of a model is surer than 1 %.
pub const NARROWEST: f32 = 0.015;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Some network, the same every time.
    pub(in crate::predict) fn sample(seed: u32) -> SmallNetwork {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        fn layer<const IN: usize, const OUT: usize>(
            next: &mut impl FnMut() -> f32,
        ) -> Layer<IN, OUT> {
            let mut layer = Layer { weights: [[0.0; OUT]; IN], bias: [0.0; OUT] };
            layer.weights.iter_mut().flatten().for_each(|weight| *weight = next());
            layer.bias.iter_mut().for_each(|bias| *bias = next());
            layer
        }
        SmallNetwork {
            mean: [1.0; INPUTS],
            scale: [0.5; INPUTS],
            first: layer(&mut next),
            second: layer(&mut next),
            third: layer(&mut next),
            widening: 1.5,
            knows_shares: true,
        }
    }

    pub(in crate::predict) const GOLDEN: [[f32; INPUTS]; 2] =
        [[1.0, 2.0, 3.0, 4.0, 0.5, 1.0, -2.0, 12.0], [0.0; INPUTS]];

    #[test]
    fn it_computes_what_a_plain_loop_computes() {
        let network = sample(1);
        let input = GOLDEN[0];
        let mut values: Vec<f64> = (0..INPUTS).map(|i| f64::from((input[i] - 1.0) * 0.5)).collect();
        fn plain<const I: usize, const O: usize>(values: &[f64], layer: &Layer<I, O>) -> Vec<f64> {
            (0..O)
                .map(|o| {
                    let sum: f64 = (0..I).map(|i| values[i] * f64::from(layer.weights[i][o])).sum();
                    sum + f64::from(layer.bias[o])
                })
                .collect()
        }
        values = plain(&values, &network.first).iter().map(|v| v.max(0.0)).collect();
        values = plain(&values, &network.second).iter().map(|v| v.max(0.0)).collect();
        values = plain(&values, &network.third);
        for (found, expected) in network.outputs(&input).iter().zip(&values) {
            assert!((f64::from(*found) - expected).abs() < 1e-4);
        }
    }
}
