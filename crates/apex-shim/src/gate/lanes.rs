//! The streams of a program that others make way for: what was launched on each, and what a wait covers.
//!
//! A wait covers its stream, what events lead to it from other streams and, for the default stream, every stream that was
//! made without `CU_STREAM_NON_BLOCKING`. A stream that got nothing more for a while in which the program waited for
//! others is waited for by nobody: PyTorch sets up the capture of a graph so.
//!
//! How a launch counts without a locked instruction, and why that is enough, [`super::burst`] says.

use super::barrier;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

const LANES: usize = 16;
const EVENTS: usize = 64;
/// Streams that the default stream waits for: those made without `CU_STREAM_NON_BLOCKING`. By place, so that of two
/// with the same place one may be forgotten; who waits for the default stream then waits on for the other.
static BLOCKING: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// Instead of a thread, whose number is an address.
const SEVERAL: u64 = 1;

/// The streams of this program on one GPU. The last one takes all that found no place.
pub(super) struct Lanes {
    lanes: [Lane; LANES],
    events: [Event; EVENTS],
}

/// A stream: how many things were launched on it, and how many of them are done. What a launch touches lies in
/// its first line of memory.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Lane {
    key: AtomicU64,
    /// The thread that alone launches on it; [`SEVERAL`] where there are more, 0 where there was none.
    pub(super) owner: AtomicU64,
    last: AtomicU64,
    done: AtomicU64,
    /// What had been launched when a wait for others was first over without it, and when that was.
    left: AtomicU64,
    left_at: AtomicU64,
    /// For each other stream, up to where it is done when this one is.
    carries: [AtomicU64; LANES],
}

/// An event that was recorded: behind what.
#[derive(Default)]
struct Event {
    handle: AtomicU64,
    lane: AtomicU64,
    last: AtomicU64,
}

impl Lanes {
    pub(super) fn new() -> Lanes {
        Lanes {
            lanes: core::array::from_fn(|_| Lane::default()),
            events: core::array::from_fn(|_| Event::default()),
        }
    }

    /// The lane of a stream, if something was launched on it.
    pub(super) fn find(&self, key: u64) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.key.load(Ordering::Relaxed) == key)
    }

    /// The lane of a stream.
    #[inline(always)]
    pub(super) fn of(&self, key: u64) -> &Lane {
        &self.lanes[self.lane(key)]
    }

    #[inline(always)]
    fn lane(&self, key: u64) -> usize {
        for (nth, lane) in self.lanes.iter().enumerate() {
            let there = lane.key.load(Ordering::Relaxed);
            if there == key {
                return nth;
            }
            if there == 0
                && lane
                    .key
                    .compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed)
                    .map_or_else(|taken| taken == key, |_| true)
            {
                return nth;
            }
        }
        LANES - 1
    }

    /// The program has waited for a stream, or for everything.
    pub(super) fn waited(&self, key: Option<u64>) {
        match key {
            Some(key) => {
                self.done(self.lane(key), u64::MAX);
                if is_default(key) {
                    self.blocking().for_each(|lane| self.done(lane, u64::MAX));
                }
            }
            None => (0..LANES).for_each(|lane| self.done(lane, u64::MAX)),
        }
    }

    /// The program has waited for an event.
    pub(super) fn waited_event(&self, event: u64) {
        if let Some((lane, last)) = self.recorded_at(event) {
            self.done(lane, last);
        }
    }

    /// An event was recorded on a stream.
    pub(super) fn recorded(&self, event: u64, key: u64) {
        let lane = self.lane(key);
        let kept = &self.events[event_place(event)];
        kept.handle.store(0, Ordering::Relaxed);
        kept.lane.store(lane as u64, Ordering::Relaxed);
        kept.last.store(self.lanes[lane].last.load(Ordering::Relaxed), Ordering::Relaxed);
        kept.handle.store(event, Ordering::Release);
    }

    /// A stream waits for an event: who waits for the stream has waited for what is before the event too.
    pub(super) fn joins(&self, key: u64, event: u64) {
        if let Some((from, last)) = self.recorded_at(event) {
            self.lanes[self.lane(key)].carries[from].fetch_max(last, Ordering::Relaxed);
        }
    }

    fn recorded_at(&self, event: u64) -> Option<(usize, u64)> {
        let kept = &self.events[event_place(event)];
        (kept.handle.load(Ordering::Acquire) == event).then(|| {
            (kept.lane.load(Ordering::Relaxed) as usize % LANES, kept.last.load(Ordering::Relaxed))
        })
    }

    fn done(&self, lane: usize, up_to: u64) {
        let this = &self.lanes[lane];
        let last = this.last.load(Ordering::SeqCst);
        this.done.fetch_max(up_to.min(last), Ordering::SeqCst);
        if up_to >= last {
            for (other, carried) in self.lanes.iter().zip(&this.carries) {
                let until = carried.load(Ordering::Relaxed);
                other.done.fetch_max(until, Ordering::SeqCst);
            }
        }
    }

    /// The streams that the default stream waits for.
    fn blocking(&self) -> impl Iterator<Item = usize> {
        let key = |lane: &Lane| lane.key.load(Ordering::Relaxed);
        (0..LANES).filter(move |&lane| is_blocking(key(&self.lanes[lane])))
    }

    /// Whether nobody waits for what is not done: those streams got nothing more while the program waited for others.
    #[cold]
    pub(super) fn rest_is_forsaken(&self, now: u64, pause_ns: u64) -> bool {
        let mut all = true;
        for lane in &self.lanes {
            let last = lane.last.load(Ordering::SeqCst);
            if last <= lane.done.load(Ordering::SeqCst) {
                continue;
            }
            if lane.left.swap(last, Ordering::Relaxed) != last {
                lane.left_at.store(now, Ordering::Relaxed);
                all = false;
            } else if now.saturating_sub(lane.left_at.load(Ordering::Relaxed)) < pause_ns {
                all = false;
            } else {
                lane.done.fetch_max(last, Ordering::SeqCst);
            }
        }
        all
    }

    /// What was launched and copied on all streams since the beginning.
    pub(super) fn launched(&self) -> u64 {
        let last = |lane: &Lane| lane.last.load(Ordering::Relaxed);
        self.lanes.iter().map(last).fold(0, u64::wrapping_add)
    }

    /// Whether all of it is done.
    pub(super) fn is_done(&self) -> bool {
        self.lanes
            .iter()
            .all(|lane| lane.last.load(Ordering::SeqCst) <= lane.done.load(Ordering::SeqCst))
    }

    /// Whether a thread other than this may be between the two steps of a launch that it alone counts.
    pub(super) fn may_be_launching(&self, me: u64) -> bool {
        self.lanes.iter().any(|lane| lane.is_of_another(me))
    }

    /// Contexts ended, and their streams with them.
    pub(super) fn forget(&self) {
        for lane in &self.lanes {
            // Threads that keep the lane as theirs look for it again.
            lane.owner.store(0, Ordering::Relaxed);
            lane.key.store(0, Ordering::Relaxed);
        }
    }
}

