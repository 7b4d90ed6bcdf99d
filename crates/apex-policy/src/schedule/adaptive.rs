//! Fills the time that latency-critical programs leave, and their own time too, as far as they do not suffer.
//!
//! Three things are learned of every latency-critical program: what harm does to its bursts ([`super::watch`]), how
//! its pauses are ([`super::pauses`]), and how much others may disturb it. The last is worked out in a loop of 100 ms:
//! with which delay of its bursts a quantile of the responses would be what was promised, or little more than the same
//! quantile alone where nothing was, and how much predicted harm was seen to make that much delay. That is the
//! allowance ([`super::allowance`]): harm that work beside a burst may do to it, as a part of its length. Which work uses
//! it is decided at each launch by the co-location rule. Requests that wait for each other share one allowance
//! ([`super::harm_kept_ns`]): the first of them is disturbed, the others are not; or each has one of its own, where that
//! allows more. Where what bursts come upon is too much already, the budget in flight shrinks; when all is well it grows
//! again.
//!
//! Now and then nothing runs beside a burst, so that there is something to compare the others with.

use super::admit::Limits;
use super::allowance::allowed;
use super::ledger::Ledger;
use super::log::Belief;
use super::pauses::Pauses;
use super::policy::{Burst, Device, Observed, Policy, Settings, above, bit};
use super::priority::strict;
use super::program::Class;
use super::rescue::Rescue;
use super::watch::{Standing, Watch};
use std::collections::HashMap;

/// The outer loop.
const LOOP_NS: u64 = 100_000_000;
/// By which part a response may be longer than alone where nothing was promised, if all requests take the same time and a
/// delay of them buys as little as beside a graph: more by what it buys more. And more as far as they differ by
/// themselves, by this part of what the longest of twenty are longer: that hides as much. What comes of it is a little
/// more, because the device is slower where others work too. The most, of requests that keep the device busy and of others.
const GOAL: f64 = 0.09;
const HIDDEN: f64 = 0.5;
const MOST_GOAL: [f64; 2] = [0.35, 0.7];
/// What others gain per nanosecond of delay beside a graph.
const GAIN: f64 = 0.47;
/// A delay by these parts of the same, of requests after a pause and of each, is not felt however late the responses are:
/// then it is something else.
const UNFELT: [f64; 2] = [0.3, 0.1];
/// The part of a promised limit that is aimed at.
const OF_LIMIT: f64 = 0.9;
/// Bounds of the budget in flight. The lower one still hides the time of a launch, the upper one hides a pause of
/// the launching program; more would only make bursts wait.
const BUDGET_NS: [f64; 2] = [100_000.0, 1_200_000.0];
/// After so long without a burst, and so many of its usual pauses, a program is at rest: another burst is not expected
/// at any moment, and the budget hides whatever the launching program does. One burst may have to wait for it.
const QUIET_NS: u64 = 500_000_000;
const QUIET_PAUSES: f64 = 10.0;
const QUIET_BUDGET_NS: f64 = 4_000_000.0;
/// What a burst may come upon that is left in peace, as a part of its length.
const PEACE: f64 = 0.015;
/// The most delay per nanosecond of work beside a burst that is worth it, where nothing was promised and where a promise
/// leaves room: what the work gains is the rest, and the burst pays all of it.
const WORTH: [f64; 2] = [0.9, 1.1];
/// The doubt of what harm does below which it is known.
const SURE: f64 = 0.25;
/// Work beside a burst, in budgets.
const BESIDE: f64 = 0.8;
/// The part of the way to what may be allowed that is gone in one loop, and by what the budget changes: down, up.
const STEP: f64 = 0.3;
const BUDGET_STEPS: [f64; 2] = [0.93, 1.05];
/// The part that one more burst has in the mean of what bursts came upon.
const NEWEST: f64 = 1.0 / 16.0;

/// The default.
#[derive(Debug, Default)]
pub(super) struct Adaptive {
    ledger: Ledger,
    rescue: Rescue,
    learned: HashMap<u64, Learned>,
}

/// What is learned of one latency-critical program.
#[derive(Debug)]
struct Learned {
    watch: Watch,
    pauses: Pauses,
    last_end_ns: Option<u64>,
    /// Mean of the pauses.
    pause_ns: f64,
    /// What was in flight when a burst began, in the mean of those that came upon anything.
    ahead_ns: f64,
    /// Bursts ended since the last turn of the loop.
    has_news: bool,
    /// When others had work for the device last.
    crowded_ns: Option<u64>,
    /// The usual length of a request alone, once that is known.
    length_ns: Option<u64>,
    /// Where it stood to its goal when that was last worked out, and when.
    standing: Option<Standing>,
    judged_ns: u64,
    allowance: f64,
    /// The same of each request, those out of a queue too.
    each: f64,
    budget_ns: f64,
    loop_ends_ns: u64,
}

