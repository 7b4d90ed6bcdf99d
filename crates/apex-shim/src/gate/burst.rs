//! The bursts of a program that others make way for.
//!
//! A burst begins with the first input copy or launch after a pause and ends when the program has waited for
//! all of it: then it has its answer and the GPU is free. A launch only stores; clocks are read when a burst
//! opens and ends, and at one launch in eleven. Which launches a wait covers the lanes know ([`super::lanes`]). A program
//! that asks instead of waiting has waited when the answer is yes. One that does neither ends no burst here; the others
//! stop believing in it some time after its last launch, and a new burst begins with the next one.
//!
//! A locked instruction costs as much as all else that a launch does here, so a launch has none as long as one
//! thread alone launches on a stream: the lane is then that thread's own, and it counts with a plain store, then
//! looks whether the burst is still open. Who ends a burst says so first and then looks whether all lanes are
//! done; if another thread may be between its two, the kernel is asked to have every processor do a barrier
//! in between (`membarrier`). So one of them sees the other. Where several threads launch on one stream, or
//! the kernel has no such call, locked instructions do the same. What remains open is the moment in which a
//! second thread comes to a stream: the count of a launch that the first one is just making may be lost, and a
//! wait for another stream may then end the burst one launch too early; the next launch opens it again.

use super::barrier;
use super::fence::{let_others_go, stop_others};
use super::lanes::{Lane, Lanes, add};
use super::view::{bits, in_flight_of_others};
use crate::lock::{Lock, locked};
use crate::thread;
use apex_core::gate_page::{BurstWord, Grant, Own, Page, Shared};
use apex_core::time::monotonic_nanos;
use apex_policy::schedule::{Burst, Rhythm, Work, harm_kept_ns};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A pause after which a launch belongs to another burst, whatever was waited for.
const PAUSE_NS: u64 = 20_000_000;
/// The part by which the need of multiprocessors shrinks with a burst that needs less.
const SMS_FORGOTTEN: u64 = 8;
/// One launch in so many tells its time and stands for those before it. A prime: of layers that are all alike each kernel
/// has its turn.
pub(super) const TELL_EVERY: u32 = 11;

/// The bursts of this program on one GPU. What a launch reads comes first.
#[repr(C)]
pub(super) struct Bursts {
    open: AtomicBool,
    /// What was launched on all streams before this burst. Not on the page: others look there while it goes on.
    before: AtomicU64,
    /// Copies of this burst, and the most multiprocessors that a launch of it needs.
    copies: AtomicU64,
    sms: AtomicU64,
    /// The sum of harm with which this burst began.
    harm_before: AtomicU64,
    pub(super) lanes: Lanes,
    rhythm: Lock<Rhythm>,
}

impl Bursts {
    pub(super) fn new() -> Bursts {
        Bursts {
            open: AtomicBool::new(false),
            before: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            sms: AtomicU64::new(0),
            harm_before: AtomicU64::new(0),
            lanes: Lanes::new(),
            rhythm: Lock::new(Rhythm::default()),
        }
    }

    /// Whether a burst is open: then a launch need only be counted.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// A launch goes down in a burst that is open, on a lane of the calling thread alone or of several.
    #[inline(always)]
    pub(super) fn count(&self, page: &Page, slot: usize, lane: &Lane, is_own: bool) {
        lane.count(is_own);
        if !self.is_open() {
            self.begin_unless_done(page, slot);
        }
    }

    #[cold]
    fn begin_unless_done(&self, page: &Page, slot: usize) {
        if !self.lanes.is_done() {
            self.begin(page, slot);
        }
    }

