//! Go or wait: the one question asked before a launch of a program that yields to others.
//!
//! It stands on the way of every such launch, so it looks at plain numbers and at nothing else. What always
//! holds: a program that nobody limits goes; whatever is stale, unknown or long overdue goes (the gate fails
//! open); and a launch that is longer than every budget still goes when next to nothing is in flight, so no
//! single launch can be refused for ever.

/// With no more than this in flight the next launch goes whatever its length: it takes about as long to reach
/// the device, and a device without work is time lost for ever.
pub const LEAD_NS: u64 = 40_000;

/// A heartbeat older than this is no heartbeat: its owner has died or stands still, and cannot hold the gate.
pub const STALE_NS: u64 = 20_000_000;

/// Predicted time that a program may launch ahead where the GPU itself waits at fences: about what the driver would
/// take. It hides whatever the launching program does between two launches; bursts do not wait for it.
pub const AHEAD_NS: u64 = 60_000_000;

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
    /// How long the others must have been idle before work goes again.
    pub guard_ns: u64,
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
        guard_ns: 0,
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
    /// Predicted time until the open bursts end; [`u64::MAX`] where it is not known, or one is overdue.
    pub burst_left_ns: u64,
    /// How far an open burst is from its usual end, before it or after.
    pub from_end_ns: u64,
    /// Predicted time of the work of all gated programs that is still on the device.
    pub in_flight_ns: u64,
    /// Total of time admitted of this program.
    pub admitted_ns: u64,
    /// How long this launch has waited.
    pub waited_ns: u64,
}

/// What the page says of a program that this one yields to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// Its burst is open.
    pub is_open: bool,
    /// The words are of the program that the controller knows there.
    pub is_known: bool,
    /// When the controller last saw it alive and not stopped.
    pub alive_ns: u64,
    /// When its burst began, or the last one.
    pub burst_start_ns: u64,
    /// When its last burst ended.
    pub idle_since_ns: u64,
    /// When it last launched or copied.
    pub last_activity_ns: u64,
    /// Predicted time of what it has launched in this burst.
    pub burst_predicted_ns: u64,
    /// Its usual burst; 0 if not known.
    pub usual_burst_ns: u64,
}

impl Other {
    /// Whether its open burst counts: the controller has just seen its program alive, and it did something not long
    /// ago, by the length of what it launched.
    #[must_use]
    pub fn is_believed(&self, now_ns: u64) -> bool {
        const LONGEST_NS: u64 = 1_000_000_000;
        let is_alive = now_ns.saturating_sub(self.alive_ns) <= STALE_NS;
        let quiet_ns = now_ns.saturating_sub(self.last_activity_ns.max(self.burst_start_ns));
        let long_ns = self.burst_predicted_ns.max(self.usual_burst_ns).min(LONGEST_NS);
        self.is_open && self.is_known && is_alive && quiet_ns <= STALE_NS + 2 * long_ns
    }
}

impl View {
    /// What a program under these limits sees of those that it yields to. Nothing is in flight yet.
    #[inline]
    pub fn of(
        limits: Limits,
        heartbeat_ns: u64,
        others: impl Iterator<Item = Other>,
        now_ns: u64,
    ) -> View {
        let mut view = View {
            limits,
            controller_age_ns: now_ns.saturating_sub(heartbeat_ns),
            burst_open: false,
            idle_ns: u64::MAX,
            burst_left_ns: 0,
            from_end_ns: u64::MAX,
            in_flight_ns: 0,
            admitted_ns: 0,
            waited_ns: 0,
        };
        for other in others {
            if other.is_believed(now_ns) {
                view.burst_open = true;
                let age_ns = now_ns.saturating_sub(other.burst_start_ns);
                // One that is overdue may end at any time, or not.
                let left_ns = other.usual_burst_ns.checked_sub(age_ns).unwrap_or(u64::MAX);
                view.burst_left_ns = view.burst_left_ns.max(left_ns);
                view.from_end_ns = view.from_end_ns.min(age_ns.abs_diff(other.usual_burst_ns));
            } else {
                view.idle_ns = view.idle_ns.min(now_ns.saturating_sub(other.idle_since_ns));
            }
        }
        view
    }

    /// Whether whoever says "wait" is there.
    #[must_use]
    pub fn is_led(&self) -> bool {
        self.controller_age_ns <= STALE_NS
    }

