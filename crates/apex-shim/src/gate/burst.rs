//! The bursts of a program that others make way for.
//!
//! A burst begins with the first input copy or launch after a pause and ends when the program has waited for
//! all of it: then it has its answer and the GPU is free. A launch only stores; clocks are read when a burst
//! opens and ends, and at one launch in eight. Which launches a wait covers is known by stream, and by the
//! events that lead from one stream to another. A program that asks instead of waiting ends no burst here; the
//! others stop believing in it some time after its last launch, and a new burst begins with the next one.

use crate::lock::{Lock, locked};
use apex_core::gate_page::{BurstWord, Own, Page, Setting, Shared};
use apex_core::time::monotonic_nanos;
use apex_policy::schedule::{Burst, Rhythm};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const LANES: usize = 16;
const EVENTS: usize = 64;
/// A pause after which a launch belongs to another burst, whatever was waited for.
const PAUSE_NS: u64 = 20_000_000;
/// One launch in so many tells its time.
const TELL_EVERY: u64 = 8;

/// The bursts of this program on one GPU.
pub(super) struct Bursts {
    open: AtomicBool,
    /// Launches of this burst. Not on the page: others look there while it goes on.
    launches: AtomicU64,
    lanes: [Lane; LANES],
    events: [Event; EVENTS],
    rhythm: Lock<Rhythm>,
}

/// A stream: how many things were launched on it, and how many of them are done.
#[derive(Default)]
struct Lane {
    key: AtomicU64,
    last: AtomicU64,
    done: AtomicU64,
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

impl Bursts {
    pub(super) fn new() -> Bursts {
        Bursts {
            open: AtomicBool::new(false),
            launches: AtomicU64::new(0),
            lanes: core::array::from_fn(|_| Lane::default()),
            events: core::array::from_fn(|_| Event::default()),
            rhythm: Lock::new(Rhythm::default()),
        }
    }

    /// A launch goes down in a burst that is open, and nothing more need be said of it. If not, it is for
    /// [`Bursts::touch`].
    #[inline(always)]
    pub(super) fn goes_on(&self, page: &Page, slot: usize, key: u64) -> bool {
        let Some(lane) = self.lanes.iter().find(|lane| lane.key.load(Ordering::Relaxed) == key)
        else {
            return false;
        };
        let next = lane.last.load(Ordering::Relaxed) + 1;
        if !self.open.load(Ordering::Relaxed) || next.is_multiple_of(TELL_EVERY) {
            return false;
        }
        lane.last.fetch_add(1, Ordering::SeqCst);
        add(&self.launches, 1);
        if !self.open.load(Ordering::SeqCst) {
            self.begin(page, slot);
        }
        true
    }

    /// A launch or a copy goes down on this stream.
    pub(super) fn touch(&self, page: &Page, slot: usize, key: u64, predicted_ns: u64, sms: u32) {
        let lane = &self.lanes[self.lane(key)];
        let number = lane.last.fetch_add(1, Ordering::SeqCst) + 1;
        let word = |word| page.own(slot, word);
        if !self.open.load(Ordering::SeqCst) {
            self.begin(page, slot);
        }
        let tells = number.is_multiple_of(TELL_EVERY);
        // It stands for those that went on without a word.
        add(word(Own::BurstPredicted), predicted_ns * if tells { TELL_EVERY } else { 1 });
        if predicted_ns > 0 {
            add(&self.launches, 1);
        }
        if u64::from(sms) > word(Own::Sms).load(Ordering::Relaxed) {
            word(Own::Sms).store(u64::from(sms), Ordering::Relaxed);
        }
        if tells {
            self.tell(page, slot);
        }
    }

    #[cold]
    fn tell(&self, page: &Page, slot: usize) {
        let now = monotonic_nanos();
        let last = page.own(slot, Own::LastActivity).swap(now, Ordering::Relaxed);
        let predicted = page.own(slot, Own::BurstPredicted).load(Ordering::Relaxed);
        if now.saturating_sub(last) > PAUSE_NS + predicted.saturating_mul(2) {
            // Nobody waited for the last one, and it must be over.
            self.finish(page, slot, last);
            self.begin(page, slot);
        }
    }

