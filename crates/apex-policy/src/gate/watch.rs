//! What is decided at the fences when nobody else is there to decide it.
//!
//! Bursts close and open the fences themselves. The watch opens them when a guard is over, when a burst is no longer
//! believed or nobody leads; it lets one piece of work through that has waited for the policy's patience; and it tells
//! how long the GPU was made to wait. It is asked again and again by a thread that does nothing else.

use super::admit::{View, is_free};
use super::fences::{FenceWords, is_before};

/// Between two looks while a burst is open, while work is under way, the same when no burst was open for so long, and
/// while there is no work.
const BURST_LOOK_NS: u64 = 80_000;
const LOOK_NS: u64 = 200_000;
const REST_LOOK_NS: u64 = 2_000_000;
const REST_NS: u64 = 500_000_000;
const IDLE_LOOK_NS: u64 = 5_000_000;
/// What is nearer than this is waited for awake: a thread that sleeps wakes up too late, on some virtual machines by
/// more than this. A burst that lasts longer than usual is not, after as long.
const NEAR_NS: u64 = 120_000;

/// What the watch remembers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// The fence at which the GPU waits, and since when.
    waiting: Option<(u32, u64)>,
    /// The last fence that was gone through because nobody leads.
    failed_open: u32,
}

/// What is seen at one look.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// When.
    pub now_ns: u64,
    /// As work at a fence sees it: with what the program was given, not what waits.
    pub view: View,
    /// Where the fences are.
    pub words: FenceWords,
    /// Whether a burst is open that the program yields to, believed or not.
    pub is_burst_open: bool,
}

/// What is done with the fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Leave,
    /// Opens them. If another burst has begun since the look they are closed again.
    Open,
    /// Closes them: a burst is open that found them open.
    Close,
    /// Lets work through up to this fence, unless another burst has closed them meanwhile.
    Let(u32),
}

/// What the GPU does before it comes to a fence that stops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upon {
    /// Nothing: it waits at one.
    Nothing,
    /// The work until the next fence.
    UntilNext,
    /// As it was told last.
    AsBefore,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do with the fences.
    pub act: Act,
    /// What others would come upon.
    pub upon: Upon,
    /// The GPU has begun to wait.
    pub waits: bool,
    /// It waited for so long, and that has ended.
    pub waited_ns: Option<u64>,
    /// Work goes through that somebody who is not there would hold.
    pub failed_open: bool,
    /// Work goes through that has waited for the longest time allowed.
    pub overdue: bool,
    /// How long the next look may wait; 0 for awake.
    pub rest_ns: u64,
}

impl Watch {
    /// How long the work has waited at which the GPU stands.
    #[must_use]
    pub fn waited_ns(&self, now_ns: u64) -> u64 {
        self.waiting.map_or(0, |(_, since_ns)| now_ns.saturating_sub(since_ns))
    }

    /// One look.
    pub fn look(&mut self, sight: &Sight) -> Decision {
        let Sight { now_ns, words, .. } = *sight;
        let view = View { waited_ns: self.waited_ns(now_ns), ..sight.view };
        let mut decision = Decision {
            act: Act::Leave,
            upon: Upon::AsBefore,
            waits: false,
            waited_ns: None,
            failed_open: false,
            overdue: false,
            rest_ns: BURST_LOOK_NS,
        };
        if is_free(&view) {
            decision.waited_ns = self.ends(now_ns);
            decision.failed_open = self.fails_open(sight);
            decision.act = Act::Open;
            decision.upon = Upon::UntilNext;
            decision.rest_ns = match words.reached == words.last {
                true => IDLE_LOOK_NS,
                false if view.idle_ns > REST_NS => REST_LOOK_NS,
                false => LOOK_NS,
            };
        } else if !view.burst_open {
            decision.waited_ns = self.ends(now_ns);
            decision.rest_ns = awake(view.limits.guard_ns - view.idle_ns);
        } else {
            self.look_beside(now_ns, words, &view, sight.is_burst_open, &mut decision);
            // The guard begins with the end of the burst.
            let guards = view.limits.guard_ns > 0;
            if guards && view.from_end_ns < NEAR_NS {
                decision.rest_ns = 0;
            }
        }
        decision
    }

