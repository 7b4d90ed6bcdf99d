//! Has a launch wait until it may go: before the driver is called, or at a fence that is put before it.
//!
//! When it goes and how it rests `apex_policy::gate` says. What surely goes is asked first, without a clock.

use super::program::Gate;
use super::view::{bits, gated_others};
use super::watch;
use crate::state::captures;
use apex_core::gate_page::{Grant, Own, Shared};
use apex_core::time::monotonic_nanos;
use apex_cuda::types::CUcontext;
use apex_policy::gate::{AHEAD_NS, Ask, Hold, Rest, Step, Went, late_after};
use std::sync::atomic::Ordering;

/// A launch that asks, of so much predicted time: on which stream, by handle and key, and in which context.
#[derive(Clone, Copy)]
pub(super) struct Asking {
    pub(super) predicted_ns: u64,
    pub(super) stream: u64,
    pub(super) key: u64,
    pub(super) context: CUcontext,
}

impl Gate {
    /// Waits until the work may go, or may be launched ahead behind a fence.
    pub(super) fn hold(&self, asking: Asking) {
        if !self.has_fences(asking.context) {
            if !self.surely_goes(asking.predicted_ns) {
                self.wait(asking, Ask::Go);
            }
            return;
        }
        if self.flight.left_ns(&self.streams) > AHEAD_NS || !self.has_share() {
            self.wait(asking, Ask::Ahead);
        }
        let at = (&self.page, self.slot);
        let Asking { predicted_ns, stream, key, .. } = asking;
        let budget_ns = self.page.grant(self.slot, Grant::BudgetNs);
        if self.fences.is_due(at, &self.streams, key, predicted_ns, budget_ns) {
            self.learn_of_fences(monotonic_nanos());
            self.fences.put(&self.page, self.slot, &self.streams, key, stream);
        }
    }

    /// Whether launches of this context go behind fences; not of a program that only keeps to its share. The first
    /// time it is tried.
    #[inline(always)]
    fn has_fences(&self, context: CUcontext) -> bool {
        let begin = || self.fences.begin(&self.page, self.slot, context, || watch::begin(self));
        !captures::any() && self.yields_to() != 0 && (self.fences.serve(context) || begin())
    }

    /// Waits until the policy lets it go.
    fn wait(&self, asking: Asking, ask: Ask) {
        let mut now = monotonic_nanos();
        let mut hold = Hold::new(ask, asking.predicted_ns, now);
        loop {
            let seen = self.page.wake_word();
            let view = self.view(now, hold.waited_ns(now));
            let late_ns = self.late_ns.load(Ordering::Relaxed);
            let rest = match hold.step(&view, late_ns) {
                Step::Go(went) => {
                    if view.is_guard_over() {
                        self.guard_over.store(u64::from(seen) + 1, Ordering::Relaxed);
                    }
                    return self.went(&went);
                }
                Step::Look if self.look(asking, now) => {
                    now = monotonic_nanos();
                    continue;
                }
                Step::Look => hold.after_look(&view, late_ns),
                Step::Rest(rest) => rest,
            };
            if hold.is_held_now() {
                self.add(Own::Holds, 1);
                self.add(Own::HeldNow, 1);
            }
            self.rest(rest, seen);
            now = monotonic_nanos();
        }
    }

    fn went(&self, went: &Went) {
        if let Some(held_ns) = went.held_ns {
            self.add(Own::HeldNow, u64::MAX);
            self.add(Own::WaitedNs, held_ns);
        }
        if went.failed_open {
            self.add(Own::FailedOpen, 1);
        }
        if went.overdue {
            self.add(Own::Overdue, 1);
        }
    }

    /// The open gate: no burst that it yields to, the guard after the last one over, and room in the budget.
    /// Then the policy says go whatever the clock says.
    #[inline(always)]
    fn surely_goes(&self, predicted_ns: u64) -> bool {
        let limit = |word| self.page.grant(self.slot, word);
        let open = self.page.shared(Shared::BurstsOpen).load(Ordering::Relaxed);
        let over = self.guard_over.load(Ordering::Relaxed);
        if open & limit(Grant::YieldsTo) != 0 || over != u64::from(self.page.wake_word()) + 1 {
            return false;
        }
        let mut in_flight_ns = self.flight.left_ns(&self.streams) + predicted_ns;
        for slot in bits(gated_others(&self.page, self.slot)) {
            in_flight_ns += self.page.own(slot, Own::InFlightNs).load(Ordering::Relaxed);
        }
        in_flight_ns <= limit(Grant::BudgetNs) && self.has_share()
    }

    /// Whether the program may go as far as its share says.
    fn has_share(&self) -> bool {
        let admitted = self.page.own(self.slot, Own::AdmittedNs).load(Ordering::Relaxed);
        admitted < self.page.grant(self.slot, Grant::AllowedNs)
    }

    /// Looks for work of ours that is done; puts an event behind it if there is none to look for.
    fn look(&self, asking: Asking, now: u64) -> bool {
        if captures::any() {
            return self.flight.expire(&self.streams, now);
        }
        if self.learn_of_fences(now) {
            return true;
        }
        if !self.events.is_due(now) {
            return false;
        }
        let Asking { key, stream, context, .. } = asking;
        if !self.events.are_pending() && self.events.put(&self.streams, key, stream, context) {
            self.add(Own::Marks, 1);
        }
        let progress = self.events.learn(&self.streams, &self.flight, context, now);
        if progress {
            self.tell_flight(now);
        }
        progress
    }

    /// Gives up the processor until it is worth looking again; for a short time it is not given up.
    fn rest(&self, rest: Rest, seen: u32) {
        let Rest::Asleep(time_ns) = rest else {
            return (0..64).for_each(|_| core::hint::spin_loop());
        };
        let began = monotonic_nanos();
        self.page.sleep(seen, time_ns);
        let late_ns = self.late_ns.load(Ordering::Relaxed);
        let passed_ns = monotonic_nanos() - began;
        self.late_ns.store(late_after(late_ns, time_ns, passed_ns), Ordering::Relaxed);
    }
}
