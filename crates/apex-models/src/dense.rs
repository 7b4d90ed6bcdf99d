//! Runs the large network: dense layers with weights in single precision, half precision or bytes.
//!
//! Half a million and more weights take longest to read from memory, so the smaller the form, the faster the
//! answer. Weights of one byte have one scale for each output; the values they meet are rounded to twelve bits,
//! so that sums of products fit 32-bit integers and the rounding disappears beside that of the weights. Nothing
//! is allocated for an answer: the caller keeps the space between layers.

use crate::float16;
use crate::products::{CHUNK, products};
use apex_policy::predict::acquaintance::Acquaintance;
use apex_policy::predict::features::{COUNT, base};
use apex_policy::predict::network::NARROWEST;
use apex_policy::predict::trees::{FORESTS, TreesAnswer};

/// Outputs of the large network, the same as those of the trees.
pub const OUTPUTS: usize = FORESTS.len();

/// Sums in floating point that grow side by side.
const LANES: usize = 32;
/// The largest value of an input that meets weights of one byte.
const LARGEST: f32 = 2047.0;

/// The weights of a layer, by output, each row padded with zeros.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// Single precision.
    Single(Vec<f32>),
    /// Half precision.
    Half(Vec<u16>),
    /// Bytes, and what each output is multiplied with.
    Byte(Vec<i8>, Vec<f32>),
}

/// One layer.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseLayer {
    inputs: usize,
    weights: Weights,
    bias: Vec<f32>,
}

impl DenseLayer {
    /// A layer in single precision; weights by output, not padded.
    #[must_use]
    pub fn single(inputs: usize, weights: &[f32], bias: Vec<f32>) -> DenseLayer {
        DenseLayer { inputs, weights: Weights::Single(padded(weights, inputs)), bias }
    }

    /// A layer in half precision.
    #[must_use]
    pub fn half(inputs: usize, weights: &[u16], bias: Vec<f32>) -> DenseLayer {
        DenseLayer { inputs, weights: Weights::Half(padded(weights, inputs)), bias }
    }

    /// A layer in bytes.
    #[must_use]
    pub fn byte(inputs: usize, weights: &[i8], scales: Vec<f32>, bias: Vec<f32>) -> DenseLayer {
        DenseLayer { inputs, weights: Weights::Byte(padded(weights, inputs), scales), bias }
    }

    /// Outputs of the layer.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Inputs of the layer.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Weights and biases.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.bias.len() * (self.inputs + 1)
    }

    fn run(&self, space: &mut Space) {
        let width = self.inputs.next_multiple_of(CHUNK);
        space.values.resize(width, 0.0);
        space.sums.clear();
        match &self.weights {
            Weights::Single(weights) => {
                for (row, bias) in weights.chunks_exact(width).zip(&self.bias) {
                    space.sums.push(bias + dot(row, &space.values));
                }
            }
            Weights::Half(weights) => {
                for (row, bias) in weights.chunks_exact(width).zip(&self.bias) {
                    space.sums.push(bias + dot_half(row, &space.values));
                }
            }
            Weights::Byte(weights, scales) => {
                let most = largest(&space.values);
                let unit = if most > 0.0 { LARGEST / most } else { 0.0 };
                space.whole.clear();
                space.whole.extend(space.values.iter().map(|value| rounded(value * unit)));
                space.products.clear();
                space.products.resize(self.bias.len(), 0);
                products(weights, &space.whole, &mut space.products);
                let back = most / LARGEST;
                let outputs = space.products.iter().zip(&self.bias).zip(scales);
                let sums = outputs.map(|((sum, bias), scale)| bias + *sum as f32 * scale * back);
                space.sums.extend(sums);
            }
        }
        std::mem::swap(&mut space.values, &mut space.sums);
    }
}

fn padded<T: Copy + Default>(weights: &[T], inputs: usize) -> Vec<T> {
    let width = inputs.next_multiple_of(CHUNK);
    let mut padded = Vec::with_capacity(weights.len() / inputs.max(1) * width);
    for row in weights.chunks_exact(inputs.max(1)) {
        padded.extend_from_slice(row);
        padded.resize(padded.len().next_multiple_of(width), T::default());
    }
    padded
}