    /// A launch goes down on this stream, and stands for so many that were only counted; or a copy, which stands
    /// for none. Returns the lane.
    pub(super) fn touch(
        &self,
        page: &Page,
        slot: usize,
        key: u64,
        launches: u32,
        work: &Work,
    ) -> &Lane {
        let lane = self.lanes.of(key);
        let me = thread::number();
        lane.share_with(me);
        lane.count(lane.is_of(me));
        if !self.is_open() {
            self.begin(page, slot);
        }
        let number = lane.launched();
        let word = |word| page.own(slot, word);
        let predicted_ns = work.predicted_ns * u64::from(launches);
        add(word(Own::BurstPredicted), predicted_ns);
        if launches == 0 {
            add(&self.copies, 1);
        }
        let sms = u64::from(work.sms_needed);
        for most in [&self.sms, word(Own::Sms)] {
            if sms > most.load(Ordering::Relaxed) {
                most.store(sms, Ordering::Relaxed);
            }
        }
        if launches >= TELL_EVERY || number.is_multiple_of(u64::from(TELL_EVERY)) {
            self.tell(page, slot);
        }
        lane
    }

    #[cold]
    fn tell(&self, page: &Page, slot: usize) {
        let now = monotonic_nanos();
        let last = page.own(slot, Own::LastActivity).load(Ordering::Relaxed);
        page.own(slot, Own::LastActivity).store(now, Ordering::Relaxed);
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
        // The one that opens it is counted already.
        self.before.store(self.lanes.launched().wrapping_sub(1), Ordering::Relaxed);
        self.copies.store(0, Ordering::Relaxed);
        self.sms.store(0, Ordering::Relaxed);
        store(Own::BurstAhead, in_flight_of_others(page, slot, now));
        let class = page.grant(slot, Grant::Class);
        let open = page.shared(Shared::BurstsOpen).load(Ordering::Relaxed) & !(1 << slot);
        let others = bits(open).any(|other| page.grant(other, Grant::Class) >= class);
        let ended = page.own(slot, Own::IdleSince).load(Ordering::Relaxed);
        let harm = page.shared(Shared::HarmNs).load(Ordering::Relaxed);
        let kept = harm_kept_ns(harm, others, Some(ended), now);
        page.shared(Shared::HarmNs).store(kept, Ordering::Relaxed);
        self.harm_before.store(kept, Ordering::Relaxed);
        store(Own::BurstHarm, kept);
        page.shared(Shared::BurstsOpen).fetch_or(1 << slot, Ordering::SeqCst);
        stop_others(page, slot);
    }

    /// The program has waited for a stream, or for everything.
    pub(super) fn waited(&self, page: &Page, slot: usize, key: Option<u64>) {
        self.lanes.waited(key);
        self.end_if_done(page, slot);
    }

    /// The program has waited for an event.
    pub(super) fn waited_event(&self, page: &Page, slot: usize, event: u64) {
        self.lanes.waited_event(event);
        self.end_if_done(page, slot);
    }

    fn end_if_done(&self, page: &Page, slot: usize) {
        if !self.open.load(Ordering::SeqCst) {
            return;
        }
        if self.lanes.is_done() || self.lanes.rest_is_forsaken(monotonic_nanos(), PAUSE_NS) {
            self.end(page, slot);
        }
    }

    fn end(&self, page: &Page, slot: usize) {
        self.finish(page, slot, monotonic_nanos());
        // Another thread may have launched between the two looks.
        let me = thread::number();
        if self.lanes.may_be_launching(me) {
            barrier::everywhere();
        }
        self.begin_unless_done(page, slot);
    }

