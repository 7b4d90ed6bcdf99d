//! Go or wait: the one question asked before a launch of a program that yields to others.
//!
//! It stands on the way of every such launch, so it looks at plain numbers and at nothing else. What always
//! holds: a program that nobody limits goes; whatever is stale, unknown or long overdue goes (the gate fails
//! open); and a launch that is longer than every budget still goes when next to nothing is in flight, so no
//! single launch can be refused for ever.

use super::colocate::harm_ns;
use super::program::Bottleneck;

/// With no more than this in flight the next launch goes whatever its length: it takes about as long to reach
/// the device, and a device without work is time lost for ever.
pub const LEAD_NS: u64 = 40_000;

/// A heartbeat older than this is no heartbeat: its owner has died or stands still, and cannot hold the gate.
pub const STALE_NS: u64 = 20_000_000;

/// Predicted time that a program may launch ahead where the GPU itself waits at fences: about what the driver would
/// take. It hides whatever the launching program does between two launches; bursts do not wait for it.
pub const AHEAD_NS: u64 = 60_000_000;

/// Pieces of work between two fences in a budget, and the least that lies between two.
const PIECES_PER_BUDGET: u64 = 2;
const LEAST_PIECE_NS: u64 = AHEAD_NS / 200;
/// Whether a fence is due between a piece of work and the launch that follows: the device loses microseconds at every
/// fence, so only when the piece is long enough.
#[inline]
#[must_use]
pub fn parts(piece: &Work, next: &Work, budget_ns: u64) -> bool {
    let most = (budget_ns / PIECES_PER_BUDGET).clamp(LEAST_PIECE_NS, AHEAD_NS / 20);
    piece.predicted_ns > 0 && piece.predicted_ns + next.predicted_ns > most
}

/// What the controller allows one program. Written by it alone; every word is read on its own, so any mix of
/// an old and a new one must be harmless, and is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nothing is asked: every launch goes. The one word that the fast path loads.
    pub open: bool,
    /// The slots of the programs whose bursts this one waits for, a bit each.
    pub yields_to: u64,
    /// Predicted time that all gated programs together may have in flight while no such burst is open.
    pub budget_ns: u64,
    /// The same beside an open burst. Zero: nothing may run beside it.
    pub beside_budget_ns: u64,
    /// Delay that work started beside one burst, and those that waited for its end, may add to them, all together.
    pub beside_harm_ns: u64,
    /// Delay that work started beside a burst may add to it in any case.
    pub beside_each_ns: u64,
    /// The most delay per nanosecond of work that may start beside a burst, in 256ths. What delays a burst by as much
    /// as it takes itself gains nothing by going now.
    pub beside_cost_256: u64,
    /// The part of the bursts in which the device works for them, in 256ths.
    pub busy_256: u64,
    /// How long the others must have been idle before work goes again.
    pub guard_ns: u64,
    /// A burst that is predicted to end within this counts as ended. For where there is no guard.
    pub early_ns: u64,
    /// Total of admitted time up to which the program may go: its share so far.
    pub allowed_ns: u64,
    /// Total of admitted time up to which the program goes although a burst is open: what it is owed.
    pub owed_ns: u64,
    /// A launch that has waited so long goes in any case.
    pub patience_ns: u64,
}

impl Limits {
    /// No limit at all.
    pub const OPEN: Limits = Limits {
        open: true,
        yields_to: 0,
        budget_ns: u64::MAX,
        beside_budget_ns: u64::MAX,
        beside_harm_ns: u64::MAX,
        beside_each_ns: u64::MAX,
        beside_cost_256: u64::MAX,
        busy_256: 256,
        guard_ns: 0,
        early_ns: 0,
        allowed_ns: u64::MAX,
        owed_ns: 0,
        patience_ns: 0,
    };
}

/// What the page says at the moment of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// What the controller allows this program.
    pub limits: Limits,
    /// Age of the controller's heartbeat.
    pub controller_age_ns: u64,
    /// A program that this one yields to, alive by its own heartbeat, has a burst open. Its input copy
    /// opens a burst, not first its kernel.
    pub burst_open: bool,
    /// Since the last such burst ended; meaningless while one is open.
    pub idle_ns: u64,
    /// Predicted time until the open burst ends; [`u64::MAX`] where it is not known.
    pub burst_left_ns: u64,
    /// Predicted time until the next burst begins; [`u64::MAX`] where it is not known, or not regular.
    pub next_burst_ns: u64,
    /// Multiprocessors that the burst's kernels need.
    pub burst_sms: u32,
    /// Multiprocessors of the device.
    pub device_sms: u32,
    /// Predicted time of the work of all gated programs that is still on the device: the sum of what their
    /// [`super::Backlog`]s have left.
    pub in_flight_ns: u64,
    /// The harm of all work that was started beside this burst and those before it in its queue.
    pub harm_ns: u64,
    /// That of those before it alone.
    pub harm_before_ns: u64,
    /// Total of time admitted of this program.
    pub admitted_ns: u64,
    /// How long this launch has waited.
    pub waited_ns: u64,
}

