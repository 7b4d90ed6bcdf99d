//! What the parts of a launch cost in one kernel, from its own measured launches.
//!
//! The device's costs are those of many kernels. One kernel may find its atomics contended, its loops longer than
//! its bytes tell, its chain shorter: then a part of it costs several times as much or as little, and launches in
//! which that part rules differ from others by just that factor. So each part gets a factor of its own, the most
//! likely one in log2: measured times are spread around what the parts take together, factors around one. Times grow
//! with work here as they did before, only at the kernel's own rates, and what remains is left to the likeness of
//! launches ([`super::neighbours`]).
//!
//! A loop whose turns neither operations nor bytes tell repeats the kernel's text: for every guess of its turns
//! ([`super::turns`]) costs are found with that too, and those that explain the launches better than none are kept,
//! the most likely first. The device's own costs are found in the same way, from the launches of all its kernels.

use super::anatomy::{
    ALL_PARTS, Costs, LEAST, NAMES, PARTS, REPEATED, RESOURCE_OF, RESOURCES, slowest,
};
use super::likeness::Launch;
use super::neighbours::{MANY, TELLING};
use super::scale::log2;
use super::turns::TURNS;

/// Nanoseconds of each part of a launch. A part that is free on the device has a little here, for a kernel may
/// find it dear.
#[must_use]
pub fn split(counts: &[f32; PARTS], costs: &Costs) -> [f32; PARTS] {
    std::array::from_fn(|part| {
        counts[part] * if costs[part] > 0.0 { costs[part] } else { LEAST[part] }
    })
}

/// Nanoseconds of running the text once more: its chain, and its issue on the busiest multiprocessor.
#[must_use]
pub fn once_more(counts: &[f32; PARTS]) -> [f32; REPEATED] {
    const CHAIN: usize = place("chain_instructions");
    const ISSUE: usize = place("issue_instructions");
    [0.5 * counts[CHAIN], 0.02 * counts[ISSUE]]
}

/// The place of a part; fails the build for a name that is not in the list.
const fn place(name: &str) -> usize {
    let mut at = 0;
    while at < PARTS {
        if super::features::same(NAMES[at].as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("no such part")
}

/// A launch by its parts, and what it took.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Nanoseconds of each part, by the device's costs.
    pub parts: [f32; ALL_PARTS],
    /// log2 of the measured nanoseconds.
    pub log_nanos: f32,
}

/// The factors of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnCosts {
    factors: [f32; ALL_PARTS],
    /// The guess of turns by which the text is repeated.
    pub turned: Option<usize>,
}

impl Default for OwnCosts {
    fn default() -> OwnCosts {
        OwnCosts { factors: [1.0; ALL_PARTS], turned: None }
    }
}

/// Factors by part, in log2.
pub type Factors = [f64; ALL_PARTS];

/// How far measured times and factors may lie from what is expected of them, before anything was measured.
#[derive(Clone, Copy, Debug)]
pub struct Belief {
    /// The variance of a measured time around what its parts take.
    spread: f64,
    /// The variance of factors with no launch, and how it grows with each: many launches need not believe others.
    width: f64,
    wider: f64,
}

/// What is believed of a kernel first, and of one that its parts explain closely.
const BELIEFS: [Belief; 2] = [
    Belief { spread: 0.1, width: 0.4, wider: 0.1 },
    Belief { spread: 0.04, width: 0.4, wider: 0.13 },
];
/// What is believed of a device: hardly anything but that times scatter.
const OF_A_DEVICE: Belief = Belief { spread: 0.1, width: 16.0, wider: 0.0 };
/// Errors beyond this, squared, count by their logarithm: no sum of parts explains every launch.
const FAR: f64 = 0.25;
const WIDEST: f64 = 16.0;
/// The variance of what repeating the text costs: how much of it the loop is, nobody tells.
const REPEATED_WIDTH: f64 = 6.0;
const TRIES: usize = 6;
/// The furthest that a factor moves in one round.
const STRIDE: f64 = 2.0;
/// An improvement that is none.
const NOTHING: f64 = 1e-4;
const ROUNDS: usize = 30;
const DEVICE_ROUNDS: usize = 60;
/// Launches that a guess of turns is weighed by at most.
const WEIGHED_BY: usize = 48;
/// How much less likely a guess of turns is than none, before anything was measured.
pub const PRICE: f64 = 2.0;
/// Guesses that are kept at most, with none of them, and how much less likely than the best one they may be.
const KEPT: usize = 8;
const NEARLY: f64 = 10.0;

