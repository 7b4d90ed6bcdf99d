//! The bursts of a program that others make way for: when one opens, when it ends, what it was.
//!
//! A burst begins with the first input copy or launch after a pause and ends when the program has waited for all of
//! it: then it has its answer and the GPU is free. Which launches a wait covers the streams know ([`super::Streams`]). A
//! program that asks instead of waiting has waited when the answer is yes. One that does neither ends no burst here;
//! the others stop believing in it some time after its last launch ([`super::Other::is_believed`]), and a new burst
//! begins with the next one.
//!
//! A launch counts first and then looks whether the burst is still open. Who ends a burst says so first and then looks
//! whether all is waited for. So of a launch and an end at the same moment one sees the other, if a barrier of all
//! threads stands between the two steps of the end ([`super::Word::add_alone`]); whoever sees it opens the next burst.

use super::streams::{Stream, Streams};
use super::word::Word;

/// A pause after which a launch belongs to another burst, whatever was waited for.
const PAUSE_NS: u64 = 20_000_000;
/// Lengths that are kept for the usual one, and those to see before anything is said.
const KEPT: usize = 16;
const LEAST: u64 = 4;

/// One burst of a program: from its first input copy or launch after a pause until it has waited for all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Kernels and graphs launched in it: bursts with about as many are alike.
    pub launches: u32,
    /// Predicted time of others' work that was in flight when it began.
    pub ahead_ns: u64,
    /// Predicted time of what was launched in it; in the rest of its length the device was not needed.
    pub work_ns: u64,
}

impl Burst {
    /// Its length.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// The bursts of a program on one GPU. What a launch reads comes first.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Bursts<W> {
    open: W,
    /// What was launched on all streams before this burst.
    before: W,
    /// Copies of this burst.
    copies: W,
    start_ns: W,
    ahead_ns: W,
    work_ns: W,
    /// Bursts that ended, and the lengths of the last of them.
    ended: W,
    lengths_ns: [W; KEPT],
}

