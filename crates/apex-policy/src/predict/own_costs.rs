//! What the parts of a launch cost in one kernel, from its own measured launches.
//!
//! The device's costs are those of many kernels. One kernel may find its atomics contended, its loops longer than
//! its bytes tell, its chain shorter: then a part of it costs several times as much or as little, and launches in
//! which that part rules differ from others by just that factor. So each part gets a factor of its own, the most
//! likely one in log2 ([`super::cost_factors`]): measured times are spread around what the parts take together,
//! factors around one. How far they may lie from one, other kernels tell part by part ([`usual_widths`]): a launch
//! costs all of them the same and a block nearly, while a chain may be dear, so a few launches are explained by what
//! does differ. Times grow with work here as they did before, only at the kernel's own rates, and what remains is
//! left to the likeness of launches ([`super::neighbours`]).
//!
//! A loop whose turns neither operations nor bytes tell repeats the kernel's text: for every guess of its turns
//! ([`super::turns`]) costs are found with that too, and those that explain the launches better than none are kept,
//! the most likely first. The device's own costs are found in the same way, from the launches of all its kernels.

use super::acquaintance::{MANY, TELLING};
use super::anatomy::{ALL_PARTS, RESOURCE_OF, RESOURCES, slowest};
use super::compared::Launch;
use super::cost_factors::{Belief, Taken, WIDEST, Widths, most_likely, squares};
use super::parts::PARTS;
use super::scale::log2;
use super::turns::TURNS;

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

