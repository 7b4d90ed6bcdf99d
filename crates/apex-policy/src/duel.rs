//! Two forms of the same work, in turns, until the faster one is known: a kernel and the same compiled for its scalars, or
//! a chain of launches and the same with branches.
//!
//! Both are timed in the same calls' order, original, rewritten, rewritten, original, so that neither profits from what
//! came before. The rewritten form wins where its median is lower by more than [`LEAST_GAIN`] and by more than chance
//! explains; in every other case the original stays. A winner is looked at again now and then: a call may do other work
//! later.

/// Times of each form that are not believed: the first launch of a form loads its code.
const COLD: u32 = 2;
/// Times of each form before anything is decided.
const FEWEST: usize = 8;
/// Calls that are timed before anything can be decided: where times become known late, so many may be on their way.
pub const FIRST_TURNS: usize = 2 * (COLD as usize + FEWEST);
/// Times of each form after which it is decided in any case.
const MOST: usize = 48;
/// Times of each form that are kept of a winner.
const KEPT: usize = 16;
/// What must be gained at least: less is not worth a second form.
const LEAST_GAIN: f64 = 0.01;
/// Standard errors beyond which a difference is none of chance. Medians of both forms are compared up to forty times, so
/// the usual two would too often err.
const ERRORS: f64 = 4.0;
/// Calls of a winner between two looks at both forms.
const LOOK_EVERY: u64 = 512;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As the program has it.
    Original,
    /// As apex has written it again.
    Rewritten,
}

/// How a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// In which form.
    pub form: Form,
    /// It is to be timed.
    pub is_timed: bool,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is not decided.
    Open,
    /// The rewritten form stays.
    Won,
    /// The original stays, for good.
    Lost,
}

/// The two forms of one kernel for one kind of call, or of one sequence of launches.
#[derive(Clone, Debug)]
pub struct Duel {
    original: Vec<u64>,
    rewritten: Vec<u64>,
    /// Times of each form that were not believed.
    cold: [u32; 2],
    verdict: Verdict,
    /// Timed calls so far.
    turns: u64,
    /// Calls since it was won.
    since: u64,
}

impl Default for Duel {
    fn default() -> Duel {
        Duel {
            original: Vec::new(),
            rewritten: Vec::new(),
            cold: [0; 2],
            verdict: Verdict::Open,
            turns: 0,
            since: 0,
        }
    }
}

impl Duel {
    /// One that was won earlier, with these medians. It is looked at like any other winner.
    #[must_use]
    pub fn won_before(original: u64, rewritten: u64) -> Duel {
        let (original, rewritten) = (vec![original], vec![rewritten]);
        Duel { original, rewritten, verdict: Verdict::Won, ..Duel::default() }
    }

    /// How the next call goes. `can_time` says whether there is time and room for timing it.
    pub fn turn(&mut self, can_time: bool) -> Turn {
        let plain = match self.verdict {
            Verdict::Open | Verdict::Lost => Form::Original,
            Verdict::Won => Form::Rewritten,
        };
        let is_due = match self.verdict {
            Verdict::Open => true,
            Verdict::Lost => false,
            Verdict::Won => {
                self.since += 1;
                // A look takes one call of each form, and the pairs alternate as before.
                self.since % LOOK_EVERY >= LOOK_EVERY - 2
            }
        };
        if !is_due || !can_time {
            return Turn { form: plain, is_timed: false };
        }
        let form = match self.turns % 4 {
            0 | 3 => Form::Original,
            _ => Form::Rewritten,
        };
        self.turns += 1;
        Turn { form, is_timed: true }
    }

    /// A timed call took so many nanoseconds.
    pub fn took(&mut self, form: Form, nanos: u64) -> Verdict {
        let cold = &mut self.cold[form as usize];
        if *cold < COLD {
            *cold += 1;
            return self.verdict;
        }
        let is_open = self.verdict == Verdict::Open;
        let times = match form {
            Form::Original => &mut self.original,
            Form::Rewritten => &mut self.rewritten,
        };
        times.push(nanos.max(1));
        if !is_open && times.len() > KEPT {
            times.drain(..times.len() - KEPT);
        }
        self.verdict = self.judged();
        self.verdict
    }

    /// How it stands.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Medians of both forms in nanoseconds, the original's first; none before both are known.
    #[must_use]
    pub fn medians(&self) -> Option<(u64, u64)> {
        Some((median(&self.original)?, median(&self.rewritten)?))
    }

    fn judged(&self) -> Verdict {
        let (first, other) = (self.original.len(), self.rewritten.len());
        let Some((original, rewritten)) = self.medians() else { return self.verdict };
        if first.min(other) < FEWEST {
            return self.verdict;
        }
        #[expect(clippy::cast_precision_loss, reason = "times below years")]
        let gain = 1.0 - rewritten as f64 / original as f64;
        let noise = ERRORS * error(&self.original).hypot(error(&self.rewritten));
        match self.verdict {
            Verdict::Open if gain > LEAST_GAIN.max(noise) => Verdict::Won,
            Verdict::Open if gain < -noise => Verdict::Lost,
            Verdict::Open if first.min(other) >= MOST => Verdict::Lost,
            Verdict::Won if gain < -noise => Verdict::Lost,
            as_before => as_before,
        }
    }
}

