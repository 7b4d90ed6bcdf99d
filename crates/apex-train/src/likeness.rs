//! Learns how alike launches of one kernel are, from many kernels at once.
//!
//! What is sought makes the measured times most likely: for every kernel the times over what was expected are taken
//! as one draw from a Gaussian process, and the lengths, slopes and variances that all kernels share follow the
//! gradient of the sum of their log likelihoods. Each kernel is shown whole and by a few of its launches, because
//! the likeness must serve after three launches as well as after three hundred.

use crate::adam::Adam;
use crate::random::Random;
use apex_policy::predict::neighbours::{COMPARISONS, Likeness, Signature};

/// Launches of one kernel with log2 of their times over what was expected.
pub type Launches = Vec<(Signature, f32)>;

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

/// Places of the parameters: logarithms of bends and slopes and of these three, then the drift in units of its own.
const BEND: usize = 2 * COMPARISONS;
const LEVEL: usize = BEND + 1;
const NOISE: usize = BEND + 2;
const DRIFT: usize = BEND + 3;
const PARAMETERS: usize = DRIFT + COMPARISONS;
const DRIFT_UNIT: f32 = 0.05;

/// Where the parameters begin, and how firmly they are held there.
const FIRST_BEND: f32 = -3.5;
const FIRST_SLOPE: f32 = -4.0;
const HELD: f64 = 0.25;
const HELD_DRIFT: f64 = 4.0;
const RATE: f32 = 0.15;
const RANGE: (f32, f32) = (-11.0, 4.0);
const NOISE_RANGE: (f32, f32) = (-8.0, -2.0);
/// Launches of a small group.
const FEW: [usize; 2] = [4, 10];

/// Learns from the launches of many kernels. After each step `progress` learns its number and the mean negative log
/// likelihood of a launch.
#[must_use]
pub fn learn(plan: &Plan, kernels: &[Launches], mut progress: impl FnMut(usize, f64)) -> Likeness {
    let mut random = Random::new(plan.seed);
    let (mean, scale) = normal(kernels);
    let groups = groups(plan, kernels, &mut random);
    let launches: usize = groups.iter().map(|group| group.times.len()).sum();
    let mut parameters = vec![FIRST_BEND; PARAMETERS];
    parameters[COMPARISONS..BEND].fill(FIRST_SLOPE);
    (parameters[BEND], parameters[LEVEL], parameters[NOISE]) = (0.0, 0.0, -5.0);
    parameters[DRIFT..].fill(0.0);
    let mut adam = Adam::new(PARAMETERS);
    for step in 0..plan.steps {
        let mut gradient = vec![0.0; PARAMETERS];
        let mut sum = 0.0;
        for group in &groups {
            sum += unlikely(group, &parameters, &mean, &scale, &mut gradient);
        }
        for (at, gradient) in gradient.iter_mut().enumerate().take(BEND) {
            let first = if at < COMPARISONS { FIRST_BEND } else { FIRST_SLOPE };
            *gradient += HELD * f64::from(parameters[at] - first);
        }
        for (gradient, drift) in gradient[DRIFT..].iter_mut().zip(&parameters[DRIFT..]) {
            *gradient += HELD_DRIFT * f64::from(*drift);
        }
        let flat: Vec<f32> = gradient.iter().map(|value| *value as f32).collect();
        let done = step as f32 / plan.steps as f32;
        let rate = RATE * (0.02 + 0.98 * 0.5 * (1.0 + (std::f32::consts::PI * done).cos()));
        adam.step(&mut parameters, &flat, rate, 0.0);
        let logarithms = &mut parameters[..DRIFT];
        logarithms.iter_mut().for_each(|value| *value = value.clamp(RANGE.0, RANGE.1));
        parameters[NOISE] = parameters[NOISE].clamp(NOISE_RANGE.0, NOISE_RANGE.1);
        progress(step + 1, sum / launches.max(1) as f64);
    }
    let list = |start: usize| std::array::from_fn(|at| parameters[start + at].exp());
    Likeness {
        bends: list(0),
        slopes: list(COMPARISONS),
        drift: std::array::from_fn(|at| DRIFT_UNIT * parameters[DRIFT + at]),
        mean,
        scale,
        bend: parameters[BEND].exp(),
        level: parameters[LEVEL].exp(),
        noise: parameters[NOISE].exp(),
    }
}