    fn finish(&self, page: &Page, slot: usize, end: u64) {
        if !self.open.swap(false, Ordering::SeqCst) {
            return;
        }
        let load = |word| page.own(slot, word).load(Ordering::Relaxed);
        let store = |word, value| page.own(slot, word).store(value, Ordering::Relaxed);
        let harm = page.shared(Shared::HarmNs).load(Ordering::Relaxed);
        let launches = self
            .lanes
            .launched()
            .wrapping_sub(self.before.load(Ordering::Relaxed))
            .saturating_sub(self.copies.load(Ordering::Relaxed));
        let burst = Burst {
            start_ns: load(Own::BurstStart),
            end_ns: end,
            launches: u32::try_from(launches).unwrap_or(u32::MAX),
            ahead_ns: load(Own::BurstAhead),
            harm_ns: harm.saturating_sub(self.harm_before.load(Ordering::Relaxed)),
            left_ns: in_flight_of_others(page, slot, end),
            work_ns: load(Own::BurstPredicted),
        };
        let number = load(Own::Bursts);
        let keep = |word, value| page.burst(slot, number, word).store(value, Ordering::Relaxed);
        keep(BurstWord::Start, burst.start_ns);
        keep(BurstWord::End, burst.end_ns);
        keep(BurstWord::Launches, u64::from(burst.launches));
        keep(BurstWord::Ahead, burst.ahead_ns);
        keep(BurstWord::Harm, burst.harm_ns);
        keep(BurstWord::Left, burst.left_ns);
        keep(BurstWord::Work, burst.work_ns);
        page.own(slot, Own::Bursts).store(number + 1, Ordering::Release);
        if let Some(mut rhythm) = locked(&self.rhythm) {
            rhythm.observe(&burst);
            store(Own::UsualBurstNs, rhythm.length_ns().unwrap_or(0));
            let next = rhythm.period_ns().map_or(0, |period| burst.start_ns + period);
            store(Own::NextBurstAt, next);
        }
        // The next one is thought to need as much from its beginning on, before it has launched anything.
        let sms = load(Own::Sms);
        store(Own::Sms, (sms - sms / SMS_FORGOTTEN).max(self.sms.load(Ordering::Relaxed)));
        store(Own::IdleSince, end);
        page.shared(Shared::BurstsOpen).fetch_and(!(1 << slot), Ordering::SeqCst);
        let_others_go(page, slot);
        page.wake_all();
    }

    /// Contexts ended: nothing of them is waited for any more.
    pub(super) fn forget(&self, page: &Page, slot: usize) {
        self.waited(page, slot, None);
        self.lanes.forget();
    }
}

