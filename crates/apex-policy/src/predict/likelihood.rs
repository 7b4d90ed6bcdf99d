//! How likely measured times are under a likeness of launches, and which likeness makes them more likely.
//!
//! The times of a kernel's launches are one draw from a Gaussian process; lengths, slopes and variances follow the
//! gradient of its log likelihood. Training does so over many kernels at once from a guess; a kernel does so over its
//! own launches from what was trained, and is held to that: which of its arguments matter differs from kernel to
//! kernel, and how far it bends more than tenfold, which a few launches already tell.

use super::acquaintance::MANY;
use super::adam::Adam;
use super::compared::{COMPARISONS, Launch, Signature};
use super::likeness::{Likeness, bent};
use super::own_costs::OwnCosts;

/// Launches of one kernel that are looked at together, with what their costs leave of log2 of their times.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// What each is compared by.
    pub signatures: Vec<Signature>,
    /// What is left of its time above the floor.
    pub times: Vec<f64>,
    /// What the noise is multiplied with: little above a large floor is known less well.
    pub noises: Vec<f64>,
}

impl Group {
    /// What a kernel's costs leave of times, given as log2 over what was expected.
    #[must_use]
    pub fn over<'a>(own: &OwnCosts, launches: impl Iterator<Item = &'a (Launch, f32)>) -> Group {
        let mut group = Group::default();
        for (launch, over_expected) in launches {
            group.signatures.push(launch.signature);
            let (left, noise) = own.left(launch, *over_expected);
            group.times.push(left);
            group.noises.push(noise);
        }
        group
    }
}

/// How a likeness is improved.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Steps along the gradient.
    pub steps: usize,
    /// The length of the first ones.
    pub rate: f32,
    /// How firmly lengths and slopes are held where they begin.
    pub held: f64,
    /// How firmly the average slope of all kernels is held at none; it stays as it is if left out.
    pub held_drift: Option<f64>,
}

/// How a kernel learns its own likeness from a few launches, and from many: these may take it further.
const TUNING: [Course; 2] = [
    Course { steps: 24, rate: 0.2, held: 0.3, held_drift: None },
    Course { steps: 48, rate: 0.2, held: 0.3, held_drift: None },
];

/// The likeness of one kernel, from that of all.
#[must_use]
pub fn tuned(shared: &Likeness, launches: &Group) -> Likeness {
    let course = &TUNING[usize::from(launches.times.len() >= MANY)];
    improved(shared, std::slice::from_ref(launches), course, |_, _| {})
}

/// Places of the parameters: logarithms of bends and slopes and of these three, then the drift in units of its own.
const BEND: usize = 2 * COMPARISONS;
const LEVEL: usize = BEND + 1;
const NOISE: usize = BEND + 2;
const DRIFT: usize = BEND + 3;
const PARAMETERS: usize = DRIFT + COMPARISONS;
const DRIFT_UNIT: f32 = 0.05;
const RANGE: (f32, f32) = (-11.0, 4.0);
const NOISE_RANGE: (f32, f32) = (-8.0, -2.0);

/// Makes measured times more likely, step by step. After each step `progress` learns its number and the mean
/// negative log likelihood of a launch.
#[must_use]
pub fn improved(
    start: &Likeness,
    groups: &[Group],
    course: &Course,
    mut progress: impl FnMut(usize, f64),
) -> Likeness {
    let launches: usize = groups.iter().map(|group| group.times.len()).sum();
    let first = parameters(start);
    let mut parameters = first.clone();
    let mut adam = Adam::new(PARAMETERS);
    for step in 0..course.steps {
        let mut gradient = vec![0.0; PARAMETERS];
        let mut sum = 0.0;
        for group in groups {
            sum += unlikely(group, &parameters, &start.mean, &start.scale, &mut gradient);
        }
        for (gradient, (now, first)) in
            gradient[..BEND].iter_mut().zip(parameters.iter().zip(&first))
        {
            *gradient += course.held * f64::from(now - first);
        }
        for (gradient, drift) in gradient[DRIFT..].iter_mut().zip(&parameters[DRIFT..]) {
            *gradient = course.held_drift.map_or(0.0, |held| *gradient + held * f64::from(*drift));
        }
        let flat: Vec<f32> = gradient.iter().map(|value| *value as f32).collect();
        let done = step as f32 / course.steps as f32;
        let rate = course.rate * (0.02 + 0.98 * 0.5 * (1.0 + (std::f32::consts::PI * done).cos()));
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
        mean: start.mean,
        scale: start.scale,
        bend: parameters[BEND].exp(),
        level: parameters[LEVEL].exp(),
        noise: parameters[NOISE].exp(),
        widths: start.widths,
    }
}

fn parameters(likeness: &Likeness) -> Vec<f32> {
    let Likeness { bends, slopes, drift, bend, level, noise, .. } = likeness;
    let variances = bends.iter().chain(slopes).chain([bend, level, noise]);
    let logarithms = variances.map(|value| value.max(f32::MIN_POSITIVE).ln().max(RANGE.0));
    logarithms.chain(drift.iter().map(|drift| drift / DRIFT_UNIT)).collect()
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
            let noise = if a == b { noise * group.noises[a] } else { 0.0 };
            matrix[a * count + b] = bend * bent(square) + f64::from(sloped) + level + noise;
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
            gradient[BEND] += pull * bend * bent(square);
            gradient[LEVEL] += pull * level;
            if a == b {
                gradient[NOISE] += pull * noise * group.noises[a];
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

    /// Launches whose times bend along the first number, slope along the second and ignore all others.
    fn group(count: u32) -> Group {
        let mut group = Group::default();
        for nth in 0..count {
            let mixed = |at: u32| (nth * 4 + at + 1).wrapping_mul(2_654_435_761).rotate_left(13);
            let number = |at: u32| (mixed(at).wrapping_mul(2_246_822_519) >> 20) as f32 / 1024.0;
            let mut signature = [0.0; COMPARISONS];
            (0..4).for_each(|at| signature[at as usize] = number(at));
            group.signatures.push(signature);
            group.times.push(f64::from((2.0 * signature[0]).sin() + 0.4 * signature[1]));
            group.noises.push(1.0 + f64::from(nth % 3));
        }
        group
    }

    #[test]
    fn a_kernel_learns_what_matters_to_it_and_keeps_what_it_cannot_tell() {
        let shared = Likeness::default();
        let found = tuned(&shared, &group(40));
        assert!(found.bends[0] > 2.0 * shared.bends[0], "{:?}", &found.bends[..4]);
        assert!(found.bends[2] < found.bends[0], "{:?}", &found.bends[..4]);
        assert!((found.bends[9] / shared.bends[9] - 1.0).abs() < 1e-3);
        assert_eq!(found.drift, shared.drift);
    }

    #[test]
    fn gradients_are_those_of_the_likelihood() {
        let (mean, scale) = ([1.5; COMPARISONS], [0.7; COMPARISONS]);
        let group = group(12);
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
