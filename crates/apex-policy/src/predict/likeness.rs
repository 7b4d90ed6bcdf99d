//! How alike launches of one kernel are: what many kernels have in common.
//!
//! Times over what was expected are taken as a Gaussian process: a level of the kernel, a slope along each number
//! that launches are compared by (kernels share a part of it), and bends that only near launches share. Times count
//! by what they have above the floor that every launch has, because only that grows with the work: twice the rounds
//! are twice the time above the floor, in short launches as in long ones, and no answer lies below it. The numbers
//! here were learned from many kernels, and a kernel learns its own from there on ([`super::likelihood`]).

use super::anatomy::{ALL_PARTS, PARTS, REPEATED};
use super::cost_factors::Widths;
use super::exact::{Bound, Exact, bound_of, exact};
use super::features::{COMPARED, COUNT, features};
use super::own_costs::{once_more, split};
use super::question::{History, Question};
use super::scale::log2;
use super::tensor_file::{Refusal, TensorFile, TensorWriter};
use super::turns::{Turns, turns};

/// How many numbers launches are compared by.
pub const COMPARISONS: usize = COMPARED.len();

/// What a launch is compared by.
pub type Signature = [f32; COMPARISONS];

/// The place of a launch among others of its kernel.
#[must_use]
pub fn signature(features: &[f32; COUNT]) -> Signature {
    COMPARED.map(|place| features[place])
}

/// A launch as it is compared with others of its kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// What it is compared by.
    pub signature: Signature,
    /// Nanoseconds of each of its parts; see [`super::own_costs`].
    pub parts: [f32; PARTS],
    /// Nanoseconds of running its text once more.
    pub once_more: [f32; REPEATED],
    /// How often its loops may turn.
    pub turns: Turns,
    /// log2 of the nanoseconds to expect.
    pub log_expected: f32,
    /// Nanoseconds that every launch takes, whatever it does.
    pub floor: f32,
}

/// The share of the shortest times that is floor. A little below all of them, so that every time has something
/// above it.
const FLOOR: f32 = 0.9;
/// The least share of a time that is above the floor: what a time below it is taken for.
const LEAST_ABOVE: f32 = 0.05;

impl Launch {
    /// What a question is about.
    #[must_use]
    pub fn of(question: &Question<'_>) -> Launch {
        let exact = exact(question);
        Launch::with(question, &exact, &bound_of(question, &exact))
    }

    /// The same where it is known what the launch is.
    #[must_use]
    pub fn with(question: &Question<'_>, exact: &Exact, bound: &Bound) -> Launch {
        let counts = super::anatomy::parts(question, exact, &bound.work);
        Launch {
            signature: signature(&features(question, &History::default())),
            parts: split(&counts, &question.device.costs),
            once_more: once_more(&counts),
            turns: turns(question, exact),
            log_expected: log2(bound.expected()),
            floor: FLOOR * question.device.floor_nanos,
        }
    }

    /// Nanoseconds of all parts where the text is repeated by a guess of turns.
    #[inline]
    #[must_use]
    pub fn all_parts(&self, turned: Option<usize>) -> [f32; ALL_PARTS] {
        let turns = turned.map_or(0.0, |guess| self.turns[guess]);
        let mut all = [0.0; ALL_PARTS];
        all[..PARTS].copy_from_slice(&self.parts);
        all[PARTS..].copy_from_slice(&self.once_more.map(|nanos| nanos * turns));
        all
    }

    /// log2 of what a time has above the floor, and the share of the time that this is.
    #[inline]
    #[must_use]
    pub fn above_floor(&self, log_nanos: f32) -> (f32, f32) {
        let share = (1.0 - self.floor / log_nanos.exp2()).max(LEAST_ABOVE);
        (log_nanos + log2(share), share)
    }

    /// log2 of the time that has so much above the floor.
    #[inline]
    #[must_use]
    pub fn with_floor(&self, log_above: f32) -> f32 {
        log2(self.floor + log_above.exp2())
    }
}

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
    pub fn place(&self, signature: &Signature) -> Place {
        let mut place = Place { bends: [0.0; COMPARISONS], slopes: [0.0; COMPARISONS], usual: 0.0 };
        for (at, number) in signature.iter().enumerate() {
            place.bends[at] = number * self.bends[at].sqrt();
            let normal = (number - self.mean[at]) * self.scale[at];
            place.slopes[at] = normal * self.slopes[at].sqrt();
            place.usual += normal * self.drift[at];
        }
        place
    }

    /// How much of the times of two launches goes together.
    #[inline]
    #[must_use]
    pub fn together(&self, a: &Place, b: &Place) -> f64 {
        let (mut square, mut slopes) = (0.0_f32, 0.0_f32);
        for at in 0..COMPARISONS {
            let step = a.bends[at] - b.bends[at];
            square += step * step;
            slopes += a.slopes[at] * b.slopes[at];
        }
        f64::from(self.level + slopes) + f64::from(self.bend) * bent(f64::from(square))
    }

    /// Reads it from a model file.
    pub fn read(file: &TensorFile<'_>) -> Result<Likeness, Refusal> {
        let list = |name: &str| -> Result<Signature, Refusal> {
            let values = file.floats(&format!("likeness.{name}"), &[COMPARISONS])?;
            values.try_into().map_err(|_| Refusal::Missing(format!("likeness.{name}")))
        };
        let whole = file.floats("likeness.whole", &[3])?;
        let widths = file.floats("likeness.widths", &[PARTS])?;
        let likeness = Likeness {
            bends: list("bends")?.map(|bend| bend.max(0.0)),
            slopes: list("slopes")?.map(|slope| slope.max(0.0)),
            drift: list("drift")?,
            mean: list("mean")?,
            scale: list("scale")?,
            bend: whole[0].max(0.0),
            level: whole[1].max(0.0),
            // Without any noise two equal launches would have no answer.
            noise: whole[2].max(1e-5),
            widths: widths.try_into().map_err(|_| Refusal::Missing("likeness.widths".into()))?,
        };
        Ok(likeness)
    }

    /// Writes it into a model file.
    #[must_use]
    pub fn write(&self, file: TensorWriter) -> TensorWriter {
        file.floats("likeness.bends", &[COMPARISONS], &self.bends)
            .floats("likeness.slopes", &[COMPARISONS], &self.slopes)
            .floats("likeness.drift", &[COMPARISONS], &self.drift)
            .floats("likeness.mean", &[COMPARISONS], &self.mean)
            .floats("likeness.scale", &[COMPARISONS], &self.scale)
            .floats("likeness.widths", &[PARTS], &self.widths)
            .floats("likeness.whole", &[3], &[self.bend, self.level, self.noise])
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
pub struct Place {
    bends: Signature,
    slopes: Signature,
    /// What kernels take there on average.
    pub usual: f32,
}
