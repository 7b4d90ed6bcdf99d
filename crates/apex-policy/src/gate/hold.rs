//! When a launch that has to wait looks again, and when it goes.
//!
//! A thread looks, asks, and rests: for a short time it spins, then it sleeps on the page's wake word, never for longer
//! than a millisecond, so that whatever fails is seen. The policy itself ends every wait ([`super::admit()`] lets go what
//! was held for its patience, and what a controller that is not fresh would hold).

use super::admit::{Admission, Reason, View, admit, queue};

/// A thread spins so long before it sleeps.
const SPIN_NS: u64 = 20_000;
/// No sleep is shorter.
const SLEEP_NS: u64 = 60_000;
/// No sleep is longer, so that whatever fails is seen.
const LONGEST_SLEEP_NS: u64 = 1_000_000;
/// Who has had its share looks again after so long.
const SHARE_NS: u64 = 10 * SLEEP_NS;
/// A sleep ends later than asked, on some virtual machines by hundreds of microseconds. So much is expected at first;
/// what is seen then counts, within these bounds.
pub const LATE_NS: u64 = 60_000;
const LATE_BOUNDS_NS: [u64; 2] = [30_000, 1_000_000];

/// What the launch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To go to a GPU that waits nowhere.
    Go,
    /// To be launched ahead, behind a fence.
    Ahead,
}

/// A launch at the gate.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    ask: Ask,
    predicted_ns: u64,
    began_ns: u64,
    is_held: bool,
}

/// What the thread does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Launches.
    Go(Went),
    /// Looks which work of its own is done, and rests if there is none: as much is in flight as may be.
    Look,
    /// Rests, and asks again.
    Rest(Rest),
}

/// How it rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Awake.
    Awake,
    /// Asleep for so long, unless it is woken.
    Asleep(u64),
}

/// How a launch came through the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Went {
    /// How long it was held; none if it was not.
    pub held_ns: Option<u64>,
    /// Whoever says "wait" is not there.
    pub failed_open: bool,
    /// It was held for the longest time allowed.
    pub overdue: bool,
}

impl Hold {
    /// Work of so much predicted time asks since now.
    #[must_use]
    pub fn new(ask: Ask, predicted_ns: u64, now_ns: u64) -> Hold {
        Hold { ask, predicted_ns, began_ns: now_ns, is_held: false }
    }

    /// How long it has waited.
    #[must_use]
    pub fn waited_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.began_ns)
    }

    /// What to do at what is seen now. Sleeps are expected to end so late.
    pub fn step(&mut self, view: &View, late_ns: u64) -> Step {
        let ask = match self.ask {
            Ask::Go => admit,
            Ask::Ahead => queue,
        };
        match ask(view, self.predicted_ns) {
            Admission::Go => Step::Go(Went {
                held_ns: self.is_held.then_some(view.waited_ns),
                failed_open: !view.is_led(),
                overdue: self.is_held && view.is_led() && view.is_overdue(),
            }),
            Admission::Wait(Reason::InFlight) => Step::Look,
            Admission::Wait(reason) => Step::Rest(self.rest(view, reason, late_ns)),
        }
    }

    /// The same after a look that found nothing done.
    #[must_use]
    pub fn after_look(&self, view: &View, late_ns: u64) -> Rest {
        self.rest(view, Reason::InFlight, late_ns)
    }

    /// The thread is about to rest. Whether it does for the first time: then it is held.
    pub fn is_held_now(&mut self) -> bool {
        !std::mem::replace(&mut self.is_held, true)
    }

    /// How to rest until it is worth looking again; for a short time the processor is not given up. What is foreseen is
    /// waited for awake, since a sleep ends too late.
    fn rest(&self, view: &View, reason: Reason, late_ns: u64) -> Rest {
        let limits = &view.limits;
        let time_ns = match reason {
            Reason::Burst => view.burst_left_ns.saturating_sub(late_ns),
            Reason::Guard => limits.guard_ns.saturating_sub(view.idle_ns).saturating_sub(late_ns),
            Reason::InFlight => {
                let wanted_ns = view.in_flight_ns.saturating_add(self.predicted_ns);
                let over_ns = wanted_ns.saturating_sub(limits.budget_ns);
                // The GPU must not run dry while this thread wakes up.
                over_ns.min(view.in_flight_ns).saturating_sub(late_ns)
            }
            Reason::Share => SHARE_NS,
        };
        if view.waited_ns < SPIN_NS || time_ns < SLEEP_NS {
            Rest::Awake
        } else {
            Rest::Asleep(time_ns.min(LONGEST_SLEEP_NS))
        }
    }
}

/// How late sleeps end, after one of `asked_ns` that lasted `passed_ns`; up at once and down slowly: a dry GPU costs more
/// than a spinning thread. One that was woken says nothing.
#[must_use]
pub fn late_after(late_ns: u64, asked_ns: u64, passed_ns: u64) -> u64 {
    passed_ns.checked_sub(asked_ns).map_or(late_ns, |later_ns| {
        later_ns.max(late_ns - late_ns / 16).clamp(LATE_BOUNDS_NS[0], LATE_BOUNDS_NS[1])
    })
}

#[cfg(test)]
mod tests {
    use super::super::admit::{Limits, Other, STALE_NS};
    use super::*;

