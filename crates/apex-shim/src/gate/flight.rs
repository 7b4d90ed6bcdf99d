//! What a program has on the GPU, counted in predicted time.
//!
//! Every launch adds its predicted time to its stream. Now and then, twice in each budget, an untimed event
//! goes behind a launch: once it has passed, all that the stream had been given until then is done. Nothing is
//! asked per launch. Between two events the clock drains what is in flight, as `apex_policy`'s `Backlog` does:
//! while no burst of another program holds the GPU, a nanosecond does a nanosecond of work, and the next
//! event puts right what was predicted wrongly: one that has passed says what is done, one that has not says what
//! cannot be. Whoever puts an event looks at the earlier ones, so that this is known of a program that never waits.
//! What no event tells expires: work that was launched long ago, measured by its own length, is taken as done,
//! because a count that is too high would hold the program for nothing.
//!
//! There is no lock. An event is owned by whoever has moved its state word; the driver is called only then, by
//! a thread in whose context the event was made, and never while anything is being captured.

use crate::exports::driver;
use apex_cuda::types::{CUDA_ERROR_NOT_READY, CUDA_SUCCESS, CUcontext, CUevent, CUstream};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

const STREAMS: usize = 16;
const MARKS: usize = 32;
/// Events behind the work of one budget.
const MARKS_PER_BUDGET: u64 = 2;
/// No more than one event for so much work, however small the budget.
const LEAST_SPACING_NS: u64 = 20_000;
/// A thread that waits asks the driver at most so often.
const ASK_EVERY_NS: u64 = 10_000;
/// Work is taken as done when this and twice its own length have passed since the last launch.
const EXPIRES_NS: u64 = 5_000_000;

/// All that a program has in flight on one GPU.
pub(super) struct Flight {
    streams: [Stream; STREAMS],
    marks: [Mark; MARKS],
    /// Time that has drained it since the last known end, and until when that was counted.
    drained: AtomicU64,
    counted: AtomicU64,
    /// When events were last asked for.
    asked: AtomicU64,
}

#[derive(Default)]
struct Stream {
    /// [`super::attach::stream_key`]; zero for none. The last entry takes all that found no place.
    key: AtomicU64,
    /// Predicted time launched on it, altogether; how much of it is done, and behind how much stands an event.
    launched: AtomicU64,
    done: AtomicU64,
    marked: AtomicU64,
    /// When something was last launched on it.
    last: AtomicU64,
    /// The last fence that was put there.
    fence: AtomicU32,
}

#[derive(Default)]
struct Mark {
    state: AtomicU32,
    context: AtomicU64,
    event: AtomicU64,
    stream: AtomicUsize,
    total: AtomicU64,
}

/// No event, or one with nothing before it.
const FREE: u32 = 0;
/// A thread is at it.
const TAKEN: u32 = 1;
/// It was recorded and has not been seen to pass.
const PENDING: u32 = 2;

impl Flight {
    pub(super) fn new() -> Flight {
        Flight {
            streams: core::array::from_fn(|_| Stream::default()),
            marks: core::array::from_fn(|_| Mark::default()),
            drained: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        }
    }

    /// Predicted time that is not known to be done.
    #[inline(always)]
    pub(super) fn in_flight_ns(&self) -> u64 {
        self.used().map(Stream::in_flight).sum()
    }

    /// Predicted time that is left on the GPU, as far as the clock was counted.
    #[inline(always)]
    pub(super) fn left_ns(&self) -> u64 {
        self.in_flight_ns().saturating_sub(self.drained.load(Ordering::Relaxed))
    }

    /// Counts the time until now, which drains unless another program's burst holds the GPU. Time in which nothing
    /// was left drains nothing: it must not count for what is launched after it.
    pub(super) fn count(&self, now: u64, drains: bool) {
        let before = self.counted.swap(now, Ordering::Relaxed);
        if drains {
            let drained = self.drained.load(Ordering::Relaxed) + now.saturating_sub(before);
            self.drained.store(drained.min(self.in_flight_ns()), Ordering::Relaxed);
        }
    }

    fn corrected(&self, now: u64) {
        self.drained.store(0, Ordering::Relaxed);
        self.counted.store(now, Ordering::Relaxed);
    }

    /// Something was launched on a stream. Says whether an event should go behind it.
    #[inline(always)]
    pub(super) fn launched(&self, key: u64, predicted_ns: u64, budget_ns: u64, now: u64) -> bool {
        if self.in_flight_ns() == 0 {
            self.corrected(now);
        }
        let stream = &self.streams[self.place(key)];
        let total = stream.launched.fetch_add(predicted_ns, Ordering::Relaxed) + predicted_ns;
        stream.last.store(now, Ordering::Relaxed);
        let spacing = (budget_ns / MARKS_PER_BUDGET).max(LEAST_SPACING_NS);
        let marked = stream.marked.load(Ordering::Relaxed).max(stream.done.load(Ordering::Relaxed));
        total.saturating_sub(marked) >= spacing
    }