/// What a launch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A kernel.
    #[default]
    Kernel,
    /// A graph: one unit, however many kernels it holds.
    Graph,
    /// A cooperative kernel: all of its blocks must be there at once.
    Cooperative,
    /// A copy or a fill by the GPU's engines.
    Copy,
    /// Others wait for it: a collective, or a stream that a latency-critical program waits on. Never held.
    Awaited,
}

/// The work that asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Predicted time on the GPU alone.
    pub predicted_ns: u64,
    /// Predicted time of one of its blocks: the whole where there is a single wave or nothing is known; of several launches
    /// the mean by their time.
    pub block_ns: u64,
    /// Multiprocessors after which it stops gaining.
    pub sms_needed: u32,
    /// What it presses on.
    pub bottleneck: Bottleneck,
    /// What it is.
    pub kind: Kind,
}

impl Work {
    /// Another launch goes with it.
    pub fn join(&mut self, next: &Work) {
        let (here, there) = (u128::from(self.predicted_ns), u128::from(next.predicted_ns));
        let sum = here * u128::from(self.block_ns) + there * u128::from(next.block_ns);
        self.block_ns = u64::try_from(sum / (here + there).max(1)).unwrap_or(u64::MAX);
        self.sms_needed = self.sms_needed.max(next.sms_needed);
        self.predicted_ns = self.predicted_ns.saturating_add(next.predicted_ns);
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Launch it. The harm is what to add to the burst's sum; zero unless it goes beside one.
    Go {
        /// Predicted delay of the open burst by this launch.
        harm_ns: u64,
    },
    /// Look again in a moment.
    Wait(Reason),
}

impl Admission {
    /// Go, without harm.
    pub const GO: Admission = Admission::Go { harm_ns: 0 };

    /// Whether it may be launched.
    #[must_use]
    pub fn goes(self) -> bool {
        matches!(self, Admission::Go { .. })
    }
}

/// Why a launch waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// As much is in flight as may be.
    InFlight = 0,
    /// A burst is open, and this work would disturb it.
    Burst = 1,
    /// A burst has just ended: the next may follow at once.
    Guard = 2,
    /// The next burst is near, and this work is longer than the time till then.
    Gap = 3,
    /// The program has had its share.
    Share = 4,
}

/// Whether the work may be launched now.
#[inline]
#[must_use]
pub fn admit(view: &View, work: &Work) -> Admission {
    let limits = &view.limits;
    if limits.open
        || work.kind == Kind::Awaited
        || view.controller_age_ns > STALE_NS
        || view.waited_ns >= limits.patience_ns
    {
        return Admission::GO;
    }
    if !fits(view.in_flight_ns, work.predicted_ns, limits.budget_ns) {
        return Admission::Wait(Reason::InFlight);
    }
    if view.admitted_ns < limits.owed_ns {
        return Admission::GO;
    }
    if view.admitted_ns >= limits.allowed_ns {
        return Admission::Wait(Reason::Share);
    }
    if view.burst_open && view.burst_left_ns > limits.early_ns {
        return beside(view, work);
    }
    if !view.burst_open {
        if view.idle_ns < limits.guard_ns {
            return Admission::Wait(Reason::Guard);
        }
        // Short work is over before it matters; long work that would reach into the next burst waits for it,
        // but no longer than it takes itself, since a burst that was foretold may never come.
        if work.predicted_ns > limits.budget_ns
            && work.predicted_ns > view.next_burst_ns
            && view.waited_ns < work.predicted_ns
        {
            return Admission::Wait(Reason::Gap);
        }
    }
    Admission::GO
}

/// Whether the work may be launched ahead of what it waits for, where the GPU itself waits at a fence before it.
#[inline]
#[must_use]
pub fn queue(view: &View, work: &Work) -> Admission {
    let limits = Limits { budget_ns: AHEAD_NS.saturating_add(work.predicted_ns), ..view.limits };
    let (burst_open, idle_ns, next_burst_ns) = (false, u64::MAX, u64::MAX);
    admit(&View { limits, burst_open, idle_ns, next_burst_ns, ..*view }, work)
}

