//! Predicts launches of programs as they are recorded: with whatever is known of them, which often is little.
//!
//! The [trees](super::trees) were grown on launches of which operations, arguments and text are known. Of a launch of a
//! program often nothing is known but its shape, the kernel's name and its machine code. So these forests were grown on
//! launches of real programs, each shown with all that is known and with less. One forest answers for a kernel that was
//! never measured, over the time that its parts are expected to take; the other for one that was measured in other
//! shapes, over the time of the nearest of these. A third says how far off the answer usually is.
//!
//! An interval is that doubt times a factor, by what the answer rests on ([`Rest`]), so that it holds four of five
//! times on programs that no forest has seen. Where the shape is all that is known and the interval spans more than
//! [`TOO_WIDE`], the time counts as not known.

pub mod names;
pub mod sight;

use super::features::{FNV_START, fnv};
use super::trees::Forest;
pub use sight::{NAMES, Sight, Sighted};

/// What an answer rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rest {
    /// Nobody read the code, and the kernel was never measured.
    Shape,
    /// The instructions that stand in the code.
    Mix,
    /// What its warps do, by a walk through its text.
    Walk,
    /// The kernel's times in other shapes.
    Others,
}

impl Rest {
    /// All of them, in their order.
    pub const ALL: [Rest; 4] = [Rest::Shape, Rest::Mix, Rest::Walk, Rest::Others];

    /// The word for it in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Rest::Shape => "shape",
            Rest::Mix => "mixed",
            Rest::Walk => "walked",
            Rest::Others => "other shapes",
        }
    }
}

/// An interval that ends more than so many times above its beginning tells nothing where the shape is all that is known.
pub const TOO_WIDE: f32 = 5.0;
/// Nanoseconds that two events around a launch tell beyond what CUPTI does: the median of 576 configurations that were timed
/// both ways on an H200, whatever they took; four of five lie between 2,100 and 3,600.
pub const EVENTS_OVER_CUPTI: f32 = 2_400.0;
/// Half of an interval, in log2, is no less.
const NARROWEST: f32 = 0.02;

/// What a kernel's launches in other shapes took.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// Each with log2 of its nanoseconds.
    launches: Vec<(Sight, f32)>,
    seen: usize,
}

/// Launches that are remembered of one kernel.
const REMEMBERED: usize = 48;

impl Past {
    /// Takes in a measured launch; one of the same shape takes the place of the earlier.
    pub fn observe(&mut self, sight: &Sight, nanos: f32) {
        let time = nanos.log2();
        if !time.is_finite() {
            return;
        }
        if let Some((_, known)) = self.launches.iter_mut().find(|(known, _)| known.is_like(sight)) {
            *known += 0.5 * (time - *known);
            return;
        }
        if self.launches.len() < REMEMBERED {
            self.launches.push((*sight, time));
        } else {
            self.launches[self.seen % REMEMBERED] = (*sight, time);
        }
        self.seen += 1;
    }

    /// The nearest launch with log2 of its time, those that were never measured having none.
    fn nearest(&self, sight: &Sight) -> Option<&(Sight, f32)> {
        let far = |(known, _): &&(Sight, f32)| known.distance(sight);
        self.launches.iter().min_by(|a, b| far(a).total_cmp(&far(b)))
    }
}

/// The model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Programs {
    /// For kernels never measured, for others, and how far off an answer is.
    pub forests: [Forest; 3],
    /// What the doubt is multiplied with, by [`Rest::ALL`].
    pub widening: [f32; Rest::ALL.len()],
}

/// Names of the forests in a file.
pub const FORESTS: [&str; 3] = ["never_measured", "measured", "doubt"];

/// What is said of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    /// log2 of nanoseconds.
    pub time: f32,
    /// Half of the 80 % interval, in log2.
    pub half_width: f32,
    /// What it rests on.
    pub rest: Rest,
}

impl Said {
    /// The same of a time that is longer by so many nanoseconds.
    #[must_use]
    pub fn longer_by(self, nanos: f32) -> Said {
        let time = (self.time.exp2() + nanos).log2();
        let high = ((self.time + self.half_width).exp2() + nanos).log2();
        Said { time, half_width: (high - time).max(NARROWEST), ..self }
    }

    /// Whether that is a number to go by.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.rest != Rest::Shape || 2.0 * self.half_width <= TOO_WIDE.log2()
    }
}

impl Programs {
    /// What a launch will take, by what its kernel took in other shapes.
    #[must_use]
    pub fn answer(&self, sight: &Sight, past: &Past) -> Said {
        let (features, base, rest) = asked(sight, past);
        let forest = usize::from(rest == Rest::Others);
        let doubt = self.forests[2].predict(&features).max(NARROWEST);
        Said {
            time: base + self.forests[forest].predict(&features),
            half_width: (doubt * self.widening[rest as usize]).max(NARROWEST),
            rest,
        }
    }
}

/// The features of a question, log2 of the time that forests correct, and what the answer rests on.
#[must_use]
pub fn asked(sight: &Sight, past: &Past) -> (Sighted, f32, Rest) {
    match past.nearest(sight) {
        Some((near, time)) => {
            let features = sight.features(Some((near, *time, past.launches.len())));
            // It grows as what is expected of both does, until the forest knows better.
            (features, time + sight.expected - near.expected, Rest::Others)
        }
        None => (sight.features(None), sight.expected, sight.rest()),
    }
}

/// The hash that a file of this model carries: over the names of the features.
#[must_use]
pub fn list_hash() -> u64 {
    NAMES.iter().fold(FNV_START, |hash, name| fnv(fnv(hash, name.as_bytes()), b";"))
}

#[cfg(test)]
mod tests;