fn median(times: &[u64]) -> Option<u64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// The standard error of a median as a share of it, from how far half of the times lie from it.
#[expect(clippy::cast_precision_loss, reason = "times below years, and few of them")]
fn error(times: &[u64]) -> f64 {
    let Some(middle) = median(times) else { return 1.0 };
    let apart: Vec<u64> = times.iter().map(|time| time.abs_diff(middle)).collect();
    let spread = median(&apart).unwrap_or(0).max(1) as f64;
    // Of normal numbers half lie within 0.6745 standard deviations, and a median errs by 1.2533 of them over the root.
    1.2533 / 0.6745 * spread / middle as f64 / (times.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds with a spread of so many per cent; the same in every run.
    fn noisy(mean: f64, percent: f64, state: &mut u64) -> u64 {
        let mut sum = 0.0;
        for _ in 0..4 {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            sum += (*state >> 40) as f64 / f64::from(1 << 24) - 0.5;
        }
        (mean * (1.0 + percent / 100.0 * sum * 1.7)) as u64
    }

    fn fought(original: f64, rewritten: f64, percent: f64, seed: u64) -> Verdict {
        let (mut duel, mut state) = (Duel::default(), seed);
        for _ in 0..1_000 {
            if duel.verdict() != Verdict::Open {
                break;
            }
            let turn = duel.turn(true);
            assert!(turn.is_timed, "an open question is asked at every call");
            let mean = if turn.form == Form::Original { original } else { rewritten };
            duel.took(turn.form, noisy(mean, percent, &mut state));
        }
        duel.verdict()
    }

    #[test]
    fn the_faster_form_stays() {
        for seed in 0..200 {
            assert_eq!(fought(100_000.0, 80_000.0, 3.0, seed), Verdict::Won);
            assert_eq!(fought(100_000.0, 120_000.0, 3.0, seed), Verdict::Lost);
            assert_eq!(fought(100_000.0, 97_000.0, 0.5, seed), Verdict::Won);
        }
    }

    #[test]
    fn what_chance_explains_wins_nothing() {
        let won = (0..1_000).filter(|&seed| fought(10_000.0, 10_000.0, 8.0, seed) == Verdict::Won);
        assert!(won.count() <= 20, "equal forms win too often");
        // A gain that is no gain: half a per cent.
        assert_eq!(fought(1_000_000.0, 995_000.0, 0.1, 1), Verdict::Lost);
    }

    #[test]
    fn without_time_for_timing_the_original_runs() {
        let mut duel = Duel::default();
        for _ in 0..100 {
            assert_eq!(duel.turn(false), Turn { form: Form::Original, is_timed: false });
        }
    }

    #[test]
    fn both_forms_are_timed_alike() {
        let mut duel = Duel::default();
        let forms: Vec<Form> = (0..8).map(|_| duel.turn(true).form).collect();
        use Form::{Original as O, Rewritten as R};
        assert_eq!(forms, [O, R, R, O, O, R, R, O]);
    }

    #[test]
    fn an_earlier_winner_runs_at_once_and_is_looked_at() {
        let (mut duel, mut state, mut timed) = (Duel::won_before(60_000, 50_000), 9, 0);
        assert_eq!(duel.turn(true), Turn { form: Form::Rewritten, is_timed: false });
        assert_eq!(duel.medians(), Some((60_000, 50_000)));
        while duel.verdict() == Verdict::Won && timed < 100 {
            let turn = duel.turn(true);
            if turn.is_timed {
                timed += 1;
                let mean = if turn.form == Form::Original { 60_000.0 } else { 70_000.0 };
                duel.took(turn.form, noisy(mean, 2.0, &mut state));
            }
        }
        assert_eq!(duel.verdict(), Verdict::Lost);
    }

    #[test]
    fn a_winner_that_becomes_slow_goes() {
        let (mut duel, mut state) = (Duel::default(), 5);
        let mut calls = 0;
        while duel.verdict() != Verdict::Lost {
            let turn = duel.turn(true);
            calls += 1;
            assert!(calls < 100_000, "it never goes");
            let is_early = calls < 2_000;
            let mean = match turn.form {
                Form::Rewritten if is_early => 50_000.0,
                Form::Rewritten => 90_000.0,
                Form::Original => 60_000.0,
            };
            if turn.is_timed {
                duel.took(turn.form, noisy(mean, 2.0, &mut state));
            }
            if calls == 1_900 {
                assert_eq!(duel.verdict(), Verdict::Won);
            }
        }
        assert!(calls > 2_000);
        assert_eq!(duel.turn(true), Turn { form: Form::Original, is_timed: false });
    }
}
