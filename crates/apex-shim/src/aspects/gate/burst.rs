//! The bursts of this program: what its launches and waits mean to them, and what the page says of them.
//!
//! A launch only stores; clocks are read when a burst opens and ends, and at one launch in eleven.
//!
//! A locked instruction costs as much as all else that a launch does here, so a launch has none as long as one
//! thread alone launches on a stream: the stream is then that thread's own, and it counts with a plain store, then
//! looks whether the burst is still open. Who ends a burst says so first and then looks whether all is waited for;
//! if another thread may be between its two, the kernel is asked to have every processor do a barrier
//! in between (`membarrier`). So one of them sees the other. Where several threads launch on one stream, or
//! the kernel has no such call, locked instructions do the same. What remains open is the moment in which a
//! second thread comes to a stream: the count of a launch that the first one is just making may be lost, and a
//! wait for another stream may then end the burst one launch too early; the next launch opens it again.

use super::barrier;
use super::blocking::is_blocking;
use super::fence;
use super::program::Gate;
use super::tally::LOOK_EVERY;
use super::view::{bits, gated_others, in_flight_of_others};
use super::word::{Bursts, Stream, Streams};
use crate::state::thread;
use apex_core::gate_page::{Grant, KeptBurst, Own, Page, Shared};
use apex_core::time::monotonic_nanos;
use apex_policy::gate::Burst;
use std::sync::atomic::Ordering;

/// The bursts of a program, and where it tells of them.
#[derive(Clone, Copy)]
pub(super) struct AtWork<'a> {
    bursts: &'a Bursts,
    streams: &'a Streams,
    page: &'a Page,
    slot: usize,
}

impl Gate {
    /// Its bursts.
    #[inline(always)]
    pub(super) fn at_work(&self) -> AtWork<'_> {
        let Gate { bursts, streams, page, slot, .. } = self;
        AtWork { bursts, streams, page, slot: *slot }
    }
}

impl<'a> AtWork<'a> {
    /// A launch goes down in a burst that is open, on a stream of the calling thread alone or of several.
    #[inline(always)]
    pub(super) fn count(self, stream: &Stream, is_own: bool) {
        if self.bursts.count(self.streams, stream, is_own) {
            self.begin();
        }
    }

