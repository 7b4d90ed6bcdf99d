//! What the policy is shown of the page when a launch asks.
//!
//! The words of other programs are wishes: an open burst counts only while the controller has just seen its program
//! alive and it did something not long ago, and what another has in flight only for as long as it can last.

use super::Gate;
use super::fence::before_fence;
use crate::thread;
use apex_core::gate_page::{self, Grant, Own, Page, Setting, Shared};
use apex_policy::schedule::{Limits, STALE_NS, View};
use std::sync::atomic::Ordering;

impl Gate {
    /// As a launch sees it: with what this program has in flight.
    pub(super) fn view(&self, now: u64, waited_ns: u64) -> View {
        let mut view = self.sight(now, waited_ns);
        self.flight.count(now, !view.burst_open);
        view.in_flight_ns = view.in_flight_ns.saturating_add(self.flight.left_ns());
        view
    }

    /// As work that waits at a fence sees it: nothing of this program is before it.
    pub(super) fn sight(&self, now: u64, waited_ns: u64) -> View {
        let page = &self.page;
        let limits = self.limits();
        let mut view = View {
            limits,
            controller_age_ns: now.saturating_sub(page.setting(Setting::Heartbeat)),
            burst_open: false,
            idle_ns: u64::MAX,
            burst_left_ns: 0,
            next_burst_ns: u64::MAX,
            burst_sms: 0,
            device_sms: self.sms,
            in_flight_ns: 0,
            harm_ns: page.shared(Shared::HarmNs).load(Ordering::Relaxed),
            harm_before_ns: u64::MAX,
            admitted_ns: page.own(self.slot, Own::AdmittedNs).load(Ordering::Relaxed),
            waited_ns,
        };
        let open = page.shared(Shared::BurstsOpen).load(Ordering::Relaxed);
        for slot in bits(limits.yields_to & !(1 << self.slot)) {
            let load = |word| page.own(slot, word).load(Ordering::Relaxed);
            let since = |then: u64| now.saturating_sub(then);
            if open >> slot & 1 != 0 && is_believed(page, slot, now) {
                view.burst_open = true;
                let usual = load(Own::UsualBurstNs);
                // One that is overdue may end at any time, or not.
                let left = usual.checked_sub(since(load(Own::BurstStart))).unwrap_or(u64::MAX);
                view.burst_left_ns = view.burst_left_ns.max(left);
                view.harm_before_ns = view.harm_before_ns.min(load(Own::BurstHarm));
                // The first of a program may need all.
                view.burst_sms += match u32::try_from(load(Own::Sms)) {
                    Ok(sms @ 1..) => sms.min(self.sms),
                    _ => self.sms,
                };
            } else {
                view.idle_ns = view.idle_ns.min(since(load(Own::IdleSince)));
                let next = load(Own::NextBurstAt);
                if next > now {
                    view.next_burst_ns = view.next_burst_ns.min(next - now);
                }
            }
        }
        view.burst_sms = view.burst_sms.min(self.sms);
        view.in_flight_ns = in_flight_of_others(page, self.slot, now);
        view
    }

    /// The slots whose bursts it waits for.
    pub(super) fn yields_to(&self) -> u64 {
        self.page.grant(self.slot, Grant::YieldsTo) & !(1 << self.slot)
    }

    fn limits(&self) -> Limits {
        let word = |word| self.page.grant(self.slot, word);
        Limits {
            open: !self.is_gated(),
            yields_to: word(Grant::YieldsTo),
            budget_ns: word(Grant::BudgetNs),
            beside_budget_ns: word(Grant::BesideBudgetNs),
            beside_harm_ns: word(Grant::BesideHarmNs),
            beside_each_ns: word(Grant::BesideEachNs),
            beside_cost_256: word(Grant::BesideCost),
            busy_256: word(Grant::Busy),
            guard_ns: word(Grant::GuardNs),
            early_ns: word(Grant::EarlyNs),
            allowed_ns: word(Grant::AllowedNs),
            owed_ns: word(Grant::OwedNs),
            patience_ns: word(Grant::PatienceNs),
        }
    }
}

/// Whether an open burst counts: the controller has just seen its program alive, and it did something not
/// long ago, by the length of what it launched.
fn is_believed(page: &Page, slot: usize, now: u64) -> bool {
    let load = |word| page.own(slot, word).load(Ordering::Relaxed);
    let alive = now.saturating_sub(page.grant(slot, Grant::AliveNs)) <= STALE_NS;
    let quiet = now.saturating_sub(load(Own::LastActivity).max(load(Own::BurstStart)));
    let most = load(Own::BurstPredicted).max(load(Own::UsualBurstNs)).min(1_000_000_000);
    alive && page.grant(slot, Grant::Claim) == load(Own::Claim) && quiet <= STALE_NS + 2 * most
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
        let left = gate_page::believed_in_flight(load(Own::InFlightNs), load(Own::InFlightAt), now);
        before_fence(page, other, left)
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

/// Instead of a number of [`peace`].
const DISTURBED: u64 = u64::MAX;

/// A number that is the same later if no burst of another came upon this program in between: see [`is_peace`].
pub(crate) fn peace() -> u64 {
    let gate = thread::current().map_or(core::ptr::null(), |thread| thread.tally.gate);
    // SAFETY: null or a leaked box.
    match unsafe { gate.as_ref() } {
        Some(gate) if !gate.is_left_alone() => {
            let open = gate.page.shared(Shared::BurstsOpen).load(Ordering::Relaxed);
            match open & gate.page.grant(gate.slot, Grant::YieldsTo) {
                0 => 1 + u64::from(gate.page.wake_word()),
                _ => DISTURBED,
            }
        }
        _ => 0,
    }
}

/// The longest that one launch of this program is usually made to wait on the GPU: for two bursts of the program with
/// the longest ones.
pub(crate) fn longest_wait_ns() -> u64 {
    let gate = thread::current().map_or(core::ptr::null(), |thread| thread.tally.gate);
    // SAFETY: null or a leaked box.
    let Some(gate) = (unsafe { gate.as_ref() }) else { return 0 };
    let usual = |slot| gate.page.own(slot, Own::UsualBurstNs).load(Ordering::Relaxed);
    bits(gate.yields_to()).map(usual).max().unwrap_or(0).saturating_mul(2)
}

/// Whether there was peace from the moment of that number until now.
pub(crate) fn is_peace(since: u64) -> bool {
    since == 0 || since != DISTURBED && since == peace()
}