    /// A burst is open: the GPU stops at the next fence, and goes on when its patience is over.
    fn look_beside(
        &mut self,
        now_ns: u64,
        mut words: FenceWords,
        view: &View,
        is_burst_open: bool,
        decision: &mut Decision,
    ) {
        if words.are_open() && is_burst_open {
            decision.act = Act::Close;
            words.past = words.past_when_closed().unwrap_or(words.past);
            words.through = FenceWords::closed(words.last);
        } else if words.past == words.reached && is_before(words.through, words.reached) {
            // Where it is past that changes nothing; and if it should still stand there it must not for ever.
            decision.act = Act::Let(words.reached);
        }
        let Some(fence) = words.stands_at() else {
            decision.waited_ns = self.ends(now_ns);
            if words.reached != 0 {
                decision.upon = Upon::UntilNext;
            }
            return;
        };
        decision.upon = Upon::Nothing;
        match self.waiting {
            Some((waits_at, _)) if waits_at == fence => {
                if view.is_overdue() {
                    decision.act = Act::Let(fence);
                    decision.overdue = true;
                    decision.upon = Upon::UntilNext;
                    decision.waited_ns = self.ends(now_ns);
                }
            }
            _ => {
                decision.waited_ns = self.ends(now_ns);
                self.waiting = Some((fence, now_ns));
                decision.waits = true;
            }
        }
    }

    /// Whether work is let through that would have been held, were anybody there; once for each fence.
    fn fails_open(&mut self, sight: &Sight) -> bool {
        let words = sight.words;
        let would_wait = sight.is_burst_open || is_before(words.through, words.last);
        let fails = !sight.view.is_led() && would_wait && self.failed_open != words.reached;
        if fails {
            self.failed_open = words.reached;
        }
        fails
    }

    /// Nothing waits any more.
    fn ends(&mut self, now_ns: u64) -> Option<u64> {
        self.waiting.take().map(|(_, since_ns)| now_ns.saturating_sub(since_ns))
    }
}

/// How long to rest before a moment that is so far away.
fn awake(time_ns: u64) -> u64 {
    if time_ns < NEAR_NS { 0 } else { time_ns - NEAR_NS / 2 }
}

#[cfg(test)]
mod tests {
    use super::super::admit::{Limits, STALE_NS};
    use super::*;

    const LIMITS: Limits = Limits {
        open: false,
        yields_to: 1,
        budget_ns: 300_000,
        guard_ns: 200_000,
        allowed_ns: u64::MAX,
        owed_ns: 0,
        patience_ns: 5_000_000,
    };

