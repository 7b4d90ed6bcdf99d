//! A small transformer that foresees the class of the next allocation from the last [`LENGTH`].
//!
//! A token is a class, the class before it and how long ago it came. So the last token can ask where its class came before,
//! and find there what followed: one layer of attention is enough for that. What it finds votes for its own class; a hidden
//! layer adds a score for each class. `apex train foresee` trains it.

use super::methods::Method;
use super::trace::{CLASSES, Class};

/// Allocations that it looks back at.
pub const LENGTH: usize = 32;
const WIDTH: usize = 32;
const HIDDEN: usize = 64;

/// Where each matrix begins among the weights.
const CLASS: usize = 0;
/// One more than there are classes: the first token has none before it.
const BEFORE: usize = CLASS + CLASSES * WIDTH;
const PLACE: usize = BEFORE + (CLASSES + 1) * WIDTH;
const QUERY: usize = PLACE + LENGTH * WIDTH;
const KEY: usize = QUERY + WIDTH * WIDTH;
const VALUE: usize = KEY + WIDTH * WIDTH;
const UP: usize = VALUE + WIDTH * WIDTH;
const UP_BIAS: usize = UP + HIDDEN * WIDTH;
const DOWN: usize = UP_BIAS + HIDDEN;
const OUT: usize = DOWN + WIDTH * HIDDEN;
const OUT_BIAS: usize = OUT + CLASSES * WIDTH;
/// What a vote counts.
const VOTE: usize = OUT_BIAS + CLASSES;
/// Weights and biases.
pub const WEIGHTS: usize = VOTE + 1;

type Row = [f32; WIDTH];

/// The trained weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// [`WEIGHTS`] of them.
    pub weights: Vec<f32>,
}

/// What a window becomes on the way, kept for the way back.
struct Way {
    tokens: Vec<Row>,
    query: Row,
    keys: Vec<Row>,
    values: Vec<Row>,
    shares: Vec<f32>,
    joined: Row,
    hidden: [f32; HIDDEN],
    last: Row,
    scores: Vec<f32>,
}

/// A matrix by rows, times a vector.
fn times<const IN: usize, const OUT: usize>(matrix: &[f32], input: &[f32; IN]) -> [f32; OUT] {
    core::array::from_fn(|row| dot(&matrix[row * IN..][..IN], input))
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f32], from: &[f32], by: f32) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += by * from);
}

/// The way back through `times`: the matrix's gradient grows, and the input's is returned.
fn back<const IN: usize>(
    matrix: &[f32],
    gradient: &mut [f32],
    input: &[f32; IN],
    above: &[f32],
) -> [f32; IN] {
    let mut below = [0.0; IN];
    for (row, &above) in above.iter().enumerate().filter(|(_, above)| **above != 0.0) {
        add(&mut gradient[row * IN..][..IN], input, above);
        add(&mut below, &matrix[row * IN..][..IN], above);
    }
    below
}

