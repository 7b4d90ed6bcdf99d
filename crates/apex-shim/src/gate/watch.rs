//! A thread that decides at the fences what nobody else is there to decide.
//!
//! Bursts close and open the fences themselves. This thread opens them when a guard is over, and when a burst is no
//! longer believed or nobody leads; it lets single pieces of work through beside a burst, as the policy says of
//! launches; and it tells the page how long the GPU was made to wait. It calls no driver and takes no lock, so nothing
//! that the program does can stop it. It is begun with the first fence and lasts as long as the process.

use super::Gate;
use super::view::bits;
use crate::process::guard;
use apex_core::gate_page::{FENCES, Own, Shared, is_before};
use apex_core::time::monotonic_nanos;
use apex_policy::schedule::{Admission, STALE_NS, View, admit, is_free};
use std::sync::atomic::Ordering;

/// Between two looks while a burst is open, while work is under way, the same when no burst was open for so long, and
/// while there is no work.
const BURST_NS: u64 = 80_000;
const LOOK_NS: u64 = 200_000;
const REST_LOOK_NS: u64 = 2_000_000;
const REST_NS: u64 = 500_000_000;
const IDLE_NS: u64 = 5_000_000;
/// What is nearer than this is waited for awake: a thread that sleeps wakes up too late, on some virtual machines by
/// more than this. A burst that lasts longer than usual is not, after as long.
const NEAR_NS: u64 = 120_000;
const SPINS: u32 = 64;
/// By how much the kernel may wake this thread too late.
const SLACK_NS: libc::c_ulong = 5_000;

/// Work that waits at a fence.
#[derive(Clone, Copy)]
struct Waiting {
    fence: u32,
    since: u64,
}

/// What the thread remembers.
#[derive(Default)]
struct Watch {
    waiting: Option<Waiting>,
    /// The last fence that the GPU was seen to have come to, and for how long it was past it since, about.
    runs: (u32, u64),
    looked_at: u64,
    /// When the last burst began that was looked at.
    burst: u64,
    /// The last fence that was gone through because nobody leads.
    failed_open: u32,
}

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
            let rest = guard(|| watch.look(gate)).unwrap_or(IDLE_NS);
            if rest == 0 {
                (0..SPINS).for_each(|_| core::hint::spin_loop());
            } else {
                gate.page.sleep(seen, rest);
            }
        }
    });
    // SAFETY: the set that was there before.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
    }
    begun.is_ok()
}

impl Watch {
    /// One look; says how long the next may wait. What is about to happen is waited for awake.
    fn look(&mut self, gate: &Gate) -> u64 {
        let (page, slot) = (&gate.page, gate.slot);
        let now = monotonic_nanos();
        let since_look = now.saturating_sub(std::mem::replace(&mut self.looked_at, now));
        let last = gate.fences.last();
        let through = page.through(slot).load(Ordering::SeqCst);
        let reached = page.last_reached(slot, last);
        let waited = self.waiting.map_or(0, |waiting| now.saturating_sub(waiting.since));
        let yields_to = gate.yields_to();
        let bursts = || page.shared(Shared::BurstsOpen).load(Ordering::SeqCst) & yields_to;
        let before = bursts();
        if gate.learn_of_fences() {
            gate.tell_flight(now);
        }
        let mut view = gate.sight(now, waited);
        // What waits behind fences the program was not given; counted as the controller counts it.
        let in_flight_ns = page.own(slot, Own::InFlightNs).load(Ordering::Relaxed);
        view.admitted_ns = view.admitted_ns.saturating_sub(in_flight_ns);
        if is_free(&view) {
            let left_ns = self.left_ns(gate, reached, last, since_look);
            page.own(slot, Own::PieceNs).store(left_ns, Ordering::Relaxed);
            self.ends(gate, now);
            let goes_anyway = before != 0 || is_before(through, last);
            if view.controller_age_ns > STALE_NS && goes_anyway && self.failed_open != reached {
                self.failed_open = reached;
                gate.add(Own::FailedOpen, 1);
            }
            gate.fences.open(page, slot);
            // A burst may have begun after the look.
            if bursts() & !before != 0 {
                page.close_fences(slot);
            }
            return match reached == last {
                true => IDLE_NS,
                false if view.idle_ns > REST_NS => REST_LOOK_NS,
                false => LOOK_NS,
            };
        }
        if !view.burst_open {
            self.ends(gate, now);
            return awake(view.limits.guard_ns - view.idle_ns);
        }
        if is_before(last, through) && before != 0 {
            page.close_fences(slot);
        }
        match reached {
            0 => self.ends(gate, now),
            _ => self.look_beside(gate, view, [reached, last], now, since_look),
        }
        if is_near(gate, now) { 0 } else { BURST_NS }
    }

