//! What the parts of a launch cost in one kernel, from its own measured launches.
//!
//! The device's costs are those of many kernels. One kernel may find its atomics contended, its loops longer than
//! its bytes tell, its chain shorter: then a part of it costs several times as much or as little, and launches in
//! which that part rules differ from others by just that factor. So each part gets a factor of its own, the most
//! likely one in log2: measured times are spread around the sum of the parts, factors around one. Times grow with
//! work here as they did before, only at the kernel's own rates, and what remains is left to the likeness of
//! launches ([`super::neighbours`]).

use super::anatomy::{Costs, LEAST, PARTS};
use super::likeness::Launch;
use super::scale::log2;

/// Nanoseconds of each part of a launch. A part that is free on the device has a little here, for a kernel may
/// find it dear.
#[must_use]
pub fn split(counts: &[f32; PARTS], costs: &Costs) -> [f32; PARTS] {
    std::array::from_fn(|part| {
        counts[part] * if costs[part] > 0.0 { costs[part] } else { LEAST[part] }
    })
}

/// A launch by its parts, and what it took.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// Nanoseconds of each part, by the device's costs.
    pub parts: &'a [f32; PARTS],
    /// log2 of the measured nanoseconds.
    pub log_nanos: f32,
}

/// The factors of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnCosts {
    factors: [f32; PARTS],
}

impl Default for OwnCosts {
    fn default() -> OwnCosts {
        OwnCosts { factors: [1.0; PARTS] }
    }
}

/// The variance of a measured time around the sum of its parts.
const SPREAD: f64 = 0.1;
/// Errors beyond this, squared, count by their logarithm: no sum of parts explains every launch.
const FAR: f64 = 0.25;
/// The variance of factors with no launch, and how it grows with each: many launches need not believe other kernels.
const WIDTH: f64 = 0.2;
const WIDER: f64 = 1.0 / 15.0;
const WIDEST: f64 = 9.0;
const ROUNDS: usize = 30;
const TRIES: usize = 6;
/// The furthest that a factor moves in one round.
const STRIDE: f64 = 2.0;
/// An improvement that is none.
const NOTHING: f64 = 1e-4;

impl OwnCosts {
    /// log2 of the nanoseconds of a launch.
    #[inline]
    #[must_use]
    pub fn log_nanos(&self, parts: &[f32; PARTS]) -> f32 {
        let sum: f32 = parts.iter().zip(&self.factors).map(|(part, factor)| part * factor).sum();
        log2(sum.max(1.0))
    }

    /// log2 of what a launch has above the floor.
    #[inline]
    #[must_use]
    pub fn above_floor(&self, launch: &Launch) -> f32 {
        launch.above_floor(self.log_nanos(&launch.parts)).0
    }

    /// What the costs leave of a measured time above the floor, and what its noise is multiplied with.
    #[must_use]
    pub fn left(&self, launch: &Launch, over_expected: f32) -> (f64, f64) {
        let (above, share) = launch.above_floor(launch.log_expected + over_expected);
        (f64::from(above - self.above_floor(launch)), f64::from(share).powi(-2))
    }

