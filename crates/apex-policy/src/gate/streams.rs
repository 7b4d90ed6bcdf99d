//! The streams of a program on one GPU: the one list of them, with what was launched on each and what is done.
//!
//! Of a stream two things are known apart. How many launches the program has *waited* for ends a burst
//! ([`super::Bursts`]). How much predicted time is *done* says where the GPU is ([`super::Flight`]): a wait tells that
//! too, and fences and events tell it earlier.
//!
//! A wait covers its stream, what events lead to it from other streams and, for the default stream, every stream that
//! was made without `CU_STREAM_NON_BLOCKING`. A stream that got nothing more for a while in which the program waited
//! for others is waited for by nobody: PyTorch sets up the capture of a graph so.

use super::word::Word;

const STREAMS: usize = 16;
const EVENTS: usize = 64;
/// The key of the last stream once it takes all that found no place.
const OVERFLOW: u64 = u64::MAX;
/// Instead of a thread, whose number is an address.
const SEVERAL: u64 = 1;

/// All streams. The last one takes those that found no place.
#[derive(Debug)]
pub struct Streams<W> {
    streams: [Stream<W>; STREAMS],
    events: [Event<W>; EVENTS],
}

/// One stream. What a counted launch touches lies in its first line of memory.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Stream<W> {
    /// The stream's number, never zero; zero for a free place.
    key: W,
    /// The thread that alone launches on it; [`SEVERAL`] where there are more, 0 where there was none.
    owner: W,
    /// Launches and copies since the beginning, and how many of them the program has waited for.
    launches: W,
    waited: W,
    /// Predicted time launched on it, and how much of it the GPU has done.
    launched_ns: W,
    done_ns: W,
    /// When something was last launched on it.
    last_ns: W,
    /// Up to which predicted time an event stands behind it.
    marked_ns: W,
    /// What had been launched when a wait for others was first over without it, and when that was.
    left: W,
    left_at_ns: W,
    /// The last fence that was put there; zero for none.
    fence: W,
    /// For each other stream, up to where it is waited for when this one is.
    carries: [Reached<W>; STREAMS],
}

/// A place in a stream: launches and predicted time before it.
#[derive(Debug, Default)]
struct Reached<W> {
    launches: W,
    launched_ns: W,
}

/// An event that was recorded: where.
#[derive(Debug, Default)]
struct Event<W> {
    handle: W,
    stream: W,
    at: Reached<W>,
}

impl<W: Word> Default for Streams<W> {
    fn default() -> Streams<W> {
        Streams {
            streams: core::array::from_fn(|_| Stream::default()),
            events: core::array::from_fn(|_| Event::default()),
        }
    }
}

impl<W: Word> Streams<W> {
    /// The stream with this key, if it has a place of its own.
    pub fn find(&self, key: u64) -> Option<&Stream<W>> {
        self.streams.iter().find(|stream| stream.key.get() == key)
    }

    /// The stream with this key, which gets a place if there is one.
    #[inline(always)]
    pub fn of(&self, key: u64) -> &Stream<W> {
        &self.streams[self.place(key)]
    }

    /// The place of the stream with this key.
    #[inline(always)]
    pub fn place(&self, key: u64) -> usize {
        for (nth, stream) in self.streams.iter().enumerate().take(STREAMS - 1) {
            let there = stream.key.get();
            let takes = || stream.key.exchange(0, key) || stream.key.get() == key;
            if there == key || there == 0 && takes() {
                return nth;
            }
        }
        self.streams[STREAMS - 1].key.set(OVERFLOW);
        STREAMS - 1
    }

    /// The stream in this place.
    pub fn at(&self, place: usize) -> &Stream<W> {
        &self.streams[place % STREAMS]
    }

    /// Every stream that has a place.
    #[inline(always)]
    pub fn used(&self) -> impl Iterator<Item = &Stream<W>> {
        self.streams.iter().take_while(|stream| stream.key.get() != 0)
    }

