//! The branches of a sequence, beside its chain: which of both is launched, and how long each took.
//!
//! No model says whether branches pay. Both forms take turns ([`apex_policy::duel`]) between two events on the program's
//! stream, and the chain stays where branches are not faster beyond what chance explains. Many of those launches may wait
//! on the device before the first time is known; so each trial has events for as many as it needs for a first answer.

use super::super::ring::Entry;
use super::executable::{Executable, launched};
use crate::counts::{COUNTERS, add};
use crate::overlap::{Piece, is_endless};
use apex_cuda::Driver;
use apex_cuda::types::*;
use apex_policy::duel::{Duel, FIRST_TURNS, Form, Turn, Verdict};
use std::collections::VecDeque;

/// A sequence of launches of which some may run at once.
pub(super) struct Branches {
    piece: Piece,
    pub(super) graph: Executable,
    duel: Duel,
    /// Launches whose times are not known yet, the oldest first.
    pending: VecDeque<(Form, Pair)>,
    /// Nanoseconds that a launch with branches takes less.
    gain: u64,
    /// Times that the branches held, and that they did not.
    held: u32,
    missed: u32,
}

/// Branches that did not hold so often and as often as they did are given up.
const MOST_MISSED: u32 = 4;

/// An event before a launch and one behind it.
#[derive(Clone, Copy)]
pub(super) struct Pair([CUevent; 2]);

/// Events that nobody has.
#[derive(Default)]
pub(super) struct Pairs(Vec<Pair>);

impl Branches {
    /// Makes the graph of a piece.
    pub(super) fn new(
        piece: Piece,
        entries: &[&Entry],
        driver: &Driver,
    ) -> Result<Branches, CUresult> {
        let graph = Executable::new(entries, Some(&piece.edges), driver)?;
        add(&COUNTERS.overlap_branched, 1);
        Ok(Branches {
            piece,
            graph,
            duel: Duel::default(),
            pending: VecDeque::new(),
            gain: 0,
            held: 0,
            missed: 0,
        })
    }

    /// How these launches go.
    pub(super) fn turn(&mut self, entries: &[&Entry]) -> Turn {
        let can_time = is_endless() || self.pending.len() < FIRST_TURNS;
        let turn = self.duel.turn(can_time);
        if turn.form == Form::Rewritten && !self.holds(entries) {
            add(&COUNTERS.overlap_fell_back, entries.len() as u64);
            return Turn { form: Form::Original, is_timed: false };
        }
        // Where no time is told, nobody wins.
        Turn { is_timed: turn.is_timed && !is_endless(), ..turn }
    }

    /// Whether these launches may run as the branches order them.
    fn holds(&mut self, entries: &[&Entry]) -> bool {
        let holds = self.piece.holds(&launched(entries), &self.graph.changes(entries));
        let count = if holds { &mut self.held } else { &mut self.missed };
        *count = count.saturating_add(1);
        holds
    }

    /// The nodes have not got the parameters that were asked about.
    pub(super) fn doubt(&mut self) {
        self.piece.doubt();
    }

    /// So many launches went down with branches.
    pub(super) fn count(&self, launches: usize) {
        add(&COUNTERS.overlap_beside, launches as u64);
        add(&COUNTERS.overlap_saved_ns, self.gain);
    }

    /// A launch in this form stands between these two events.
    pub(super) fn timed(&mut self, form: Form, pair: Pair) {
        self.pending.push_back((form, pair));
    }

    /// Takes the times that have become known. Says whether branches are out of the question from now on.
    pub(super) fn is_lost(&mut self, free: &mut Pairs, driver: &Driver) -> bool {
        let before = self.duel.verdict();
        while let Some(&(form, pair)) = self.pending.front() {
            let nanos = match pair.nanos(driver) {
                Ok(Some(nanos)) => nanos,
                Ok(None) => break,
                // The device has failed, or the program reports it: there is nothing to be known.
                Err(_) => 0,
            };
            self.pending.pop_front();
            free.0.push(pair);
            if nanos > 0 {
                self.duel.took(form, nanos);
            }
        }
        let verdict = self.duel.verdict();
        let (chain, branches) = self.duel.medians().unwrap_or_default();
        if verdict != before {
            self.piece.tried(verdict == Verdict::Won, chain, branches);
        }
        if verdict == Verdict::Won {
            add(&COUNTERS.overlap_kept, u64::from(before != verdict));
            self.gain = chain.saturating_sub(branches);
        }
        let is_missed = self.missed > MOST_MISSED && self.missed > self.held;
        verdict == Verdict::Lost || is_missed
    }

    pub(super) fn destroy(self, free: &mut Pairs, driver: &Driver) {
        free.0.extend(self.pending.into_iter().map(|(_, pair)| pair));
        self.graph.destroy(driver);
    }
}

impl Pair {
    pub(super) fn record(self, nth: usize, stream: CUstream, driver: &Driver) -> bool {
        // SAFETY: an event of ours and the program's own stream, both of the current context.
        unsafe { (driver.cuEventRecord)(self.0[nth], stream) == CUDA_SUCCESS }
    }

    /// Nanoseconds between both events; `None` while the second has not happened.
    fn nanos(self, driver: &Driver) -> Result<Option<u64>, CUresult> {
        let mut millis = 0.0_f32;
        // SAFETY: events of ours that were recorded, and a valid place for the answer.
        let result = unsafe {
            match (driver.cuEventQuery)(self.0[1]) {
                CUDA_SUCCESS => (driver.cuEventElapsedTime)(&raw mut millis, self.0[0], self.0[1]),
                not_yet => not_yet,
            }
        };
        match result {
            CUDA_SUCCESS => Ok(Some((f64::from(millis) * 1e6) as u64)),
            CUDA_ERROR_NOT_READY => Ok(None),
            refused => Err(refused),
        }
    }
}

impl Pairs {
    /// Two events, if the driver has any.
    pub(super) fn take(&mut self, driver: &Driver) -> Option<Pair> {
        if let Some(pair) = self.0.pop() {
            return Some(pair);
        }
        let mut events = [core::ptr::null_mut(); 2];
        // SAFETY: valid places for the answers; flags 0 is an event with a time.
        let is_made = |event: &mut CUevent| unsafe {
            (driver.cuEventCreate)(&raw mut *event, 0) == CUDA_SUCCESS
        };
        events.iter_mut().all(is_made).then_some(Pair(events))
    }

    /// Nobody has them any more.
    pub(super) fn give(&mut self, pair: Pair) {
        self.0.push(pair);
    }

    /// Gives all of them back to the driver.
    pub(super) fn destroy(&mut self, driver: &Driver) {
        for event in self.0.drain(..).flat_map(|pair| pair.0) {
            // SAFETY: an event of ours that nobody names any more; the driver keeps it until it has happened.
            unsafe { (driver.cuEventDestroy_v2)(event) };
        }
    }
}
