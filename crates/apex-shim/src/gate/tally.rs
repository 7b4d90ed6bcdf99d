//! What a thread has launched and not yet told the page.
//!
//! At an open gate a launch touches this alone, and the first line of its gate: one launch in so many is looked at, and
//! stands for those that were only counted. What is counted is told before the thread waits or ends, so that the page
//! is never behind by more than a thread's next look.

use super::burst;
use super::lanes::Lane;
use super::{Gate, duration};

/// Launches that a thread counts before it tells the page, while nobody asks.
pub(super) const TELL_EVERY: u32 = 16;

/// A thread at the gate: which one, and what it has launched and not yet told the page. In one line of memory.
#[repr(C, align(32))]
pub(crate) struct Tally {
    /// The gate of the GPU whose context is current; null if it is to be looked for.
    pub(super) gate: *const Gate,
    /// The stream of the last launch, and its lane of the gate's bursts; null where there are none.
    pub(super) lane: *const Lane,
    pub(super) stream: u64,
    pub(super) launches: u32,
    /// The launch at which the gate is looked at; those before are only counted. 0 says at the next one.
    pub(super) look_at: u32,
}

impl Default for Tally {
    fn default() -> Tally {
        let (gate, lane) = (core::ptr::null(), core::ptr::null());
        Tally { gate, lane, stream: 0, launches: 0, look_at: 0 }
    }
}

impl Tally {
    /// The thread's context may be another now.
    pub(crate) fn context_changes(&mut self) {
        *self = Tally { launches: self.launches, ..Tally::default() };
    }

    /// This thread has looked at the gate, for a launch that is counted already.
    pub(super) fn looked(&mut self, gate: &Gate) {
        let apart = if gate.has_bursts { burst::TELL_EVERY } else { TELL_EVERY };
        self.look_at = self.launches + apart - 1;
    }

    /// Launches that were only counted since the last look, and the one that looks.
    pub(super) fn stands_for(&self, gate: &Gate) -> u32 {
        if !gate.has_bursts || self.look_at == 0 {
            return 1;
        }
        (self.launches + burst::TELL_EVERY).saturating_sub(self.look_at).clamp(1, burst::TELL_EVERY)
    }

    /// How many of the thread's next launches may go before the gate is looked at.
    #[inline(always)]
    pub(crate) fn may_go_unseen(&self) -> u32 {
        // SAFETY: null or a leaked box.
        match unsafe { self.gate.as_ref() } {
            Some(gate) if !gate.is_left_alone() => 0,
            Some(gate) if gate.has_bursts => self.look_at.saturating_sub(self.launches),
            Some(_) => u32::MAX,
            None => 0,
        }
    }

    /// Whether the gate counts each launch of the thread.
    #[inline(always)]
    pub(crate) fn is_in_burst(&self) -> bool {
        !self.lane.is_null()
    }

    /// Tells what was not told yet: the thread ends, or has waited.
    pub(crate) fn end(&mut self) {
        // SAFETY: null or a leaked box.
        if let Some(gate) = unsafe { self.gate.as_ref() }.filter(|_| self.launches > 0) {
            let mean = duration::mean_ns();
            gate.tell(self, mean, mean);
            self.look_at = 0;
        }
    }

    /// So many launches pass by unseen.
    #[inline(always)]
    pub(crate) fn passed(&mut self, launches: u32) {
        self.launches += launches;
    }
}