    const LIMITS: Limits = Limits {
        open: false,
        yields_to: 1,
        budget_ns: 300_000,
        guard_ns: 200_000,
        allowed_ns: u64::MAX,
        owed_ns: 0,
        patience_ns: 500_000_000,
    };
    const WORK_NS: u64 = 100_000;

    /// What a launch sees that asks at 0 and looks then.
    fn view(other: Option<Other>, now_ns: u64) -> View {
        View { waited_ns: now_ns, ..View::of(LIMITS, now_ns, other.into_iter(), now_ns) }
    }

    fn burst(usual_burst_ns: u64, now_ns: u64) -> Option<Other> {
        let is_there = Other { is_open: true, is_known: true, ..Other::default() };
        Some(Other { alive_ns: now_ns, last_activity_ns: now_ns, usual_burst_ns, ..is_there })
    }

    fn hold(ask: Ask) -> Hold {
        Hold::new(ask, WORK_NS, 0)
    }

    #[test]
    fn a_launch_at_an_open_gate_goes_without_having_been_held() {
        let step = hold(Ask::Go).step(&view(None, 0), LATE_NS);
        assert_eq!(step, Step::Go(Went::default()));
    }

    #[test]
    fn a_launch_spins_then_sleeps_and_is_awake_when_the_burst_ends() {
        let mut hold = hold(Ask::Go);
        let mut step = |now_ns| hold.step(&view(burst(2_000_000, now_ns), now_ns), LATE_NS);
        assert_eq!(step(SPIN_NS - 1), Step::Rest(Rest::Awake));
        assert_eq!(step(SPIN_NS), Step::Rest(Rest::Asleep(LONGEST_SLEEP_NS)));
        assert_eq!(step(1_500_000), Step::Rest(Rest::Asleep(500_000 - LATE_NS)));
        assert_eq!(step(1_890_000), Step::Rest(Rest::Awake), "its end is near");
        assert_eq!(step(2_000_001), Step::Rest(Rest::Asleep(LONGEST_SLEEP_NS)), "it is overdue");
        assert!(hold.is_held_now() && !hold.is_held_now());
        let ended = Some(Other { idle_since_ns: 3_000_000, ..Other::default() });
        let guard = |hold: &mut Hold, now_ns| hold.step(&view(ended, now_ns), LATE_NS);
        assert_eq!(guard(&mut hold, 3_000_000), Step::Rest(Rest::Asleep(200_000 - LATE_NS)));
        assert_eq!(guard(&mut hold, 3_100_000), Step::Rest(Rest::Awake));
        let went = Went { held_ns: Some(3_200_000), ..Went::default() };
        assert_eq!(guard(&mut hold, 3_200_000), Step::Go(went));
    }

    #[test]
    fn nobody_is_held_for_longer_than_the_patience() {
        let mut hold = hold(Ask::Go);
        let mut step = |now_ns| hold.step(&view(burst(0, now_ns), now_ns), LATE_NS);
        assert!(matches!(step(LIMITS.patience_ns - 1), Step::Rest(_)));
        hold.is_held_now();
        let went = Went { held_ns: Some(LIMITS.patience_ns), overdue: true, failed_open: false };
        let now_ns = LIMITS.patience_ns;
        assert_eq!(hold.step(&view(burst(0, now_ns), now_ns), LATE_NS), Step::Go(went));
    }

    #[test]
    fn nobody_is_held_by_a_controller_that_is_gone() {
        let mut hold = hold(Ask::Go);
        hold.is_held_now();
        let last = view(burst(0, 0), 0);
        let at = |age_ns| View { controller_age_ns: age_ns, waited_ns: age_ns, ..last };
        assert!(matches!(hold.step(&at(STALE_NS), LATE_NS), Step::Rest(_)));
        let went = Went { held_ns: Some(STALE_NS + 1), failed_open: true, overdue: false };
        assert_eq!(hold.step(&at(STALE_NS + 1), LATE_NS), Step::Go(went));
    }

    #[test]
    fn a_full_budget_is_looked_into_and_slept_through_until_it_has_room() {
        let mut hold = hold(Ask::Go);
        let full = |in_flight_ns| View { in_flight_ns, ..view(None, SPIN_NS) };
        assert_eq!(hold.step(&full(900_000), LATE_NS), Step::Look);
        assert_eq!(hold.after_look(&full(900_000), LATE_NS), Rest::Asleep(700_000 - LATE_NS));
        assert_eq!(hold.after_look(&full(250_000), LATE_NS), Rest::Awake);
        assert!(matches!(hold.step(&full(200_000), LATE_NS), Step::Go(_)));
    }

    #[test]
    fn behind_fences_a_burst_holds_nobody() {
        let view = view(burst(0, 0), 0);
        assert!(matches!(hold(Ask::Go).step(&view, LATE_NS), Step::Rest(_)));
        assert!(matches!(hold(Ask::Ahead).step(&view, LATE_NS), Step::Go(_)));
    }

    #[test]
    fn sleeps_are_thought_to_end_as_late_as_the_worst_of_the_last_ones() {
        assert_eq!(late_after(60_000, 500_000, 700_000), 200_000);
        assert_eq!(late_after(160_000, 500_000, 510_000), 150_000);
        assert_eq!(late_after(160_000, 500_000, 499_999), 160_000, "it was woken");
        assert_eq!(late_after(31_000, 500_000, 500_000), 30_000);
        assert_eq!(late_after(60_000, 0, u64::MAX), 1_000_000);
    }
}
