//! What the page says when a launch asks, in the words of the policy.
//!
//! The words of other programs are wishes: an open burst counts only while the controller has just seen its program
//! alive and it did something not long ago, and what another has in flight only for as long as it can last.

use super::program::Gate;
use apex_core::gate_page::{Grant, Own, Page, Setting, Shared};
use apex_policy::gate::{Limits, Other, View, believed_ns};
use std::sync::atomic::Ordering;

impl Gate {
    /// As a launch sees it: with what this program has in flight.
    pub(super) fn view(&self, now: u64, waited_ns: u64) -> View {
        let mut view = self.sight(now, waited_ns);
        self.flight.count(&self.streams, now, !view.burst_open);
        let left_ns = self.flight.left_ns(&self.streams);
        view.in_flight_ns = view.in_flight_ns.saturating_add(left_ns);
        view
    }

    /// As work that waits at a fence sees it: nothing of this program is before it.
    pub(super) fn sight(&self, now: u64, waited_ns: u64) -> View {
        let page = &self.page;
        let limits = self.limits();
        let open = page.shared(Shared::BurstsOpen).load(Ordering::Relaxed);
        let others = bits(limits.yields_to & !(1 << self.slot)).map(|slot| other(page, slot, open));
        View {
            in_flight_ns: in_flight_of_others(page, self.slot, now),
            admitted_ns: page.own(self.slot, Own::AdmittedNs).load(Ordering::Relaxed),
            waited_ns,
            ..View::of(limits, page.setting(Setting::Heartbeat), others, now)
        }
    }

    fn limits(&self) -> Limits {
        let granted = self.page.granted(self.slot);
        Limits {
            open: granted.gated == 0 || granted.claim != self.claim,
            yields_to: granted.yields_to,
            budget_ns: granted.budget_ns,
            guard_ns: granted.guard_ns,
            allowed_ns: granted.allowed_ns,
            owed_ns: granted.owed_ns,
            patience_ns: granted.patience_ns,
        }
    }
}

fn other(page: &Page, slot: usize, open: u64) -> Other {
    let load = |word| page.own(slot, word).load(Ordering::Relaxed);
    Other {
        is_open: open >> slot & 1 != 0,
        is_known: page.grant(slot, Grant::Claim) == load(Own::Claim),
        alive_ns: page.grant(slot, Grant::AliveNs),
        burst_start_ns: load(Own::BurstStart),
        idle_since_ns: load(Own::IdleSince),
        last_activity_ns: load(Own::LastActivity),
        burst_predicted_ns: load(Own::BurstPredicted),
        usual_burst_ns: load(Own::UsualBurstNs),
    }
}

/// The slots of other programs that are gated, a bit each.
#[inline(always)]
pub(super) fn gated_others(page: &Page, slot: usize) -> u64 {
    page.setting(Setting::GatedSlots) & !(1 << slot)
}

/// Predicted time that those have in flight; of one with fences, what is before the next.
pub(super) fn in_flight_of_others(page: &Page, slot: usize, now: u64) -> u64 {
    let in_flight = |other| {
        let load = |word| page.own(other, word).load(Ordering::Relaxed);
        let has_fences = page.fence(other).load(Ordering::Relaxed) != 0;
        let piece_ns = has_fences.then(|| load(Own::PieceNs));
        believed_ns(load(Own::InFlightNs), load(Own::InFlightAt), piece_ns, now)
    };
    bits(gated_others(page, slot)).map(in_flight).fold(0, u64::saturating_add)
}

#[inline(always)]
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let slot = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(slot)
    })
}