impl Default for Learned {
    fn default() -> Learned {
        Learned {
            watch: Watch::default(),
            pauses: Pauses::default(),
            last_end_ns: None,
            pause_ns: 0.0,
            ahead_ns: 0.0,
            has_news: false,
            crowded_ns: None,
            length_ns: None,
            standing: None,
            judged_ns: 0,
            allowance: 0.0,
            each: 0.0,
            budget_ns: 400_000.0,
            loop_ends_ns: 0,
        }
    }
}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn step(&mut self, now_ns: u64, device: &Device, programs: &[Observed<'_>]) -> Settings {
        self.learned.retain(|key, _| programs.iter().any(|program| program.key == *key));
        for program in programs.iter().filter(|program| program.class == Class::Latency) {
            let learned = self.learned.entry(program.key).or_default();
            let works = |other: &Observed<'_>| {
                other.class < program.class && (other.waiting || other.in_flight_ns > 0)
            };
            if programs.iter().any(works) {
                learned.crowded_ns = Some(now_ns);
            }
            learned.observe(program.bursts);
            // Without bursts there is nothing new to judge by, and what was once allowed must not drift. Alone all is
            // well however much is allowed, which says nothing of what may be.
            if now_ns >= learned.loop_ends_ns && learned.has_news {
                learned.loop_ends_ns = now_ns + LOOP_NS;
                learned.has_news = false;
                learned.length_ns = learned.watch.alone_ns();
                if learned.is_crowded(now_ns) {
                    learned.adjust(now_ns, program);
                }
            }
        }
        let held =
            |program: &Observed<'_>| (above(program, programs) != 0).then_some(program.class as u8);
        let accounts = self.ledger.settle(now_ns, programs, held);
        let limits = programs.iter().zip(accounts).map(|(program, account)| {
            match above(program, programs) {
                0 => Limits::OPEN,
                yields_to => account.limit(self.limits(now_ns, yields_to, device, programs)),
            }
        });
        let mut limits: Vec<Limits> = limits.collect();
        self.rescue.apply(now_ns, device, programs, &mut limits);
        Settings { programs: limits }
    }

    fn beliefs(&self) -> Vec<Belief> {
        self.learned.iter().filter_map(|(&key, learned)| learned.belief(key)).collect()
    }
}

impl Adaptive {
    /// The limits of a program that yields to these: the tightest that any of them asks for.
    fn limits(
        &self,
        now_ns: u64,
        yields_to: u64,
        device: &Device,
        programs: &[Observed<'_>],
    ) -> Limits {
        let asks = programs
            .iter()
            .filter(|program| yields_to & bit(program) != 0)
            .filter_map(|program| self.learned.get(&program.key).map(|learned| (program, learned)))
            .map(|(program, learned)| learned.limits(now_ns, yields_to, device, program));
        let tightest = asks.reduce(|one, other| Limits {
            budget_ns: one.budget_ns.min(other.budget_ns),
            beside_budget_ns: one.beside_budget_ns.min(other.beside_budget_ns),
            beside_harm_ns: one.beside_harm_ns.min(other.beside_harm_ns),
            beside_each_ns: one.beside_each_ns.min(other.beside_each_ns),
            beside_cost_256: one.beside_cost_256.min(other.beside_cost_256),
            busy_256: one.busy_256.max(other.busy_256),
            guard_ns: one.guard_ns.max(other.guard_ns),
            early_ns: one.early_ns.min(other.early_ns),
            ..one
        });
        tightest.unwrap_or_else(|| strict(yields_to, BUDGET_NS[1] as u64, 0))
    }
}

impl Learned {
    /// Whether others had work for the device lately.
    fn is_crowded(&self, now_ns: u64) -> bool {
        self.crowded_ns.is_some_and(|crowded| now_ns.saturating_sub(crowded) < LOOP_NS)
    }

    fn observe(&mut self, bursts: &[Burst]) {
        self.watch.observe(bursts, self.allowed_harm_ns());
        self.has_news |= !bursts.is_empty();
        for burst in bursts {
            if let Some(ended) = self.last_end_ns {
                let pause_ns = burst.start_ns.saturating_sub(ended);
                self.pauses.observe(pause_ns);
                // A rest is no pause, unless there are many.
                let most_ns = (4.0 * self.pause_ns).max(QUIET_NS as f64);
                self.pause_ns += ((pause_ns as f64).min(most_ns) - self.pause_ns) * NEWEST;
            }
            self.last_end_ns = Some(burst.end_ns);
            if burst.ahead_ns > 0 {
                self.ahead_ns += (burst.ahead_ns as f64 - self.ahead_ns) * NEWEST;
            }
        }
    }