    /// Whether the work has waited for as long as the policy lets it.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.waited_ns >= self.limits.patience_ns
    }

    /// Whether the guard after the last burst is over.
    #[must_use]
    pub fn is_guard_over(&self) -> bool {
        !self.burst_open && self.idle_ns >= self.limits.guard_ns
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Launch it.
    Go,
    /// Look again in a moment.
    Wait(Reason),
}

/// Why a launch waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// As much is in flight as may be.
    InFlight,
    /// A burst is open.
    Burst,
    /// A burst has just ended: the next may follow at once.
    Guard,
    /// The program has had its share.
    Share,
}

/// Whether work of so much predicted time may be launched now.
#[inline]
#[must_use]
pub fn admit(view: &View, predicted_ns: u64) -> Admission {
    let limits = &view.limits;
    if limits.open || !view.is_led() || view.is_overdue() {
        return Admission::Go;
    }
    if !fits(view.in_flight_ns, predicted_ns, limits.budget_ns) {
        return Admission::Wait(Reason::InFlight);
    }
    if view.admitted_ns < limits.owed_ns {
        return Admission::Go;
    }
    if view.admitted_ns >= limits.allowed_ns {
        return Admission::Wait(Reason::Share);
    }
    if view.burst_open {
        return Admission::Wait(Reason::Burst);
    }
    if view.idle_ns < limits.guard_ns {
        return Admission::Wait(Reason::Guard);
    }
    Admission::Go
}

/// Whether work may be launched ahead of what it waits for, where the GPU itself waits at a fence before it.
#[inline]
#[must_use]
pub fn queue(view: &View, predicted_ns: u64) -> Admission {
    let limits = Limits { budget_ns: AHEAD_NS.saturating_add(predicted_ns), ..view.limits };
    admit(&View { limits, burst_open: false, idle_ns: u64::MAX, ..*view }, predicted_ns)
}