    #[cold]
    fn begin(&self, page: &Page, slot: usize) {
        if self.open.swap(true, Ordering::SeqCst) {
            return;
        }
        let now = monotonic_nanos();
        let store = |word, value| page.own(slot, word).store(value, Ordering::Relaxed);
        store(Own::BurstStart, now);
        store(Own::LastActivity, now);
        store(Own::BurstPredicted, 0);
        self.launches.store(0, Ordering::Relaxed);
        store(Own::Sms, 0);
        let others = page.setting(Setting::GatedSlots) & !(1 << slot);
        store(Own::BurstAhead, super::in_flight_of(page, others, now));
        page.shared(Shared::HarmNs).store(0, Ordering::Relaxed);
        page.shared(Shared::BurstsOpen).fetch_or(1 << slot, Ordering::SeqCst);
    }

    /// The program has waited for a stream, or for everything.
    pub(super) fn waited(&self, page: &Page, slot: usize, key: Option<u64>) {
        match key {
            Some(key) => self.done(self.lane(key), u64::MAX),
            None => (0..LANES).for_each(|lane| self.done(lane, u64::MAX)),
        }
        self.end_if_done(page, slot);
    }

    /// The program has waited for an event.
    pub(super) fn waited_event(&self, page: &Page, slot: usize, event: u64) {
        if let Some((lane, last)) = self.recorded_at(event) {
            self.done(lane, last);
        }
        self.end_if_done(page, slot);
    }

    /// Whether anything was launched on this stream.
    pub(super) fn has(&self, key: u64) -> bool {
        self.lanes.iter().any(|lane| lane.key.load(Ordering::Relaxed) == key)
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

    fn end_if_done(&self, page: &Page, slot: usize) {
        if self.open.load(Ordering::SeqCst) && self.is_done() {
            self.finish(page, slot, monotonic_nanos());
            // Another thread may have launched between the two looks.
            if !self.is_done() {
                self.begin(page, slot);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.lanes
            .iter()
            .all(|lane| lane.last.load(Ordering::SeqCst) <= lane.done.load(Ordering::SeqCst))
    }

    fn finish(&self, page: &Page, slot: usize, end: u64) {
        if !self.open.swap(false, Ordering::SeqCst) {
            return;
        }
        let load = |word| page.own(slot, word).load(Ordering::Relaxed);
        let store = |word, value| page.own(slot, word).store(value, Ordering::Relaxed);
        let burst = Burst {
            start_ns: load(Own::BurstStart),
            end_ns: end,
            launches: u32::try_from(self.launches.load(Ordering::Relaxed)).unwrap_or(u32::MAX),
            ahead_ns: load(Own::BurstAhead),
            harm_ns: page.shared(Shared::HarmNs).load(Ordering::Relaxed),
        };
        let number = load(Own::Bursts);
        let keep = |word, value| page.burst(slot, number, word).store(value, Ordering::Relaxed);
        keep(BurstWord::Start, burst.start_ns);
        keep(BurstWord::End, burst.end_ns);
        keep(BurstWord::Launches, u64::from(burst.launches));
        keep(BurstWord::Ahead, burst.ahead_ns);
        keep(BurstWord::Harm, burst.harm_ns);
        page.own(slot, Own::Bursts).store(number + 1, Ordering::Release);
        if let Some(mut rhythm) = locked(&self.rhythm) {
            rhythm.observe(&burst);
            store(Own::UsualBurstNs, rhythm.length_ns().unwrap_or(0));
            let next = rhythm.period_ns().map_or(0, |period| burst.start_ns + period);
            store(Own::NextBurstAt, next);
        }
        store(Own::IdleSince, end);
        page.shared(Shared::BurstsOpen).fetch_and(!(1 << slot), Ordering::SeqCst);
        page.wake_all();
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

    /// Contexts ended: nothing of them is waited for any more.
    pub(super) fn forget(&self, page: &Page, slot: usize) {
        self.waited(page, slot, None);
        self.lanes.iter().for_each(|lane| lane.key.store(0, Ordering::Relaxed));
    }
}

/// Not atomic as a whole: two threads may lose a part of the sum, which is an estimate.
#[inline(always)]
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

fn event_place(event: u64) -> usize {
    (event.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % EVENTS
}
