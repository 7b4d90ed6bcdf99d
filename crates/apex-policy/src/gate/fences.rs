//! Places in a program's streams at which the GPU itself waits while a burst is open.
//!
//! A fence is two orders in a stream: the GPU writes that it has come there, when all before it is done, and then waits
//! until one word, `through`, lets that fence through. Fences of a program are numbered, and the numbers begin anew
//! after the last one. Whoever begins a burst closes them with one store, and opens them with one when it ends. What
//! lies behind a fence that the GPU has gone through runs, and is what the burst came upon.

use super::streams::Streams;
use super::word::Word;
use super::{AHEAD_NS, Flight};

/// Fences of a program that the GPU may not have reached; a power of two.
pub const FENCES: u32 = 256;
/// A fence so far ahead is never reached before somebody looks.
const FAR: u32 = 1 << 20;
/// Pieces of work between two fences in a budget, and the least that lies between two.
const PIECES_PER_BUDGET: u64 = 2;
const LEAST_PIECE_NS: u64 = AHEAD_NS / 200;
/// The most that lies between two, however large the budget, unless one launch is longer.
const MOST_PIECE_NS: u64 = AHEAD_NS / 20;

/// Whether one fence comes before another.
#[inline]
#[must_use]
pub(super) fn is_before(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

/// What a program's words say of its fences at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceWords {
    /// The last fence there is; zero if there was none yet.
    pub last: u32,
    /// The last fence that the GPU has come to; zero for none of those that it still has.
    pub reached: u32,
    /// The last fence that lets work through.
    pub through: u32,
    /// The last fence that the GPU was past when they were closed.
    pub past: u32,
}

impl FenceWords {
    /// The word that lets work through all fences until this one, and those to come.
    #[must_use]
    pub fn opened(last: u32) -> u32 {
        last.wrapping_add(FAR)
    }

    /// The word that lets no more work through: what lies behind the next fence waits there.
    #[must_use]
    pub fn closed(last: u32) -> u32 {
        last.wrapping_sub(FAR)
    }

    /// The fence that the GPU is past, if that is to be noted before they are closed. Where the GPU is by then cannot
    /// be seen later: a fence that it has come to may be one that it stands at.
    #[must_use]
    pub fn past_when_closed(&self) -> Option<u32> {
        (!is_before(self.through, self.reached)).then_some(self.reached)
    }

    /// Whether all fences let work through.
    #[must_use]
    pub fn are_open(&self) -> bool {
        is_before(self.last, self.through)
    }

    /// The fence that the GPU waits at.
    #[must_use]
    pub fn stands_at(&self) -> Option<u32> {
        let stands = self.reached != 0 && is_before(self.through, self.reached);
        (stands && self.past != self.reached).then_some(self.reached)
    }

    /// Whether the GPU has gone through this fence while the next one would stop it: what is launched now would follow
    /// at once. Where it stands at the fence it would not.
    #[must_use]
    pub fn is_past(&self, fence: u32) -> bool {
        let has_gone_through = !is_before(self.through, fence) || self.past == fence;
        !is_before(self.last, self.through) && self.reached == fence && has_gone_through
    }
}

/// A fence that was put into a stream and that the GPU is not known to have come to.
#[derive(Debug, Default)]
struct Place<W> {
    /// Its number; zero for none.
    fence: W,
    /// The place of its stream in [`Streams`], and what had been launched there before it.
    stream: W,
    launched_ns: W,
}

/// The fences of a program.
#[derive(Debug)]
pub struct Fences<W> {
    last: W,
    /// A thread puts one.
    is_taken: W,
    places: [Place<W>; FENCES as usize],
}

impl<W: Word> Default for Fences<W> {
    fn default() -> Fences<W> {
        let places = core::array::from_fn(|_| Place::default());
        Fences { last: W::default(), is_taken: W::default(), places }
    }
}

impl<W: Word> Fences<W> {
    /// The last fence there is.
    pub fn last(&self) -> u32 {
        self.last.get() as u32
    }

    fn place(&self, fence: u32) -> &Place<W> {
        &self.places[(fence % FENCES) as usize]
    }

