//! The most likely factors of what parts of a launch cost, by measured launches.
//!
//! Every part of a launch has a factor, in log2. Measured times are spread around what the parts take together with
//! their factors, and factors around none, each by a width of its own; far errors count by their logarithm, because no
//! sum of parts explains every launch. The most likely factors are found by Levenberg's method. A kernel's own costs
//! ([`super::own_costs`]) and a device's are found alike, only with other beliefs.

use super::acquaintance::MANY;
use super::anatomy::{ALL_PARTS, RESOURCE_OF, RESOURCES};
use super::parts::PARTS;

/// A launch by its parts, and what it took.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Nanoseconds of each part, by the device's costs.
    pub parts: [f32; ALL_PARTS],
    /// log2 of the measured nanoseconds.
    pub log_nanos: f32,
}

/// Factors by part, in log2.
pub type Factors = [f64; ALL_PARTS];

/// How far the factor of each part usually lies from none, as a variance.
pub type Widths = [f32; PARTS];

/// How far measured times and factors may lie from what is expected of them, as variances.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    /// Of a measured time around what its parts take.
    spread: f64,
    /// Of each factor around none.
    widths: Factors,
}

/// Errors beyond this, squared, count by their logarithm.
const FAR: f64 = 0.25;
/// The variance of a factor of which nothing is believed.
pub const WIDEST: f64 = 16.0;
const NARROWEST: f64 = 1e-3;
/// The variance of a factor that is known.
const CLOSED: f64 = 1e-9;
/// The variance of what repeating the text costs: how much of it the loop is, nobody tells.
const REPEATED_WIDTH: f64 = 6.0;
/// How much wider factors may lie with each launch after so many: then a kernel need not believe others.
const WIDER: f64 = 0.1;
const TRIES: usize = 6;
/// The furthest that a factor moves in one round.
const STRIDE: f64 = 2.0;
/// An improvement that is none.
const NOTHING: f64 = 1e-4;
const DEVICE_ROUNDS: usize = 60;

impl Belief {
    /// What is believed of a kernel with so many launches, by how far parts usually differ between kernels.
    #[must_use]
    pub fn of_kernel(spread: f64, widths: &Widths, launches: usize) -> Belief {
        let wider = 1.0 + WIDER * launches.saturating_sub(MANY) as f64;
        let mut all = [REPEATED_WIDTH; ALL_PARTS];
        for (to, width) in all.iter_mut().zip(widths) {
            *to = (f64::from(*width) * wider).clamp(NARROWEST, WIDEST);
        }
        Belief { spread, widths: all }
    }

    /// What is believed of a device: hardly anything but that times scatter. Parts that are not open stay.
    fn of_device(open: &[bool; PARTS]) -> Belief {
        let mut widths = [REPEATED_WIDTH; ALL_PARTS];
        for (width, open) in widths.iter_mut().zip(open) {
            *width = if *open { WIDEST } else { CLOSED };
        }
        Belief { spread: 0.1, widths }
    }
}

/// The square of the factor of each part by some launches, with the variance of what they leave open of it.
#[must_use]
pub fn squares(launches: &[Taken], belief: &Belief) -> [f64; PARTS] {
    let (at, _) = most_likely(launches, belief, DEVICE_ROUNDS);
    let (square, _) = slopes(launches, &at, &belief.widths, belief.spread);
    std::array::from_fn(|part| {
        let mut unit = [0.0; ALL_PARTS];
        unit[part] = 1.0;
        at[part] * at[part] + solved(&square, &unit, 0.0)[part]
    })
}

/// log2 of what each part costs on a device over what it was taken for, by launches of many kernels; parts that are
/// not open are taken for right.
#[must_use]
pub fn of_device(launches: &[Taken], open: &[bool; PARTS]) -> Factors {
    most_likely(launches, &Belief::of_device(open), DEVICE_ROUNDS).0
}

/// The most likely factors in log2, and how unlikely they are.
#[must_use]
pub fn most_likely(launches: &[Taken], belief: &Belief, rounds: usize) -> (Factors, f64) {
    let Belief { spread, widths } = *belief;
    let mut at = [0.0; ALL_PARTS];
    let mut least = unlikely(launches, &at, &widths, spread);
    let mut damping = 1.0;
    for _ in 0..rounds {
        let (square, slope) = slopes(launches, &at, &widths, spread);
        let mut gained = 0.0;
        for _ in 0..TRIES {
            let step = solved(&square, &slope, damping);
            let tried: Factors =
                std::array::from_fn(|part| at[part] - step[part].clamp(-STRIDE, STRIDE));
            let found = unlikely(launches, &tried, &widths, spread);
            if found < least {
                (gained, at, least) = (least - found, tried, found);
                damping = f64::max(damping * 0.3, 1e-4);
                break;
            }
            damping *= 4.0;
        }
        if gained < NOTHING {
            break;
        }
    }
    (at, least)
}

type Square = [[f64; ALL_PARTS]; ALL_PARTS];