/// Launches that are looked at together.
struct Group {
    signatures: Vec<Signature>,
    times: Vec<f64>,
}

fn groups(plan: &Plan, kernels: &[Launches], random: &mut Random) -> Vec<Group> {
    let mut groups = Vec::new();
    for launches in kernels {
        let mut order: Vec<usize> = (0..launches.len()).collect();
        let mut take = |count: usize| {
            random.shuffle(&mut order);
            let chosen = &order[..count.min(order.len())];
            if chosen.len() > 1 {
                groups.push(Group {
                    signatures: chosen.iter().map(|at| launches[*at].0).collect(),
                    times: chosen.iter().map(|at| f64::from(launches[*at].1)).collect(),
                });
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
        let values = || all().map(|(signature, _)| f64::from(signature[at]));
        let middle = values().sum::<f64>() / count;
        let variance = values().map(|value| (value - middle).powi(2)).sum::<f64>() / count;
        mean[at] = middle as f32;
        scale[at] = if variance > 1e-8 { (1.0 / variance.sqrt()) as f32 } else { 0.0 };
    }
    (mean, scale)
}

/// The negative log likelihood of a group, less what no parameter changes; its gradient is added.
fn unlikely(
    group: &Group,
    parameters: &[f32],
    mean: &Signature,
    scale: &Signature,
    gradient: &mut [f64],
) -> f64 {
    let count = group.times.len();
    let bends: Signature = std::array::from_fn(|at| parameters[at].exp());
    let slopes: Signature = std::array::from_fn(|at| parameters[COMPARISONS + at].exp());
    let [bend, level, noise] = [BEND, LEVEL, NOISE].map(|at| f64::from(parameters[at]).exp());
    let normal: Vec<Signature> = group
        .signatures
        .iter()
        .map(|signature| std::array::from_fn(|at| (signature[at] - mean[at]) * scale[at]))
        .collect();
    let mut matrix = vec![0.0; count * count];
    let mut squares = vec![0.0; count * count];
    for a in 0..count {
        for b in 0..=a {
            let (mut square, mut sloped) = (0.0_f32, 0.0_f32);
            for at in 0..COMPARISONS {
                let step = group.signatures[a][at] - group.signatures[b][at];
                square += bends[at] * step * step;
                sloped += slopes[at] * normal[a][at] * normal[b][at];
            }
            let square = f64::from(square);
            squares[a * count + b] = square;
            matrix[a * count + b] = bend * apex_policy::predict::neighbours::bent(square)
                + f64::from(sloped)
                + level
                + if a == b { noise } else { 0.0 };
        }
    }
    factor(&mut matrix, count);
    let (inverse, logs) = inverted(&matrix, count);
    let times: Vec<f64> = group
        .times
        .iter()
        .zip(&normal)
        .map(|(time, normal)| {
            let drift = parameters[DRIFT..].iter().zip(normal).map(|(drift, at)| drift * at);
            time - f64::from(DRIFT_UNIT * drift.sum::<f32>())
        })
        .collect();
    let weights: Vec<f64> =
        (0..count).map(|a| (0..count).map(|b| inverse[a * count + b] * times[b]).sum()).collect();
    let fit: f64 = weights.iter().zip(&times).map(|(weight, time)| weight * time).sum();
    for (weight, normal) in weights.iter().zip(&normal) {
        for (gradient, at) in gradient[DRIFT..].iter_mut().zip(normal) {
            *gradient -= weight * f64::from(DRIFT_UNIT * at);
        }
    }
    let mut of_bends = [0.0_f64; COMPARISONS];
    let mut of_slopes = [0.0_f64; COMPARISONS];
    for a in 0..count {
        for b in 0..=a {
            // Every pair stands twice in the matrix, the diagonal once.
            let times = if a == b { 0.5 } else { 1.0 };
            let pull = times * (inverse[a * count + b] - weights[a] * weights[b]);
            let square = squares[a * count + b];
            let distance = square.sqrt();
            gradient[BEND] += pull * bend * apex_policy::predict::neighbours::bent(square);
            gradient[LEVEL] += pull * level;
            if a == b {
                gradient[NOISE] += pull * noise;
            }
            let bent = (-pull * bend * (1.0 + distance) / 6.0 * (-distance).exp()) as f32;
            let pull = pull as f32;
            for at in 0..COMPARISONS {
                let step = group.signatures[a][at] - group.signatures[b][at];
                of_bends[at] += f64::from(bent * step * step);
                of_slopes[at] += f64::from(pull * normal[a][at] * normal[b][at]);
            }
        }
    }
    for at in 0..COMPARISONS {
        gradient[at] += of_bends[at] * f64::from(bends[at]);
        gradient[COMPARISONS + at] += of_slopes[at] * f64::from(slopes[at]);
    }
    0.5 * fit + logs
}

/// Cholesky's factor in place, in the lower triangle.
fn factor(matrix: &mut [f64], count: usize) {
    for a in 0..count {
        let (above, row) = matrix.split_at_mut(a * count);
        for b in 0..=a {
            let other = if b < a { &above[b * count..b * count + b] } else { &[][..] };
            let sum: f64 = if b < a {
                other.iter().zip(row.iter()).map(|(x, y)| x * y).sum()
            } else {
                row[..a].iter().map(|x| x * x).sum()
            };
            row[b] = if b < a {
                (row[b] - sum) / above[b * count + b]
            } else {
                (row[b] - sum).max(1e-9).sqrt()
            };
        }
    }
}

/// The inverse of the factored matrix, and the sum of the logarithms of the factor's diagonal.
fn inverted(factor: &[f64], count: usize) -> (Vec<f64>, f64) {
    // The inverse of the factor, by row.
    let mut lower = vec![0.0; count * count];
    for a in 0..count {
        let (above, row) = lower.split_at_mut(a * count);
        for b in 0..a {
            let part = factor[a * count + b];
            let other = &above[b * count..b * count + b + 1];
            row.iter_mut().zip(other).for_each(|(to, from)| *to -= part * from);
        }
        let own = 1.0 / factor[a * count + a];
        row[..a].iter_mut().for_each(|value| *value *= own);
        row[a] = own;
    }
    let mut inverse = vec![0.0; count * count];
    for row in 0..count {
        let values = &lower[row * count..row * count + row + 1];
        for (a, first) in values.iter().enumerate() {
            let to = &mut inverse[a * count..a * count + a + 1];
            to.iter_mut().zip(values).for_each(|(to, second)| *to += first * second);
        }
    }
    for a in 0..count {
        for b in 0..a {
            inverse[b * count + a] = inverse[a * count + b];
        }
    }
    let logs = (0..count).map(|a| factor[a * count + a].ln()).sum();
    (inverse, logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels whose times bend along one number, slope along a second and ignore all others.
    fn kernels(count: usize, each: usize) -> Vec<Launches> {
        let mut random = Random::new(3);
        (0..count)
            .map(|_| {
                let (phase, slope) = (3.0 * random.unit(), random.normal());
                let mut launch = || {
                    let mut signature = [0.0; COMPARISONS];
                    signature.iter_mut().take(4).for_each(|at| *at = 4.0 * random.unit());
                    let time = (2.0 * signature[0] + phase).sin() + slope * signature[1];
                    (signature, time + 0.02 * random.normal())
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

    #[test]
    fn gradients_are_those_of_the_likelihood() {
        let kernels = kernels(1, 12);
        let (mean, scale) = normal(&kernels);
        let group = Group {
            signatures: kernels[0].iter().map(|launch| launch.0).collect(),
            times: kernels[0].iter().map(|launch| f64::from(launch.1)).collect(),
        };
        let mut parameters = vec![-1.5; PARAMETERS];
        parameters[NOISE] = -3.0;
        parameters[DRIFT..].fill(0.5);
        let mut gradient = vec![0.0; PARAMETERS];
        unlikely(&group, &parameters, &mean, &scale, &mut gradient);
        for at in [0, 1, 3, COMPARISONS, COMPARISONS + 1, BEND, LEVEL, NOISE, DRIFT + 1] {
            let value = |step: f32| {
                let mut moved = parameters.clone();
                moved[at] += step;
                unlikely(&group, &moved, &mean, &scale, &mut vec![0.0; PARAMETERS])
            };
            let slope = (value(0.02) - value(-0.02)) / 0.04;
            let error = (slope - gradient[at]).abs();
            assert!(error < 0.02 * slope.abs().max(1.0), "{at}: {slope} {}", gradient[at]);
        }
    }
}