    /// Whether a fence is due before a launch on this stream: the piece of work behind the last one is long enough (the
    /// device loses microseconds at every fence), or the launch would follow at once what runs beside a burst. Nothing
    /// is parted from nothing.
    #[inline]
    pub fn is_due(
        &self,
        streams: &Streams<W>,
        key: u64,
        predicted_ns: u64,
        budget_ns: u64,
        words: impl FnOnce(u32) -> FenceWords,
    ) -> bool {
        let stream = streams.of(key);
        let fence = stream.fence();
        if fence == 0 {
            return true;
        }
        let most_ns = (budget_ns / PIECES_PER_BUDGET).clamp(LEAST_PIECE_NS, MOST_PIECE_NS);
        let before_ns = self.place(fence).launched_ns.get();
        let piece_ns = stream.launched_ns().saturating_sub(before_ns);
        let is_long = piece_ns > 0 && piece_ns.saturating_add(predicted_ns) > most_ns;
        is_long || words(fence).is_past(fence)
    }

    /// Begins to put a fence behind all that was launched on a stream: its number. None where the GPU was not seen to
    /// have come to the one that had its place, or where another thread is at it.
    pub fn begin(&self, streams: &Streams<W>, key: u64) -> Option<u32> {
        if !self.is_taken.exchange(0, 1) {
            return None;
        }
        let fence = self.last().wrapping_add(1).max(1);
        let place = self.place(fence);
        if place.fence.get() != 0 {
            self.is_taken.set(0);
            return None;
        }
        let stream = streams.place(key);
        place.stream.set(stream as u64);
        place.launched_ns.set(streams.at(stream).launched_ns());
        place.fence.set(fence.into());
        self.last.set(fence.into());
        Some(fence)
    }

    /// The driver has taken the fence, or not.
    pub fn end(&self, streams: &Streams<W>, fence: u32, is_put: bool) {
        let place = self.place(fence);
        if is_put {
            streams.at(place.stream.get() as usize).fenced(fence);
        } else {
            place.fence.set(0);
        }
        self.is_taken.set(0);
    }

    /// Learns where the GPU is from the fences that it was not known to have come to. Says whether anything was found
    /// done.
    pub fn learn(
        &self,
        streams: &Streams<W>,
        flight: &Flight<W>,
        is_reached: impl Fn(u32) -> bool,
        now_ns: u64,
    ) -> bool {
        flight.learn(
            streams,
            |tell| {
                for place in &self.places {
                    let fence = place.fence.get();
                    if fence != 0 {
                        let is_there = is_reached(fence as u32);
                        tell(place.stream.get() as usize, place.launched_ns.get(), is_there);
                        if is_there {
                            place.fence.exchange(fence, 0);
                        }
                    }
                }
            },
            now_ns,
        )
    }

    /// Predicted time of what the GPU does before it comes to a fence that may stop it: the one after that which it has
    /// come to. Behind the last one that is all there is.
    pub fn before_next_ns(&self, streams: &Streams<W>, flight: &Flight<W>, reached: u32) -> u64 {
        let next = self.place(reached.wrapping_add(1).max(1));
        if reached == self.last() || next.fence.get() == 0 {
            return flight.left_ns(streams);
        }
        let stream = streams.at(next.stream.get() as usize);
        flight.left_before_ns(stream, next.launched_ns.get())
    }

