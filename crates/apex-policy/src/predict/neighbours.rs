//! Remembers measured launches of one kernel, to answer for launches like them.
//!
//! The kernel's line knows how time grows with work. What it cannot know (a block size that wastes lanes, a stride
//! that defeats the caches, an argument that is a number of rounds) shows in launches that were alike. First the
//! parts of the launch get the costs that they have in this kernel ([`super::own_costs`]); what these leave is a
//! Gaussian process over the remembered launches ([`Likeness`]), so a kernel needs few launches of its own, and the
//! answer knows its own doubt. Where several costs may be right, each has its process and they answer together, by
//! how likely they make what was measured. From a few launches on a kernel learns itself what makes its launches
//! alike, anew with each of them and later whenever it has seen a quarter more: that takes milliseconds, an answer
//! between takes microseconds. The daemon keeps these; inside a program the line must do.

use super::account::Account;
use super::acquaintance::{MANY, TELLING};
use super::compared::Launch;
use super::likelihood::{Group, tuned};
use super::likeness::Likeness;
use super::own_costs::OwnCosts;
use super::question::Near;
use std::sync::{Mutex, PoisonError};

/// Launches that are remembered of one kernel.
pub const REMEMBERED: usize = 384;

/// Measured launches of one kernel; when there are many, the oldest is forgotten.
#[derive(Debug, Default)]
pub struct Neighbours {
    /// Launches with log2 of their times over what was expected.
    entries: Vec<(Launch, f32)>,
    /// How many different launches there were, those forgotten among them.
    seen: usize,
    solved: Mutex<Option<Solved>>,
}

impl Clone for Neighbours {
    fn clone(&self) -> Neighbours {
        Neighbours { entries: self.entries.clone(), seen: self.seen, solved: Mutex::default() }
    }
}

impl Neighbours {
    /// Takes in a measured launch. One that is remembered already is moved towards what was measured now.
    pub fn observe(&mut self, launch: &Launch, over_expected: f32) {
        let finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
        if !finite(&[over_expected]) || !finite(&launch.signature) || !finite(&launch.parts) {
            return;
        }
        let solved = self.solved.get_mut().unwrap_or_else(PoisonError::into_inner);
        let same = |(known, _): &&mut (Launch, f32)| known.signature == launch.signature;
        if let Some((_, known)) = self.entries.iter_mut().find(same) {
            *known += 0.25 * (over_expected - *known);
            let all = solved.iter_mut().flat_map(|solved| &mut solved.accounts);
            all.for_each(Account::times_changed);
            return;
        }
        if self.entries.len() < REMEMBERED {
            self.entries.push((*launch, over_expected));
        } else {
            self.entries[self.seen % REMEMBERED] = (*launch, over_expected);
            solved.iter_mut().flat_map(|solved| &mut solved.accounts).for_each(Account::forget);
        }
        self.seen += 1;
    }

    /// What launches like this one took.
    #[must_use]
    pub fn near(&self, launch: &Launch, likeness: &Likeness) -> Near {
        if self.entries.is_empty() {
            return Near::default();
        }
        let mut solved = self.solved.lock().unwrap_or_else(PoisonError::into_inner);
        let known = solved.take().filter(|solved| solved.shared == *likeness);
        let now = solved.insert(known.unwrap_or_else(|| Solved::new(likeness)));
        now.learn(&self.entries, self.seen);
        now.accounts.iter_mut().for_each(|account| account.extend(&self.entries));
        now.near(launch)
    }
}

/// Launches that a kernel learns its likeness from at most.
const LEARNED_FROM: usize = 96;

/// How much of the likelihood of an account decides: launches are not as independent as it takes them for.
const BELIEVED: f64 = 0.07;

/// What was learned of the remembered launches.
#[derive(Debug)]
struct Solved {
    /// What all kernels have in common.
    shared: Likeness,
    /// The costs that may be right, each with what it leaves.
    accounts: Vec<Account>,
    /// How many launches there were when these were learned.
    learned_at: usize,
}