#[inline]
fn dot(weights: &[f32], values: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    for (weights, values) in weights.as_chunks::<LANES>().0.iter().zip(values.as_chunks().0) {
        let values: &[f32; LANES] = values;
        for at in 0..LANES {
            sums[at] += weights[at] * values[at];
        }
    }
    sums.iter().sum()
}

#[inline]
fn dot_half(weights: &[u16], values: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    for (weights, values) in weights.as_chunks::<LANES>().0.iter().zip(values.as_chunks().0) {
        let values: &[f32; LANES] = values;
        for at in 0..LANES {
            sums[at] += float16::to_f32(weights[at]) * values[at];
        }
    }
    sums.iter().sum()
}

/// The value that is farthest from zero; lanes are compared side by side, because one after the other takes longer.
fn largest(values: &[f32]) -> f32 {
    let mut most = [0.0_f32; LANES];
    for values in values.as_chunks::<LANES>().0 {
        for at in 0..LANES {
            let value = values[at].abs();
            most[at] = if value > most[at] { value } else { most[at] };
        }
    }
    most.iter().fold(0.0, |most, value| most.max(*value))
}

/// The nearest whole number, by instructions that every processor has.
#[inline]
fn rounded(value: f32) -> i16 {
    (value + 0.5_f32.copysign(value)) as i16
}

/// Space for values between layers; kept by whoever asks.
#[derive(Clone, Debug, Default)]
pub struct Space {
    values: Vec<f32>,
    sums: Vec<f32>,
    whole: Vec<i16>,
    products: Vec<i32>,
}

/// The whole network.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseNetwork {
    /// Subtracted from each input.
    pub mean: Vec<f32>,
    /// Multiplied with each input afterwards.
    pub scale: Vec<f32>,
    /// The layers; negative values become zero after each but the last.
    pub layers: Vec<DenseLayer>,
    /// What half widths are multiplied with, for each [`Acquaintance`].
    pub widening: [f32; Acquaintance::ALL.len()],
}