fn soft_maximum(scores: &mut [f32]) {
    let most = scores.iter().copied().fold(f32::MIN, f32::max);
    scores.iter_mut().for_each(|score| *score = (*score - most).exp());
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// Where the three vectors of a token stand.
fn rows_of(window: &[Class], nth: usize) -> [usize; 3] {
    let before = if nth == 0 { CLASSES } else { window[nth - 1].into() };
    let ago = window.len() - 1 - nth;
    [CLASS + usize::from(window[nth]) * WIDTH, BEFORE + before * WIDTH, PLACE + ago * WIDTH]
}

impl Attention {
    /// With first weights from a source of normal numbers.
    #[must_use]
    pub fn fresh(mut normal: impl FnMut() -> f32) -> Attention {
        let mut weights = vec![0.0; WEIGHTS];
        for (start, end, inputs) in [
            (CLASS, QUERY, 16 * WIDTH),
            (QUERY, UP, WIDTH),
            (UP, UP_BIAS, WIDTH),
            (DOWN, OUT, 4 * HIDDEN),
            (OUT, OUT_BIAS, WIDTH),
        ] {
            let unit = (1.0 / inputs as f32).sqrt();
            weights[start..end].iter_mut().for_each(|weight| *weight = normal() * unit);
        }
        weights[VOTE] = 4.0;
        Attention { weights }
    }

    /// `window` is not empty and has at most [`LENGTH`] classes.
    fn forward(&self, window: &[Class]) -> Way {
        let w = &self.weights;
        let token = |nth| {
            let mut token = [0.0; WIDTH];
            rows_of(window, nth).iter().for_each(|&row| add(&mut token, &w[row..][..WIDTH], 1.0));
            token
        };
        let tokens: Vec<Row> = (0..window.len()).map(token).collect();
        let asked = tokens[tokens.len() - 1];
        let query: Row = times(&w[QUERY..], &asked);
        let keys: Vec<Row> = tokens.iter().map(|token| times(&w[KEY..], token)).collect();
        let values: Vec<Row> = tokens.iter().map(|token| times(&w[VALUE..], token)).collect();
        let unit = (WIDTH as f32).sqrt();
        let mut shares: Vec<f32> = keys.iter().map(|key| dot(&query, key) / unit).collect();
        soft_maximum(&mut shares);
        let mut joined = asked;
        shares.iter().zip(&values).for_each(|(share, value)| add(&mut joined, value, *share));
        let mut hidden: [f32; HIDDEN] = times(&w[UP..], &joined);
        add(&mut hidden, &w[UP_BIAS..DOWN], 1.0);
        hidden.iter_mut().for_each(|value| *value = value.max(0.0));
        let mut last: Row = times(&w[DOWN..], &hidden);
        add(&mut last, &joined, 1.0);
        let mut scores: Vec<f32> = (0..CLASSES)
            .map(|class| dot(&w[OUT + class * WIDTH..][..WIDTH], &last) + w[OUT_BIAS + class])
            .collect();
        for (share, &class) in shares.iter().zip(window) {
            scores[usize::from(class)] += w[VOTE] * share;
        }
        soft_maximum(&mut scores);
        Way { tokens, query, keys, values, shares, joined, hidden, last, scores }
    }

    /// Adds to the gradient what this window teaches, as so large a share of a batch. Returns its loss.
    pub fn learn(&self, window: &[Class], next: Class, share: f32, gradient: &mut [f32]) -> f32 {
        let (w, way) = (&self.weights, self.forward(window));
        let mut wrong = way.scores.clone();
        wrong[usize::from(next)] -= 1.0;
        wrong.iter_mut().for_each(|wrong| *wrong *= share);
        add(&mut gradient[OUT_BIAS..VOTE], &wrong, 1.0);
        let last = back(&w[OUT..], &mut gradient[OUT..], &way.last, &wrong);
        let mut hidden = back(&w[DOWN..], &mut gradient[DOWN..], &way.hidden, &last);
        for (below, value) in hidden.iter_mut().zip(&way.hidden) {
            *below *= f32::from(u8::from(*value > 0.0));
        }
        add(&mut gradient[UP_BIAS..DOWN], &hidden, 1.0);
        let mut joined = back(&w[UP..], &mut gradient[UP..], &way.joined, &hidden);
        add(&mut joined, &last, 1.0);
        self.learn_attention(window, &way, &joined, &wrong, gradient);
        -way.scores[usize::from(next)].max(1e-9).ln()
    }

    fn learn_attention(
        &self,
        window: &[Class],
        way: &Way,
        joined: &Row,
        wrong: &[f32],
        gradient: &mut [f32],
    ) {
        let w = &self.weights;
        let asked = way.tokens.len() - 1;
        let votes = window.iter().map(|&class| wrong[usize::from(class)]);
        gradient[VOTE] +=
            way.shares.iter().zip(votes.clone()).map(|(share, vote)| share * vote).sum::<f32>();
        let of_shares: Vec<f32> = way
            .values
            .iter()
            .zip(votes)
            .map(|(value, vote)| dot(joined, value) + w[VOTE] * vote)
            .collect();
        let mean: f32 = dot(&of_shares, &way.shares);
        let unit = (WIDTH as f32).sqrt();
        let mut query = [0.0; WIDTH];
        for (nth, (share, of_share)) in way.shares.iter().zip(&of_shares).enumerate() {
            let mut value = [0.0; WIDTH];
            add(&mut value, joined, *share);
            let mut token = back(&w[VALUE..], &mut gradient[VALUE..], &way.tokens[nth], &value);
            let score = share * (of_share - mean) / unit;
            add(&mut query, &way.keys[nth], score);
            let mut key = [0.0; WIDTH];
            add(&mut key, &way.query, score);
            let more = back(&w[KEY..], &mut gradient[KEY..], &way.tokens[nth], &key);
            add(&mut token, &more, 1.0);
            if nth == asked {
                add(&mut token, joined, 1.0);
            }
            rows_of(window, nth).iter().for_each(|&row| add(&mut gradient[row..], &token, 1.0));
        }
        let token = back(&w[QUERY..], &mut gradient[QUERY..], &way.tokens[asked], &query);
        rows_of(window, asked).iter().for_each(|&row| add(&mut gradient[row..], &token, 1.0));
    }
}

/// The transformer on one program.
#[derive(Clone, Debug)]
pub struct Foreseeing<'a> {
    network: &'a Attention,
    past: Vec<Class>,
}