/// Whether the GPU may go through every fence: none that the program yields to is at work, or the program may go
/// whoever is.
#[inline]
#[must_use]
pub fn is_free(view: &View) -> bool {
    let limits = &view.limits;
    limits.open || !view.is_led() || view.admitted_ns < limits.owed_ns || view.is_guard_over()
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
        guard_ns: 30_000,
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
        from_end_ns: u64::MAX,
        in_flight_ns: 0,
        admitted_ns: 0,
        waited_ns: 0,
    };

    const BURST: View = View { burst_open: true, ..IDLE };

    #[track_caller]
    fn check(view: View, predicted_us: u64, expected: Result<(), Reason>) {
        let answer = match admit(&view, predicted_us * 1_000) {
            Admission::Go => Ok(()),
            Admission::Wait(reason) => Err(reason),
        };
        assert_eq!(answer, expected, "{view:?} {predicted_us}");
    }

    #[test]
    fn in_flight_is_limited_by_time() {
        check(IDLE, 200, Ok(()));
        check(View { in_flight_ns: 200_000, ..IDLE }, 100, Ok(()));
        check(View { in_flight_ns: 201_000, ..IDLE }, 100, Err(Reason::InFlight));
        // Longer than the budget: alone, or not at all.
        check(IDLE, 10_000, Ok(()));
        check(View { in_flight_ns: LEAD_NS, ..IDLE }, 10_000, Ok(()));
        check(View { in_flight_ns: LEAD_NS + 1, ..IDLE }, 10_000, Err(Reason::InFlight));
    }

    #[test]
    fn nothing_goes_beside_a_burst_nor_right_after_it() {
        check(BURST, 1, Err(Reason::Burst));
        check(View { idle_ns: 29_999, ..IDLE }, 1, Err(Reason::Guard));
        check(View { idle_ns: 30_000, ..IDLE }, 1, Ok(()));
    }

    #[test]
    fn a_share_is_a_limit_and_a_debt_goes_before_it() {
        let shared = Limits { allowed_ns: 5_000_000, owed_ns: 1_000_000, ..GATED };
        check(View { limits: shared, admitted_ns: 4_999_999, ..IDLE }, 10, Ok(()));
        let spent = View { limits: shared, admitted_ns: 5_000_000, ..IDLE };
        check(spent, 10, Err(Reason::Share));
        check(View { limits: shared, admitted_ns: 999_999, ..BURST }, 200, Ok(()));
        check(View { limits: shared, admitted_ns: 1_000_000, ..BURST }, 200, Err(Reason::Burst));
    }

    #[test]
    fn the_gate_fails_open() {
        check(View { controller_age_ns: STALE_NS + 1, ..BURST }, 200, Ok(()));
        check(View { waited_ns: GATED.patience_ns, ..BURST }, 200, Ok(()));
        check(View { limits: Limits::OPEN, ..BURST }, 200, Ok(()));
    }

    #[test]
    fn work_is_launched_ahead_of_a_burst_as_far_as_may_be() {
        assert_eq!(queue(&BURST, 100_000), Admission::Go);
        assert_eq!(queue(&View { in_flight_ns: AHEAD_NS, ..BURST }, 9_000_000), Admission::Go);
        let full = View { in_flight_ns: AHEAD_NS + 1, ..BURST };
        assert_eq!(queue(&full, 100_000), Admission::Wait(Reason::InFlight));
        let spent = View { limits: Limits { allowed_ns: 0, ..GATED }, ..BURST };
        assert_eq!(queue(&spent, 100_000), Admission::Wait(Reason::Share));
    }

    #[test]
    fn fences_are_free_without_a_burst_and_without_anybody_who_leads() {
        assert!(is_free(&IDLE) && !is_free(&BURST));
        assert!(!is_free(&View { idle_ns: GATED.guard_ns - 1, ..IDLE }));
        assert!(is_free(&View { controller_age_ns: STALE_NS + 1, ..BURST }));
        assert!(is_free(&View { limits: Limits { owed_ns: 1, ..GATED }, ..BURST }));
        assert!(is_free(&View { limits: Limits::OPEN, ..BURST }));
    }

    const NOW_NS: u64 = 1_000_000_000;

    /// A burst of a program that is alive and has launched now.
    const AT_WORK: Other = Other {
        is_open: true,
        is_known: true,
        alive_ns: NOW_NS,
        burst_start_ns: NOW_NS - 2_000_000,
        idle_since_ns: NOW_NS - 5_000_000,
        last_activity_ns: NOW_NS,
        burst_predicted_ns: 0,
        usual_burst_ns: 0,
    };

    #[test]
    fn a_burst_is_believed_of_a_known_program_that_lives_and_did_something_lately() {
        assert!(AT_WORK.is_believed(NOW_NS));
        assert!(!Other { is_open: false, ..AT_WORK }.is_believed(NOW_NS));
        assert!(!Other { is_known: false, ..AT_WORK }.is_believed(NOW_NS));
        assert!(!Other { alive_ns: NOW_NS - STALE_NS - 1, ..AT_WORK }.is_believed(NOW_NS));
        let later = |by_ns| {
            move |other: Other| {
                Other { alive_ns: NOW_NS + by_ns, ..other }.is_believed(NOW_NS + by_ns)
            }
        };
        assert!(later(STALE_NS)(AT_WORK) && !later(STALE_NS + 1)(AT_WORK));
        // What it launched, or usually takes, may keep it busy for as long.
        let long = Other { burst_predicted_ns: 7_000_000, ..AT_WORK };
        assert!(later(STALE_NS + 14_000_000)(long) && !later(STALE_NS + 14_000_001)(long));
        let usual = Other { usual_burst_ns: u64::MAX, ..AT_WORK };
        assert!(later(2_000_000_000)(usual) && !later(3_000_000_000)(usual), "but not for ever");
    }

    #[test]
    fn a_view_is_of_all_that_the_program_yields_to() {
        let view = |others: &[Other]| View::of(GATED, NOW_NS - 7, others.iter().copied(), NOW_NS);
        assert_eq!(
            view(&[]),
            View { controller_age_ns: 7, idle_ns: u64::MAX, burst_left_ns: 0, ..IDLE }
        );
        let idle = Other { is_open: false, ..AT_WORK };
        let later = Other { idle_since_ns: NOW_NS - 10_000, ..idle };
        assert_eq!(
            (view(&[idle, later]).burst_open, view(&[later, idle]).idle_ns),
            (false, 10_000)
        );
        let usual = |usual_burst_ns| Other { usual_burst_ns, ..AT_WORK };
        let both = view(&[usual(3_000_000), usual(2_500_000), idle]);
        assert!(both.burst_open && !both.is_guard_over());
        assert_eq!((both.burst_left_ns, both.from_end_ns), (1_000_000, 500_000));
        let overdue = view(&[usual(1_900_000), usual(2_500_000)]);
        assert_eq!((overdue.burst_left_ns, overdue.from_end_ns), (u64::MAX, 100_000));
    }
}