impl DenseNetwork {
    /// Weights and biases.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.layers.iter().map(DenseLayer::parameters).sum()
    }

    /// The bare outputs, which stay in `space`.
    pub fn outputs<'a>(&self, inputs: &[f32], space: &'a mut Space) -> &'a [f32] {
        space.values.clear();
        let normal = inputs.iter().zip(&self.mean).zip(&self.scale);
        space.values.extend(normal.map(|((input, mean), scale)| (input - mean) * scale));
        for (nth, layer) in self.layers.iter().enumerate() {
            layer.run(space);
            if nth + 1 < self.layers.len() {
                space.values.iter_mut().for_each(|value| *value = value.max(0.0));
            }
        }
        &space.values
    }

    /// The outputs with their meaning.
    pub fn answer(
        &self,
        features: &[f32; COUNT],
        acquaintance: Acquaintance,
        space: &mut Space,
    ) -> TreesAnswer {
        let mut outputs = [0.0; OUTPUTS];
        outputs.iter_mut().zip(self.outputs(features, space)).for_each(|(to, from)| *to = *from);
        let [over_base, half_width, achieved, sm, dram] = outputs;
        TreesAnswer {
            over_expected: base(features) + over_base,
            half_width: half_width.max(NARROWEST) * self.widening[acquaintance as usize],
            achieved_occupancy: achieved.clamp(0.0, 1.0),
            sm_throughput: sm.clamp(0.0, 1.0),
            dram_throughput: dram.clamp(0.0, 1.0),
        }
    }

    /// The same network with weights in half precision.
    #[must_use]
    pub fn halved(&self) -> DenseNetwork {
        self.with_weights(|weights, _| {
            Weights::Half(weights.iter().map(|weight| float16::from_f32(*weight)).collect())
        })
    }

    /// The same network with weights of one byte. Each output's largest weight becomes 127.
    #[must_use]
    pub fn quantised(&self) -> DenseNetwork {
        self.with_weights(|weights, width| {
            let mut scales = Vec::with_capacity(weights.len() / width.max(1));
            let mut bytes = Vec::with_capacity(weights.len());
            for row in weights.chunks_exact(width) {
                let most = row.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
                let scale = if most > 0.0 { most / 127.0 } else { 1.0 };
                bytes.extend(row.iter().map(|weight| (weight / scale).round() as i8));
                scales.push(scale);
            }
            Weights::Byte(bytes, scales)
        })
    }

    fn with_weights(&self, change: impl Fn(&[f32], usize) -> Weights) -> DenseNetwork {
        let mut changed = self.clone();
        for layer in &mut changed.layers {
            if let Weights::Single(weights) = &layer.weights {
                layer.weights = change(weights, layer.inputs.next_multiple_of(CHUNK));
            }
        }
        changed
    }

    /// Weights of a layer by output without padding, and its biases.
    pub(crate) fn bare(layer: &DenseLayer) -> (Weights, &[f32]) {
        let width = layer.inputs.next_multiple_of(CHUNK);
        fn cut<T: Copy>(weights: &[T], width: usize, inputs: usize) -> Vec<T> {
            weights.chunks_exact(width).flat_map(|row| &row[..inputs]).copied().collect()
        }
        let weights = match &layer.weights {
            Weights::Single(weights) => Weights::Single(cut(weights, width, layer.inputs)),
            Weights::Half(weights) => Weights::Half(cut(weights, width, layer.inputs)),
            Weights::Byte(weights, scales) => {
                Weights::Byte(cut(weights, width, layer.inputs), scales.clone())
            }
        };
        (weights, &layer.bias)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Some network, the same every time.
    pub(crate) fn sample(sizes: &[usize]) -> DenseNetwork {
        let mut state = 12_345_u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let layers = sizes.windows(2).map(|pair| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let unit = (2.0 / inputs as f32).sqrt();
            let weights: Vec<f32> = (0..inputs * outputs).map(|_| next() * unit).collect();
            DenseLayer::single(inputs, &weights, (0..outputs).map(|_| next()).collect())
        });
        DenseNetwork {
            layers: layers.collect(),
            mean: vec![0.5; sizes[0]],
            scale: vec![2.0; sizes[0]],
            widening: [1.0; Acquaintance::ALL.len()],
        }
    }

    fn inputs(count: usize) -> Vec<f32> {
        (0..count).map(|at| ((at * 37) % 100) as f32 / 100.0).collect()
    }

    #[test]
    fn it_computes_what_a_plain_loop_computes() {
        let network = sample(&[7, 45, 33, 5]);
        let mut values: Vec<f64> =
            inputs(7).iter().map(|value| f64::from((value - 0.5) * 2.0)).collect();
        for (nth, layer) in network.layers.iter().enumerate() {
            let (Weights::Single(weights), bias) = DenseNetwork::bare(layer) else { panic!() };
            values = (0..layer.outputs())
                .map(|output| {
                    let row = &weights[output * layer.inputs..][..layer.inputs];
                    let sum: f64 = row.iter().zip(&values).map(|(w, v)| f64::from(*w) * v).sum();
                    let sum = sum + f64::from(bias[output]);
                    if nth < 2 { sum.max(0.0) } else { sum }
                })
                .collect();
        }
        let mut space = Space::default();
        for _ in 0..2 {
            let found = network.outputs(&inputs(7), &mut space);
            for (found, expected) in found.iter().zip(&values) {
                assert!((f64::from(*found) - expected).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn smaller_forms_say_nearly_the_same() {
        let network = sample(&[COUNT, 128, 96, 5]);
        let (mut space, mut other) = (Space::default(), Space::default());
        let exact = network.outputs(&inputs(COUNT), &mut space).to_vec();
        for (form, tolerance) in [(network.halved(), 2e-3), (network.quantised(), 3e-2)] {
            for (found, exact) in form.outputs(&inputs(COUNT), &mut other).iter().zip(&exact) {
                assert!((found - exact).abs() < tolerance, "{found} {exact}");
            }
        }
        assert_eq!(network.parameters(), COUNT * 128 + 128 + 128 * 96 + 96 + 96 * 5 + 5);
    }

    #[test]
    fn values_become_the_nearest_whole_numbers() {
        for (value, whole) in [(0.0, 0), (0.4, 0), (0.5, 1), (-0.5, -1), (1.49, 1), (-7.6, -8)] {
            assert_eq!(rounded(value), whole);
        }
        assert_eq!((rounded(LARGEST), rounded(-LARGEST)), (2047, -2047));
        let mut values = inputs(CHUNK * 2);
        values[CHUNK + 3] = -8.0;
        assert_eq!(largest(&values), 8.0);
        assert_eq!(largest(&[0.0; CHUNK]), 0.0);
    }
}
