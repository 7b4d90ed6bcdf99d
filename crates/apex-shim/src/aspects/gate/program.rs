//! This program at one GPU: its slot on the page, and the state machines that stand behind it.

use super::events::Events;
use super::fence::DeviceFences;
use super::word::{Bursts, Flight, Streams};
use apex_core::gate_page::{Grant, Own, Page};
use apex_policy::schedule::Class;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a launch reads at an open gate lies in its first line of memory.
#[repr(C, align(64))]
pub(crate) struct Gate {
    pub(super) gated: &'static AtomicU64,
    pub(super) has_bursts: bool,
    pub(super) class: Class,
    pub(super) sms: u32,
    pub(super) bursts: Bursts,
    pub(super) page: Page,
    pub(super) slot: usize,
    pub(super) claim: u64,
    pub(super) streams: Streams,
    pub(super) flight: Flight,
    pub(super) events: Events,
    pub(super) fences: DeviceFences,
    /// By how much sleeps end too late.
    pub(super) late_ns: AtomicU64,
    /// The page's wake word when the guard after a burst was last seen to be over, plus one.
    pub(super) guard_over: AtomicU64,
}

impl Gate {
    /// The one word that an open gate is known by.
    #[inline(always)]
    pub(super) fn is_left_alone(&self) -> bool {
        self.gated.load(Ordering::Relaxed) == 0
    }

    #[inline(always)]
    pub(super) fn is_gated(&self) -> bool {
        self.page.grant(self.slot, Grant::Gated) != 0
            && self.page.grant(self.slot, Grant::Claim) == self.claim
    }

    /// The slots whose bursts it waits for.
    pub(super) fn yields_to(&self) -> u64 {
        self.page.grant(self.slot, Grant::YieldsTo) & !(1 << self.slot)
    }

    pub(super) fn add(&self, word: Own, more: u64) {
        self.page.own(self.slot, word).fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn store(&self, word: Own, value: u64) {
        self.page.own(self.slot, word).store(value, Ordering::Relaxed);
    }

    pub(super) fn tell_flight(&self, now: u64) {
        self.store(Own::InFlightNs, self.flight.left_ns(&self.streams));
        self.store(Own::InFlightAt, now);
    }

    /// Learns from the fences that the GPU has come to what is done.
    pub(super) fn learn_of_fences(&self, now: u64) -> bool {
        self.fences.learn((&self.page, self.slot), &self.streams, &self.flight, now)
    }
}