    /// Harm that may be done to a request.
    fn allowed_harm_ns(&self) -> u64 {
        (self.allowance.max(self.each) * self.length_ns.unwrap_or(0) as f64) as u64
    }

    /// One turn of the outer loop.
    fn adjust(&mut self, now_ns: u64, program: &Observed<'_>) {
        let quantile = program.sla.map_or(0.95, |sla| f64::from(sla.quantile));
        let goal_ns = |alone_ns: f64, spread: f64| match program.sla {
            // A promise that cannot be kept even alone is no reason to disturb the program: then as little
            // as possible is added.
            Some(sla) => (sla.limit_ns as f64 * OF_LIMIT).max(alone_ns * 1.02),
            None => {
                let buys = self.standing.map_or(1.0, |before| (before.gain() / GAIN).max(1.0));
                let most = MOST_GOAL[usize::from(self.busy() < 1.0)];
                alone_ns * (1.0 + (GOAL * buys + HIDDEN * spread).min(most))
            }
        };
        let Some(mut standing) = self.watch.standing(quantile, goal_ns) else { return };
        if program.sla.is_none() {
            let [first_ns, each_ns] = UNFELT.map(|it| it * standing.spread * standing.length_ns);
            standing.room_ns = standing.room_ns.max(first_ns);
            standing.room_each_ns = standing.room_each_ns.max(each_ns);
        }
        let of_each = Standing { room_ns: standing.room_each_ns, ..standing };
        let each = allowed(&of_each, self.each);
        let allowed = allowed(&standing, self.allowance);
        // Where there is none nothing is known, and it is begun with at once.
        let step = if self.allowance == 0.0 { 1.0 } else { STEP };
        self.allowance += (allowed - self.allowance) * step;
        self.each += (each - self.each) * step;
        let budget = self.budget_ns * BUDGET_STEPS[usize::from(allowed > 0.0)];
        self.budget_ns = budget.clamp(BUDGET_NS[0], BUDGET_NS[1]);
        (self.standing, self.judged_ns) = (Some(standing), now_ns);
    }

    /// The part of a request in which the device works for it.
    fn busy(&self) -> f64 {
        self.standing.map_or(1.0, |standing| standing.busy())
    }

    /// The harm that may be done, over that which is done, as far as it is known what harm does.
    fn unused(&self) -> f64 {
        let known = self.standing.filter(|standing| standing.doubt < SURE);
        known.map_or(1.0, |standing| {
            self.allowance * standing.length_ns / standing.last_harm_ns.max(1.0)
        })
    }

    fn belief(&self, key: u64) -> Option<Belief> {
        let standing = self.standing?;
        Some(Belief {
            key,
            at_ns: self.judged_ns,
            request_ns: standing.length_ns,
            goal_ns: standing.goal_ns,
            room_ns: [standing.room_ns, standing.room_each_ns],
            per_harm: [standing.per_harm, standing.doubt],
            spread: standing.spread,
            busy: standing.busy(),
            gain: standing.gain(),
            harm_ns: standing.last_harm_ns,
            allowed: [self.allowance, self.each],
            budget_ns: self.budget_ns,
            ahead_ns: self.ahead_ns,
        })
    }