    /// Their context ended, and its streams with it.
    pub fn forget(&self) {
        self.places.iter().for_each(|place| place.fence.set(0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::word::Plain;
    use super::*;

    const KEY: u64 = 0x1000;
    const BUDGET_NS: u64 = 1_000_000;

    /// As the GPU compares.
    fn goes(through: u32, fence: u32) -> bool {
        through.wrapping_sub(fence).cast_signed() >= 0
    }

    #[test]
    fn fences_are_open_or_closed_for_those_to_come_too() {
        for last in [0, 1000, u32::MAX - 1] {
            let closed = FenceWords::closed(last);
            assert!(!goes(closed, last.wrapping_add(1)) && !goes(closed, last));
            assert!(!goes(closed, last.wrapping_sub(FENCES)));
            let opened = FenceWords::opened(last);
            assert!(goes(opened, last) && goes(opened, last.wrapping_add(FENCES)));
            let words = |through| FenceWords { last, through, ..FenceWords::default() };
            assert!(words(opened).are_open() && !words(closed).are_open());
        }
    }

    #[test]
    fn what_the_gpu_has_come_to_while_they_were_open_it_is_past_and_not_what_it_came_to_since() {
        let mut words = FenceWords { last: 8, reached: 4, through: FenceWords::opened(8), past: 0 };
        let close = |words: &mut FenceWords| {
            words.past = words.past_when_closed().unwrap_or(words.past);
            words.through = FenceWords::closed(words.last);
        };
        close(&mut words);
        assert_eq!(
            (words.past, words.stands_at()),
            (4, None),
            "it runs what lies behind the fourth"
        );
        assert!(words.is_past(4) && !words.is_past(5));
        words.reached = 5;
        assert_eq!(words.stands_at(), Some(5));
        close(&mut words);
        assert_eq!((words.past, words.stands_at()), (4, Some(5)), "closed twice is closed once");
        words.through = 5;
        assert_eq!(words.stands_at(), None, "this one was let through");
        assert!(words.is_past(5));
        words.reached = 6;
        assert!(words.stands_at() == Some(6) && !words.is_past(6));
        words.through = FenceWords::opened(8);
        assert!(words.stands_at().is_none() && !words.is_past(6), "the next would not stop it");
        assert_eq!(FenceWords::default().stands_at(), None);
    }

    /// Fences of one stream, as a program and the GPU come to them.
    #[derive(Default)]
    struct Program {
        streams: Streams<Plain>,
        flight: Flight<Plain>,
        fences: Fences<Plain>,
        reached: u32,
    }

    impl Program {
        fn is_due(&self, predicted_ns: u64, words: FenceWords) -> bool {
            self.fences.is_due(&self.streams, KEY, predicted_ns, BUDGET_NS, |_| words)
        }

        fn put(&self, is_taken: bool) -> Option<u32> {
            let fence = self.fences.begin(&self.streams, KEY)?;
            self.fences.end(&self.streams, fence, is_taken);
            Some(fence)
        }

        fn launch(&self, predicted_ns: u64) {
            self.flight.launched(&self.streams, KEY, predicted_ns, BUDGET_NS, 0);
        }

        fn learn(&self) -> bool {
            let is_reached = |fence| !is_before(self.reached, fence);
            self.fences.learn(&self.streams, &self.flight, is_reached, 0)
        }

        fn left_ns(&self) -> (u64, u64) {
            let next = self.fences.before_next_ns(&self.streams, &self.flight, self.reached);
            (next, self.flight.left_ns(&self.streams))
        }
    }

    const OPEN: FenceWords = FenceWords { last: 1, reached: 0, through: FAR, past: 0 };

    #[test]
    fn a_fence_is_due_before_the_first_launch_and_behind_half_a_budget() {
        let program = Program::default();
        assert!(program.is_due(100, OPEN));
        assert_eq!(program.put(true), Some(1));
        assert!(!program.is_due(9_000_000, OPEN), "nothing is parted from nothing");
        program.launch(300_000);
        assert!(!program.is_due(200_000, OPEN) && program.is_due(200_001, OPEN));
        let small = |words| program.fences.is_due(&program.streams, KEY, 1, 0, |_| words);
        assert!(small(OPEN), "but never behind less than the least");
        let past = FenceWords { last: 1, reached: 1, through: FenceWords::closed(1), past: 1 };
        assert!(program.is_due(1, past), "it would follow at once beside the burst");
        assert!(
            !program.is_due(1, FenceWords { past: 0, ..past }),
            "it would wait with the others"
        );
    }

    #[test]
    fn a_fence_that_was_reached_says_what_is_done_before_it() {
        let mut program = Program::default();
        program.put(true);
        program.launch(500);
        program.put(true);
        program.launch(300);
        assert!(!program.learn());
        assert_eq!(program.left_ns(), (0, 800), "the first has nothing before it");
        program.reached = 1;
        assert!(!program.learn(), "that it is at the first is no end of anything");
        assert_eq!(program.left_ns(), (500, 800));
        program.reached = 2;
        assert!(program.learn() && !program.learn());
        assert_eq!(program.left_ns(), (300, 300));
    }

    #[test]
    fn a_fence_has_no_room_until_an_old_one_was_reached() {
        let mut program = Program::default();
        for fence in 1..=FENCES {
            assert_eq!(program.put(true), Some(fence));
        }
        assert_eq!(program.put(true), None);
        program.reached = 1;
        program.learn();
        assert_eq!(program.put(false), Some(FENCES + 1));
        assert_eq!(program.put(true), None, "the second is not reached");
        program.reached = 2;
        program.learn();
        assert_eq!(program.put(true), Some(FENCES + 2));
        program.fences.forget();
        assert!(program.put(true).is_some());
    }

    #[test]
    fn one_thread_at_a_time_puts_a_fence() {
        let program = Program::default();
        let fence = program.fences.begin(&program.streams, KEY);
        assert_eq!((fence, program.fences.begin(&program.streams, KEY)), (Some(1), None));
        program.fences.end(&program.streams, 1, true);
        assert_eq!(program.fences.begin(&program.streams, KEY), Some(2));
    }
}
