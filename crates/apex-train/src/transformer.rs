//! A small transformer over the kernel's last launches, for comparison: it is judged like the others and not shipped.
//!
//! Each launch is a token of the numbers that launches are compared by and its time over what was expected; the
//! launch in question has no time. One head of attention decides which launches matter, and a layer after it says
//! what to add to their times. It sees the same launches as the other models, at most [`LENGTH`] of them.

use crate::random::Random;
use apex_policy::predict::adam::Adam;
use apex_policy::predict::compared::{COMPARISONS, Signature};
use apex_policy::predict::likeness::Likeness;

/// Launches that it looks back at.
pub const LENGTH: usize = 12;
/// Numbers of a token: those compared by, the time, whether it is the question, and one for the bias.
const TOKEN: usize = COMPARISONS + 3;
const WIDTH: usize = 24;
const HEAD: usize = 16;
const HIDDEN: usize = 32;
const JOINED: usize = 2 * WIDTH + 1;

/// Where each matrix begins among the weights, by output, then input.
const EMBED: usize = 0;
const QUERY: usize = EMBED + WIDTH * TOKEN;
const KEY: usize = QUERY + HEAD * WIDTH;
const VALUE: usize = KEY + HEAD * WIDTH;
const LAYER: usize = VALUE + WIDTH * WIDTH;
const LAST: usize = LAYER + HIDDEN * JOINED;
const WEIGHTS: usize = LAST + HIDDEN;

/// Errors beyond this, in log2, count less than their square.
const LARGE_ERROR: f32 = 0.5;

/// A launch with what was measured of its kernel before.
#[derive(Clone, Debug)]
pub struct Passage {
    /// The launch in question.
    pub asked: Signature,
    /// Launches before it, with log2 of their times over what was expected.
    pub before: Vec<(Signature, f32)>,
    /// log2 of its own time over what was expected.
    pub truth: f32,
}

/// How it is trained.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Times that all passages are shown.
    pub epochs: usize,
    /// Where everything random comes from.
    pub seed: u64,
}

/// The trained weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Transformer {
    weights: Vec<f32>,
    mean: Signature,
    scale: Signature,
}

/// What a passage becomes on the way, kept for the way back.
struct Way {
    /// Tokens of the launches before, then that of the question.
    tokens: Vec<[f32; TOKEN]>,
    embedded: Vec<[f32; WIDTH]>,
    query: [f32; HEAD],
    keys: Vec<[f32; HEAD]>,
    values: Vec<[f32; WIDTH]>,
    shares: Vec<f32>,
    joined: [f32; JOINED],
    hidden: [f32; HIDDEN],
    answer: f32,
}

impl Transformer {
    /// Weights and biases.
    pub const PARAMETERS: usize = WEIGHTS;

    /// Trains on passages; `likeness` gives the usual range of each number. After each epoch `progress` learns its
    /// number and the mean loss.
    #[must_use]
    pub fn train(
        plan: &Plan,
        likeness: &Likeness,
        passages: &[Passage],
        mut progress: impl FnMut(usize, f32),
    ) -> Transformer {
        let mut random = Random::new(plan.seed);
        let mut found =
            Transformer { weights: vec![0.0; WEIGHTS], mean: likeness.mean, scale: likeness.scale };
        for (start, end, inputs) in [
            (EMBED, QUERY, TOKEN),
            (QUERY, KEY, WIDTH),
            (KEY, VALUE, WIDTH),
            (VALUE, LAYER, WIDTH),
            (LAYER, LAST, JOINED),
            (LAST, WEIGHTS, 100 * HIDDEN),
        ] {
            let unit = (2.0 / inputs as f32).sqrt();
            found.weights[start..end].iter_mut().for_each(|w| *w = random.normal() * unit);
        }
        let mut adam = Adam::new(WEIGHTS);
        let mut order: Vec<usize> = (0..passages.len()).collect();
        let mut gradient = vec![0.0; WEIGHTS];
        for epoch in 0..plan.epochs {
            random.shuffle(&mut order);
            let mut sum = 0.0;
            let done = epoch as f32 / plan.epochs.max(1) as f32;
            let rate = 3e-3 * (0.02 + 0.98 * 0.5 * (1.0 + (std::f32::consts::PI * done).cos()));
            for batch in order.chunks(32) {
                gradient.fill(0.0);
                for passage in batch.iter().map(|at| &passages[*at]) {
                    sum += found.learn(passage, 1.0 / batch.len() as f32, &mut gradient);
                }
                adam.step(&mut found.weights, &gradient, rate, 1e-3);
            }
            progress(epoch + 1, sum / passages.len().max(1) as f32);
        }
        found
    }