impl<W: Word> Bursts<W> {
    /// Whether a burst is open: then a launch need only be counted.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.open.get() != 0
    }

    /// A launch goes down in a burst that is open, on a stream of the calling thread alone or of several. Says whether
    /// it must open the next burst: this one was ended meanwhile, and nobody has waited for the launch.
    #[inline(always)]
    pub fn count(&self, streams: &Streams<W>, stream: &Stream<W>, is_own: bool) -> bool {
        stream.count(is_own);
        !self.is_open() && self.must_open(streams)
    }

    /// Whether a burst that was ended must be opened again: not all that was launched was waited for.
    #[cold]
    pub fn must_open(&self, streams: &Streams<W>) -> bool {
        !streams.is_waited_for()
    }

    /// Opens a burst with a launch or copy that is counted already; so much of others was in flight. False where
    /// another thread has opened it.
    #[cold]
    pub fn open(&self, streams: &Streams<W>, ahead_ns: u64, now_ns: u64) -> bool {
        if self.open.swap(1) != 0 {
            return false;
        }
        self.before.set(streams.launches().wrapping_sub(1));
        self.copies.set(0);
        self.work_ns.set(0);
        self.start_ns.set(now_ns);
        self.ahead_ns.set(ahead_ns);
        true
    }

    /// So many launches of so much predicted time each are part of the burst; none is a copy. All its predicted time.
    pub fn add(&self, launches: u32, predicted_ns: u64) -> u64 {
        if launches == 0 {
            self.copies.add(1);
        }
        // Two threads may lose a part of the sum, which is an estimate.
        let more_ns = predicted_ns.saturating_mul(launches.into());
        self.work_ns.set(self.work_ns.get().saturating_add(more_ns));
        self.work_ns.get()
    }

    /// Whether the burst must be over although nobody waited for it: nothing was launched for so long.
    #[must_use]
    pub fn is_forgotten(&self, last_activity_ns: u64, now_ns: u64) -> bool {
        let longest_ns = PAUSE_NS.saturating_add(self.work_ns.get().saturating_mul(2));
        now_ns.saturating_sub(last_activity_ns) > longest_ns
    }

    /// Whether the burst has ended, now that the program has waited for something. The clock is read only where a
    /// stream was left out.
    pub fn is_over(&self, streams: &Streams<W>, now_ns: impl FnOnce() -> u64) -> bool {
        self.is_open() && (streams.is_waited_for() || streams.rest_is_forsaken(now_ns(), PAUSE_NS))
    }

    /// Ends the burst that is open. None where another thread has ended it. The caller must ask [`Bursts::must_open`]
    /// afterwards, behind a barrier.
    pub fn end(&self, streams: &Streams<W>, end_ns: u64) -> Option<Burst> {
        if self.open.swap(0) == 0 {
            return None;
        }
        let launches = streams.launches().wrapping_sub(self.before.get());
        let burst = Burst {
            start_ns: self.start_ns.get(),
            end_ns,
            launches: u32::try_from(launches.saturating_sub(self.copies.get())).unwrap_or(u32::MAX),
            ahead_ns: self.ahead_ns.get(),
            work_ns: self.work_ns.get(),
        };
        let nth = (self.ended.add(1) - 1) as usize % KEPT;
        self.lengths_ns[nth].set(burst.length_ns());
        Some(burst)
    }

    /// The usual length of a burst, the middle of the last ones; 0 where too few were seen.
    pub fn usual_ns(&self) -> u64 {
        let seen = self.ended.get();
        if seen < LEAST {
            return 0;
        }
        let mut sorted: [u64; KEPT] = core::array::from_fn(|nth| self.lengths_ns[nth].get());
        let kept = &mut sorted[..seen.min(KEPT as u64) as usize];
        kept.sort_unstable();
        kept[kept.len() / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::super::word::Plain;
    use super::*;

    const KEY: u64 = 0x1000;

    /// A program of one thread and one stream, with a clock of its own.
    #[derive(Default)]
    struct Program {
        streams: Streams<Plain>,
        bursts: Bursts<Plain>,
        now_ns: u64,
        ended: Vec<Burst>,
    }

    impl Program {
        fn launch(&self, launches: u32, predicted_ns: u64) {
            let stream = self.streams.of(KEY);
            let must_open = self.bursts.count(&self.streams, stream, true);
            if must_open || !self.bursts.is_open() {
                self.bursts.open(&self.streams, 0, self.now_ns);
            }
            self.bursts.add(launches, predicted_ns);
        }

        fn end(&mut self) {
            let ended = self.bursts.end(&self.streams, self.now_ns);
            self.ended.extend(ended);
        }

        fn wait(&mut self, key: Option<u64>) {
            self.streams.waited(key, |_| false);
            if self.bursts.is_over(&self.streams, || self.now_ns) {
                self.end();
            }
        }
    }

    #[test]
    fn a_burst_lasts_until_all_of_it_was_waited_for_and_counts_its_launches() {
        let mut program = Program { now_ns: 100, ..Program::default() };
        program.launch(0, 0);
        (0..5).for_each(|_| program.launch(1, 30));
        program.streams.recorded(7, KEY);
        program.launch(1, 30);
        program.streams.waited_event(7);
        assert!(!program.bursts.is_over(&program.streams, || 0), "a launch came after the event");
        program.now_ns = 900;
        program.wait(Some(KEY));
        let burst =
            Burst { start_ns: 100, end_ns: 900, launches: 6, work_ns: 180, ..Burst::default() };
        assert_eq!(program.ended, [burst], "and the copy is no launch");
        program.launch(1, 30);
        assert!(program.bursts.is_open());
        program.wait(None);
        assert_eq!((program.ended[1].launches, program.ended[1].work_ns), (1, 30));
    }

    #[test]
    fn a_burst_says_what_of_others_was_there_when_it_began_and_begins_and_ends_once() {
        let mut program = Program::default();
        program.streams.of(KEY).count(true);
        assert!(program.bursts.open(&program.streams, 3_000, 0));
        assert!(!program.bursts.open(&program.streams, 5_000, 1), "it is open");
        program.end();
        program.end();
        let [burst] = program.ended[..] else { panic!("it ends once") };
        assert_eq!(burst.ahead_ns, 3_000);
    }

    #[test]
    fn a_launch_between_the_two_looks_of_a_wait_keeps_the_burst_open() {
        let mut program = Program::default();
        program.launch(1, 30);
        program.streams.waited(None, |_| false);
        assert!(program.bursts.is_over(&program.streams, || 0));
        // Another thread launches after that look, and finds the burst open.
        program.launch(1, 30);
        program.end();
        assert!(program.bursts.must_open(&program.streams));
    }

    #[test]
    fn a_launch_that_finds_its_burst_ended_opens_the_next() {
        let mut program = Program::default();
        program.launch(1, 30);
        program.wait(None);
        let stream = program.streams.of(KEY);
        assert!(program.bursts.count(&program.streams, stream, true));
        // One that was waited for already need not.
        program.streams.waited(None, |_| false);
        assert!(!program.bursts.must_open(&program.streams));
    }

    #[test]
    fn a_stream_that_nobody_waits_for_holds_no_burst_open() {
        let mut program = Program::default();
        program.launch(1, 30);
        program.streams.of(0x2000).count(true);
        program.wait(Some(KEY));
        assert!(program.bursts.is_open());
        program.now_ns = PAUSE_NS;
        program.wait(Some(KEY));
        assert!(!program.bursts.is_open());
    }

    #[test]
    fn a_burst_that_nobody_waited_for_is_forgotten_after_a_pause() {
        let program = Program::default();
        program.launch(1, 30);
        assert!(!program.bursts.is_forgotten(5, PAUSE_NS + 65));
        assert!(program.bursts.is_forgotten(5, PAUSE_NS + 66));
    }

    #[test]
    fn the_usual_burst_is_the_middle_of_the_last_ones() {
        let mut program = Program::default();
        let mut burst = |length_ns| {
            program.launch(1, 0);
            program.now_ns += length_ns;
            program.wait(None);
            program.bursts.usual_ns()
        };
        assert_eq!([900, 100, 500].map(&mut burst), [0; 3], "three say nothing");
        assert_eq!(burst(500), 500);
        (0..9).for_each(|_| _ = burst(7_000));
        assert_eq!(burst(7_000), 7_000);
    }
}