    /// Puts an event behind all that was launched on a stream. Says whether there is one now.
    pub(super) fn mark(&self, key: u64, stream: u64, context: CUcontext, now: u64) -> bool {
        self.refresh(context, now);
        let place = self.place(key);
        let total = self.streams[place].launched.load(Ordering::Relaxed);
        let marked = self.streams[place].marked.load(Ordering::Relaxed);
        let claim = self.streams[place].marked.compare_exchange(
            marked,
            total,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if total <= marked || claim.is_err() {
            return false;
        }
        let Some(mark) = self.take_free(context) else { return false };
        mark.stream.store(place, Ordering::Relaxed);
        mark.total.store(total, Ordering::Relaxed);
        let event = mark.event.load(Ordering::Relaxed) as CUevent;
        // SAFETY: an event of ours in the current context, and the stream that the program has just used or
        // is about to use; if they do not fit the driver says so.
        let recorded =
            unsafe { (driver().cuEventRecord)(event, stream as CUstream) == CUDA_SUCCESS };
        mark.state.store(if recorded { PENDING } else { FREE }, Ordering::Release);
        recorded
    }

    /// A stream's place, what was launched there, and its last fence.
    pub(super) fn since_fence(&self, key: u64) -> (usize, u64, u32) {
        let place = self.place(key);
        let stream = &self.streams[place];
        let fence = stream.fence.load(Ordering::Relaxed);
        (place, stream.launched.load(Ordering::Relaxed), fence)
    }

    /// A fence was put into a stream.
    pub(super) fn fenced(&self, place: usize, fence: u32) {
        self.streams[place].fence.store(fence, Ordering::Relaxed);
    }

    /// Takes in what fences tell: of each its stream's place, what had been launched there before, and whether the
    /// GPU has come to it. Says whether anything was found done.
    pub(super) fn learn(
        &self,
        fences: impl FnOnce(&mut dyn FnMut(usize, u64, bool)),
        now: u64,
    ) -> bool {
        let mut progress = false;
        let mut at_most = u64::MAX;
        fences(&mut |place, before, is_reached| {
            let done = &self.streams[place % STREAMS].done;
            if is_reached {
                progress |= done.fetch_max(before, Ordering::Relaxed) < before;
            } else {
                at_most = at_most.min(before.saturating_sub(done.load(Ordering::Relaxed)));
            }
        });
        if progress {
            self.corrected(now);
        } else {
            self.drained.fetch_min(at_most, Ordering::Relaxed);
        }
        progress
    }

    /// Whether the driver may be asked again: not more often than it takes to learn something.
    pub(super) fn is_due(&self, now: u64) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        now.saturating_sub(asked) >= ASK_EVERY_NS
            && self.asked.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether there is an event to look for.
    pub(super) fn has_events(&self) -> bool {
        self.marks.iter().any(|mark| mark.state.load(Ordering::Relaxed) != FREE)
    }

    /// Looks which events have passed. Says whether anything was found done.
    pub(super) fn refresh(&self, context: CUcontext, now: u64) -> bool {
        let mut progress = self.expire(now);
        let mut at_most = u64::MAX;
        for mark in &self.marks {
            if mark.state.load(Ordering::Relaxed) != PENDING
                || mark.context.load(Ordering::Relaxed) != context as u64
                || !mark.take(PENDING)
            {
                continue;
            }
            let event = mark.event.load(Ordering::Relaxed) as CUevent;
            // SAFETY: an event of ours in the current context.
            let passed = unsafe { (driver().cuEventQuery)(event) } != CUDA_ERROR_NOT_READY;
            let stream = &self.streams[mark.stream.load(Ordering::Relaxed) % STREAMS];
            let total = mark.total.load(Ordering::Relaxed);
            if passed {
                progress |= stream.done.fetch_max(total, Ordering::Relaxed) < total;
            } else {
                at_most = at_most.min(total.saturating_sub(stream.done.load(Ordering::Relaxed)));
            }
            mark.state.store(if passed { FREE } else { PENDING }, Ordering::Release);
        }
        if progress {
            self.corrected(now);
        } else {
            self.drained.fetch_min(at_most, Ordering::Relaxed);
        }
        progress
    }

    /// The program has waited for a stream, or for everything.
    pub(super) fn waited(&self, key: Option<u64>, now: u64) {
        self.corrected(now);
        for stream in self.used() {
            if key.is_none_or(|key| stream.key.load(Ordering::Relaxed) == key) {
                stream.finish();
            }
        }
    }

    /// Contexts ended, and their events with them.
    pub(super) fn forget(&self) {
        for mark in &self.marks {
            mark.event.store(0, Ordering::Relaxed);
            mark.context.store(0, Ordering::Relaxed);
            mark.state.store(FREE, Ordering::Release);
        }
        self.waited(None, 0);
        for stream in &self.streams {
            stream.key.store(0, Ordering::Relaxed);
            stream.fence.store(0, Ordering::Relaxed);
        }
    }

    fn used(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter().take_while(|stream| stream.key.load(Ordering::Relaxed) != 0)
    }

    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        for (nth, stream) in self.streams.iter().enumerate().take(STREAMS - 1) {
            let there = stream.key.load(Ordering::Relaxed);
            if there == key {
                return nth;
            }
            if there == 0
                && stream
                    .key
                    .compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed)
                    .map_or_else(|taken| taken == key, |_| true)
            {
                return nth;
            }
        }
        self.streams[STREAMS - 1].key.store(u64::MAX, Ordering::Relaxed);
        STREAMS - 1
    }

    /// Forgets work that must be over; all that can be done while something is being captured.
    pub(super) fn expire(&self, now: u64) -> bool {
        let mut progress = false;
        for stream in self.used() {
            let since = now.saturating_sub(stream.last.load(Ordering::Relaxed));
            let rest = stream.in_flight();
            if rest > 0 && since > EXPIRES_NS + 2 * rest {
                stream.finish();
                progress = true;
            }
        }
        progress
    }

    /// A free event of this context, or a new one in a place that has none.
    fn take_free(&self, context: CUcontext) -> Option<&Mark> {
        let here = |mark: &&Mark| mark.context.load(Ordering::Relaxed) == context as u64;
        let empty = |mark: &&Mark| mark.event.load(Ordering::Relaxed) == 0;
        if let Some(mark) = self.marks.iter().filter(here).find(|mark| mark.take(FREE)) {
            return Some(mark);
        }
        let mark = self.marks.iter().filter(empty).find(|mark| mark.take(FREE))?;
        let mut event = core::ptr::null_mut();
        const DISABLE_TIMING: u32 = 2;
        // SAFETY: a valid place for the answer.
        if unsafe { (driver().cuEventCreate)(&raw mut event, DISABLE_TIMING) } != CUDA_SUCCESS {
            mark.state.store(FREE, Ordering::Release);
            return None;
        }
        mark.event.store(event as u64, Ordering::Relaxed);
        mark.context.store(context as u64, Ordering::Relaxed);
        Some(mark)
    }
}