    /// The program has waited for a stream, or for everything. `is_blocking` says of a key whether the default stream
    /// waits for that stream.
    pub fn waited(&self, key: Option<u64>, is_blocking: impl Fn(u64) -> bool) {
        let Some(key) = key else {
            return (0..STREAMS).for_each(|place| self.done_all(place));
        };
        self.done_all(self.place(key));
        if is_default(key) {
            (0..STREAMS)
                .filter(|&place| is_blocking(self.streams[place].key.get()))
                .for_each(|place| self.done_all(place));
        }
    }

    /// The program has waited for an event. Whether that told what the GPU has done.
    pub fn waited_event(&self, event: u64) -> bool {
        let place = self.recorded_at(event);
        place.is_some_and(|(place, launches, launched_ns)| self.done(place, launches, launched_ns))
    }

    /// An event was recorded on a stream.
    pub fn recorded(&self, event: u64, key: u64) {
        let place = self.place(key);
        let kept = &self.events[event_place(event)];
        kept.handle.set(0);
        kept.stream.set(place as u64);
        kept.at.launches.set(self.streams[place].launches.get());
        kept.at.launched_ns.set(self.streams[place].launched_ns.get());
        kept.handle.set(event);
    }

    /// A stream waits for an event: who waits for the stream has waited for what is before the event too.
    pub fn joins(&self, key: u64, event: u64) {
        if let Some((from, launches, launched_ns)) = self.recorded_at(event) {
            let carried = &self.streams[self.place(key)].carries[from];
            carried.launches.raise(launches);
            carried.launched_ns.raise(launched_ns);
        }
    }

    fn recorded_at(&self, event: u64) -> Option<(usize, u64, u64)> {
        let kept = &self.events[event_place(event)];
        (kept.handle.get() == event).then(|| {
            let place = kept.stream.get() as usize % STREAMS;
            (place, kept.at.launches.get(), kept.at.launched_ns.get())
        })
    }

    fn done_all(&self, place: usize) {
        self.done(place, u64::MAX, u64::MAX);
    }

    fn done(&self, place: usize, launches: u64, launched_ns: u64) -> bool {
        let this = &self.streams[place];
        let last = this.launches.get();
        this.waited.raise(launches.min(last));
        let is_news = this.done_until(launched_ns.min(this.launched_ns.get()));
        if launches >= last {
            for (other, carried) in self.streams.iter().zip(&this.carries) {
                other.waited.raise(carried.launches.get());
                other.done_ns.raise(carried.launched_ns.get());
            }
        }
        is_news
    }

    /// Whether nobody waits for what is not waited for: those streams got nothing more while the program waited for
    /// others, for so long.
    #[cold]
    pub fn rest_is_forsaken(&self, now_ns: u64, pause_ns: u64) -> bool {
        let mut all = true;
        for stream in &self.streams {
            let last = stream.launches.get();
            if last <= stream.waited.get() {
                continue;
            }
            if stream.left.swap(last) != last {
                stream.left_at_ns.set(now_ns);
                all = false;
            } else if now_ns.saturating_sub(stream.left_at_ns.get()) < pause_ns {
                all = false;
            } else {
                stream.waited.raise(last);
            }
        }
        all
    }

    /// What was launched and copied on all streams since the beginning.
    pub fn launches(&self) -> u64 {
        self.streams.iter().map(|stream| stream.launches.get()).fold(0, u64::wrapping_add)
    }

    /// Whether the program has waited for all of it.
    pub fn is_waited_for(&self) -> bool {
        self.streams.iter().all(|stream| stream.launches.get() <= stream.waited.get())
    }

    /// Whether a thread other than this may be between the two steps of a launch that it alone counts.
    pub fn may_be_launching(&self, me: u64) -> bool {
        self.streams.iter().any(|stream| stream.is_of_another(me))
    }