    /// What is left of the piece that the GPU is at. Behind the last fence there may be more than is seen until the next
    /// look.
    fn left_ns(&mut self, gate: &Gate, reached: u32, last: u32, since_look: u64) -> u64 {
        let ran = match self.runs.0 == reached {
            _ if reached == last => 0,
            true => self.runs.1 + since_look,
            false => since_look / 2,
        };
        self.runs = (reached, ran);
        gate.fences.work(reached).predicted_ns.saturating_sub(ran)
    }

    /// A burst is open: lets those pieces through that may go beside it.
    fn look_beside(
        &mut self,
        gate: &Gate,
        mut view: View,
        [reached, last]: [u32; 2],
        now: u64,
        since_look: u64,
    ) {
        let (page, slot) = (&gate.page, gate.slot);
        let is_past = page.past(slot).load(Ordering::Relaxed) == reached;
        let new = self.new_burst(gate);
        let word = page.through(slot);
        let lets = |from: u32, to: u32| {
            // Another burst may have closed them.
            word.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        let mut through = word.load(Ordering::SeqCst);
        // Where it is past, that changes nothing; and if it should still stand there it must not for ever.
        if is_past && is_before(through, reached) {
            if !lets(through, reached) {
                return;
            }
            through = reached;
        }
        // Pieces that were let through, from the one that runs to the last, are in flight; the next is asked about
        // before they end.
        let upon_ns = if is_before(through, reached) {
            if self.waiting.is_none_or(|waiting| waiting.fence != reached) {
                self.ends(gate, now);
                self.waiting = Some(Waiting { fence: reached, since: now });
                gate.add(Own::Holds, 1);
                gate.add(Own::HeldNow, 1);
            }
            self.runs = (reached, 0);
            0
        } else {
            self.ends(gate, now);
            let left_ns = self.left_ns(gate, reached, last, since_look);
            // Behind the last fence there may also be nothing any more, and then the burst has said all there is.
            if let Some((burst, began)) = new.filter(|_| is_past && reached != last) {
                let then_ns = left_ns + now.saturating_sub(began);
                page.own(burst, Own::BurstAhead).fetch_max(then_ns, Ordering::Relaxed);
            }
            let let_through = through.wrapping_sub(reached).min(FENCES);
            let works =
                (1..=let_through).map(|ahead| gate.fences.work(reached.wrapping_add(ahead)));
            let beside_ns = left_ns + works.map(|work| work.predicted_ns).sum::<u64>();
            view.in_flight_ns = view.in_flight_ns.saturating_add(beside_ns);
            beside_ns
        };
        page.own(slot, Own::PieceNs).store(upon_ns, Ordering::Relaxed);
        loop {
            let next = if is_before(through, reached) { reached } else { through.wrapping_add(1) };
            if is_before(last, next) {
                return;
            }
            let work = gate.fences.work(next);
            let Admission::Go { harm_ns } = admit(&view, &work) else { return };
            if !lets(through, next) {
                return;
            }
            gate.harms(harm_ns);
            if view.waited_ns >= view.limits.patience_ns {
                gate.add(Own::Overdue, 1);
            }
            self.ends(gate, now);
            through = next;
            view.harm_ns = view.harm_ns.saturating_add(harm_ns);
            view.in_flight_ns = view.in_flight_ns.saturating_add(work.predicted_ns);
            // Those behind it have not waited.
            view.waited_ns = 0;
        }
    }

    /// A burst that has begun since the last look at one: whose, and when.
    fn new_burst(&mut self, gate: &Gate) -> Option<(usize, u64)> {
        let open = gate.page.shared(Shared::BurstsOpen).load(Ordering::Relaxed) & gate.yields_to();
        let began = |slot| (slot, gate.page.own(slot, Own::BurstStart).load(Ordering::Relaxed));
        let last = bits(open).map(began).max_by_key(|&(_, began)| began)?;
        let is_new = last.1 > self.burst;
        self.burst = self.burst.max(last.1);
        is_new.then_some(last)
    }

    /// Nothing waits any more.
    fn ends(&mut self, gate: &Gate, now: u64) {
        if let Some(waiting) = self.waiting.take() {
            gate.add(Own::HeldNow, u64::MAX);
            gate.add(Own::WaitedNs, now.saturating_sub(waiting.since));
        }
    }
}

/// How long to rest before a moment that is so far away.
fn awake(time: u64) -> u64 {
    if time < NEAR_NS { 0 } else { time - NEAR_NS / 2 }
}

/// Whether an open burst is about as old as bursts of its program become.
fn is_near(gate: &Gate, now: u64) -> bool {
    let open = gate.page.shared(Shared::BurstsOpen).load(Ordering::Relaxed) & gate.yields_to();
    bits(open).any(|slot| {
        let load = |word| gate.page.own(slot, word).load(Ordering::Relaxed);
        let age = now.saturating_sub(load(Own::BurstStart));
        age.abs_diff(load(Own::UsualBurstNs)) < NEAR_NS
    })
}