impl Stream {
    #[inline(always)]
    fn in_flight(&self) -> u64 {
        let launched = self.launched.load(Ordering::Relaxed);
        launched.saturating_sub(self.done.load(Ordering::Relaxed))
    }

    fn finish(&self) {
        self.done.fetch_max(self.launched.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Mark {
    fn take(&self, from: u32) -> bool {
        self.state.compare_exchange(from, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_add_up_and_a_wait_clears_its_own() {
        let flight = Flight::new();
        assert!(!flight.launched(10, 30_000, 100_000, 0));
        assert!(flight.launched(10, 30_000, 100_000, 0), "half a budget without an event");
        flight.launched(20, 5_000, 100_000, 0);
        assert_eq!(flight.in_flight_ns(), 65_000);
        flight.waited(Some(10), 0);
        assert_eq!(flight.in_flight_ns(), 5_000);
        flight.waited(None, 0);
        assert_eq!(flight.in_flight_ns(), 0);
    }

    #[test]
    fn the_clock_drains_and_a_known_end_corrects() {
        let flight = Flight::new();
        flight.launched(10, 300, 100_000, 1_000);
        flight.launched(20, 500, 100_000, 1_010);
        flight.count(1_100, true);
        assert_eq!(flight.left_ns(), 700);
        flight.count(1_200, false);
        assert_eq!(flight.left_ns(), 700);
        flight.waited(Some(10), 1_450);
        assert_eq!((flight.left_ns(), flight.in_flight_ns()), (500, 500));
        flight.count(9_000, true);
        assert_eq!((flight.left_ns(), flight.in_flight_ns()), (0, 500));
        // The time in which nothing was left is forgotten.
        flight.launched(20, 700, 100_000, 9_000);
        assert_eq!(flight.left_ns(), 700);
        flight.waited(None, 9_001);
        flight.launched(10, 50, 100_000, 20_000);
        flight.count(20_010, true);
        assert_eq!(flight.left_ns(), 40);
    }

    #[test]
    fn what_nobody_tells_expires() {
        let flight = Flight::new();
        flight.launched(10, 1_000_000, 100_000, 1_000);
        assert!(!flight.expire(1_000 + EXPIRES_NS));
        assert!(flight.expire(1_001 + EXPIRES_NS + 2_000_000));
        assert_eq!(flight.in_flight_ns(), 0);
    }

    #[test]
    fn more_streams_than_places_share_the_last() {
        let flight = Flight::new();
        for key in 1..100 {
            flight.launched(key, 10, 100_000, 0);
        }
        assert_eq!(flight.in_flight_ns(), 990);
        flight.waited(None, 0);
        assert_eq!(flight.in_flight_ns(), 0);
    }
}
