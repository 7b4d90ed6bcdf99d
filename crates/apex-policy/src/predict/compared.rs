//! A launch as it is compared with others of its kernel: its numbers, and what each of its parts costs.

use super::anatomy::{ALL_PARTS, REPEATED, parts_of};
use super::bound::{Bound, bound_of};
use super::exact::{Exact, exact};
use super::features::{COMPARED, COUNT, features};
use super::parts::{Costs, LEAST, PARTS, part};
use super::question::{History, Question};
use super::scale::log2;
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
    /// Nanoseconds of each of its parts; see [`split`].
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
        let counts = parts_of(question, exact, &bound.work);
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

/// Nanoseconds of each part of a launch. A part that is free on the device has a little here, for a kernel may
/// find it dear.
#[must_use]
pub fn split(counts: &[f32; PARTS], costs: &Costs) -> [f32; PARTS] {
    std::array::from_fn(|part| {
        counts[part] * if costs[part] > 0.0 { costs[part] } else { LEAST[part] }
    })
}

/// Nanoseconds of running the text once more: its chain, its issue on the busiest multiprocessor, and its atomics.
#[must_use]
pub fn once_more(counts: &[f32; PARTS]) -> [f32; REPEATED] {
    const CHAIN: usize = part("chain_cycles");
    const ISSUE: usize = part("issue_instructions");
    const ATOMICS: usize = part("atomics");
    [0.5 * counts[CHAIN], 0.02 * counts[ISSUE], 1e-3 * counts[ATOMICS]]
}