/// Whether the GPU may go through every fence: none that the program yields to is at work, or the program may go
/// whoever is.
#[inline]
#[must_use]
pub fn is_free(view: &View) -> bool {
    let limits = &view.limits;
    limits.open
        || view.controller_age_ns > STALE_NS
        || view.admitted_ns < limits.owed_ns
        || if view.burst_open {
            view.burst_left_ns <= limits.early_ns
        } else {
            view.idle_ns >= limits.guard_ns
        }
}

/// Whether work may go beside the open burst.
#[inline]
fn beside(view: &View, work: &Work) -> Admission {
    let limits = &view.limits;
    let harm = harm_ns(view, work);
    let sum = view.harm_ns.saturating_add(harm);
    let worth = work.predicted_ns.saturating_mul(limits.beside_cost_256) / 256;
    let allowed = harm <= worth
        && (sum <= limits.beside_harm_ns
            || sum.saturating_sub(view.harm_before_ns) <= limits.beside_each_ns)
        && work.predicted_ns <= limits.beside_budget_ns
        && view.in_flight_ns <= limits.beside_budget_ns - work.predicted_ns;
    if allowed { Admission::Go { harm_ns: harm } } else { Admission::Wait(Reason::Burst) }
}

/// Whether more fits into a budget. What is longer than the budget fits when next to nothing else is there.
#[inline]
fn fits(in_flight_ns: u64, more_ns: u64, budget_ns: u64) -> bool {
    in_flight_ns <= LEAD_NS || in_flight_ns.saturating_add(more_ns) <= budget_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATED: Limits = Limits {
        open: false,
        yields_to: 1,
        budget_ns: 300_000,
        beside_budget_ns: 100_000,
        beside_harm_ns: 50_000,
        beside_each_ns: 0,
        beside_cost_256: 256,
        busy_256: 256,
        guard_ns: 30_000,
        early_ns: 0,
        allowed_ns: u64::MAX,
        owed_ns: 0,
        patience_ns: 500_000_000,
    };

    const IDLE: View = View {
        limits: GATED,
        controller_age_ns: 0,
        burst_open: false,
        idle_ns: 1_000_000,
        burst_left_ns: u64::MAX,
        next_burst_ns: u64::MAX,
        burst_sms: 132,
        device_sms: 132,
        in_flight_ns: 0,
        harm_ns: 0,
        harm_before_ns: 0,
        admitted_ns: 0,
        waited_ns: 0,
    };

    const BURST: View = View { burst_open: true, ..IDLE };

    fn kernel(micros: u64) -> Work {
        Work {
            predicted_ns: micros * 1_000,
            block_ns: micros * 1_000,
            sms_needed: 132,
            bottleneck: Bottleneck::Memory,
            kind: Kind::Kernel,
        }
    }

    fn check(view: View, work: Work, expected: Result<(), Reason>) {
        let answer = match admit(&view, &work) {
            Admission::Go { .. } => Ok(()),
            Admission::Wait(reason) => Err(reason),
        };
        assert_eq!(answer, expected, "{view:?} {work:?}");
    }

    #[test]
    fn a_queue_pays_once_or_each_of_it_its_part() {
        let work = Work { block_ns: 1_000, ..kernel(20) };
        let view = |harm_ns, harm_before_ns, each_ns| View {
            limits: Limits { beside_each_ns: each_ns, ..GATED },
            harm_ns,
            harm_before_ns,
            ..BURST
        };
        // The sum of the queue is used up: nothing more, unless each may have some of its own.
        check(view(20_000, 20_000, 0), work, Ok(()));
        check(view(49_000, 49_000, 0), work, Err(Reason::Burst));
        check(view(49_000, 49_000, 30_000), work, Ok(()));
        check(view(79_000, 49_000, 30_000), work, Err(Reason::Burst));
    }

    #[test]
    fn in_flight_is_limited_by_time() {
        check(IDLE, kernel(200), Ok(()));
        check(View { in_flight_ns: 200_000, ..IDLE }, kernel(100), Ok(()));
        check(View { in_flight_ns: 201_000, ..IDLE }, kernel(100), Err(Reason::InFlight));
        // Longer than the budget: alone, or not at all.
        check(IDLE, kernel(10_000), Ok(()));
        check(View { in_flight_ns: LEAD_NS, ..IDLE }, kernel(10_000), Ok(()));
        check(View { in_flight_ns: LEAD_NS + 1, ..IDLE }, kernel(10_000), Err(Reason::InFlight));
        check(View { in_flight_ns: u64::MAX, ..IDLE }, kernel(1), Err(Reason::InFlight));
    }

    #[test]
    fn a_burst_holds_what_would_disturb_it() {
        check(BURST, kernel(200), Err(Reason::Burst));
        check(BURST, kernel(40), Ok(()));
        check(BURST, kernel(60), Err(Reason::Burst));
        check(View { harm_ns: 49_000, ..BURST }, kernel(40), Err(Reason::Burst));
        check(View { in_flight_ns: 61_000, ..BURST }, kernel(40), Err(Reason::Burst));
        let strict = Limits { beside_budget_ns: 0, ..GATED };
        check(View { limits: strict, ..BURST }, kernel(1), Err(Reason::Burst));
        assert!(matches!(admit(&BURST, &kernel(40)), Admission::Go { harm_ns: 1.. }));
    }

    #[test]
    fn the_end_of_a_burst_is_waited_for_or_foreseen() {
        check(View { idle_ns: 29_999, ..IDLE }, kernel(10), Err(Reason::Guard));
        check(View { idle_ns: 30_000, ..IDLE }, kernel(10), Ok(()));
        let early = Limits { early_ns: 50_000, guard_ns: 0, ..GATED };
        check(View { limits: early, burst_left_ns: 50_000, ..BURST }, kernel(200), Ok(()));
        let later = View { limits: early, burst_left_ns: 50_001, ..BURST };
        check(later, kernel(200), Err(Reason::Burst));
    }

    #[test]
    fn long_work_waits_for_a_burst_that_is_near() {
        let near = View { next_burst_ns: 400_000, ..IDLE };
        check(near, kernel(1_000), Err(Reason::Gap));
        check(near, kernel(350), Ok(()));
        check(View { waited_ns: 1_000_000, ..near }, kernel(1_000), Ok(()));
    }

    #[test]
    fn a_share_is_a_limit_and_a_debt_goes_before_it() {
        let shared = Limits { allowed_ns: 5_000_000, owed_ns: 1_000_000, ..GATED };
        check(View { limits: shared, admitted_ns: 4_999_999, ..IDLE }, kernel(10), Ok(()));
        let spent = View { limits: shared, admitted_ns: 5_000_000, ..IDLE };
        check(spent, kernel(10), Err(Reason::Share));
        check(View { limits: shared, admitted_ns: 999_999, ..BURST }, kernel(200), Ok(()));
        check(
            View { limits: shared, admitted_ns: 1_000_000, ..BURST },
            kernel(200),
            Err(Reason::Burst),
        );
    }

    #[test]
    fn the_gate_fails_open() {
        check(View { controller_age_ns: STALE_NS + 1, ..BURST }, kernel(200), Ok(()));
        check(View { waited_ns: GATED.patience_ns, ..BURST }, kernel(200), Ok(()));
        check(View { limits: Limits::OPEN, ..BURST }, kernel(200), Ok(()));
        check(BURST, Work { kind: Kind::Awaited, ..kernel(200) }, Ok(()));
    }

    #[test]
    fn work_is_launched_ahead_of_a_burst_as_far_as_may_be() {
        assert!(!admit(&BURST, &kernel(100)).goes() && queue(&BURST, &kernel(100)).goes());
        assert!(queue(&View { in_flight_ns: AHEAD_NS, ..BURST }, &kernel(9_000)).goes());
        let full = View { in_flight_ns: AHEAD_NS + 1, ..BURST };
        assert_eq!(queue(&full, &kernel(100)), Admission::Wait(Reason::InFlight));
        let limits = Limits { allowed_ns: 0, ..GATED };
        let spent = View { limits, ..BURST };
        assert_eq!(queue(&spent, &kernel(100)), Admission::Wait(Reason::Share));
    }

    #[test]
    fn fences_are_free_without_a_burst_and_without_anybody_who_leads() {
        assert!(is_free(&IDLE) && !is_free(&BURST));
        assert!(!is_free(&View { idle_ns: GATED.guard_ns - 1, ..IDLE }));
        assert!(is_free(&View { controller_age_ns: STALE_NS + 1, ..BURST }));
        assert!(is_free(&View { limits: Limits { owed_ns: 1, ..GATED }, ..BURST }));
        assert!(is_free(&View { limits: Limits::OPEN, ..BURST }));
    }

    #[test]
    fn fences_part_what_is_long() {
        let budget_ns = 1_000_000;
        assert!(!parts(&kernel(0), &kernel(9_000), budget_ns), "nothing is parted from nothing");
        assert!(!parts(&kernel(300), &kernel(200), budget_ns));
        assert!(parts(&kernel(300), &kernel(201), budget_ns));
        assert!(!parts(&kernel(100), &kernel(150), 0), "there must be fences enough");
    }
}
