//! Waits before a launch until the policy lets it go.
//!
//! What says "go" at once is asked first, without a clock. Otherwise the thread looks, asks, and rests: for a short
//! time it spins, then it sleeps on the page's wake word, never for longer than a millisecond, so that whatever fails
//! is seen. The policy itself ends every wait ([`admit`] lets go what was held for its patience, and what a controller
//! that is not fresh would hold).

use super::Gate;
use super::view::{bits, gated_others};
use crate::capture;
use apex_core::gate_page::{Grant, Own, Shared};
use apex_core::time::monotonic_nanos;
use apex_cuda::types::CUcontext;
use apex_policy::schedule::{AHEAD_NS, Admission, Reason, STALE_NS, View, Work, admit, queue};
use std::sync::atomic::Ordering;

/// A thread spins so long before it sleeps.
const SPIN_NS: u64 = 20_000;
/// No sleep is shorter.
const SLEEP_NS: u64 = 60_000;
/// No sleep is longer, so that whatever fails is seen.
const LONGEST_SLEEP_NS: u64 = 1_000_000;
/// A sleep ends later than asked, on some virtual machines by hundreds of microseconds. So much is expected at first;
/// what is seen then counts, within these bounds.
pub(super) const LATE_NS: u64 = 60_000;
const LATE_BOUNDS_NS: [u64; 2] = [30_000, 1_000_000];

impl Gate {
    /// Waits until the work may go, or may be launched ahead behind a fence.
    pub(super) fn hold(&self, work: &Work, stream: u64, key: u64, context: CUcontext) {
        let is_fenced = self.has_fences(context);
        if is_fenced {
            if self.flight.left_ns() > AHEAD_NS || !self.has_share() {
                self.wait(work, stream, key, context, queue);
            }
            self.fence_before(work, stream, key);
        } else if !self.surely_goes(work) {
            self.wait(work, stream, key, context, admit);
        }
    }

    /// Waits until the policy lets it go.
    fn wait(
        &self,
        work: &Work,
        stream: u64,
        key: u64,
        context: CUcontext,
        ask: impl Fn(&View, &Work) -> Admission,
    ) {
        let began = monotonic_nanos();
        let mut held = false;
        let mut now = began;
        let (view, harm_ns) = loop {
            let seen = self.page.wake_word();
            let view = self.view(now, now - began);
            match ask(&view, work) {
                Admission::Go { harm_ns } => {
                    if !view.burst_open && view.idle_ns >= view.limits.guard_ns {
                        self.guard_over.store(u64::from(seen) + 1, Ordering::Relaxed);
                    }
                    break (view, harm_ns);
                }
                Admission::Wait(reason) => {
                    if reason == Reason::InFlight && self.look(stream, key, context, now) {
                        now = monotonic_nanos();
                        continue;
                    }
                    if !held {
                        held = true;
                        self.add(Own::Holds, 1);
                        self.add(Own::HeldNow, 1);
                    }
                    self.rest(&view, work, reason, seen);
                }
            }
            now = monotonic_nanos();
        };
        self.harms(harm_ns);
        let leads = view.controller_age_ns <= STALE_NS;
        if !leads {
            self.add(Own::FailedOpen, 1);
        }
        if held {
            self.add(Own::HeldNow, u64::MAX);
            self.add(Own::WaitedNs, now - began);
            if leads && view.waited_ns >= view.limits.patience_ns {
                self.add(Own::Overdue, 1);
            }
        }
    }

    /// Work goes beside an open burst, with so much predicted harm to it.
    pub(super) fn harms(&self, harm_ns: u64) {
        if harm_ns > 0 {
            self.page.shared(Shared::HarmNs).fetch_add(harm_ns, Ordering::Relaxed);
            self.add(Own::Beside, 1);
        }
    }

    /// The open gate: no burst that it yields to, the guard after the last one over, and room in the budget.
    /// Then [`admit`] says go whatever the clock says.
    #[inline(always)]
    fn surely_goes(&self, work: &Work) -> bool {
        let limit = |word| self.page.grant(self.slot, word);
        let open = self.page.shared(Shared::BurstsOpen).load(Ordering::Relaxed);
        let over = self.guard_over.load(Ordering::Relaxed);
        if open & limit(Grant::YieldsTo) != 0 || over != u64::from(self.page.wake_word()) + 1 {
            return false;
        }
        let mut in_flight = self.flight.left_ns() + work.predicted_ns;
        for slot in bits(gated_others(&self.page, self.slot)) {
            in_flight += self.page.own(slot, Own::InFlightNs).load(Ordering::Relaxed);
        }
        in_flight <= limit(Grant::BudgetNs) && self.has_share()
    }

    /// Whether the program may go as far as its share says.
    fn has_share(&self) -> bool {
        let admitted = self.page.own(self.slot, Own::AdmittedNs).load(Ordering::Relaxed);
        admitted < self.page.grant(self.slot, Grant::AllowedNs)
    }

    /// Learns from the fences that the GPU has come to what is done.
    pub(super) fn learn_of_fences(&self) -> bool {
        self.flight.learn(|tell| self.fences.look(&self.page, self.slot, tell), monotonic_nanos())
    }

    /// Looks for work of ours that is done; puts an event behind it if there is none to look for.
    fn look(&self, stream: u64, key: u64, context: CUcontext, now: u64) -> bool {
        if capture::any() {
            return self.flight.expire(now);
        }
        if self.learn_of_fences() {
            return true;
        }
        if !self.flight.is_due(now) {
            return false;
        }
        if !self.flight.has_events() && self.flight.mark(key, stream, context, now) {
            self.add(Own::Marks, 1);
        }
        let progress = self.flight.refresh(context, now);
        if progress {
            self.tell_flight(now);
        }
        progress
    }

    /// Gives up the processor until it is worth looking again; for a short time it is not given up.
    fn rest(&self, view: &View, work: &Work, reason: Reason, seen: u32) {
        let limits = &view.limits;
        let late = self.late_ns.load(Ordering::Relaxed);
        let time = match reason {
            // The end of a burst wakes it, too late as well: what is foreseen is waited for awake.
            Reason::Burst => view.burst_left_ns.saturating_sub(late),
            Reason::Guard => limits.guard_ns.saturating_sub(view.idle_ns).saturating_sub(late),
            Reason::InFlight => {
                let wanted = view.in_flight_ns.saturating_add(work.predicted_ns);
                let over = wanted.saturating_sub(limits.budget_ns);
                // The GPU must not run dry while this thread wakes up.
                over.min(view.in_flight_ns).saturating_sub(late)
            }
            Reason::Gap => SLEEP_NS,
            Reason::Share => 10 * SLEEP_NS,
        };
        if view.waited_ns < SPIN_NS || time < SLEEP_NS {
            for _ in 0..64 {
                core::hint::spin_loop();
            }
            return;
        }
        let time = time.min(LONGEST_SLEEP_NS);
        let began = monotonic_nanos();
        self.page.sleep(seen, time);
        let passed = monotonic_nanos() - began;
        if let Some(later) = passed.checked_sub(time) {
            // Up at once and down slowly: a dry GPU costs more than a spinning thread.
            let late = later.max(late - late / 16).clamp(LATE_BOUNDS_NS[0], LATE_BOUNDS_NS[1]);
            self.late_ns.store(late, Ordering::Relaxed);
        }
    }
}
