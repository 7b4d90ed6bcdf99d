//! Loops on a warp's way: which of their turns are walked, and which are only counted.
//!
//! A loop is walked a few turns. If all that its comparisons see then changes by the same step in every turn, it is
//! known how many turns are left, and what they cost is added at once. A loop that nothing known ends is left after a
//! few turns.

use super::step::{Act, Comparison, Form, Loop, Source, Step};
use super::values::{LANES, turns_until_other, wide};
use super::warp::{Registers, Turned, Warp};

/// Turns of a loop before it is tried to skip further ones: as many as let a lane walk through a sector.
const TURNS: usize = 10;
/// Turns over which the costs of one are averaged.
const AVERAGED: usize = 8;
/// A loop that nothing known ends is left after so many further turns.
const GUESSED_TURNS: u64 = 8;

impl Warp<'_> {
    /// Whether lanes take a branch of which nobody knows whether they do.
    pub(super) fn goes(&mut self, place: usize, target: usize) -> bool {
        if self.program.steps[place].past_odd {
            return true;
        }
        let inside = |l: &Loop| (l.first..=l.last).contains(&place);
        let Some(nth) = self.program.loops.iter().position(inside) else { return false };
        let Loop { first, last } = self.program.loops[nth];
        let leaves_if_taken = !(first..=last).contains(&target);
        let leaves_if_not = place == last;
        match (leaves_if_taken, leaves_if_not) {
            (false, false) => false,
            (leaves_if_taken, _) => {
                self.counts.guessed += 1.0;
                std::mem::take(&mut self.turned[nth].leave) == leaves_if_taken
            }
        }
    }

    /// Forgets a loop that lanes have left.
    pub(super) fn leave(&mut self, branch: usize) {
        if let Some(nth) = self.program.loops.iter().position(|found| found.last == branch) {
            self.turned[nth] = Turned::default();
        }
    }

    /// Takes notice of lanes that begin a loop anew, and skips turns where it is known what they are.
    pub(super) fn turn(&mut self, branch: usize, lanes: u32) {
        let Some(nth) = self.program.loops.iter().position(|found| found.last == branch) else {
            return;
        };
        let Loop { first, last } = self.program.loops[nth];
        let inside = |lane: &usize| (first..=last).contains(&self.places[*lane]);
        let others = (0..LANES).filter(|lane| lanes >> lane & 1 == 0).any(|lane| inside(&lane));
        let turned = &mut self.turned[nth];
        if others || turned.lanes != lanes {
            *turned = Turned { lanes, leave: turned.leave, ..Turned::default() };
            return;
        }
        turned.turns += 1;
        match turned.turns % TURNS {
            at if at == TURNS - AVERAGED => turned.began = self.counts,
            at if at == TURNS - 2 => turned.before = Some(self.registers.clone()),
            at if at == TURNS - 1 => turned.last = Some(self.registers.clone()),
            0 => self.skip(nth, lanes),
            _ => {}
        }
    }

    fn skip(&mut self, nth: usize, lanes: u32) {
        let turned = std::mem::take(&mut self.turned[nth]);
        self.turned[nth].lanes = lanes;
        let (Some(last), Some(before)) = (&turned.last, &turned.before) else { return };
        let turns = match self.turns_left(nth, lanes, last, before) {
            Left::NobodyKnows => {
                self.turned[nth].leave = true;
                GUESSED_TURNS
            }
            Left::Turns(turns) if turns > 1 => turns - 1,
            Left::Turns(_) | Left::Uneven => return,
        };
        let spent = self.counts.less(&turned.began).times(1.0 / AVERAGED as f32);
        let skipped = spent.times(turns as f32);
        let before_skip = self.counts;
        self.counts = self.counts.plus(&skipped);
        self.latest.0 += skipped.cycles;
        self.latest.1 += skipped.rounds;
        for place in 0..self.registers.values.len() {
            if self.registers.cycles[place] > before_skip.cycles - spent.cycles {
                self.registers.cycles[place] += skipped.cycles;
                self.registers.rounds[place] += skipped.rounds;
            }
            let all = self.registers.known[place] & last.known[place] & before.known[place];
            let mut known = self.registers.known[place] & !lanes;
            for lane in (0..LANES).filter(|lane| (lanes & all) >> lane & 1 != 0) {
                let now = self.registers.values[place][lane];
                let step = now.wrapping_sub(last.values[place][lane]);
                if step == last.values[place][lane].wrapping_sub(before.values[place][lane]) {
                    known |= 1 << lane;
                    self.registers.values[place][lane] = now.wrapping_add(step.wrapping_mul(turns));
                }
            }
            self.registers.known[place] = known;
        }
    }

    /// How many turns are left until a comparison in the loop says something else.
    fn turns_left(&self, nth: usize, lanes: u32, last: &Registers, before: &Registers) -> Left {
        let Loop { first, last: end } = self.program.loops[nth];
        let mut least: Option<u64> = None;
        for step in &self.program.steps[first..=end] {
            let Act::Compare(comparison, form) = step.act else { continue };
            match self.turns_of(step, comparison, form, lanes, [last, before]) {
                Left::Uneven => return Left::Uneven,
                Left::NobodyKnows => {}
                Left::Turns(turns) => least = Some(least.map_or(turns, |least| least.min(turns))),
            }
        }
        least.map_or(Left::NobodyKnows, Left::Turns)
    }

    fn turns_of(
        &self,
        step: &Step,
        comparison: Comparison,
        form: Form,
        lanes: u32,
        [last, before]: [&Registers; 2],
    ) -> Left {
        let mut least: Option<u64> = None;
        for lane in (0..LANES).filter(|lane| lanes >> lane & 1 != 0) {
            let value = |source: &Source, registers: &Registers| match source {
                Source::Register(place) => (registers.known[*place] >> lane & 1 != 0)
                    .then(|| wide(registers.values[*place][lane], form)),
                Source::Value(value) => Some(wide(*value, form)),
                Source::Special(special) => Some(wide(self.special(*special)[lane], form)),
                Source::Unknown => None,
            };
            let apart = |registers: &Registers| {
                Some(value(step.from.first()?, registers)? - value(step.from.get(1)?, registers)?)
            };
            let (Some(now), Some(once), Some(twice)) =
                (apart(&self.registers), apart(last), apart(before))
            else {
                continue;
            };
            if now - once != once - twice {
                return Left::Uneven;
            }
            if let Some(turns) = turns_until_other(comparison, now, now - once) {
                least = Some(least.map_or(turns, |least| least.min(turns)));
            }
        }
        least.map_or(Left::NobodyKnows, Left::Turns)
    }
}

/// What is known of how often a loop still turns.
enum Left {
    Turns(u64),
    /// Something changes by other steps in other turns.
    Uneven,
    NobodyKnows,
}