    /// A launch of this thread goes down on a stream, and stands for so many that were only counted; or a copy, which
    /// stands for none. Returns the stream.
    pub(super) fn touch(self, me: u64, key: u64, launches: u32, predicted_ns: u64) -> &'a Stream {
        let stream = self.streams.of(key);
        stream.share_with(me, barrier::is_there());
        stream.count(stream.is_of(me));
        if !self.bursts.is_open() {
            self.begin();
        }
        let work_ns = self.bursts.add(launches, predicted_ns);
        self.store(Own::BurstPredicted, work_ns);
        if launches >= LOOK_EVERY || stream.launches().is_multiple_of(u64::from(LOOK_EVERY)) {
            self.tell();
        }
        stream
    }

    fn store(self, word: Own, value: u64) {
        self.page.own(self.slot, word).store(value, Ordering::Relaxed);
    }

    #[cold]
    fn tell(self) {
        let now = monotonic_nanos();
        let last = self.page.own(self.slot, Own::LastActivity).swap(now, Ordering::Relaxed);
        if self.bursts.is_forgotten(last, now) {
            self.finish(last);
            self.begin();
        }
    }

    #[cold]
    fn begin(self) {
        let now = monotonic_nanos();
        let ahead_ns = in_flight_of_others(self.page, self.slot, now);
        if !self.bursts.open(self.streams, ahead_ns, now) {
            return;
        }
        self.store(Own::BurstStart, now);
        self.store(Own::LastActivity, now);
        self.store(Own::BurstPredicted, 0);
        self.store(Own::BurstAhead, ahead_ns);
        let bit = 1 << self.slot;
        self.page.shared(Shared::BurstsOpen).fetch_or(bit, Ordering::SeqCst);
        self.stop_others();
    }

    /// The program has waited for a stream, or for everything.
    pub(super) fn waited(self, key: Option<u64>) {
        self.streams.waited(key, is_blocking);
        self.end_if_over();
    }

    /// The program has waited for an event. Whether that told what the GPU has done.
    pub(super) fn waited_event(self, event: u64) -> bool {
        let is_news = self.streams.waited_event(event);
        self.end_if_over();
        is_news
    }

    fn end_if_over(self) {
        if self.bursts.is_over(self.streams, monotonic_nanos) {
            self.end();
        }
    }

    fn end(self) {
        self.finish(monotonic_nanos());
        // Another thread may have launched between the two looks.
        if self.streams.may_be_launching(thread::number()) {
            barrier::everywhere();
        }
        if self.bursts.must_open(self.streams) {
            self.begin();
        }
    }

    fn finish(self, end: u64) {
        let Some(burst) = self.bursts.end(self.streams, end) else { return };
        self.page.keep_burst(self.slot, &kept(&burst));
        self.store(Own::UsualBurstNs, self.bursts.usual_ns());
        self.store(Own::IdleSince, end);
        let bit = 1 << self.slot;
        self.page.shared(Shared::BurstsOpen).fetch_and(!bit, Ordering::SeqCst);
        self.let_others_go();
        self.page.wake_all();
    }

    /// A burst has begun: who yields to this program stops at the next fence, unless it is owed its share.
    fn stop_others(self) {
        let AtWork { page, slot, .. } = self;
        for other in bits(gated_others(page, slot)) {
            let load = |word| page.own(other, word).load(Ordering::Relaxed);
            let given_ns = load(Own::AdmittedNs).saturating_sub(load(Own::InFlightNs));
            let is_owed = given_ns < page.grant(other, Grant::OwedNs);
            if page.grant(other, Grant::YieldsTo) >> slot & 1 != 0 && !is_owed {
                fence::close(page, other);
            }
        }
    }

    /// A burst has ended: who yielded to it goes on, unless it must wait a moment longer.
    fn let_others_go(self) {
        let AtWork { page, slot, .. } = self;
        for other in bits(gated_others(page, slot)) {
            let yields_to = page.grant(other, Grant::YieldsTo);
            let is_open =
                || page.shared(Shared::BurstsOpen).load(Ordering::SeqCst) & yields_to != 0;
            if yields_to >> slot & 1 != 0 && page.grant(other, Grant::GuardNs) == 0 && !is_open() {
                fence::open(page, other);
                // Another burst may have begun between the two.
                if is_open() {
                    fence::close(page, other);
                }
            }
        }
    }

    /// Contexts ended: nothing of them is waited for any more.
    pub(super) fn forget(self) {
        self.waited(None);
        self.streams.forget();
    }
}

fn kept(burst: &Burst) -> KeptBurst {
    KeptBurst {
        start_ns: burst.start_ns,
        end_ns: burst.end_ns,
        launches: u64::from(burst.launches),
        ahead_ns: burst.ahead_ns,
        work_ns: burst.work_ns,
    }
}