/// What a launch takes in nanoseconds, and how it grows with each resource; the launch itself is the last one.
fn together(launch: &Taken, factors: &Factors) -> (f64, [f64; RESOURCES + 1]) {
    let mut resources = [0.0; RESOURCES + 1];
    for ((part, factor), resource) in launch.parts.iter().zip(factors).zip(RESOURCE_OF) {
        resources[resource] += f64::from(*part) * factor;
    }
    let most = resources[..RESOURCES].iter().copied().fold(1e-9, f64::max);
    let sum: f64 = resources[..RESOURCES].iter().map(|nanos| (nanos / most).powi(4)).sum();
    let slowest = most * sum.sqrt().sqrt();
    let mut slopes = resources.map(|nanos| (nanos / slowest).powi(3));
    slopes[RESOURCES] = 1.0;
    ((resources[RESOURCES] + slowest).max(1.0), slopes)
}

fn unlikely(launches: &[Taken], at: &Factors, widths: &Factors, spread: f64) -> f64 {
    let factors = at.map(f64::exp2);
    let error = |launch: &Taken| {
        let left = together(launch, &factors).0.log2() - f64::from(launch.log_nanos);
        FAR * (left * left / FAR).ln_1p()
    };
    let errors: f64 = launches.iter().map(error).sum();
    let far: f64 = at.iter().zip(widths).map(|(factor, width)| factor * factor / width).sum();
    0.5 * (errors / spread + far)
}

/// The curvature, in its lower triangle, and the slope of the unlikelihood.
fn slopes(launches: &[Taken], at: &Factors, widths: &Factors, spread: f64) -> (Square, Factors) {
    let factors = at.map(f64::exp2);
    let mut square = [[0.0; ALL_PARTS]; ALL_PARTS];
    let mut slope: Factors = std::array::from_fn(|part| at[part] / widths[part]);
    for (part, row) in square.iter_mut().enumerate() {
        row[part] = 1.0 / widths[part];
    }
    for launch in launches {
        let (total, rates) = together(launch, &factors);
        let left = total.log2() - f64::from(launch.log_nanos);
        let weight = 1.0 / (1.0 + left * left / FAR) / spread;
        let shares: Factors = std::array::from_fn(|part| {
            f64::from(launch.parts[part]) * factors[part] * rates[RESOURCE_OF[part]] / total
        });
        for (part, (row, slope)) in square.iter_mut().zip(&mut slope).enumerate() {
            let pull = weight * shares[part];
            if pull > 0.0 {
                *slope += pull * left;
                row[..=part].iter_mut().zip(&shares).for_each(|(to, other)| *to += pull * other);
            }
        }
    }
    (square, slope)
}

/// Solves for a step with the diagonal raised, by Cholesky's factor.
fn solved(square: &Square, slope: &Factors, damping: f64) -> Factors {
    let mut factor = *square;
    let mut step = *slope;
    for a in 0..ALL_PARTS {
        factor[a][a] *= 1.0 + damping;
        for b in 0..=a {
            let sum: f64 = (0..b).map(|at| factor[a][at] * factor[b][at]).sum();
            factor[a][b] = if a == b {
                (factor[a][a] - sum).max(1e-12).sqrt()
            } else {
                (factor[a][b] - sum) / factor[b][b]
            };
        }
        let sum: f64 = (0..a).map(|at| factor[a][at] * step[at]).sum();
        step[a] = (step[a] - sum) / factor[a][a];
    }
    for a in (0..ALL_PARTS).rev() {
        let sum: f64 = (a + 1..ALL_PARTS).map(|at| factor[at][a] * step[at]).sum();
        step[a] = (step[a] - sum) / factor[a][a];
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_unlikelihood() {
        let taken = |nth: usize| {
            let parts = std::array::from_fn(|part| ((nth * 7 + part * 3) % 13) as f32 * 40.0);
            Taken { parts, log_nanos: 12.0 }
        };
        let taken: Vec<Taken> = (0..9).map(taken).collect();
        let widths = [2.0; ALL_PARTS];
        let mut at = [0.3; ALL_PARTS];
        at[1] = -0.5;
        let (_, slope) = slopes(&taken, &at, &widths, 0.1);
        for part in [0, 1, 12, PARTS, PARTS + 1, PARTS + 2] {
            let value = |step: f64| {
                let mut moved = at;
                moved[part] += step;
                unlikely(&taken, &moved, &widths, 0.1)
            };
            let found = (value(1e-4) - value(-1e-4)) / 2e-4;
            assert!((found - slope[part]).abs() < 1e-3 * found.abs().max(1.0), "{part}: {found}");
        }
    }

    #[test]
    fn steps_solve_their_equations() {
        let mut square = [[0.1; ALL_PARTS]; ALL_PARTS];
        (0..ALL_PARTS).for_each(|at| square[at][at] = 2.0 + at as f64);
        // Only the lower triangle is read.
        let slope: Factors = std::array::from_fn(|at| at as f64 - 3.0);
        let step = solved(&square, &slope, 0.0);
        for (row, slope) in square.iter().zip(&slope) {
            let product: f64 = row.iter().zip(&step).map(|(a, b)| a * b).sum();
            assert!((product - slope).abs() < 1e-9);
        }
    }
}
