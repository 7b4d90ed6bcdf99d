//! Learns how alike launches of one kernel are, from many kernels at once.
//!
//! What is sought makes the measured times most likely: for every kernel what its own costs leave of its times is
//! taken as one draw from a Gaussian process, and the lengths, slopes and variances that all kernels share follow the
//! gradient of the sum of their log likelihoods ([`apex_policy::predict::likelihood`]). Each kernel is shown whole and
//! by a few of its launches, because the likeness must serve after three launches as well as after three hundred.
//! Before that it is found how far each part's cost in one kernel lies from the device's, for a kernel's own costs
//! are believed by that ([`apex_policy::predict::own_costs`]).

use crate::random::Random;
use apex_policy::predict::compared::{COMPARISONS, Launch, Signature};
use apex_policy::predict::cost_factors::Widths;
use apex_policy::predict::likelihood::{Course, Group, improved};
use apex_policy::predict::likeness::Likeness;
use apex_policy::predict::own_costs::{OwnCosts, usual_widths};

/// Launches of one kernel with log2 of their times over what was expected.
pub type Launches = Vec<(Launch, f32)>;

/// How a likeness is learned.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Steps along the gradient.
    pub steps: usize,
    /// Launches of a kernel that are looked at together, at most.
    pub most: usize,
    /// Where everything random comes from.
    pub seed: u64,
}

/// Launches of each small group.
const FEW: [usize; 9] = [4, 10, 10, 10, 10, 10, 10, 10, 10];

/// How often launches of a kernel are drawn, and how many, to tell how far its costs lie from the device's.
const DRAWN: usize = 2;
const DRAWN_FROM_ONE: usize = 30;

/// Learns from the launches of many kernels. After each step `progress` learns its number and the mean negative log
/// likelihood of a launch.
#[must_use]
pub fn learn(plan: &Plan, kernels: &[Launches], progress: impl FnMut(usize, f64)) -> Likeness {
    let (mean, scale) = normal(kernels);
    let mut random = Random::new(plan.seed);
    let mut usual = Vec::new();
    for launches in kernels.iter().cycle().take(DRAWN * kernels.len()) {
        usual.push(drawn(launches, DRAWN_FROM_ONE, &mut random));
    }
    let widths = usual_widths(&usual);
    let groups = groups(plan, kernels, &widths, &mut random);
    let first = Likeness {
        bends: [(-3.5_f32).exp(); COMPARISONS],
        slopes: [(-4.0_f32).exp(); COMPARISONS],
        drift: [0.0; COMPARISONS],
        mean,
        scale,
        bend: 1.0,
        level: 1.0,
        noise: (-5.0_f32).exp(),
        widths,
    };
    let course = Course { steps: plan.steps, rate: 0.15, held: 0.25, held_drift: Some(4.0) };
    improved(&first, &groups, &course, progress)
}

/// Some launches of a kernel at random.
fn drawn(launches: &Launches, count: usize, random: &mut Random) -> Launches {
    let mut order: Vec<usize> = (0..launches.len()).collect();
    random.shuffle(&mut order);
    order.iter().take(count).map(|at| launches[*at]).collect()
}

fn groups(plan: &Plan, kernels: &[Launches], widths: &Widths, random: &mut Random) -> Vec<Group> {
    let mut groups = Vec::new();
    for launches in kernels {
        let mut take = |count: usize| {
            let chosen = drawn(launches, count, random);
            if chosen.len() > 1 {
                let own = OwnCosts::of(&chosen, widths);
                groups.push(Group::over(&own[0], chosen.iter()));
            }
        };
        take(plan.most);
        FEW.iter().for_each(|count| take(*count));
    }
    groups
}

/// Mean and inverse deviation of each number.
fn normal(kernels: &[Launches]) -> (Signature, Signature) {
    let all = || kernels.iter().flatten();
    let count = all().count().max(1) as f64;
    let mut mean = [0.0; COMPARISONS];
    let mut scale = [0.0; COMPARISONS];
    for at in 0..COMPARISONS {
        let values = || all().map(|(launch, _)| f64::from(launch.signature[at]));
        let middle = values().sum::<f64>() / count;
        let variance = values().map(|value| (value - middle).powi(2)).sum::<f64>() / count;
        mean[at] = middle as f32;
        scale[at] = if variance > 1e-8 { (1.0 / variance.sqrt()) as f32 } else { 0.0 };
    }
    (mean, scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_policy::predict::anatomy::REPEATED;
    use apex_policy::predict::parts::PARTS;
    use apex_policy::predict::turns::TURNS;

    /// Kernels whose times bend along one number, slope along a second and ignore all others.
    fn kernels(count: usize, each: usize) -> Vec<Launches> {
        let mut random = Random::new(3);
        (0..count)
            .map(|_| {
                let (phase, slope) = (3.0 * random.unit(), random.normal());
                let mut launch = || {
                    let mut launch = Launch {
                        signature: [0.0; COMPARISONS],
                        parts: [0.0; PARTS],
                        once_more: [0.0; REPEATED],
                        turns: [0.0; TURNS],
                        log_expected: 0.0,
                        floor: 0.0,
                    };
                    launch.parts[0] = 1.0;
                    let signature = &mut launch.signature;
                    signature.iter_mut().take(4).for_each(|at| *at = 4.0 * random.unit());
                    let time = (2.0 * signature[0] + phase).sin() + slope * signature[1];
                    (launch, time + 0.02 * random.normal())
                };
                (0..each).map(|_| launch()).collect()
            })
            .collect()
    }

    #[test]
    fn what_matters_is_found() {
        let plan = Plan { steps: 60, most: 40, seed: 1 };
        let mut losses = Vec::new();
        let found = learn(&plan, &kernels(12, 40), |_, loss| losses.push(loss));
        assert!(losses[59] < losses[0] - 0.3, "{} {}", losses[0], losses[59]);
        assert!(found.bends[0] > 2.0 * found.bends[2], "{:?}", &found.bends[..4]);
        assert!(found.slopes[1] > 2.0 * found.slopes[2], "{:?}", &found.slopes[..4]);
        assert_eq!(learn(&plan, &kernels(12, 40), |_, _| {}), found);
    }
}
