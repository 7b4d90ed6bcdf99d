//! Remembers measured launches of one kernel, to answer for launches like them.
//!
//! The kernel's line knows how time grows with work. What it cannot know (a block size that wastes lanes, a stride
//! that defeats the caches, an argument that is a number of rounds) shows in launches that were alike. Times over
//! what was expected are taken as a Gaussian process: a level of the kernel, a slope along each number that launches
//! are compared by (kernels share a part of it), and bends that only near launches share. How alike launches are was learned from many kernels
//! ([`Likeness`]), so a kernel needs few launches of its own, and the answer knows its own doubt. The daemon keeps
//! these; inside a program the line must do.

use super::features::{COMPARED, COUNT};
use super::tensor_file::{Refusal, TensorFile, TensorWriter};
use std::sync::{Mutex, PoisonError};

/// How many numbers launches are compared by.
pub const COMPARISONS: usize = COMPARED.len();

/// What a launch is compared by.
pub type Signature = [f32; COMPARISONS];

/// The place of a launch among others of its kernel.
#[must_use]
pub fn signature(features: &[f32; COUNT]) -> Signature {
    COMPARED.map(|place| features[place])
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
    usual: f32,
}

/// What launches like it took, as log2 over the expected time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Near {
    /// The most likely.
    pub mean: f32,
    /// How far off that usually is; 0 with no launch at all.
    pub deviation: f32,
}

/// Launches that are remembered of one kernel.
pub const REMEMBERED: usize = 384;

/// Measured launches of one kernel; when there are many, the oldest is forgotten.
#[derive(Debug, Default)]
pub struct Neighbours {
    entries: Vec<(Signature, f32)>,
    next: usize,
    solved: Mutex<Option<Solved>>,
}

impl Clone for Neighbours {
    fn clone(&self) -> Neighbours {
        Neighbours { entries: self.entries.clone(), next: self.next, solved: Mutex::default() }
    }
}

impl Neighbours {
    /// Takes in a measured launch. One that is remembered already is moved towards what was measured now.
    pub fn observe(&mut self, signature: &Signature, over_expected: f32) {
        if !over_expected.is_finite() || signature.iter().any(|number| !number.is_finite()) {
            return;
        }
        let solved = self.solved.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = self.entries.iter_mut().find(|(known, _)| known == signature) {
            *known += 0.25 * (over_expected - *known);
            solved.iter_mut().for_each(|solved| solved.weights.clear());
        } else if self.entries.len() < REMEMBERED {
            self.entries.push((*signature, over_expected));
        } else {
            self.entries[self.next] = (*signature, over_expected);
            self.next = (self.next + 1) % REMEMBERED;
            *solved = None;
        }
    }

    /// What launches like this one took.
    #[must_use]
    pub fn near(&self, signature: &Signature, likeness: &Likeness) -> Near {
        if self.entries.is_empty() {
            return Near::default();
        }
        let mut solved = self.solved.lock().unwrap_or_else(PoisonError::into_inner);
        let known = solved.take().filter(|solved| solved.likeness == *likeness);
        let now = solved.insert(known.unwrap_or_else(|| Solved::new(likeness)));
        now.extend(&self.entries);
        now.near(signature)
    }
}

/// The equations of the remembered launches, solved; a further launch adds one row.
#[derive(Debug)]
struct Solved {
    likeness: Likeness,
    places: Vec<Place>,
    /// The lower triangle of Cholesky's factor, row after row.
    factor: Vec<f64>,
    /// What each launch adds to an answer; empty until asked for.
    weights: Vec<f64>,
}

impl Solved {
    fn new(likeness: &Likeness) -> Solved {
        Solved {
            likeness: likeness.clone(),
            places: Vec::new(),
            factor: Vec::new(),
            weights: Vec::new(),
        }
    }

    fn extend(&mut self, entries: &[(Signature, f32)]) {
        for (signature, _) in &entries[self.places.len()..] {
            let place = self.likeness.place(signature);
            let mut row = self.halfway(&self.with_all(&place));
            let own = self.likeness.together(&place, &place) + f64::from(self.likeness.noise);
            let left = own - row.iter().map(|value| value * value).sum::<f64>();
            row.push(left.max(f64::from(self.likeness.noise) * 0.1).sqrt());
            self.factor.extend(row);
            self.places.push(place);
            self.weights.clear();
        }
        if self.weights.is_empty() {
            let times: Vec<f64> = entries
                .iter()
                .zip(&self.places)
                .map(|((_, time), place)| f64::from(time - place.usual))
                .collect();
            self.weights = self.back(self.halfway(&times));
        }
    }