impl Lane {
    /// One more goes down. When this returns, whether the burst is open may be asked.
    #[inline(always)]
    pub(super) fn count(&self, is_own: bool) {
        if is_own {
            add(&self.last, 1);
            // Whoever ends the burst has this processor do the same between its two looks.
            compiler_fence(Ordering::SeqCst);
        } else {
            self.last.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// What was launched and copied on it since the beginning.
    pub(super) fn launched(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Whether this thread alone launches on it.
    #[inline(always)]
    pub(super) fn is_of(&self, thread: u64) -> bool {
        self.owner.load(Ordering::Relaxed) == thread
    }

    /// Whether one other thread alone launches on it.
    pub(super) fn is_of_another(&self, thread: u64) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        owner > SEVERAL && owner != thread
    }

    /// This thread launches on it from here on.
    pub(super) fn share_with(&self, thread: u64) {
        if self.is_of(thread) {
            return;
        }
        let thread = if barrier::is_there() { thread } else { SEVERAL };
        let first = self.owner.compare_exchange(0, thread, Ordering::SeqCst, Ordering::Relaxed);
        if first.is_err_and(|owner| owner != thread) {
            self.owner.store(SEVERAL, Ordering::SeqCst);
        }
    }
}

/// Not atomic as a whole: two threads may lose a part of the sum, which is an estimate.
#[inline(always)]
pub(super) fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// The number of a context's default stream is odd: see `stream_key`.
fn is_default(key: u64) -> bool {
    key & 1 != 0
}

/// A stream was made.
pub(super) fn stream_made(stream: u64, non_blocking: bool) {
    let place = &BLOCKING[stream_place(stream)];
    if !non_blocking {
        place.store(stream, Ordering::Relaxed);
    } else if place.load(Ordering::Relaxed) == stream {
        place.store(0, Ordering::Relaxed);
    }
}

fn is_blocking(key: u64) -> bool {
    key != 0 && BLOCKING[stream_place(key)].load(Ordering::Relaxed) == key
}

fn stream_place(stream: u64) -> usize {
    (stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % BLOCKING.len()
}

fn event_place(event: u64) -> usize {
    (event.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % EVENTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_waits_for_is_left_out_after_a_while() {
        let lanes = Lanes::new();
        let (awaited, forsaken) = (lanes.of(0x1000), lanes.of(0x2000));
        forsaken.count(false);
        awaited.count(false);
        lanes.waited(Some(0x1000));
        assert!(!lanes.is_done());
        assert!(!lanes.rest_is_forsaken(1_000, 50), "it may be waited for yet");
        assert!(!lanes.rest_is_forsaken(1_049, 50));
        forsaken.count(false);
        assert!(!lanes.rest_is_forsaken(1_050, 50), "it is in use");
        assert!(!lanes.rest_is_forsaken(1_099, 50));
        assert!(lanes.rest_is_forsaken(1_100, 50) && lanes.is_done());
        awaited.count(false);
        assert!(!lanes.is_done());
        lanes.waited(Some(0x1000));
        assert!(lanes.is_done());
    }

    #[test]
    fn who_waits_for_the_default_stream_waits_for_blocking_ones() {
        let lanes = Lanes::new();
        stream_made(0x3000, false);
        stream_made(0x4000, true);
        lanes.of(0x3000).count(false);
        lanes.waited(Some(0x7001));
        assert!(lanes.is_done());
        lanes.of(0x4000).count(false);
        lanes.waited(Some(0x7001));
        assert!(!lanes.is_done());
    }

    #[test]
    fn an_event_leads_from_one_stream_to_another() {
        let lanes = Lanes::new();
        lanes.of(0x1000).count(false);
        lanes.recorded(7, 0x1000);
        lanes.joins(0x2000, 7);
        lanes.of(0x1000).count(false);
        lanes.waited(Some(0x2000));
        assert!(!lanes.is_done(), "one came after the event");
        lanes.recorded(7, 0x1000);
        lanes.waited_event(7);
        assert!(lanes.is_done());
    }
}