    /// Contexts ended, and their streams with them. Threads that keep a stream as theirs look for it again.
    pub fn forget(&self) {
        for stream in &self.streams {
            stream.done_ns.raise(stream.launched_ns.get());
            stream.fence.set(0);
            stream.owner.set(0);
            stream.key.set(0);
        }
    }
}

impl<W: Word> Stream<W> {
    /// One more goes down. When this returns, whether the burst is open may be asked.
    #[inline(always)]
    pub fn count(&self, is_own: bool) {
        if is_own {
            self.launches.add_alone(1);
        } else {
            self.launches.add(1);
        }
    }

    /// What was launched and copied on it since the beginning.
    pub fn launches(&self) -> u64 {
        self.launches.get()
    }

    /// Whether this thread alone launches on it.
    #[inline(always)]
    pub fn is_of(&self, thread: u64) -> bool {
        self.owner.get() == thread
    }

    /// Whether one other thread alone launches on it.
    pub fn is_of_another(&self, thread: u64) -> bool {
        let owner = self.owner.get();
        owner > SEVERAL && owner != thread
    }

    /// This thread launches on it from here on; alone, if no other did and a thread may have a stream for itself.
    pub fn share_with(&self, thread: u64, may_be_alone: bool) {
        if self.is_of(thread) {
            return;
        }
        let thread = if may_be_alone { thread } else { SEVERAL };
        if !self.owner.exchange(0, thread) && self.owner.get() != thread {
            self.owner.set(SEVERAL);
        }
    }

    /// Work goes down on it; all that was launched on it, this included.
    #[inline(always)]
    pub(super) fn launched(&self, predicted_ns: u64, now_ns: u64) -> u64 {
        self.last_ns.set(now_ns);
        self.launched_ns.add(predicted_ns)
    }

    /// All predicted time that was launched on it.
    pub fn launched_ns(&self) -> u64 {
        self.launched_ns.get()
    }

    /// Predicted time that is not known to be done.
    #[inline(always)]
    pub(super) fn in_flight_ns(&self) -> u64 {
        self.launched_ns.get().saturating_sub(self.done_ns.get())
    }

    /// How much of what lies before this place is not known to be done.
    pub(super) fn left_before_ns(&self, launched_ns: u64) -> u64 {
        launched_ns.saturating_sub(self.done_ns.get())
    }

    /// The GPU has done all until this place. Whether that was news.
    pub(super) fn done_until(&self, launched_ns: u64) -> bool {
        self.done_ns.raise(launched_ns) < launched_ns
    }

    /// Everything on it must be done, so long after its last launch.
    pub(super) fn quiet_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.last_ns.get())
    }

    /// Takes the right to put an event behind all that was launched on it: the place of that event, where nothing
    /// stands yet and no other thread is at it.
    pub fn take_mark(&self) -> Option<u64> {
        let (launched_ns, marked_ns) = (self.launched_ns.get(), self.marked_ns.get());
        (launched_ns > marked_ns && self.marked_ns.exchange(marked_ns, launched_ns))
            .then_some(launched_ns)
    }

    /// How much lies behind its last event, and is not known to be done.
    #[inline(always)]
    pub(super) fn unmarked_ns(&self, launched_ns: u64) -> u64 {
        launched_ns.saturating_sub(self.marked_ns.get().max(self.done_ns.get()))
    }

    /// The last fence that was put there; zero for none.
    pub fn fence(&self) -> u32 {
        self.fence.get() as u32
    }

    /// A fence was put there.
    pub fn fenced(&self, fence: u32) {
        self.fence.set(fence.into());
    }
}

/// The number of a context's default stream is odd.
fn is_default(key: u64) -> bool {
    key & 1 != 0
}