/// How far measured times may lie from what their parts take, as a variance: of a kernel first, and of one that its
/// parts explain closely.
const SPREADS: [f64; 2] = [0.1, 0.04];
const ROUNDS: usize = 30;
const WIDTH_ROUNDS: usize = 8;
/// Launches that a guess of turns is weighed by at most.
const WEIGHED_BY: usize = 48;
/// How much less likely a guess of turns is than none, before anything was measured.
pub const PRICE: f64 = 2.0;
/// Guesses that are kept at most, with none of them. Even those that are much less likely than the best one: what
/// they leave is weighed again with the likeness of launches.
const KEPT: usize = 8;

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

    /// The most likely costs of a kernel by its launches, given with log2 of their times over what was expected, and
    /// by how far parts usually lie from what they cost on the device: the best first, then others that may be right.
    #[must_use]
    pub fn of(launches: &[(Launch, f32)], widths: &Widths) -> Vec<OwnCosts> {
        let few: Vec<(Launch, f32)> =
            launches.iter().step_by(launches.len().div_ceil(WEIGHED_BY).max(1)).copied().collect();
        let [first, second] = SPREADS.map(|spread| Belief::of_kernel(spread, widths, few.len()));
        let (plain, by_none) = with_turns(&few, None, &first);
        let mut found = vec![(by_none, plain)];
        for guess in (0..TURNS).filter(|_| few.len() >= TELLING) {
            let turns = |(launch, _): &(Launch, f32)| launch.turns[guess];
            // Turns that are the same in all launches are a part of every other cost.
            if few.iter().map(turns).all(|count| count == turns(&few[0])) {
                continue;
            }
            let (own, unlikely) = with_turns(&few, Some(guess), &first);
            if unlikely + PRICE < by_none {
                found.push((unlikely + PRICE, own));
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let kept = found.into_iter().take(KEPT).map(|(_, own)| own);
        if few.len() < launches.len() {
            let all = Belief::of_kernel(SPREADS[0], widths, launches.len());
            return kept.map(|own| with_turns(launches, own.turned, &all).0).collect();
        }
        let mut all: Vec<OwnCosts> = kept.collect();
        // Too few launches deserve no close belief, and many tell what it would.
        if (2 * TELLING..MANY).contains(&few.len()) {
            let again: Vec<OwnCosts> =
                all.iter().map(|own| with_turns(&few, own.turned, &second).0).collect();
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
    let (factors, unlikely) = most_likely(&taken(launches, turned), belief, ROUNDS);
    (OwnCosts { factors: factors.map(|factor| factor.exp2() as f32), turned }, unlikely)
}

/// Launches by their parts, with the text repeated by a guess of turns.
fn taken(launches: &[(Launch, f32)], turned: Option<usize>) -> Vec<Taken> {
    let one = |(launch, over_expected): &(Launch, f32)| Taken {
        parts: launch.all_parts(turned),
        log_nanos: launch.log_expected + over_expected,
    };
    launches.iter().map(one).collect()
}

/// How far parts usually lie from what they cost on the device, by groups of launches, each of one kernel: the mean
/// over kernels of the square of a factor, with what is not known of it, found again with itself as the belief until
/// it changes little. Parts that hardly count in any kernel stay where they began.
#[must_use]
pub fn usual_widths(kernels: &[Vec<(Launch, f32)>]) -> Widths {
    let mut widths = [1.0; PARTS];
    let found: Vec<(Vec<Taken>, usize)> = kernels
        .iter()
        .filter(|launches| !launches.is_empty())
        .map(|launches| {
            let best = OwnCosts::of(launches, &widths).swap_remove(0);
            (taken(launches, best.turned), launches.len())
        })
        .collect();
    for _ in 0..WIDTH_ROUNDS {
        let mut sums = [0.0; PARTS];
        for (taken, count) in &found {
            let squares =
                squares(taken, &Belief::of_kernel(SPREADS[0], &widths, (*count).min(MANY)));
            sums.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square.min(WIDEST));
        }
        widths = sums.map(|sum| (sum / found.len().max(1) as f64) as f32);
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::compared::COMPARISONS;
    use crate::predict::parts::part;

    /// Launches that are ruled by two resources in turn, with turns that nothing else tells.
    fn launches(count: usize) -> Vec<Launch> {
        let launch = |nth: usize| {
            let mut parts = [0.0; PARTS];
            parts[0] = 2_000.0;
            parts[1] = (nth as f32 % 13.0).exp2() * 10.0;
            parts[part("bytes")] = (((nth * 7) % 13) as f32).exp2() * 10.0;
            let mut turns = [0.0; TURNS];
            turns[1] = (((nth * 5) % 11) as f32).exp2();
            turns[4] = 1.0 + (nth % 3) as f32;
            Launch {
                signature: [0.0; COMPARISONS],
                parts,
                once_more: [50.0, 1.0, 0.0],
                turns,
                log_expected: 0.0,
                floor: 0.0,
            }
        };
        (0..count).map(launch).collect()
    }

    fn found(launches: &[Launch], truth: impl Fn(&Launch) -> f32) -> Vec<OwnCosts> {
        let taken: Vec<_> = launches.iter().map(|launch| (*launch, truth(launch))).collect();
        OwnCosts::of(&taken, &[1.0; PARTS])
    }

    #[test]
    fn a_part_that_is_dear_in_this_kernel_is_found() {
        let launches = launches(13);
        let truth = |launch: &Launch| {
            let resources =
                [12.0 * launch.parts[1], 0.0, 0.0, 0.25 * launch.parts[part("bytes")], 0.0];
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
        assert_eq!(OwnCosts::of(&[], &[1.0; PARTS]), [OwnCosts::default()]);
    }

    #[test]
    fn other_kernels_tell_which_parts_differ() {
        // The second part costs each kernel something else, the bytes all of them the same.
        let bytes = part("bytes");
        let kernel = |factor: f32| {
            let truth = |launch: &Launch| {
                let resources = [factor * launch.parts[1], 0.0, 0.0, launch.parts[bytes], 0.0];
                (launch.parts[0] + slowest(&resources)).log2()
            };
            launches(13).iter().map(|launch| (*launch, truth(launch))).collect::<Vec<_>>()
        };
        let widths = usual_widths(&[0.1, 0.25, 4.0, 10.0].map(kernel));
        assert!(widths[1] > 3.0, "{widths:?}");
        assert!(widths[bytes] < 0.5 && widths[0] < 0.5, "{widths:?}");
        let unused = part("atomics");
        assert!((widths[unused] - 1.0).abs() < 0.2, "{widths:?}");
    }
}