impl Foreseeing<'_> {
    /// Of a program that has allocated nothing yet.
    #[must_use]
    pub fn new(network: &Attention) -> Foreseeing<'_> {
        Foreseeing { network, past: Vec::new() }
    }
}

impl Method for Foreseeing<'_> {
    fn name(&self) -> &'static str {
        "transformer"
    }

    fn seen(&mut self, class: Class) {
        if self.past.len() == LENGTH {
            self.past.remove(0);
        }
        self.past.push(class);
    }

    fn ranked(&self, most: usize) -> Vec<Class> {
        if self.past.is_empty() {
            return Vec::new();
        }
        let scores = self.network.forward(&self.past).scores;
        let mut classes: Vec<Class> = (0..=Class::MAX).collect();
        classes.sort_by(|a, b| scores[usize::from(*b)].total_cmp(&scores[usize::from(*a)]));
        classes.truncate(most);
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::adam::Adam;

    fn numbers(seed: u64) -> impl FnMut() -> f32 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        }
    }

    /// The way back gives the slope that a small step shows.
    #[test]
    fn gradients_are_slopes() {
        let network = Attention::fresh(numbers(1));
        let (window, next) = ([3, 9, 3, 4, 9, 3], 4);
        let mut gradient = vec![0.0; WEIGHTS];
        network.learn(&window, next, 1.0, &mut gradient);
        let loss = |network: &Attention| {
            let score = network.forward(&window).scores[usize::from(next)];
            f64::from(-score.ln())
        };
        let row = |place: usize| place + WIDTH * 3 + 1;
        let places = [
            row(CLASS),
            row(BEFORE),
            PLACE + WIDTH,
            QUERY + 5,
            KEY + 70,
            VALUE + 33,
            UP + 40,
            UP_BIAS + 4,
            DOWN + 9,
            OUT + 4 * WIDTH + 2,
            OUT_BIAS + 4,
            VOTE,
        ];
        for place in places {
            const STEP: f32 = 2e-3;
            let moved = |by: f32| {
                let mut moved = network.clone();
                moved.weights[place] += by;
                loss(&moved)
            };
            let slope = (moved(STEP) - moved(-STEP)) / (2.0 * f64::from(STEP));
            let found = f64::from(gradient[place]);
            assert!(
                (slope - found).abs() < 2e-3 + 0.02 * slope.abs(),
                "{place}: {slope} and {found}"
            );
        }
    }

    #[test]
    fn it_learns_what_follows_what() {
        let mut network = Attention::fresh(numbers(2));
        let (mut adam, turn) = (Adam::new(WEIGHTS), [5, 6, 5, 7, 8]);
        let past: Vec<Class> = turn.iter().copied().cycle().take(40).collect();
        for _ in 0..60 {
            let mut gradient = vec![0.0; WEIGHTS];
            for end in 8..20 {
                network.learn(&past[end - 8..end], past[end], 1.0 / 12.0, &mut gradient);
            }
            adam.step(&mut network.weights, &gradient, 1e-2, 0.0);
        }
        let mut method = Foreseeing::new(&network);
        assert!(method.ranked(1).is_empty());
        let right = past.iter().enumerate().filter(|&(nth, &class)| {
            let is_right = nth >= 8 && method.ranked(1) == [class];
            method.seen(class);
            is_right
        });
        assert!(right.count() >= 28);
    }
}