    fn with_all(&self, place: &Place) -> Vec<f64> {
        self.places.iter().map(|known| self.likeness.together(known, place)).collect()
    }

    /// Solves for the lower triangle.
    fn halfway(&self, right: &[f64]) -> Vec<f64> {
        let mut found = Vec::with_capacity(right.len() + 1);
        let mut start = 0;
        for (nth, value) in right.iter().enumerate() {
            let row = &self.factor[start..=start + nth];
            let sum: f64 = row.iter().zip(&found).map(|(a, b): (&f64, &f64)| a * b).sum();
            found.push((value - sum) / row[nth]);
            start += nth + 1;
        }
        found
    }

    /// Solves for the upper triangle.
    fn back(&self, mut right: Vec<f64>) -> Vec<f64> {
        for nth in (0..right.len()).rev() {
            let start = nth * (nth + 1) / 2;
            let row = &self.factor[start..=start + nth];
            right[nth] /= row[nth];
            let found = right[nth];
            right[..nth].iter_mut().zip(row).for_each(|(value, part)| *value -= part * found);
        }
        right
    }

    fn near(&self, signature: &Signature) -> Near {
        let place = self.likeness.place(signature);
        let with_all = self.with_all(&place);
        let mean: f64 = with_all.iter().zip(&self.weights).map(|(a, b)| a * b).sum();
        let known: f64 = self.halfway(&with_all).iter().map(|value| value * value).sum();
        let own = self.likeness.together(&place, &place) + f64::from(self.likeness.noise);
        let deviation = (own - known).max(f64::from(self.likeness.noise)).sqrt();
        Near { mean: place.usual + mean as f32, deviation: deviation as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: f32) -> Signature {
        let mut signature = [0.0; COMPARISONS];
        signature[2] = place;
        signature
    }

    #[test]
    fn launches_between_known_ones_are_known_and_far_ones_are_doubted() {
        let (mut near, likeness) = (Neighbours::default(), Likeness::default());
        assert_eq!(near.near(&at(1.0), &likeness), Near::default());
        let rule = |place: f32| 1.0 + 0.3 * place + (0.5 * place).sin();
        for place in 0..10 {
            near.observe(&at(place as f32), rule(place as f32));
        }
        let between = near.near(&at(4.5), &likeness);
        assert!((between.mean - rule(4.5)).abs() < 0.15, "{between:?}");
        let far = near.near(&at(40.0), &likeness);
        assert!(far.deviation > 4.0 * between.deviation, "{far:?} {between:?}");
        assert!(between.deviation > 0.0);
    }

    #[test]
    fn a_further_launch_changes_the_answer_as_if_all_had_come_at_once() {
        let likeness = Likeness::default();
        let (mut slowly, mut at_once) = (Neighbours::default(), Neighbours::default());
        for place in 0..12 {
            let place = (place * 7 % 12) as f32;
            slowly.observe(&at(place), place.sin());
            let _ = slowly.near(&at(3.3), &likeness);
            at_once.observe(&at(place), place.sin());
        }
        slowly.observe(&at(3.0), 2.0);
        at_once.observe(&at(3.0), 2.0);
        let (a, b) = (slowly.near(&at(3.3), &likeness), at_once.near(&at(3.3), &likeness));
        assert!((a.mean - b.mean).abs() < 1e-5 && (a.deviation - b.deviation).abs() < 1e-5);
        let other = Likeness { bend: 0.1, ..likeness };
        assert_ne!(slowly.near(&at(3.3), &other), a, "another likeness is another answer");
    }

    #[test]
    fn memory_is_bounded_and_a_repeat_is_one() {
        let (mut near, likeness) = (Neighbours::default(), Likeness::default());
        for _ in 0..50 {
            near.observe(&at(1.0), 2.0);
        }
        assert_eq!(near.entries.len(), 1);
        for place in 0..1_000 {
            near.observe(&at(place as f32), 0.0);
        }
        assert_eq!(near.entries.len(), REMEMBERED);
        assert!(near.near(&at(999.0), &likeness).mean.abs() < 0.1);
        near.observe(&at(5.0), f32::NAN);
        assert!(near.near(&at(5.0), &likeness).mean.is_finite());
    }
}