    /// log2 of the time over what is expected, as it says.
    #[must_use]
    pub fn over_expected(&self, asked: &Signature, before: &[(Signature, f32)]) -> f32 {
        self.forward(asked, before).answer
    }

    fn token(&self, signature: &Signature, time: f32, asked: f32) -> [f32; TOKEN] {
        let mut token = [0.0; TOKEN];
        for at in 0..COMPARISONS {
            token[at] = ((signature[at] - self.mean[at]) * self.scale[at]).clamp(-5.0, 5.0);
        }
        (token[COMPARISONS], token[COMPARISONS + 1], token[COMPARISONS + 2]) = (time, asked, 1.0);
        token
    }

    fn forward(&self, asked: &Signature, before: &[(Signature, f32)]) -> Way {
        let w = &self.weights;
        let before = &before[before.len().saturating_sub(LENGTH)..];
        let mut tokens: Vec<_> =
            before.iter().map(|(signature, time)| self.token(signature, *time, 0.0)).collect();
        tokens.push(self.token(asked, 0.0, 1.0));
        let embedded: Vec<[f32; WIDTH]> =
            tokens.iter().map(|token| rectified(times(&w[EMBED..], token))).collect();
        let question = &embedded[before.len()];
        let query: [f32; HEAD] = times(&w[QUERY..], question);
        let keys: Vec<[f32; HEAD]> =
            embedded[..before.len()].iter().map(|e| times(&w[KEY..], e)).collect();
        let values: Vec<[f32; WIDTH]> =
            embedded[..before.len()].iter().map(|e| times(&w[VALUE..], e)).collect();
        let fits: Vec<f32> =
            keys.iter().map(|key| dot(key, &query) / (HEAD as f32).sqrt()).collect();
        let most = fits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut shares: Vec<f32> = fits.iter().map(|fit| (fit - most).exp()).collect();
        let sum: f32 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
        let mut joined = [0.0; JOINED];
        joined[..WIDTH].copy_from_slice(question);
        joined[JOINED - 1] = 1.0;
        let mut kept = 0.0;
        for ((share, value), (_, time)) in shares.iter().zip(&values).zip(before) {
            joined[WIDTH..].iter_mut().zip(value).for_each(|(to, from)| *to += share * from);
            kept += share * time;
        }
        let hidden: [f32; HIDDEN] = rectified(times(&w[LAYER..], &joined));
        let answer = kept + dot(&hidden, &w[LAST..]);
        Way { tokens, embedded, query, keys, values, shares, joined, hidden, answer }
    }

