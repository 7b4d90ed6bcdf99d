//! Where the GPU is in a program's work, in predicted time: one estimate, which everybody asks.
//!
//! Every launch adds its predicted time to its stream ([`super::Streams`]). What is done is learned late: from a fence
//! that the GPU has come to, an event that has passed, or a wait that ended. Between two such moments the clock drains
//! what is left: while no burst of another program holds the GPU, a nanosecond does a nanosecond of work. The next
//! moment puts right what was predicted wrongly: a place that was reached says what is done, one that was not says what
//! cannot be. What nobody tells expires: work launched long ago, measured by its own length, is taken as done,
//! because a count that is too high would hold the program for nothing.

use super::streams::{Stream, Streams};
use super::word::Word;

/// Events behind the work of one budget.
const MARKS_PER_BUDGET: u64 = 2;
/// No more than one event for so much work, however small the budget: recording one costs about 2 µs.
const LEAST_SPACING_NS: u64 = 20_000;
/// Work is taken as done when this and twice its own length have passed since the last launch.
const EXPIRES_NS: u64 = 5_000_000;

/// What drained since the last known end.
#[derive(Debug, Default)]
pub struct Flight<W> {
    drained_ns: W,
    /// Until when that was counted.
    counted_ns: W,
}

impl<W: Word> Flight<W> {
    /// Predicted time that is not known to be done.
    #[inline(always)]
    pub fn in_flight_ns(&self, streams: &Streams<W>) -> u64 {
        streams.used().map(Stream::in_flight_ns).fold(0, u64::saturating_add)
    }

    /// Predicted time that is left on the GPU, as far as the clock was counted.
    #[inline(always)]
    pub fn left_ns(&self, streams: &Streams<W>) -> u64 {
        self.in_flight_ns(streams).saturating_sub(self.drained_ns.get())
    }

    /// What is left on a stream before a place of it.
    pub fn left_before_ns(&self, stream: &Stream<W>, launched_ns: u64) -> u64 {
        stream.left_before_ns(launched_ns).saturating_sub(self.drained_ns.get())
    }

    /// Counts the time until now, which drains unless another program's burst holds the GPU. Time in which nothing was
    /// left drains nothing: it must not count for what is launched after it.
    pub fn count(&self, streams: &Streams<W>, now_ns: u64, drains: bool) {
        let before = self.counted_ns.swap(now_ns);
        if drains {
            let drained = self.drained_ns.get().saturating_add(now_ns.saturating_sub(before));
            self.drained_ns.set(drained.min(self.in_flight_ns(streams)));
        }
    }

    fn corrected(&self, now_ns: u64) {
        self.drained_ns.set(0);
        self.counted_ns.set(now_ns);
    }

    /// Work goes down on a stream. Says whether an event should go behind it.
    #[inline(always)]
    pub fn launched(
        &self,
        streams: &Streams<W>,
        key: u64,
        predicted_ns: u64,
        budget_ns: u64,
        now_ns: u64,
    ) -> bool {
        if self.in_flight_ns(streams) == 0 {
            self.corrected(now_ns);
        }
        let stream = streams.of(key);
        let launched_ns = stream.launched(predicted_ns, now_ns);
        stream.unmarked_ns(launched_ns) >= (budget_ns / MARKS_PER_BUDGET).max(LEAST_SPACING_NS)
    }

    /// Takes in what fences or events tell: of each its stream's place, what had been launched there before, and whether
    /// the GPU has come to it. Says whether anything was found done.
    pub fn learn(
        &self,
        streams: &Streams<W>,
        told: impl FnOnce(&mut dyn FnMut(usize, u64, bool)),
        now_ns: u64,
    ) -> bool {
        let mut progress = false;
        let mut at_most = u64::MAX;
        told(&mut |place, launched_ns, is_reached| {
            let stream = streams.at(place);
            if is_reached {
                progress |= stream.done_until(launched_ns);
            } else {
                at_most = at_most.min(stream.left_before_ns(launched_ns));
            }
        });
        if progress {
            self.corrected(now_ns);
        } else {
            self.drained_ns.lower(at_most);
        }
        progress
    }

    /// The program has waited, as the streams were told.
    pub fn waited(&self, now_ns: u64) {
        self.corrected(now_ns);
    }

    /// Forgets work that must be over. Says whether there was any.
    pub fn expire(&self, streams: &Streams<W>, now_ns: u64) -> bool {
        let mut progress = false;
        for stream in streams.used() {
            let rest_ns = stream.in_flight_ns();
            let longest_ns = EXPIRES_NS.saturating_add(rest_ns.saturating_mul(2));
            if rest_ns > 0 && stream.quiet_ns(now_ns) > longest_ns {
                progress |= stream.done_until(stream.launched_ns());
            }
        }
        if progress {
            self.corrected(now_ns);
        }
        progress
    }
}