impl OwnCosts {
    /// log2 of the nanoseconds of a launch.
    #[inline]
    #[must_use]
    pub fn log_nanos(&self, launch: &Launch) -> f32 {
        let parts = launch.all_parts(self.turned);
        let mut resources = [0.0; RESOURCES];
        let mut fixed = 0.0;
        for ((part, factor), resource) in parts.iter().zip(&self.factors).zip(RESOURCE_OF) {
            *resources.get_mut(resource).unwrap_or(&mut fixed) += part * factor;
        }
        log2((fixed + slowest(&resources)).max(1.0))
    }

    /// log2 of what a launch has above the floor.
    #[inline]
    #[must_use]
    pub fn above_floor(&self, launch: &Launch) -> f32 {
        launch.above_floor(self.log_nanos(launch)).0
    }

    /// What the costs leave of a measured time above the floor, and what its noise is multiplied with.
    #[must_use]
    pub fn left(&self, launch: &Launch, over_expected: f32) -> (f64, f64) {
        let (above, share) = launch.above_floor(launch.log_expected + over_expected);
        (f64::from(above - self.above_floor(launch)), f64::from(share).powi(-2))
    }

    /// The most likely costs of a kernel by its launches, given with log2 of their times over what was expected:
    /// the best first, then others that may be right.
    #[must_use]
    pub fn of(launches: &[(Launch, f32)]) -> Vec<OwnCosts> {
        let few: Vec<(Launch, f32)> =
            launches.iter().step_by(launches.len().div_ceil(WEIGHED_BY).max(1)).copied().collect();
        let [first, second] = &BELIEFS;
        let (plain, by_none) = with_turns(&few, None, first);
        let mut found = vec![(by_none, plain)];
        for guess in (0..TURNS).filter(|_| few.len() >= TELLING) {
            let turns = |(launch, _): &(Launch, f32)| launch.turns[guess];
            // Turns that are the same in all launches are a part of every other cost.
            if few.iter().map(turns).all(|count| count == turns(&few[0])) {
                continue;
            }
            let (own, unlikely) = with_turns(&few, Some(guess), first);
            if unlikely + PRICE < by_none {
                found.push((unlikely + PRICE, own));
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best = found[0].0;
        let kept = found.into_iter().take(KEPT).filter(|(unlikely, _)| *unlikely <= best + NEARLY);
        let kept = kept.map(|(_, own)| own);
        if few.len() < launches.len() {
            return kept.map(|own| with_turns(launches, own.turned, first).0).collect();
        }
        let mut all: Vec<OwnCosts> = kept.collect();
        // Too few launches deserve no close belief, and many tell what it would.
        if (2 * TELLING..MANY).contains(&few.len()) {
            let again: Vec<OwnCosts> =
                all.iter().map(|own| with_turns(&few, own.turned, second).0).collect();
            all.extend(again);
        }
        all
    }
}

/// The most likely costs under one guess, and how unlikely they are.
fn with_turns(
    launches: &[(Launch, f32)],
    turned: Option<usize>,
    belief: &Belief,
) -> (OwnCosts, f64) {
    let taken = launches.iter().map(|(launch, over_expected)| Taken {
        parts: launch.all_parts(turned),
        log_nanos: launch.log_expected + over_expected,
    });
    let taken: Vec<Taken> = taken.collect();
    let (factors, unlikely) = most_likely(&taken, belief, ROUNDS);
    (OwnCosts { factors: factors.map(|factor| factor.exp2() as f32), turned }, unlikely)
}

/// log2 of what each part costs on a device over what it was taken for, by launches of many kernels.
#[must_use]
pub fn of_device(launches: &[Taken]) -> Factors {
    most_likely(launches, &OF_A_DEVICE, DEVICE_ROUNDS).0
}

/// The most likely factors in log2, by Levenberg's method, and how unlikely they are.
fn most_likely(launches: &[Taken], belief: &Belief, rounds: usize) -> (Factors, f64) {
    let width = belief.width + belief.wider * launches.len() as f64;
    let mut widths = [width.min(WIDEST); ALL_PARTS];
    widths[PARTS..].fill(REPEATED_WIDTH);
    let Belief { spread, .. } = *belief;
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
    use crate::predict::likeness::COMPARISONS;

    /// Launches that are ruled by two resources in turn, with turns that nothing else tells.
    fn launches(count: usize) -> Vec<Launch> {
        let launch = |nth: usize| {
            let mut parts = [0.0; PARTS];
            parts[0] = 2_000.0;
            parts[1] = (nth as f32 % 13.0).exp2() * 10.0;
            parts[place("bytes")] = (((nth * 7) % 13) as f32).exp2() * 10.0;
            let mut turns = [0.0; TURNS];
            turns[1] = (((nth * 5) % 11) as f32).exp2();
            turns[4] = 1.0 + (nth % 3) as f32;
            Launch {
                signature: [0.0; COMPARISONS],
                parts,
                once_more: [50.0, 1.0],
                turns,
                log_expected: 0.0,
                floor: 0.0,
            }
        };
        (0..count).map(launch).collect()
    }

    fn found(launches: &[Launch], truth: impl Fn(&Launch) -> f32) -> Vec<OwnCosts> {
        OwnCosts::of(&launches.iter().map(|launch| (*launch, truth(launch))).collect::<Vec<_>>())
    }

    #[test]
    fn a_part_that_is_dear_in_this_kernel_is_found() {
        let launches = launches(13);
        let truth = |launch: &Launch| {
            let resources =
                [12.0 * launch.parts[1], 0.0, 0.0, 0.25 * launch.parts[place("bytes")], 0.0];
            (launch.parts[0] + slowest(&resources)).log2()
        };
        let own = &found(&launches, truth)[0];
        assert_eq!(own.turned, None);
        for launch in &launches {
            let (found, usual) = (own.log_nanos(launch), OwnCosts::default().log_nanos(launch));
            assert!((found - truth(launch)).abs() < 0.35, "{found} {}", truth(launch));
            assert!((found - truth(launch)).abs() <= (usual - truth(launch)).abs() + 0.1);
        }
    }

    #[test]
    fn turns_that_an_argument_tells_are_found() {
        let mut launches = launches(20);
        // All else is small beside it.
        launches
            .iter_mut()
            .for_each(|launch| launch.parts[1..].iter_mut().for_each(|p| *p *= 0.01));
        let truth = |launch: &Launch| (launch.parts[0] + 120.0 * launch.turns[1]).log2();
        let own = &found(&launches, truth)[0];
        assert_eq!(own.turned, Some(1));
        for launch in &launches {
            let error = own.log_nanos(launch) - truth(launch);
            assert!(error.abs() < 0.6, "{error}");
        }
    }

    #[test]
    fn nothing_measured_leaves_the_device_s_costs() {
        assert_eq!(OwnCosts::of(&[]), [OwnCosts::default()]);
    }

    #[test]
    fn slopes_are_those_of_the_unlikelihood() {
        let taken: Vec<Taken> = launches(9)
            .iter()
            .map(|launch| Taken { parts: launch.all_parts(Some(1)), log_nanos: 12.0 })
            .collect();
        let widths = [2.0; ALL_PARTS];
        let mut at = [0.3; ALL_PARTS];
        at[1] = -0.5;
        let (_, slope) = slopes(&taken, &at, &widths, 0.1);
        for part in [0, 1, place("bytes"), PARTS, PARTS + 1] {
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
        let slope: Factors = std::array::from_fn(|at| at as f64 - 3.0);
        let step = solved(&square, &slope, 0.0);
        for (row, slope) in square.iter().zip(&slope) {
            let product: f64 = row.iter().zip(&step).map(|(a, b)| a * b).sum();
            assert!((product - slope).abs() < 1e-9);
        }
    }
}