    const IDLE: View = View {
        limits: LIMITS,
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

    fn fences(last: u32, reached: u32, through: u32, past: u32) -> FenceWords {
        FenceWords { last, reached, through, past }
    }

    fn open(last: u32, reached: u32) -> FenceWords {
        fences(last, reached, FenceWords::opened(last), 0)
    }

    fn closed(last: u32, reached: u32, past: u32) -> FenceWords {
        fences(last, reached, FenceWords::closed(last), past)
    }

    fn look(watch: &mut Watch, now_ns: u64, view: View, words: FenceWords) -> Decision {
        watch.look(&Sight { now_ns, view, words, is_burst_open: view.burst_open })
    }

    #[test]
    fn without_a_burst_fences_are_open_and_looked_at_seldom() {
        let rest = |view, words| {
            let decision = look(&mut Watch::default(), 0, view, words);
            assert_eq!((decision.act, decision.upon), (Act::Open, Upon::UntilNext));
            decision.rest_ns
        };
        assert_eq!(rest(IDLE, open(4, 2)), LOOK_NS);
        assert_eq!(rest(View { idle_ns: REST_NS + 1, ..IDLE }, open(4, 2)), REST_LOOK_NS);
        assert_eq!(rest(IDLE, open(4, 4)), IDLE_LOOK_NS);
    }

    #[test]
    fn after_a_burst_they_open_when_the_guard_is_over_and_not_before() {
        let mut watch = Watch::default();
        let at = |idle_ns| View { idle_ns, ..IDLE };
        let early = look(&mut watch, 0, at(0), closed(4, 3, 2));
        assert_eq!((early.act, early.rest_ns), (Act::Leave, 200_000 - NEAR_NS / 2));
        let near = look(&mut watch, 100_000, at(100_000), closed(4, 3, 2));
        assert_eq!((near.act, near.rest_ns), (Act::Leave, 0), "it is awake by then");
        assert_eq!(look(&mut watch, 200_000, at(200_000), closed(4, 3, 2)).act, Act::Open);
    }

    #[test]
    fn the_gpu_waits_at_a_fence_that_it_came_to_during_a_burst() {
        let mut watch = Watch::default();
        // It is past the second when they are closed, and comes to the third.
        let runs = look(&mut watch, 1_000, BURST, fences(4, 2, 2, 2));
        assert_eq!((runs.act, runs.upon, runs.waits), (Act::Leave, Upon::UntilNext, false));
        let begins = look(&mut watch, 2_000, BURST, fences(4, 3, 2, 2));
        assert_eq!((begins.act, begins.upon, begins.waits), (Act::Leave, Upon::Nothing, true));
        let waits = look(&mut watch, 9_000, BURST, fences(4, 3, 2, 2));
        assert_eq!((waits.waits, waits.waited_ns, watch.waited_ns(9_500)), (false, None, 7_500));
        // The burst has ended and opened them.
        let ended = look(&mut watch, 10_000, IDLE, open(4, 3));
        assert_eq!((ended.act, ended.waited_ns), (Act::Open, Some(8_000)));
        assert_eq!(watch.waited_ns(20_000), 0);
    }

    #[test]
    fn what_it_was_past_is_let_through_that_it_may_not_stand_there_for_ever() {
        let decision = look(&mut Watch::default(), 0, BURST, closed(4, 2, 2));
        assert_eq!(
            (decision.act, decision.upon, decision.waits),
            (Act::Let(2), Upon::UntilNext, false)
        );
    }

    #[test]
    fn a_burst_that_found_the_fences_open_has_them_closed() {
        let mut watch = Watch::default();
        let decision = look(&mut watch, 0, BURST, open(4, 2));
        assert_eq!((decision.act, decision.waits), (Act::Close, false), "it is past the second");
        // Not where the page says that none is open any more.
        let sight = Sight { now_ns: 0, view: BURST, words: open(4, 2), is_burst_open: false };
        assert_eq!(watch.look(&sight).act, Act::Leave);
    }

    #[test]
    fn one_piece_goes_through_when_the_patience_is_over() {
        let mut watch = Watch::default();
        let words = |reached, through| fences(4, reached, through, 1);
        look(&mut watch, 1_000, BURST, words(2, 1));
        let before = look(&mut watch, 5_000_999, BURST, words(2, 1));
        assert_eq!((before.act, before.overdue), (Act::Leave, false));
        let over = look(&mut watch, 5_001_000, BURST, words(2, 1));
        assert_eq!((over.act, over.overdue, over.waited_ns), (Act::Let(2), true, Some(5_000_000)));
        assert_eq!(over.upon, Upon::UntilNext);
        let next = look(&mut watch, 5_100_000, BURST, words(3, 2));
        assert_eq!((next.act, next.waits), (Act::Leave, true), "the one behind it has not waited");
    }

    #[test]
    fn without_anybody_who_leads_all_go_and_that_is_counted_once_for_each_fence() {
        let mut watch = Watch::default();
        let gone = View { controller_age_ns: STALE_NS + 1, ..BURST };
        let mut fails = |words| {
            let decision = look(&mut watch, 0, gone, words);
            assert_eq!(decision.act, Act::Open);
            decision.failed_open
        };
        assert!(fails(closed(4, 2, 1)) && !fails(closed(4, 2, 1)) && fails(closed(4, 3, 1)));
        let alone = View { controller_age_ns: STALE_NS + 1, ..IDLE };
        assert!(!look(&mut watch, 0, alone, open(5, 4)).failed_open, "nothing would have waited");
    }

    #[test]
    fn the_end_of_a_burst_is_waited_for_awake_if_a_guard_follows() {
        let rest = |from_end_ns, guard_ns| {
            let limits = Limits { guard_ns, ..LIMITS };
            let view = View { from_end_ns, limits, ..BURST };
            look(&mut Watch::default(), 0, view, fences(4, 2, 2, 2)).rest_ns
        };
        assert_eq!(rest(NEAR_NS - 1, 100_000), 0);
        assert_eq!(rest(NEAR_NS, 100_000), BURST_LOOK_NS);
        assert_eq!(rest(NEAR_NS - 1, 0), BURST_LOOK_NS, "whoever ends it opens them");
    }

    #[test]
    fn fences_count_on_beyond_the_last_number() {
        let mut watch = Watch::default();
        let last = 3;
        let words = fences(last, u32::MAX, u32::MAX - 1, u32::MAX - 1);
        assert!(look(&mut watch, 0, BURST, words).waits);
        assert_eq!(look(&mut watch, 9_000_000, BURST, words).act, Act::Let(u32::MAX));
    }
}