#[cfg(test)]
mod litmus;

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::gate_page::{Files, Setting, grant, setting};
    use std::os::unix::fs::FileExt;

    pub(super) const KEY: u64 = 0x1000;

    pub(super) fn page(name: &str) -> Page {
        page_with(name, &[])
    }

    /// A page whose settings have these words.
    fn page_with(name: &str, words: &[(usize, u64)]) -> Page {
        let directory =
            std::env::temp_dir().join(format!("apex-burst-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let files = Files::of(&directory, "00");
        files.create(0o600, 0o600).unwrap();
        let settings = std::fs::File::options().write(true).open(files.settings()).unwrap();
        for &(place, value) in words {
            settings.write_all_at(&value.to_le_bytes(), place as u64 * 8).unwrap();
        }
        let page = Page::map(&files).unwrap();
        std::fs::remove_dir_all(directory).unwrap();
        page
    }

    /// One launch as the gate makes it, by a thread with this number.
    pub(super) fn launch(bursts: &Bursts, page: &Page, thread: u64) {
        match bursts.lanes.find(KEY).filter(|lane| bursts.is_open() && lane.is_of(thread)) {
            Some(lane) => bursts.count(page, 0, lane, true),
            None => {
                let lane = bursts.touch(
                    page,
                    0,
                    KEY,
                    1,
                    &Work { predicted_ns: 1_000, sms_needed: 1, ..Work::default() },
                );
                // Threads of a test have no block: they say themselves who they are.
                lane.owner.store(thread, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn a_burst_lasts_until_all_of_it_was_waited_for_and_counts_its_launches() {
        let (page, bursts) = (page("lasts"), Bursts::new());
        bursts.touch(&page, 0, KEY, 0, &Work::default());
        (0..5).for_each(|_| launch(&bursts, &page, 64));
        bursts.lanes.recorded(7, KEY);
        launch(&bursts, &page, 64);
        bursts.waited_event(&page, 0, 7);
        assert!(bursts.is_open(), "a launch came after the event");
        bursts.waited(&page, 0, Some(KEY));
        assert!(!bursts.is_open());
        let of = |word| page.burst(0, 0, word).load(Ordering::Relaxed);
        assert_eq!(of(BurstWord::Launches), 6, "and the copy is none");
        launch(&bursts, &page, 64);
        assert!(bursts.is_open());
        bursts.waited(&page, 0, None);
        assert_eq!(page.burst(0, 1, BurstWord::Launches).load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_burst_says_what_of_others_was_there_when_it_began_and_ended() {
        let words = [(setting(Setting::GatedSlots), 1 << 3)];
        let (page, bursts) = (page_with("left", &words), Bursts::new());
        let in_flight = |nanos| {
            page.own(3, Own::InFlightNs).store(nanos, Ordering::Relaxed);
            page.own(3, Own::InFlightAt).store(monotonic_nanos(), Ordering::Relaxed);
        };
        in_flight(3_000_000_000);
        launch(&bursts, &page, 64);
        in_flight(2_000_000_000);
        bursts.waited(&page, 0, None);
        let seconds = |word| page.burst(0, 0, word).load(Ordering::Relaxed).div_ceil(1_000_000_000);
        assert_eq!([BurstWord::Ahead, BurstWord::Left].map(seconds), [3, 2]);
    }

    #[test]
    fn whoever_may_go_on_beside_a_burst_is_woken_when_it_begins() {
        let woken = |name: &str, beside_ns: u64| {
            let words = [
                (setting(Setting::GatedSlots), 1 << 3),
                (grant(3, Grant::YieldsTo), 1),
                (grant(3, Grant::BesideHarmNs), beside_ns),
            ];
            let (page, bursts) = (page_with(name, &words), Bursts::new());
            let before = page.wake_word();
            launch(&bursts, &page, 64);
            page.wake_word() != before
        };
        assert!(woken("beside", 1_000));
        assert!(!woken("strict", 0), "nobody has anything to decide");
    }

    #[test]
    fn a_burst_is_thought_to_need_what_those_before_it_needed() {
        let (page, bursts) = (page("sms"), Bursts::new());
        let sms = || page.own(0, Own::Sms).load(Ordering::Relaxed);
        let burst = |sms_needed| {
            let work = Work { sms_needed, ..Work::default() };
            bursts.touch(&page, 0, KEY, 1, &work);
            bursts.waited(&page, 0, None);
        };
        burst(128);
        bursts.touch(&page, 0, KEY, 0, &Work::default());
        assert_eq!(sms(), 128, "its input copy says nothing");
        bursts.waited(&page, 0, None);
        assert_eq!(sms(), 112);
        (0..40).for_each(|_| burst(16));
        assert_eq!(sms(), 16);
    }

    #[test]
    fn a_second_thread_makes_a_lane_shared_and_an_end_of_contexts_makes_it_free() {
        let (page, bursts) = (page("shared"), Bursts::new());
        launch(&bursts, &page, 64);
        let lane = bursts.lanes.find(KEY).unwrap();
        assert!(lane.is_of(64));
        lane.share_with(128);
        assert!(!lane.is_of(64) && !lane.is_of(128) && !lane.is_of_another(192));
        bursts.forget(&page, 0);
        assert!(bursts.lanes.find(KEY).is_none() && !bursts.is_open());
    }

    #[test]
    fn a_launch_between_the_two_looks_of_a_wait_keeps_the_burst_open() {
        let (page, bursts) = (page("between"), Bursts::new());
        launch(&bursts, &page, 64);
        bursts.lanes.waited(None);
        assert!(bursts.lanes.is_done());
        // Another thread launches after that look.
        launch(&bursts, &page, 64);
        bursts.end(&page, 0);
        assert!(bursts.is_open());
        bursts.waited(&page, 0, Some(KEY));
        assert!(!bursts.is_open());
    }

    #[test]
    fn a_launch_that_finds_its_burst_ended_opens_the_next() {
        let (page, bursts) = (page("ended"), Bursts::new());
        launch(&bursts, &page, 64);
        bursts.waited(&page, 0, None);
        // It saw the burst open and was overtaken by its end.
        bursts.count(&page, 0, bursts.lanes.find(KEY).unwrap(), true);
        assert!(bursts.is_open());
    }
}