impl Solved {
    fn new(likeness: &Likeness) -> Solved {
        Solved { shared: likeness.clone(), accounts: Vec::new(), learned_at: 0 }
    }

    /// Finds the kernel's costs, and its likeness where there is enough to learn from, if enough is new.
    fn learn(&mut self, entries: &[(Launch, f32)], seen: usize) {
        let known = self.learned_at;
        if seen < if known < MANY { known + 1 } else { known * 5 / 4 } {
            return;
        }
        self.learned_at = seen;
        let account = |own: OwnCosts| {
            let chosen = entries.iter().step_by(entries.len().div_ceil(LEARNED_FROM));
            let likeness = match seen {
                TELLING.. => tuned(&self.shared, &Group::over(&own, chosen)),
                _ => self.shared.clone(),
            };
            Account::new(likeness, own)
        };
        self.accounts =
            OwnCosts::of(entries, &self.shared.widths).into_iter().map(account).collect();
    }

    fn near(&self, launch: &Launch) -> Near {
        let best = self.accounts.iter().map(Account::likely).fold(f64::NEG_INFINITY, f64::max);
        let mut sums = [0.0; 3];
        for account in &self.accounts {
            let weight = (BELIEVED * (account.likely() - best)).exp();
            let Near { mean, deviation } = account.near(launch);
            let (mean, deviation) = (f64::from(mean), f64::from(deviation));
            let squares = deviation * deviation + mean * mean;
            sums.iter_mut().zip([1.0, mean, squares]).for_each(|(sum, of)| *sum += weight * of);
        }
        let mean = sums[1] / sums[0];
        // Accounts that differ are doubt too.
        let deviation = (sums[2] / sums[0] - mean * mean).max(0.0).sqrt();
        Near { mean: mean as f32, deviation: deviation as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::anatomy::REPEATED;
    use crate::predict::compared::COMPARISONS;
    use crate::predict::parts::PARTS;
    use crate::predict::turns::TURNS;

    fn at(place: f32) -> Launch {
        let mut launch = Launch {
            signature: [0.0; COMPARISONS],
            parts: [0.0; PARTS],
            once_more: [0.0; REPEATED],
            turns: [0.0; TURNS],
            log_expected: 0.0,
            floor: 0.0,
        };
        launch.signature[2] = place;
        // A kernel of which nothing but the launch is known: all else is likeness.
        launch.parts[0] = 1.0;
        launch
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
        let (a, b) = (slowly.near(&at(3.3), &likeness), at_once.near(&at(3.3), &likeness));
        assert!((a.mean - b.mean).abs() < 1e-5 && (a.deviation - b.deviation).abs() < 1e-5);
        let other = Likeness { bend: 0.1, ..likeness };
        assert_ne!(slowly.near(&at(3.3), &other), a, "another likeness is another answer");
    }

    #[test]
    fn turns_that_may_be_right_answer_with_the_rest() {
        let likeness = Likeness::default();
        let mut near = Neighbours::default();
        let launch = |nth: u32| {
            let mut launch = at((nth * 5 % 9) as f32);
            launch.once_more = [50.0, 1.0, 0.0];
            launch.turns[1] = ((nth % 9) as f32).exp2();
            launch.parts[0] = 2_000.0;
            launch
        };
        let rule = |launch: &Launch| (2_000.0 + 150.0 * launch.turns[1]).log2();
        for nth in 0..9 {
            near.observe(&launch(nth), rule(&launch(nth)));
        }
        // Half as many turns again as in any of them.
        let mut asked = launch(8);
        asked.turns[1] *= 1.5;
        let found = near.near(&asked, &likeness);
        assert!((found.mean - rule(&asked)).abs() < 0.25, "{found:?} {}", rule(&asked));
        let near = near.solved.lock().unwrap();
        assert!(near.as_ref().unwrap().accounts.iter().any(|known| known.own.turned == Some(1)));
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
