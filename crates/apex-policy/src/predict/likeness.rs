//! How alike launches of one kernel are: what many kernels have in common.
//!
//! Times over what was expected are taken as a Gaussian process: a level of the kernel, a slope along each number
//! that launches are compared by (kernels share a part of it), and bends that only near launches share. Times count
//! by what they have above the floor that every launch has, because only that grows with the work: twice the rounds
//! are twice the time above the floor, in short launches as in long ones, and no answer lies below it. The numbers
//! here were learned from many kernels, and a kernel learns its own from there on ([`super::likelihood`]).

use super::compared::{COMPARISONS, Signature};
use super::cost_factors::Widths;
use super::parts::PARTS;

/// How alike launches of a kernel are; all in the square of log2 of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Likeness {
    /// How fast launches become unlike along each number, squared.
    pub bends: Signature,
    /// How much a kernel may slope along each number, for one unit of [`Likeness::scale`].
    pub slopes: Signature,
    /// How kernels slope along each number on average, for one unit of [`Likeness::scale`].
    pub drift: Signature,
    /// The usual value of each number.
    pub mean: Signature,
    /// The inverse of its usual deviation.
    pub scale: Signature,
    /// How far launches may bend away.
    pub bend: f32,
    /// How far a whole kernel may lie from what was expected.
    pub level: f32,
    /// How far a measurement may lie from the truth.
    pub noise: f32,
    /// How far what a part costs in one kernel usually lies from what it costs on the device; see
    /// [`super::own_costs`].
    pub widths: Widths,
}

impl Default for Likeness {
    /// A guess: a doubling of anything is a step, and half of it may bend away.
    fn default() -> Likeness {
        Likeness {
            bends: [0.02; COMPARISONS],
            slopes: [0.01; COMPARISONS],
            drift: [0.0; COMPARISONS],
            mean: [0.0; COMPARISONS],
            scale: [0.2; COMPARISONS],
            bend: 0.5,
            level: 1.0,
            noise: 0.002,
            widths: [1.0; PARTS],
        }
    }
}

impl Likeness {
    /// The launch's numbers in units of likeness.
    #[must_use]
    pub fn coordinates(&self, signature: &Signature) -> Coordinates {
        let mut found =
            Coordinates { bends: [0.0; COMPARISONS], slopes: [0.0; COMPARISONS], usual: 0.0 };
        for (at, number) in signature.iter().enumerate() {
            found.bends[at] = number * self.bends[at].sqrt();
            let normal = (number - self.mean[at]) * self.scale[at];
            found.slopes[at] = normal * self.slopes[at].sqrt();
            found.usual += normal * self.drift[at];
        }
        found
    }

    /// How much of the times of two launches goes together.
    #[inline]
    #[must_use]
    pub fn together(&self, a: &Coordinates, b: &Coordinates) -> f64 {
        let (mut square, mut slopes) = (0.0_f32, 0.0_f32);
        for at in 0..COMPARISONS {
            let step = a.bends[at] - b.bends[at];
            square += step * step;
            slopes += a.slopes[at] * b.slopes[at];
        }
        f64::from(self.level + slopes) + f64::from(self.bend) * bent(f64::from(square))
    }
}

/// How much bends go together at a squared distance: Matérn's function of order 5/2, which allows kinks where one
/// limit takes over from another.
#[inline]
#[must_use]
pub fn bent(square: f64) -> f64 {
    let distance = square.sqrt();
    (1.0 + distance + square / 3.0) * (-distance).exp()
}

/// A launch in units of likeness.
#[derive(Clone, Debug, PartialEq)]
pub struct Coordinates {
    bends: Signature,
    slopes: Signature,
    /// What kernels take there on average.
    pub usual: f32,
}