fn event_place(event: u64) -> usize {
    (event.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % EVENTS
}

#[cfg(test)]
mod tests {
    use super::super::word::Plain;
    use super::*;

    fn streams() -> Streams<Plain> {
        Streams::default()
    }

    fn never(_key: u64) -> bool {
        false
    }

    #[test]
    fn what_nobody_waits_for_is_left_out_after_a_while() {
        let streams = streams();
        let (awaited, forsaken) = (streams.of(0x1000), streams.of(0x2000));
        forsaken.count(false);
        awaited.count(false);
        streams.waited(Some(0x1000), never);
        assert!(!streams.is_waited_for());
        assert!(!streams.rest_is_forsaken(1_000, 50), "it may be waited for yet");
        assert!(!streams.rest_is_forsaken(1_049, 50));
        forsaken.count(false);
        assert!(!streams.rest_is_forsaken(1_050, 50), "it is in use");
        assert!(!streams.rest_is_forsaken(1_099, 50));
        assert!(streams.rest_is_forsaken(1_100, 50) && streams.is_waited_for());
        awaited.count(false);
        assert!(!streams.is_waited_for());
        streams.waited(Some(0x1000), never);
        assert!(streams.is_waited_for());
    }

    #[test]
    fn who_waits_for_the_default_stream_waits_for_blocking_ones() {
        let streams = streams();
        streams.of(0x3000).count(false);
        streams.of(0x3000).launched(70, 0);
        streams.waited(Some(0x7001), |key| key == 0x3000);
        assert!(streams.is_waited_for());
        assert_eq!(streams.of(0x3000).in_flight_ns(), 0, "and the GPU has done it");
        streams.of(0x4000).count(false);
        streams.waited(Some(0x7001), |key| key == 0x3000);
        assert!(!streams.is_waited_for());
    }

    #[test]
    fn an_event_leads_from_one_stream_to_another() {
        let streams = streams();
        streams.of(0x1000).count(false);
        streams.of(0x1000).launched(70, 0);
        streams.recorded(7, 0x1000);
        streams.joins(0x2000, 7);
        streams.of(0x1000).count(false);
        streams.of(0x1000).launched(5, 0);
        streams.waited(Some(0x2000), never);
        assert!(!streams.is_waited_for(), "one came after the event");
        assert_eq!(streams.of(0x1000).in_flight_ns(), 5);
        streams.recorded(7, 0x1000);
        assert!(streams.waited_event(7) && !streams.waited_event(7) && !streams.waited_event(8));
        assert!(streams.is_waited_for());
        assert_eq!(streams.of(0x1000).in_flight_ns(), 0);
    }

    #[test]
    fn more_streams_than_places_share_the_last() {
        let streams = streams();
        for key in 2..100 {
            streams.of(key).launched(10, 0);
        }
        let in_flight = || streams.used().map(Stream::in_flight_ns).sum::<u64>();
        assert_eq!((in_flight(), streams.used().count()), (980, STREAMS));
        streams.waited(None, never);
        assert_eq!(in_flight(), 0);
        streams.forget();
        assert_eq!(streams.used().count(), 0);
    }

    #[test]
    fn a_second_thread_makes_a_stream_shared() {
        let streams = streams();
        let stream = streams.of(0x1000);
        stream.share_with(64, true);
        assert!(stream.is_of(64) && streams.may_be_launching(128) && !streams.may_be_launching(64));
        stream.share_with(128, true);
        assert!(!stream.is_of(64) && !stream.is_of(128) && !streams.may_be_launching(192));
        let shared = streams.of(0x2000);
        shared.share_with(64, false);
        assert!(
            !shared.is_of(64) && !streams.may_be_launching(192),
            "without a barrier nobody is alone"
        );
    }

    #[test]
    fn one_event_stands_behind_the_same_work() {
        let streams = streams();
        let stream = streams.of(0x1000);
        assert_eq!(stream.take_mark(), None, "there is nothing to stand behind");
        assert_eq!(stream.unmarked_ns(stream.launched(70, 0)), 70);
        assert_eq!((stream.take_mark(), stream.take_mark()), (Some(70), None));
        assert_eq!(stream.unmarked_ns(stream.launched(30, 0)), 30);
        stream.done_until(95);
        assert_eq!(stream.unmarked_ns(100), 5);
    }
}
