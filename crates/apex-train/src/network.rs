//! Trains networks of dense layers: forward, backward, Adam, for the small network and the large one alike.
//!
//! Rows are shuffled, weights begin and batches are cut from one seed. The loss is what the outputs mean: time over
//! the bound with large errors counted less than their square, its own expected error as the fourth quintile, and
//! shares of peaks where counters were read.

use crate::examples::Example;
use crate::matmul::{Threads, product, transposed, transposed_product};
use crate::random::Random;
use apex_models::dense::{DenseLayer, DenseNetwork};
use apex_policy::predict::acquaintance::Acquaintance;
use apex_policy::predict::adam::Adam;
use apex_policy::predict::features::{COUNT, SMALL};
use apex_policy::predict::network::{INPUTS, Layer, OUTPUTS, SmallNetwork};

/// How a network is trained.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Neurons of each hidden layer.
    pub hidden: Vec<usize>,
    /// Outputs: time over bound, its expected error, then shares of peaks.
    pub outputs: usize,
    /// Times that all rows are shown.
    pub epochs: usize,
    /// Rows of one step.
    pub batch: usize,
    /// Largest step; it falls to a hundredth of it over the epochs.
    pub rate: f32,
    /// Pull towards zero.
    pub decay: f32,
    /// Where everything random comes from.
    pub seed: u64,
    /// Threads to use.
    pub threads: Threads,
}

/// A trained network and how it went.
#[derive(Clone, Debug)]
pub struct Trained {
    sizes: Vec<usize>,
    /// By input, then output.
    weights: Vec<Vec<f32>>,
    biases: Vec<Vec<f32>>,
    mean: Vec<f32>,
    scale: Vec<f32>,
    /// Loss of each epoch: on the rows trained on, and on others.
    pub losses: Vec<(f32, f32)>,
}

/// Trains on some examples and keeps the weights of the epoch that did best on others, which are watched, so
/// that a network larger than its rows does not learn them by heart; `inputs` are the places of the features that are used. After
/// each epoch `progress` learns its number and both losses.
#[must_use]
pub fn train(
    plan: &Plan,
    inputs: &[usize],
    examples: &[Example],
    watched: &[Example],
    mut progress: impl FnMut(usize, f32, f32),
) -> Trained {
    let mut random = Random::new(plan.seed);
    let (mean, scale) = normalisation(inputs, examples);
    let mut sizes = vec![inputs.len()];
    sizes.extend(&plan.hidden);
    sizes.push(plan.outputs);
    let mut weights = Vec::new();
    for pair in sizes.windows(2) {
        let unit = (2.0 / pair[0] as f32).sqrt();
        weights.push((0..pair[0] * pair[1]).map(|_| random.normal() * unit).collect::<Vec<f32>>());
    }
    // The last layer begins small, so that the first steps do not throw the others about.
    if let Some(last) = weights.last_mut() {
        last.iter_mut().for_each(|weight| *weight *= 0.1);
    }
    let biases: Vec<Vec<f32>> = sizes[1..].iter().map(|outputs| vec![0.0; *outputs]).collect();
    let mut trained = Trained { sizes, weights, biases, mean, scale, losses: Vec::new() };
    let mut optimisers: Vec<(Adam, Adam)> = trained
        .weights
        .iter()
        .zip(&trained.biases)
        .map(|(weights, biases)| (Adam::new(weights.len()), Adam::new(biases.len())))
        .collect();
    let mut order: Vec<usize> = (0..examples.len()).collect();
    let steps = examples.len().div_ceil(plan.batch.max(1)) * plan.epochs;
    let mut step = 0;
    let mut best = None;
    for epoch in 0..plan.epochs {
        random.shuffle(&mut order);
        let mut sum = 0.0;
        for batch in order.chunks(plan.batch.max(1)) {
            let done = step as f32 / steps as f32;
            let rate =
                plan.rate * (0.01 + 0.99 * 0.5 * (1.0 + (std::f32::consts::PI * done).cos()));
            let rows: Vec<&Example> = batch.iter().map(|place| &examples[*place]).collect();
            sum += trained.step(plan, inputs, &rows, &mut optimisers, rate);
            step += 1;
        }
        let own = sum / examples.len().max(1) as f32;
        let other = trained.loss(plan, inputs, watched);
        trained.losses.push((own, other));
        progress(epoch + 1, own, other);
        if !watched.is_empty() && best.as_ref().is_none_or(|(least, _, _)| other < *least) {
            best = Some((other, trained.weights.clone(), trained.biases.clone()));
        }
    }
    if let Some((_, weights, biases)) = best {
        (trained.weights, trained.biases) = (weights, biases);
    }
    trained
}