    /// The most likely factors, by Levenberg's method.
    #[must_use]
    pub fn of(launches: &[Taken<'_>]) -> OwnCosts {
        let width = (WIDTH + WIDER * launches.len() as f64).min(WIDEST);
        let mut at = [0.0; PARTS];
        let mut least = unlikely(launches, &at, width);
        let mut damping = 1.0;
        for _ in 0..ROUNDS {
            let (square, slope) = slopes(launches, &at, width);
            let mut gained = 0.0;
            for _ in 0..TRIES {
                let step = solved(&square, &slope, damping);
                let tried: [f64; PARTS] =
                    std::array::from_fn(|part| at[part] - step[part].clamp(-STRIDE, STRIDE));
                let found = unlikely(launches, &tried, width);
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
        OwnCosts { factors: at.map(|factor| factor.exp2() as f32) }
    }
}

type Square = [[f64; PARTS]; PARTS];

/// The sum of a launch's parts in nanoseconds.
fn total(launch: &Taken<'_>, factors: &[f64; PARTS]) -> f64 {
    let parts = launch.parts.iter().zip(factors);
    parts.map(|(part, factor)| f64::from(*part) * factor).sum::<f64>().max(1.0)
}

fn unlikely(launches: &[Taken<'_>], at: &[f64; PARTS], width: f64) -> f64 {
    let factors = at.map(f64::exp2);
    let error = |launch: &Taken<'_>| {
        let left = total(launch, &factors).log2() - f64::from(launch.log_nanos);
        FAR * (left * left / FAR).ln_1p()
    };
    let errors: f64 = launches.iter().map(error).sum();
    0.5 * (errors / SPREAD + at.iter().map(|factor| factor * factor).sum::<f64>() / width)
}

/// The curvature and the slope of the unlikelihood.
fn slopes(launches: &[Taken<'_>], at: &[f64; PARTS], width: f64) -> (Square, [f64; PARTS]) {
    let factors = at.map(f64::exp2);
    let mut square = [[0.0; PARTS]; PARTS];
    let mut slope = at.map(|factor| factor / width);
    for (part, row) in square.iter_mut().enumerate() {
        row[part] = 1.0 / width;
    }
    for launch in launches {
        let total = total(launch, &factors);
        let left = total.log2() - f64::from(launch.log_nanos);
        let weight = 1.0 / (1.0 + left * left / FAR) / SPREAD;
        let shares: [f64; PARTS] =
            std::array::from_fn(|part| f64::from(launch.parts[part]) * factors[part] / total);
        for (row, (share, slope)) in square.iter_mut().zip(shares.iter().zip(&mut slope)) {
            if *share > 0.0 {
                *slope += weight * share * left;
                row.iter_mut().zip(&shares).for_each(|(to, other)| *to += weight * share * other);
            }
        }
    }
    (square, slope)
}

/// Solves for a step with the diagonal raised, by Cholesky's factor.
fn solved(square: &Square, slope: &[f64; PARTS], damping: f64) -> [f64; PARTS] {
    let mut factor = *square;
    let mut step = *slope;
    for a in 0..PARTS {
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
    for a in (0..PARTS).rev() {
        let sum: f64 = (a + 1..PARTS).map(|at| factor[at][a] * step[at]).sum();
        step[a] = (step[a] - sum) / factor[a][a];
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launches that are ruled by three parts in turn.
    fn launches() -> Vec<[f32; PARTS]> {
        let launch = |nth: usize| {
            let mut parts = [0.0; PARTS];
            parts[0] = 2_000.0;
            parts[3] = (nth as f32).exp2() * 10.0;
            parts[9] = (((nth * 7) % 13) as f32).exp2() * 10.0;
            parts
        };
        (0..13).map(launch).collect()
    }

    #[test]
    fn a_part_that_is_dear_in_this_kernel_is_found() {
        let launches = launches();
        let truth = |parts: &[f32; PARTS]| (parts[0] + 12.0 * parts[3] + 0.25 * parts[9]).log2();
        let taken: Vec<Taken<'_>> =
            launches.iter().map(|parts| Taken { parts, log_nanos: truth(parts) }).collect();
        let own = OwnCosts::of(&taken);
        for parts in &launches {
            let (found, usual) = (own.log_nanos(parts), OwnCosts::default().log_nanos(parts));
            assert!((found - truth(parts)).abs() < 0.35, "{found} {}", truth(parts));
            assert!((found - truth(parts)).abs() <= (usual - truth(parts)).abs() + 0.1);
        }
    }

    #[test]
    fn nothing_measured_leaves_the_device_s_costs() {
        assert_eq!(OwnCosts::of(&[]), OwnCosts::default());
    }

    #[test]
    fn steps_solve_their_equations() {
        let mut square = [[0.1; PARTS]; PARTS];
        (0..PARTS).for_each(|at| square[at][at] = 2.0 + at as f64);
        let slope: [f64; PARTS] = std::array::from_fn(|at| at as f64 - 3.0);
        let step = solved(&square, &slope, 0.0);
        for (row, slope) in square.iter().zip(&slope) {
            let product: f64 = row.iter().zip(&step).map(|(a, b)| a * b).sum();
            assert!((product - slope).abs() < 1e-9);
        }
    }
}