    /// Adds the gradient of one passage, weighed; gives its loss.
    fn learn(&self, passage: &Passage, weight: f32, gradient: &mut [f32]) -> f32 {
        let way = self.forward(&passage.asked, &passage.before);
        let w = &self.weights;
        let count = way.keys.len();
        let before = &passage.before[passage.before.len() - count..];
        let error = way.answer - passage.truth;
        let held = error.clamp(-LARGE_ERROR, LARGE_ERROR);
        let pull = weight * held;
        let mut of_hidden = [0.0; HIDDEN];
        for at in 0..HIDDEN {
            gradient[LAST + at] += pull * way.hidden[at];
            of_hidden[at] = if way.hidden[at] > 0.0 { pull * w[LAST + at] } else { 0.0 };
        }
        let of_joined: [f32; JOINED] =
            back(&w[LAYER..], &mut gradient[LAYER..], &way.joined, &of_hidden);
        let mut of_embedded = vec![[0.0; WIDTH]; count + 1];
        of_embedded[count].copy_from_slice(&of_joined[..WIDTH]);
        let of_mixed = &of_joined[WIDTH..2 * WIDTH];
        let of_shares: Vec<f32> = way
            .values
            .iter()
            .zip(before)
            .map(|(value, (_, time))| dot(value, of_mixed) + pull * time)
            .collect();
        let usual = dot(&way.shares, &of_shares);
        let mut of_query = [0.0; HEAD];
        for at in 0..count {
            let fit = way.shares[at] * (of_shares[at] - usual) / (HEAD as f32).sqrt();
            let of_key: [f32; HEAD] = std::array::from_fn(|nth| fit * way.query[nth]);
            of_query.iter_mut().zip(&way.keys[at]).for_each(|(to, key)| *to += fit * key);
            let of_value: [f32; WIDTH] = std::array::from_fn(|nth| way.shares[at] * of_mixed[nth]);
            let token = &way.embedded[at];
            let by_key: [f32; WIDTH] = back(&w[KEY..], &mut gradient[KEY..], token, &of_key);
            let by_value: [f32; WIDTH] =
                back(&w[VALUE..], &mut gradient[VALUE..], token, &of_value);
            of_embedded[at] = std::array::from_fn(|nth| by_key[nth] + by_value[nth]);
        }
        let by_query: [f32; WIDTH] =
            back(&w[QUERY..], &mut gradient[QUERY..], &way.embedded[count], &of_query);
        of_embedded[count].iter_mut().zip(by_query).for_each(|(to, from)| *to += from);
        for ((mut of, embedded), token) in
            of_embedded.into_iter().zip(&way.embedded).zip(&way.tokens)
        {
            of.iter_mut().zip(embedded).filter(|(_, e)| **e <= 0.0).for_each(|(of, _)| *of = 0.0);
            let _: [f32; TOKEN] = back(&w[EMBED..], &mut gradient[EMBED..], token, &of);
        }
        held * (error - 0.5 * held)
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A matrix times a column.
fn times<const OUT: usize>(matrix: &[f32], column: &[f32]) -> [f32; OUT] {
    std::array::from_fn(|row| dot(&matrix[row * column.len()..], column))
}

/// The way back through a matrix: its gradient is added, that of the column given.
fn back<const IN: usize>(
    matrix: &[f32],
    gradient: &mut [f32],
    column: &[f32; IN],
    of_outputs: &[f32],
) -> [f32; IN] {
    let mut of_column = [0.0; IN];
    for (row, of) in of_outputs.iter().enumerate() {
        for at in 0..IN {
            gradient[row * IN + at] += of * column[at];
            of_column[at] += of * matrix[row * IN + at];
        }
    }
    of_column
}

fn rectified<const N: usize>(values: [f32; N]) -> [f32; N] {
    values.map(|value| value.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels whose times follow one number of the launch, each in its own way.
    fn passages(count: usize) -> Vec<Passage> {
        let mut random = Random::new(5);
        (0..count)
            .map(|_| {
                let (level, slope) = (random.normal(), 1.0);
                let mut launch = || {
                    let mut signature = [0.0; COMPARISONS];
                    signature[3] = random.normal();
                    (signature, level + slope * signature[3])
                };
                let (asked, truth) = launch();
                Passage { asked, before: (0..6).map(|_| launch()).collect(), truth }
            })
            .collect()
    }

    fn usual() -> Likeness {
        Likeness { scale: [1.0; COMPARISONS], ..Likeness::default() }
    }

    #[test]
    fn it_learns_what_the_launches_before_tell() {
        let plan = Plan { epochs: 40, seed: 1 };
        let mut losses = Vec::new();
        let passages = passages(400);
        let found = Transformer::train(&plan, &usual(), &passages, |_, loss| losses.push(loss));
        assert!(losses[39] < 0.4 * losses[0], "{} {}", losses[0], losses[39]);
        assert_eq!(Transformer::train(&plan, &usual(), &passages, |_, _| {}), found);
        assert!(found.over_expected(&[0.0; COMPARISONS], &[]).is_finite());
    }

    #[test]
    fn gradients_are_those_of_the_loss() {
        let passages = passages(40);
        let plan = Plan { epochs: 1, seed: 2 };
        let found = Transformer::train(&plan, &usual(), &passages, |_, _| {});
        let mut gradient = vec![0.0; WEIGHTS];
        found.learn(&passages[0], 1.0, &mut gradient);
        for start in [EMBED, QUERY, KEY, VALUE, LAYER, LAST] {
            // The largest gradient of each matrix: small ones drown in the rounding of the loss.
            let end =
                [QUERY, KEY, VALUE, LAYER, LAST, WEIGHTS].into_iter().find(|end| *end > start);
            let at = (start..end.unwrap_or(WEIGHTS))
                .max_by(|a, b| gradient[*a].abs().total_cmp(&gradient[*b].abs()))
                .unwrap();
            let loss = |step: f32| {
                let mut moved = found.clone();
                moved.weights[at] += step;
                moved.learn(&passages[0], 1.0, &mut vec![0.0; WEIGHTS])
            };
            let slope = (loss(2e-3) - loss(-2e-3)) / 4e-3;
            let error = (slope - gradient[at]).abs();
            assert!(error < 0.05 * slope.abs().max(0.02), "{at}: {slope} {}", gradient[at]);
        }
    }
}