#[cfg(test)]
mod litmus;

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::gate_page::{Files, Setting, grant, setting};
    use apex_policy::gate::FenceWords;
    use std::os::unix::fs::FileExt;

    pub(super) const KEY: u64 = 0x1000;
    const THREAD: u64 = 64;

    /// A program in the first slot of a page of its own.
    pub(super) struct Program {
        pub(super) bursts: Bursts,
        pub(super) streams: Streams,
        page: Page,
    }

    impl Program {
        pub(super) fn new(name: &str) -> Program {
            Program::with(name, &[])
        }

        /// On a page whose settings have these words.
        fn with(name: &str, words: &[(usize, u64)]) -> Program {
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
            Program { bursts: Bursts::default(), streams: Streams::default(), page }
        }

        pub(super) fn at_work(&self) -> AtWork<'_> {
            AtWork { bursts: &self.bursts, streams: &self.streams, page: &self.page, slot: 0 }
        }

        pub(super) fn is_open(&self) -> bool {
            let bit = self.page.shared(Shared::BurstsOpen).load(Ordering::Relaxed) & 1 != 0;
            assert_eq!(bit, self.bursts.is_open(), "the page says the same");
            bit
        }

        /// One launch as the gate makes it, by a thread with this number.
        pub(super) fn launch(&self, thread: u64) {
            let stream = self.streams.find(KEY);
            match stream.filter(|stream| self.bursts.is_open() && stream.is_of(thread)) {
                Some(stream) => self.at_work().count(stream, true),
                None => _ = self.at_work().touch(thread, KEY, 1, 1_000),
            }
        }

        fn own(&self, word: Own) -> u64 {
            self.page.own(0, word).load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_page_says_of_a_burst_what_it_was() {
        let words = [(setting(Setting::GatedSlots), 1 << 3)];
        let program = Program::with("was", &words);
        program.page.own(3, Own::InFlightNs).store(3_000_000_000, Ordering::Relaxed);
        program.page.own(3, Own::InFlightAt).store(monotonic_nanos(), Ordering::Relaxed);
        program.at_work().touch(THREAD, KEY, 0, 0);
        (0..5).for_each(|_| program.launch(THREAD));
        assert_eq!(
            program.own(Own::BurstPredicted),
            0,
            "counted launches are told by the next look"
        );
        program.at_work().touch(THREAD, KEY, 6, 1_000);
        assert!(program.is_open() && program.own(Own::BurstPredicted) == 6_000);
        program.at_work().waited(Some(KEY));
        assert!(!program.is_open());
        let kept = KeptBurst::unpack(|word| program.page.burst(0, 0, word).load(Ordering::Relaxed));
        assert_eq!((kept.launches, kept.work_ns, program.own(Own::Bursts)), (6, 6_000, 1));
        assert_eq!(kept.ahead_ns.div_ceil(1_000_000_000), 3);
        assert_eq!(
            (kept.start_ns, kept.end_ns),
            (program.own(Own::BurstStart), program.own(Own::IdleSince))
        );
        program.launch(THREAD);
        assert!(program.is_open());
        program.at_work().waited(None);
        assert_eq!(program.own(Own::Bursts), 2);
    }

    #[test]
    fn a_burst_closes_the_fences_of_those_who_yield_to_it_and_opens_them_unless_they_wait_longer() {
        let words = [
            (setting(Setting::GatedSlots), 15 << 3),
            (grant(3, Grant::YieldsTo), 1),
            (grant(4, Grant::YieldsTo), 1),
            (grant(4, Grant::GuardNs), 100_000),
            (grant(5, Grant::YieldsTo), 2),
            (grant(6, Grant::YieldsTo), 1),
            (grant(6, Grant::OwedNs), u64::MAX),
        ];
        let program = Program::with("fences", &words);
        let page = &program.page;
        for other in [3, 4, 5, 6] {
            page.fence(other).store(8, Ordering::Relaxed);
            fence::open(page, other);
        }
        page.reached(3, 4).store(4, Ordering::Relaxed);
        let are_open = || {
            [3, 4, 5, 6].map(|other| {
                let through = page.through(other).load(Ordering::Relaxed);
                FenceWords { last: 8, through, ..FenceWords::default() }.are_open()
            })
        };
        program.launch(THREAD);
        assert_eq!(
            are_open(),
            [false, false, true, true],
            "one does not yield to it, one is owed all"
        );
        assert_eq!(page.past(3).load(Ordering::Relaxed), 4, "what lies behind it runs");
        let before = page.wake_word();
        program.at_work().waited(None);
        assert_eq!(are_open(), [true, false, true, true]);
        assert_ne!(page.wake_word(), before, "who waits for the guard is woken");
        // While the burst of another is open that it yields to it stays closed.
        fence::close(page, 5);
        page.shared(Shared::BurstsOpen).fetch_or(2, Ordering::Relaxed);
        program.launch(THREAD);
        program.at_work().waited(None);
        assert!(!are_open()[2]);
    }

    #[test]
    fn a_second_thread_makes_a_stream_shared_and_an_end_of_contexts_makes_it_free() {
        let program = Program::new("shared");
        program.launch(THREAD);
        let stream = program.streams.find(KEY).unwrap();
        assert!(!barrier::is_there() || stream.is_of(THREAD));
        program.launch(128);
        assert!(!stream.is_of(THREAD) && !stream.is_of(128) && !stream.is_of_another(192));
        program.at_work().forget();
        assert!(program.streams.find(KEY).is_none() && !program.is_open());
    }

    #[test]
    fn a_launch_between_the_two_looks_of_a_wait_keeps_the_burst_open() {
        let program = Program::new("between");
        program.launch(THREAD);
        program.streams.waited(None, is_blocking);
        // Another thread launches after that look.
        program.launch(THREAD);
        program.at_work().end();
        assert!(program.is_open());
        program.at_work().waited(Some(KEY));
        assert!(!program.is_open());
    }
}
