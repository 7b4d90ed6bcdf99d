//! A thread that decides at the fences what nobody else is there to decide.
//!
//! What it decides `apex_policy::gate` says; it reads the page and the clock and does it. It calls no driver and takes no
//! lock, so nothing that the program does can stop it. It is begun with the first fence and lasts as long as the process.

use super::fence;
use super::program::Gate;
use crate::state::process::guard;
use apex_core::gate_page::{Own, Shared};
use apex_core::time::monotonic_nanos;
use apex_policy::gate::{Act, Decision, FenceWords, Sight, Upon, Watch};
use std::sync::atomic::Ordering;

/// Until the next look after one that failed.
const FAILED_NS: u64 = 5_000_000;
const SPINS: u32 = 64;
/// By how much the kernel may wake this thread too late.
const SLACK_NS: libc::c_ulong = 5_000;

/// Begins it. Signals of the program are not for this thread.
pub(super) fn begin(gate: &Gate) -> bool {
    let gate = (&raw const *gate) as usize;
    // SAFETY: an empty set of signals is a valid place for the answer; both sets outlive the calls.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let thread = std::thread::Builder::new().name("apex-gate".into()).stack_size(128 << 10);
    let begun = thread.spawn(move || {
        // SAFETY: gates are leaked boxes.
        let gate = unsafe { &*(gate as *const Gate) };
        // SAFETY: a plain call that changes this thread alone.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS) };
        let mut watch = Watch::default();
        loop {
            let seen = gate.page.wake_word();
            let rest_ns = guard(|| gate.look_at_fences(&mut watch)).unwrap_or(FAILED_NS);
            if rest_ns == 0 {
                (0..SPINS).for_each(|_| core::hint::spin_loop());
            } else {
                gate.page.sleep(seen, rest_ns);
            }
        }
    });
    // SAFETY: the set that was there before.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
    }
    begun.is_ok()
}

impl Gate {
    /// One look; says how long the next may wait.
    fn look_at_fences(&self, watch: &mut Watch) -> u64 {
        let now = monotonic_nanos();
        let yields_to = self.yields_to();
        let bursts = || self.page.shared(Shared::BurstsOpen).load(Ordering::SeqCst) & yields_to;
        let words = self.fences.words(&self.page, self.slot);
        let before = bursts();
        if self.learn_of_fences(now) {
            self.tell_flight(now);
        }
        let mut view = self.sight(now, 0);
        // What waits behind fences the program was not given; counted as the controller counts it.
        let in_flight_ns = self.page.own(self.slot, Own::InFlightNs).load(Ordering::Relaxed);
        view.admitted_ns = view.admitted_ns.saturating_sub(in_flight_ns);
        let sight = Sight { now_ns: now, view, words, is_burst_open: before != 0 };
        let decision = watch.look(&sight);
        self.act(&decision, words, || bursts() & !before != 0);
        self.tell_of(&decision, words.reached, now);
        decision.rest_ns
    }

    fn act(&self, decision: &Decision, words: FenceWords, has_begun: impl FnOnce() -> bool) {
        let (page, slot) = (&self.page, self.slot);
        match decision.act {
            Act::Leave => {}
            Act::Open => {
                self.fences.open(page, slot);
                // A burst may have begun after the look.
                if has_begun() {
                    fence::close(page, slot);
                }
            }
            Act::Close => fence::close(page, slot),
            Act::Let(fence) => {
                // Another burst may have closed them, or the end of this one opened them.
                let word = page.through(slot);
                let from = words.through;
                let _ = word.compare_exchange(from, fence, Ordering::SeqCst, Ordering::Relaxed);
            }
        }
    }

    fn tell_of(&self, decision: &Decision, reached: u32, now: u64) {
        self.flight.count(&self.streams, now, decision.upon != Upon::Nothing);
        match decision.upon {
            Upon::AsBefore => {}
            Upon::Nothing => self.store(Own::PieceNs, 0),
            Upon::UntilNext => {
                let left_ns = self.fences.before_next_ns(&self.streams, &self.flight, reached);
                self.store(Own::PieceNs, left_ns);
            }
        }
        if let Some(waited_ns) = decision.waited_ns {
            self.add(Own::HeldNow, u64::MAX);
            self.add(Own::WaitedNs, waited_ns);
        }
        if decision.waits {
            self.add(Own::Holds, 1);
            self.add(Own::HeldNow, 1);
        }
        self.add(Own::FailedOpen, decision.failed_open.into());
        self.add(Own::Overdue, decision.overdue.into());
    }
}