    fn limits(
        &self,
        now_ns: u64,
        yields_to: u64,
        device: &Device,
        program: &Observed<'_>,
    ) -> Limits {
        // Single launches may be longer than the budget; then it is they that the next burst comes upon.
        let guard_ns = self.pauses.best_guard_ns((self.budget_ns * 0.6).max(self.ahead_ns));
        let rest_ns = QUIET_NS.max((QUIET_PAUSES * self.pause_ns) as u64);
        let is_recent = |ended: u64| now_ns.saturating_sub(ended) < rest_ns;
        let at_rest = program.open_since_ns.is_none() && !self.last_end_ns.is_some_and(is_recent);
        // The more may run beside a burst, the less it matters what a burst comes upon; but what comes upon too much was
        // never in peace.
        let budget_ns = self.budget_ns * (1.0 + self.allowance.min(1.0));
        let budget_ns = if at_rest { QUIET_BUDGET_NS } else { budget_ns };
        let length = self.length_ns.unwrap_or(program.predicted_burst_ns);
        let early_ns = if guard_ns == 0 { 30_000 } else { 0 };
        if self.is_crowded(now_ns) && !at_rest && self.watch.wants_peace(self.unused()) {
            let budget_ns = budget_ns.min(PEACE * length as f64).max(BUDGET_NS[0]);
            return Limits { early_ns, ..strict(yields_to, budget_ns as u64, guard_ns) };
        }
        let closed = strict(yields_to, budget_ns as u64, guard_ns);
        if !device.shared || length == 0 {
            return Limits { early_ns, ..closed };
        }
        let worth = WORTH[usize::from(program.sla.is_some())];
        let per_harm = self.standing.map_or(1.0, |standing| standing.surely_per_harm());
        let [harm_ns, each_ns] = [self.allowance, self.each].map(|it| it * length as f64);
        let budget_ns = self.budget_ns * BESIDE * (1.0 + 4.0 * self.allowance);
        Limits {
            early_ns,
            beside_budget_ns: budget_ns.max(harm_ns) as u64,
            beside_harm_ns: harm_ns as u64,
            beside_each_ns: each_ns as u64,
            beside_cost_256: (256.0 * worth / per_harm.max(0.01)) as u64,
            busy_256: (256.0 * self.busy()) as u64,
            ..closed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(slot: u8, class: Class, bursts: &[Burst], waiting: bool) -> Observed<'_> {
        Observed {
            slot,
            key: u64::from(slot) + 1,
            class,
            share: 1.0,
            sla: None,
            bursts,
            open_since_ns: None,
            predicted_burst_ns: 0,
            in_flight_ns: 0,
            admitted_ns: 0,
            waited_ns: 0,
            waiting,
        }
    }

    /// The delay that work beside a burst may add, after five hundred undisturbed bursts with so much time from one to
    /// the next, and the budget half a second after the last of them.
    fn after_bursts(every_ns: u64, waiting: bool) -> (u64, u64) {
        let device = Device { sms: 132, shared: true, prioritised: true };
        let mut adaptive = Adaptive::default();
        let mut step = |now_ns, bursts: &[Burst]| {
            let programs =
                [program(0, Class::Latency, bursts, false), program(1, Class::Batch, &[], waiting)];
            adaptive.step(now_ns, &device, &programs).programs[1]
        };
        let mut harm = 0;
        for nth in 0..500 {
            let end_ns = (nth + 1) * every_ns;
            let start_ns = end_ns - 5_000_000;
            let work_ns = end_ns - start_ns;
            let burst = Burst { start_ns, end_ns, launches: 1, work_ns, ..Burst::default() };
            harm = step(end_ns, &[burst]).beside_harm_ns;
        }
        (harm, step(500 * every_ns + QUIET_NS, &[]).budget_ns)
    }

    #[test]
    fn being_alone_says_nothing_of_what_may_be_allowed() {
        assert_eq!(after_bursts(10_000_000, false).0, 0);
        assert!(after_bursts(10_000_000, true).0 > 100_000);
    }

    #[test]
    fn launches_that_nobody_waits_for_teach_nothing() {
        let device = Device { sms: 132, shared: true, prioritised: true };
        let mut adaptive = Adaptive::default();
        let mut step = |now_ns, burst: Burst| {
            let bursts = [burst];
            let programs =
                [program(0, Class::Latency, &bursts, false), program(1, Class::Batch, &[], true)];
            adaptive.step(now_ns, &device, &programs).programs[1].beside_harm_ns
        };
        // A program is set up: it waits for none of its first launches, then for single ones, which come upon work.
        for nth in 0..12 {
            let start_ns = nth * 1_000_000;
            let (length_ns, launches) =
                if nth < 6 { (0, 9) } else { (100_000 + nth % 2 * 200_000, 1) };
            let (end_ns, ahead_ns) = (start_ns + length_ns, 200_000 + nth % 2 * 60_000);
            step(end_ns, Burst { start_ns, end_ns, launches, ahead_ns, ..Burst::default() });
        }
        // Its requests take 25 ms, of which the device works for 5.
        let mut harm_ns = 0;
        for nth in 1..60 {
            let (start_ns, launches) = (nth * 50_000_000, 695);
            let end_ns = start_ns + 25_000_000;
            let work_ns = 5_000_000;
            harm_ns =
                step(end_ns, Burst { start_ns, end_ns, launches, work_ns, ..Burst::default() });
        }
        assert!(harm_ns > 5_000_000, "{harm_ns}");
    }

    #[test]
    fn the_budget_is_large_beside_a_program_at_rest_and_not_in_its_usual_pauses() {
        assert_eq!(after_bursts(10_000_000, true).1, QUIET_BUDGET_NS as u64);
        let (harm, budget) = after_bursts(400_000_000, true);
        assert_eq!(budget, (BUDGET_NS[1] * (1.0 + harm as f64 / 5e6)) as u64);
    }
}