/// What a program told of its work in flight, as far as it counts now: the clock has drained it since. A program that
/// does nothing tells nothing. Of one with fences what lies before the next, if it said that.
#[must_use]
pub fn believed_ns(told_ns: u64, told_at_ns: u64, piece_ns: Option<u64>, now_ns: u64) -> u64 {
    let left_ns = told_ns.saturating_sub(now_ns.saturating_sub(told_at_ns));
    piece_ns.map_or(left_ns, |piece_ns| left_ns.min(piece_ns))
}

#[cfg(test)]
mod tests {
    use super::super::word::Plain;
    use super::*;

    const BUDGET_NS: u64 = 100_000;

    fn flight() -> (Streams<Plain>, Flight<Plain>) {
        Default::default()
    }

    #[test]
    fn streams_add_up_and_a_wait_clears_its_own() {
        let (streams, flight) = flight();
        assert!(!flight.launched(&streams, 10, 30_000, BUDGET_NS, 0));
        assert!(
            flight.launched(&streams, 10, 30_000, BUDGET_NS, 0),
            "half a budget without an event"
        );
        flight.launched(&streams, 20, 5_000, BUDGET_NS, 0);
        assert_eq!(flight.in_flight_ns(&streams), 65_000);
        streams.waited(Some(10), |_| false);
        flight.waited(0);
        assert_eq!(flight.in_flight_ns(&streams), 5_000);
        streams.waited(None, |_| false);
        assert_eq!(flight.in_flight_ns(&streams), 0);
    }

    #[test]
    fn the_clock_drains_and_a_known_end_corrects() {
        let (streams, flight) = flight();
        let both = || (flight.left_ns(&streams), flight.in_flight_ns(&streams));
        flight.launched(&streams, 10, 300, BUDGET_NS, 1_000);
        flight.launched(&streams, 20, 500, BUDGET_NS, 1_010);
        flight.count(&streams, 1_100, true);
        assert_eq!(both(), (700, 800));
        flight.count(&streams, 1_200, false);
        assert_eq!(both(), (700, 800), "a burst of another stops the clock");
        // The first took longer than predicted.
        streams.waited(Some(10), |_| false);
        flight.waited(1_450);
        assert_eq!(both(), (500, 500));
        flight.count(&streams, 9_000, true);
        assert_eq!(both(), (0, 500));
        // The time in which nothing was left is forgotten.
        flight.launched(&streams, 20, 700, BUDGET_NS, 9_000);
        assert_eq!(flight.left_ns(&streams), 700);
        streams.waited(None, |_| false);
        flight.waited(9_001);
        flight.launched(&streams, 10, 50, BUDGET_NS, 20_000);
        flight.count(&streams, 20_010, true);
        assert_eq!(flight.left_ns(&streams), 40);
    }

    #[test]
    fn a_place_that_was_reached_says_what_is_done_and_one_that_was_not_what_cannot_be() {
        let (streams, flight) = flight();
        flight.launched(&streams, 10, 300, BUDGET_NS, 0);
        flight.launched(&streams, 10, 500, BUDGET_NS, 0);
        flight.count(&streams, 700, true);
        assert_eq!(flight.left_ns(&streams), 100);
        let place = streams.place(10);
        let tell = |launched_ns, is_reached| {
            flight.learn(&streams, |tell| tell(place, launched_ns, is_reached), 710)
        };
        assert!(!tell(300, false));
        assert_eq!(
            flight.left_ns(&streams),
            500,
            "the first is not done, so at most all of it has run"
        );
        assert!(tell(300, true) && !tell(300, true));
        assert_eq!(flight.left_ns(&streams), 500);
        assert_eq!(flight.left_before_ns(streams.of(10), 450), 150);
        flight.count(&streams, 760, true);
        assert_eq!(flight.left_before_ns(streams.of(10), 450), 100);
    }

    #[test]
    fn what_nobody_tells_expires() {
        let (streams, flight) = flight();
        flight.launched(&streams, 10, 1_000_000, BUDGET_NS, 1_000);
        assert!(!flight.expire(&streams, 1_000 + EXPIRES_NS));
        assert!(flight.expire(&streams, 1_001 + EXPIRES_NS + 2_000_000));
        assert_eq!(flight.in_flight_ns(&streams), 0);
    }

    #[test]
    fn what_another_told_drains_and_ends_at_its_next_fence() {
        assert_eq!(believed_ns(500, 1_000, None, 1_200), 300);
        assert_eq!(believed_ns(500, 1_000, Some(100), 1_200), 100);
        assert_eq!(believed_ns(500, 1_000, Some(400), 9_000), 0);
    }
}
