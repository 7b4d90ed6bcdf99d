//! A block whose warps keep together, in compiled code.
//!
//! Most blocks run as the programmer thought of them: every warp comes to the same barrier,
//! and then to the next. For these a round is one call of compiled code and nothing else; a warp
//! is then no more than its frame. When one warp stops for another reason, or elsewhere
//! than the first, what all have reached is written to their groups and the scheduler of
//! single warps goes on. It comes back here when all stand together again.

use super::block::{BlockRun, BlockState};
use super::facts::Tier;
use super::warp::{State, Warp};
use crate::code::{BarrierMode, Inst, Pc};
use crate::fault::Fault;
use crate::frame::{NOT_STOPPED, Stop, TURN_FUEL};
use std::sync::atomic::Ordering;

/// What compiled code gave back: why it stopped, and where.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stopped(u64);

impl Stopped {
    fn is(self, stop: Stop) -> bool {
        (self.0 >> 32) as u32 == stop as u32
    }

    fn at(self) -> Pc {
        self.0 as Pc
    }

    /// True when a warp that stopped so goes on with one that stopped as `other`.
    fn with(self, other: Stopped) -> bool {
        match () {
            () if self.is(Stop::Exit) => other.is(Stop::Exit),
            () if self.is(Stop::Barrier) || self.is(Stop::Yield) => self == other,
            () => false,
        }
    }
}

impl BlockRun {
    /// Runs rounds while the warps keep together. `None`: the scheduler goes on.
    pub(super) fn rounds(&mut self, fuel: &mut i64) -> Option<BlockState> {
        if self.round.is_none() {
            self.round = self.together();
        }
        let mut pc = self.round?;
        let facts = self.facts_pointer();
        // SAFETY: the block holds its facts for as long as it lives.
        let facts = unsafe { &*facts };
        let tier = facts.tier()?;
        loop {
            if facts.stop.load(Ordering::Relaxed) {
                self.fault.get_or_insert(Fault::Cancelled);
                return Some(BlockState::Failed);
            }
            let Some(entry) = tier.entry(pc) else {
                self.leave(pc, 0, Stopped(0), None);
                return None;
            };
            let count = self.warps.len();
            let stopped = self.round_of(tier, entry)?;
            *fuel -= (self.frame.burnt + TURN_FUEL - self.frame.fuel).max(0);
            let fresh = std::mem::take(&mut self.fresh);
            let index = self.current();
            let first = if index == 0 { stopped } else { Stopped(self.frame.stopped) };
            if index + 1 < count || !first.with(stopped) {
                for warp in self.warps[index + 1..].iter_mut().filter(|_| fresh) {
                    warp.frame.compact = 0;
                }
                self.leave(pc, index, first, Some(stopped));
                if stopped.is(Stop::Fault) {
                    let place = self.place(stopped.at(), None);
                    self.fault.get_or_insert(Fault::Trap(place));
                    return Some(BlockState::Failed);
                }
                return None;
            }
            if first.is(Stop::Exit) {
                self.round = None;
                self.ended(self.live_threads());
                return Some(BlockState::Done);
            }
            if first.is(Stop::Yield) {
                pc = first.at();
            } else if matches!(
                facts.code().steps[first.at() as usize].inst,
                Inst::Barrier { mode: BarrierMode::Sync, threads: None, .. }
            ) {
                pc = first.at() + 1;
            } else {
                self.leave(pc, self.warps.len(), first, None);
                return None;
            }
            self.round = Some(pc);
            if *fuel <= 0 {
                return Some(BlockState::Suspended);
            }
        }
    }

    /// Calls compiled code for all warps, or up to the first that stops in another way than those before it. Gives how
    /// the last one stopped.
    fn round_of(&mut self, tier: &Tier, entry: u32) -> Option<Stopped> {
        let whole = tier.whole_warps;
        let parts = [(0..whole, tier.whole), (whole..self.warps.len(), tier.last)];
        self.frame.fuel = TURN_FUEL;
        self.frame.burnt = 0;
        self.frame.stopped = NOT_STOPPED;
        let frame = &raw mut self.frame;
        let warps = self.warps.as_mut_ptr();
        let mut result = None;
        for (part, function) in parts {
            if part.is_empty() {
                continue;
            }
            if result.is_some() {
                if self.current() + 1 < part.start
                    || !result.is_some_and(|last| Stopped(self.frame.stopped).with(last))
                {
                    break;
                }
                self.frame.burnt += TURN_FUEL - self.frame.fuel;
                self.frame.fuel = TURN_FUEL;
            }
            let function = function?;
            // SAFETY: all lanes of all warps stand at this entry; the frames are alive, and each is
            // the first field of its warp.
            result = Some(Stopped(unsafe {
                self.frame.last_warp = &raw mut (*warps.add(part.end - 1)).frame;
                function(frame, &raw mut (*warps.add(part.start)).frame, entry)
            }));
        }
        result
    }

    /// Where all warps stand, when all are whole and at one entry.
    fn together(&self) -> Option<Pc> {
        let facts = self.facts();
        let pc = self.warps.first()?.groups.first()?.pc;
        facts.tier().filter(|tier| tier.runs_all)?.entry(pc)?;
        let stands = |warp: &Warp| match warp.groups.as_slice() {
            [group] => {
                group.pc == pc && group.state == State::Ready && group.mask == warp.frame_lanes()
            }
            _ => false,
        };
        self.warps.iter().all(stands).then_some(pc)
    }

    /// Writes where the warps stand to their groups: the first `done` stopped as `first`, the
    /// next one as `other`, and the rest wait at `pc`.
    fn leave(&mut self, pc: Pc, done: usize, first: Stopped, other: Option<Stopped>) {
        self.round = None;
        self.single = true;
        for index in 0..self.warps.len() {
            let stopped = match other {
                _ if index < done => Some(first),
                Some(other) if index == done => Some(other),
                _ => None,
            };
            self.warps[index].stand_at(stopped.map_or(pc, Stopped::at));
            if stopped.is_some_and(|stopped| stopped.is(Stop::Parted)) {
                self.warps[index].stand_parted();
            }
            if stopped.is_some_and(|stopped| stopped.is(Stop::Exit)) {
                let lanes = self.warps[index].end();
                self.ended(lanes);
            }
        }
    }
}
