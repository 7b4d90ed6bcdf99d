//! What a thread has launched and not yet told the page.
//!
//! At an open gate a launch touches this alone, and the first line of its gate: one launch in so many is looked at, and
//! stands for those that were only counted. What is counted is told before the thread waits or ends, so that the page
//! is never behind by more than a thread's next look.

use super::program::Gate;
use super::word::Stream;
use crate::state::thread::Room;
use crate::state::times;
use apex_core::gate_page::Own;
use core::mem::offset_of;

/// Launches that a thread counts before it tells the page, while nobody asks.
pub(super) const TELL_EVERY: u32 = 16;
/// The same of a program that has bursts: one launch in so many tells its time and stands for those before it. A prime:
/// of layers that are all alike each kernel has its turn.
pub(super) const LOOK_EVERY: u32 = 11;

/// A thread at the gate: which one, and what it has launched and not yet told the page. It stands in the thread's room
/// for the gate: all zeros at first, and all but `launches` again when another context is current.
#[repr(C)]
pub(super) struct Tally {
    /// The gate of the GPU whose context is current; null if it is to be looked for.
    pub(super) gate: *const Gate,
    /// What the gate knows of the stream of the last launch, null where nothing; and the stream.
    pub(super) known: *const Stream,
    pub(super) stream: u64,
    /// The launch at which the gate is looked at; those before are only counted. 0 says at the next one.
    pub(super) look_at: u32,
    _reserved: u32,
    pub(super) launches: u32,
}

const _: () = assert!(offset_of!(Tally, launches) == 32);

impl Tally {
    /// A thread's tally, in its room.
    #[inline(always)]
    pub(super) fn of(room: &mut Room<4, 1>) -> &mut Tally {
        // SAFETY: pointers and numbers, of which zeros are values; nobody else asks for this room.
        unsafe { room.of() }
    }

    /// This thread has looked at the gate, for a launch that is counted already.
    pub(super) fn looked(&mut self, gate: &Gate) {
        let apart = if gate.has_bursts { LOOK_EVERY } else { TELL_EVERY };
        self.look_at = self.launches + apart - 1;
    }

    /// Launches that were only counted since the last look, and the one that looks.
    pub(super) fn stands_for(&self, gate: &Gate) -> u32 {
        if !gate.has_bursts || self.look_at == 0 {
            return 1;
        }
        (self.launches + LOOK_EVERY).saturating_sub(self.look_at).clamp(1, LOOK_EVERY)
    }

    /// How many of the thread's next launches may go before the gate is looked at.
    #[inline(always)]
    pub(super) fn may_go_unseen(&self) -> u32 {
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
    pub(super) fn is_in_burst(&self) -> bool {
        !self.known.is_null()
    }

    /// Tells what was not told yet: the thread ends, or has waited.
    pub(super) fn end(&mut self) {
        // SAFETY: null or a leaked box.
        if let Some(gate) = unsafe { self.gate.as_ref() }.filter(|_| self.launches > 0) {
            let mean = times::mean_ns();
            gate.tell(self, mean, mean);
            self.look_at = 0;
        }
    }
}

impl Gate {
    /// Tells the page of all launches since the last time; the last one stands for all.
    pub(super) fn tell(&self, tally: &mut Tally, predicted_ns: u64, filled_ns: u64) {
        let launches = u64::from(core::mem::take(&mut tally.launches));
        self.add(Own::Launches, launches);
        self.add(Own::AdmittedNs, predicted_ns.saturating_mul(launches));
        self.add(Own::FilledNs, filled_ns.saturating_mul(launches));
    }
}