impl Trained {
    /// Bare outputs of examples, by row.
    fn run(&self, threads: Threads, inputs: &[usize], rows: &[&Example]) -> Vec<Vec<f32>> {
        let mut values: Vec<f32> = Vec::with_capacity(rows.len() * inputs.len());
        for example in rows {
            for (nth, place) in inputs.iter().enumerate() {
                values.push((example.features[*place] - self.mean[nth]) * self.scale[nth]);
            }
        }
        let mut layers = vec![values];
        for (nth, (weights, biases)) in self.weights.iter().zip(&self.biases).enumerate() {
            let mut out = biases.repeat(rows.len());
            product(threads, &mut out, &layers[nth], weights, self.sizes[nth], biases.len());
            if nth + 1 < self.weights.len() {
                out.iter_mut().for_each(|value| *value = value.max(0.0));
            }
            layers.push(out);
        }
        layers
    }

    fn step(
        &mut self,
        plan: &Plan,
        inputs: &[usize],
        rows: &[&Example],
        optimisers: &mut [(Adam, Adam)],
        rate: f32,
    ) -> f32 {
        let layers = self.run(plan.threads, inputs, rows);
        let mut gradient = vec![0.0; rows.len() * plan.outputs];
        let mut sum = 0.0;
        let outputs = layers[layers.len() - 1].chunks_exact(plan.outputs);
        for ((outputs, gradient), example) in
            outputs.zip(gradient.chunks_exact_mut(plan.outputs)).zip(rows)
        {
            sum += loss(outputs, example, gradient);
            gradient.iter_mut().for_each(|value| *value /= rows.len() as f32);
        }
        for nth in (0..self.weights.len()).rev() {
            let (inner, outer) = (self.sizes[nth], self.sizes[nth + 1]);
            let mut of_weights = vec![0.0; inner * outer];
            transposed_product(
                plan.threads,
                &mut of_weights,
                &layers[nth],
                &gradient,
                inner,
                outer,
            );
            let mut of_biases = vec![0.0; outer];
            for row in gradient.chunks_exact(outer) {
                of_biases.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            if nth > 0 {
                let turned = transposed(&self.weights[nth], inner, outer);
                let mut before = vec![0.0; rows.len() * inner];
                product(plan.threads, &mut before, &gradient, &turned, outer, inner);
                for (gradient, value) in before.iter_mut().zip(&layers[nth]) {
                    if *value <= 0.0 {
                        *gradient = 0.0;
                    }
                }
                gradient = before;
            }
            let (of_weight, of_bias) = &mut optimisers[nth];
            of_weight.step(&mut self.weights[nth], &of_weights, rate, plan.decay);
            of_bias.step(&mut self.biases[nth], &of_biases, rate, 0.0);
        }
        sum
    }

    fn loss(&self, plan: &Plan, inputs: &[usize], examples: &[Example]) -> f32 {
        let mut sum = 0.0;
        let rows: Vec<&Example> = examples.iter().collect();
        let mut unused = vec![0.0; plan.outputs];
        for rows in rows.chunks(256) {
            let layers = self.run(plan.threads, inputs, rows);
            let outputs = layers[layers.len() - 1].chunks_exact(plan.outputs);
            sum += outputs.zip(rows).map(|(o, example)| loss(o, example, &mut unused)).sum::<f32>();
        }
        sum / examples.len().max(1) as f32
    }

    /// The small network, if it was trained with its sizes.
    #[must_use]
    pub fn small(&self, widening: f32, knows_shares: bool) -> Option<SmallNetwork> {
        fn layer<const IN: usize, const OUT: usize>(
            trained: &Trained,
            nth: usize,
        ) -> Option<Layer<IN, OUT>> {
            let rows = trained.weights[nth].as_chunks::<OUT>().0;
            Some(Layer {
                weights: rows.try_into().ok()?,
                bias: trained.biases[nth].as_slice().try_into().ok()?,
            })
        }
        if self.sizes != [INPUTS, 16, 8, OUTPUTS] {
            return None;
        }
        Some(SmallNetwork {
            mean: self.mean.as_slice().try_into().ok()?,
            scale: self.scale.as_slice().try_into().ok()?,
            first: layer(self, 0)?,
            second: layer(self, 1)?,
            third: layer(self, 2)?,
            widening,
            knows_shares,
        })
    }

    /// The network in the form that the daemon runs.
    #[must_use]
    pub fn dense(&self, widening: [f32; Acquaintance::ALL.len()]) -> DenseNetwork {
        let layers = self.weights.iter().zip(&self.biases).enumerate();
        let layers = layers.map(|(nth, (weights, biases))| {
            let by_output = transposed(weights, self.sizes[nth], self.sizes[nth + 1]);
            DenseLayer::single(self.sizes[nth], &by_output, biases.clone())
        });
        DenseNetwork {
            mean: self.mean.clone(),
            scale: self.scale.clone(),
            layers: layers.collect(),
            widening,
        }
    }
}

/// The places of the small network's inputs.
#[must_use]
pub fn small_inputs() -> Vec<usize> {
    SMALL.to_vec()
}

/// The places of all features.
#[must_use]
pub fn all_inputs() -> Vec<usize> {
    (0..COUNT).collect()
}

/// Errors of time beyond this, in log2, count less than their square.
const LARGE_ERROR: f32 = 0.5;
const SHARE_WEIGHT: f32 = 2.0;
const WIDTH_WEIGHT: f32 = 0.1;

/// The loss of one row, and its gradient.
fn loss(outputs: &[f32], example: &Example, gradient: &mut [f32]) -> f32 {
    let error = outputs[0] - example.over_base();
    let held = error.clamp(-LARGE_ERROR, LARGE_ERROR);
    gradient[0] = held;
    let mut sum = held * (error - 0.5 * held);
    let beyond = error.abs() - outputs[1];
    gradient[1] = WIDTH_WEIGHT * if beyond > 0.0 { -0.8 } else { 0.2 };
    sum += WIDTH_WEIGHT * if beyond > 0.0 { 0.8 * beyond } else { -0.2 * beyond };
    for (nth, share) in example.shares.iter().take(outputs.len() - 2).enumerate() {
        let error = share.map_or(0.0, |share| outputs[2 + nth] - share);
        gradient[2 + nth] = SHARE_WEIGHT * error;
        sum += 0.5 * SHARE_WEIGHT * error * error;
    }
    sum
}

/// Mean and inverse deviation of each input.
fn normalisation(inputs: &[usize], examples: &[Example]) -> (Vec<f32>, Vec<f32>) {
    let count = examples.len().max(1) as f64;
    let moments = inputs.iter().map(|place| {
        let values = || examples.iter().map(|example| f64::from(example.features[*place]));
        let mean = values().sum::<f64>() / count;
        let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        // A feature that never varies says nothing here, and must not shout elsewhere.
        let scale = if variance > 1e-8 { 1.0 / variance.sqrt() } else { 0.0 };
        (mean as f32, scale as f32)
    });
    moments.unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::{Shown, Source, tests};
    use crate::split::Part;
    use apex_models::dense::Space;

    fn plan(hidden: &[usize], outputs: usize) -> Plan {
        Plan {
            hidden: hidden.to_vec(),
            outputs,
            epochs: 12,
            batch: 32,
            rate: 3e-3,
            decay: 0.0,
            seed: 1,
            threads: Threads::one(),
        }
    }

    fn examples() -> Vec<Example> {
        let rows = tests::fixture(3, 100);
        let parts = vec![Part::Train; rows.len()];
        let source = Source::new(&rows, tests::device);
        source.examples(&parts, Part::Train, Shown::Nothing, 1)
    }

    #[test]
    fn gradients_are_those_of_the_loss() {
        let example = &examples()[0];
        for outputs in [[0.1, 0.3, 0.4, 0.2], [2.0, 0.01, 0.9, 0.8]] {
            let mut gradient = [0.0; 4];
            loss(&outputs, example, &mut gradient);
            for at in [0, 2, 3] {
                let mut unused = [0.0; 4];
                let (mut up, mut down) = (outputs, outputs);
                up[at] += 1e-3;
                down[at] -= 1e-3;
                // The expected error follows the first output without pulling at it.
                let width = |outputs: &[f32; 4], unused: &mut [f32; 4]| {
                    let whole = loss(outputs, example, unused);
                    let beyond = (outputs[0] - example.over_expected).abs() - outputs[1];
                    whole - 0.1 * if beyond > 0.0 { 0.8 * beyond } else { -0.2 * beyond }
                };
                let slope = (width(&up, &mut unused) - width(&down, &mut unused)) / 2e-3;
                assert!((slope - gradient[at]).abs() < 1e-2, "{at}: {slope} {}", gradient[at]);
            }
        }
    }

    #[test]
    fn training_learns_and_repeats_itself() {
        let examples = examples();
        let inputs = small_inputs();
        let train = |seed| {
            let plan = Plan { seed, ..plan(&[16, 8], 4) };
            super::train(&plan, &inputs, &examples, &examples[..50], |_, _, _| {})
        };
        let first = train(1);
        assert!(first.losses[11].0 < 0.5 * first.losses[0].0, "{:?}", first.losses);
        assert_eq!(first.small(1.0, true), train(1).small(1.0, true));
        assert_ne!(first.small(1.0, true), train(2).small(1.0, true));
        let small = first.small(1.0, true).unwrap();
        let inputs: [f32; INPUTS] = SMALL.map(|place| examples[0].features[place]);
        let layers = first.run(Threads::one(), &small_inputs(), &[&examples[0]]);
        for (found, expected) in small.outputs(&inputs).iter().zip(&layers[3]) {
            assert!((found - expected).abs() < 1e-4);
        }
    }

    #[test]
    fn the_large_form_says_what_was_trained() {
        let examples = examples();
        let plan = Plan { epochs: 2, ..plan(&[40, 24], 5) };
        let trained = train(&plan, &all_inputs(), &examples, &[], |_, _, _| {});
        assert!(trained.small(1.0, true).is_none());
        let dense = trained.dense([1.0; Acquaintance::ALL.len()]);
        let layers = trained.run(Threads::one(), &all_inputs(), &[&examples[7]]);
        let mut space = Space::default();
        for (found, expected) in
            dense.outputs(&examples[7].features, &mut space).iter().zip(&layers[3])
        {
            assert!((found - expected).abs() < 1e-4);
        }
    }
}
