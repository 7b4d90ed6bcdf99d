//! The order of trials: one change of every kernel at a time, tier by tier, each beside what has won so far.
//!
//! Kernels are timed one by one, so one run tries a change of each of them. Limits of registers hold for a whole
//! image: of the kernels of one image only one has its limit tried in a round.

use super::change::{Change, Tier};
use super::verdict::Verdict;
use std::collections::BTreeSet;

/// What may be done to one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Subjected {
    /// Kernels of one image have the same number.
    pub image: usize,
    /// Changes in the order in which they are tried.
    pub candidates: Vec<Change>,
}

/// What came of one change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Verdict),
    /// The program computed something else, or ended otherwise.
    Differs,
}

/// One change that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// Whose.
    pub subject: usize,
    /// What.
    pub change: Change,
    /// What came of it.
    pub outcome: Outcome,
}

/// A search under way.
#[derive(Clone, Debug, Default)]
pub struct Search {
    subjects: Vec<Subjected>,
    next: Vec<usize>,
    won: Vec<Vec<Change>>,
    tried: Vec<Tried>,
}

impl Search {
    /// A search over kernels.
    #[must_use]
    pub fn new(subjects: Vec<Subjected>) -> Search {
        let count = subjects.len();
        Search { subjects, next: vec![0; count], won: vec![Vec::new(); count], tried: Vec::new() }
    }

    /// The changes of the next round, at most one of each kernel and all of one tier.
    pub fn round(&mut self) -> Vec<(usize, Change)> {
        for tier in Tier::ALL {
            let mut images = BTreeSet::new();
            let mut round = Vec::new();
            for (nth, subject) in self.subjects.iter().enumerate() {
                let Some(change) = subject.candidates.get(self.next[nth]) else { continue };
                if change.tier() != tier || (tier == Tier::Compile && !images.insert(subject.image))
                {
                    continue;
                }
                self.next[nth] += 1;
                round.push((nth, *change));
            }
            if !round.is_empty() {
                return round;
            }
        }
        Vec::new()
    }

    /// What every kernel runs with: what has won, with a trial put over it.
    #[must_use]
    pub fn plan(&self, trial: &[(usize, Change)]) -> Vec<Vec<Change>> {
        let mut plan = self.won.clone();
        for &(subject, change) in trial {
            self.put(&mut plan, subject, change);
        }
        plan
    }

    /// Notes what came of a change, and keeps it if it won.
    pub fn judge(&mut self, subject: usize, change: Change, outcome: Outcome) {
        self.tried.push(Tried { subject, change, outcome });
        if matches!(outcome, Outcome::Measured(Verdict::Wins { .. })) {
            let mut won = core::mem::take(&mut self.won);
            self.put(&mut won, subject, change);
            self.won = won;
        }
    }

    /// Takes everything back: it did not hold in the end.
    pub fn give_up(&mut self) {
        self.won.iter_mut().for_each(Vec::clear);
    }

    /// Everything that was tried, in its order.
    #[must_use]
    pub fn tried(&self) -> &[Tried] {
        &self.tried
    }

    /// A change takes the place of its like; a limit that of every kernel of the image.
    fn put(&self, plan: &mut [Vec<Change>], subject: usize, change: Change) {
        let like =
            |other: &Change| core::mem::discriminant(other) == core::mem::discriminant(&change);
        for (nth, changes) in plan.iter_mut().enumerate() {
            let limited = change.tier() == Tier::Compile
                && self.subjects[nth].image == self.subjects[subject].image;
            if nth == subject || limited {
                changes.retain(|other| !like(other));
            }
        }
        plan[subject].push(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Change = Change::Block { from: [16, 1, 1], to: [64, 1, 1] };
    const LARGE: Change = Change::Block { from: [16, 1, 1], to: [256, 1, 1] };

    fn search() -> Search {
        let all = [Change::Carveout(0), Change::Registers(64), SMALL, LARGE];
        let subject =
            |image, candidates: &[Change]| Subjected { image, candidates: candidates.into() };
        Search::new(vec![subject(0, &all), subject(0, &all[1..2]), subject(1, &all[2..3])])
    }

    fn wins(gain: f64) -> Outcome {
        Outcome::Measured(Verdict::Wins { gain, low: gain, high: gain })
    }

    #[test]
    fn tiers_follow_each_other_and_limits_of_one_image_too() {
        let mut search = search();
        assert_eq!(search.round(), [(0, Change::Carveout(0))]);
        assert_eq!(search.round(), [(0, Change::Registers(64))]);
        assert_eq!(search.round(), [(1, Change::Registers(64))]);
        assert_eq!(search.round(), [(0, SMALL), (2, SMALL)]);
        assert_eq!(search.round(), [(0, LARGE)]);
        assert!(search.round().is_empty());
    }

    #[test]
    fn what_wins_stays_and_its_like_takes_its_place() {
        let mut search = search();
        search.judge(0, SMALL, wins(1.5));
        search.judge(2, SMALL, Outcome::Differs);
        assert_eq!(search.plan(&[]), [vec![SMALL], vec![], vec![]]);
        assert_eq!(search.plan(&[(0, LARGE)])[0], [LARGE]);
        search.judge(0, LARGE, Outcome::Measured(Verdict::Even(1.0)));
        assert_eq!(search.plan(&[])[0], [SMALL]);
        search.judge(0, Change::Registers(64), wins(1.1));
        search.judge(1, Change::Registers(32), wins(1.1));
        assert_eq!(search.plan(&[]), [vec![SMALL], vec![Change::Registers(32)], vec![]]);
        search.give_up();
        assert!(search.plan(&[]).iter().all(Vec::is_empty) && search.tried().len() == 5);
    }
}
