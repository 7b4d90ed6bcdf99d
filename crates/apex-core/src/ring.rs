//! Carries events from the threads of a program to a collector in another process.
//!
//! Each process of a session has one file, each of its threads one ring in that file: a thread is
//! the only writer of its ring, the collector its only reader, so neither ever waits. The program
//! maps the file; the collector *reads* it (`pread`), so that a program that truncates or scribbles
//! over its own file can hand the collector wrong bytes, but never a fault. What always holds:
//!
//! 1. A record is complete before `head` passes it (release store): a killed program leaves whole
//!    records below `head` and nothing is believed above it.
//! 2. The writer never overwrites a record between `tail` and `head`: a full ring counts a loss and
//!    drops the *new* event, so what is being read never changes under the reader.
//! 3. The reader trusts no number it finds: a distance between `head` and `tail` that the ring
//!    cannot hold skips to `head` and counts damage; each record's check decides on the record.
//! 4. Disk or memory for a ring is reserved before its first byte is written, because touching a
//!    page that a full file system cannot give would kill the program with `SIGBUS`.
//!
//! A thread that ends releases its ring; another thread takes it over once it is drained.

use crate::checked::{counted, counter};
use crate::event::{CallId, Event, RECORD_BYTES, Record, WORDS};
use crate::fetch;
use crate::histogram::{BUCKETS, Histogram, bucket};
use crate::queue_counts::{Found, WORDS as QUEUE_WORDS};
use std::io;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// First word of a process file: "APEXRNG1".
pub const MAGIC: u64 = u64::from_le_bytes(*b"APEXRNG1");
/// Bytes of the header at the start of a process file, and of each ring's own header.
pub const HEADER_BYTES: usize = 4096;
/// Rings in one process file.
pub const MOST_RINGS: usize = 512;
/// Fewest and most records of a ring; always a power of two.
pub const RING_EVENTS: std::ops::RangeInclusive<u64> = 64..=1 << 20;

const HEADER_WORDS: usize = HEADER_BYTES / 8;

/// Words of the process header.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum ProcessWord {
    /// [`MAGIC`], written last.
    Magic,
    /// Process id.
    Pid,
    /// [`crate::time::Clock`] of the event times.
    Clock,
    /// Records per ring.
    RingEvents,
    /// Rings handed out so far.
    RingsUsed,
    /// Events lost because no ring could be had.
    LostWithoutRing,
    /// Times that a part of apex failed inside the program and the call went through without it.
    Failures,
    /// Facts that could not be written.
    FactsLost,
    /// Clock reading at the first CUDA call.
    Start,
    /// 1 if the process holds the file by a lock for as long as it lives ([`crate::alive`]).
    Locked,
}

/// First word of the process header that counts what the queue of `--fast` did ([`crate::queue_counts`]).
const QUEUE: usize = 64;
const _: () = assert!(QUEUE + QUEUE_WORDS <= HEADER_WORDS);

/// Words of a ring's header. The first eight are the writer's line, the ninth is the reader's, and from
/// [`OWN_COST`] on what recording took is counted, a word to each bucket of [`crate::histogram`].
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum RingWord {
    /// Events written since the ring was made.
    Head = 0,
    /// Events that found the ring full.
    Lost = 1,
    /// Zero before its first owner, then owned or released.
    State = 2,
    /// Clock reading when the owner went into the call that it is in.
    Since = 3,
    /// That call, with a check over both; zero while it is in none that is told.
    Call = 4,
    /// Ticks spent on timing kernels: event records, queries.
    SamplingTicks = 5,
    /// Ticks spent on what is done once: facts of kernels, images and graphs.
    LookupTicks = 6,
    /// Events read since the ring was made.
    Tail = 8,
}

/// First word of a ring's header that counts what recording took.
pub const OWN_COST: usize = 16;
const _: () = assert!(OWN_COST + BUCKETS <= HEADER_WORDS);

#[cfg(not(loom))]
const OWNED: u64 = 1;
const RELEASED: u64 = 2;

/// Bytes of one ring with its header.
#[must_use]
pub fn ring_stride(ring_events: u64) -> u64 {
    HEADER_BYTES as u64 + ring_events * RECORD_BYTES as u64
}

/// Where ring `index` begins in its process file.
#[must_use]
pub fn ring_offset(index: usize, ring_events: u64) -> u64 {
    HEADER_BYTES as u64 + index as u64 * ring_stride(ring_events)
}

/// The writing end of one ring, owned by one thread.
#[derive(Debug)]
pub struct Writer<'a> {
    header: &'a [AtomicU64; HEADER_WORDS],
    /// A power of two of them, never none.
    records: &'a [[AtomicU64; WORDS]],
    head: u64,
    /// The head at which the reader's progress must be looked at.
    limit: u64,
}

impl<'a> Writer<'a> {
    /// Goes on where the ring's last owner stopped. `words` is one whole ring: header and records.
    #[must_use]
    pub fn resume(words: &'a [AtomicU64]) -> Writer<'a> {
        let (header, records) = words.split_first_chunk().expect("a ring has a header");
        let (records, []) = records.as_chunks() else { panic!("a ring holds whole records") };
        assert!(records.len().is_power_of_two(), "a ring holds a power of two of records");
        let head = header[RingWord::Head as usize].load(Ordering::Relaxed);
        Writer { header, records, head, limit: head }
    }

    /// Writes one event, or counts it as lost if the collector is a whole ring behind.
    #[inline(always)]
    pub fn push(&mut self, event: &Event) {
        if self.head == self.limit && !self.has_room() {
            self.lose();
            return;
        }
        let Record(packed) = event.pack(self.head);
        // The masked place is inside the ring whatever `head` is.
        if let Some(target) = self.records.get(self.place(self.head)) {
            for (word, value) in target.iter().zip(packed) {
                word.store(value, Ordering::Relaxed);
            }
        }
        self.head = self.head.wrapping_add(1);
        self.header[RingWord::Head as usize].store(self.head, Ordering::Release);
        self.fetch_ahead();
    }

    #[inline(always)]
    fn place(&self, position: u64) -> usize {
        position as usize & (self.records.len() - 1)
    }

    /// Brings the place of a coming event into the cache: the collector has read that line, and a
    /// launch should not wait for it to come back.
    #[inline(always)]
    fn fetch_ahead(&self) {
        const AHEAD: u64 = 4;
        let ahead = self.place(self.head.wrapping_add(AHEAD));
        fetch::for_writing(self.records.as_ptr().wrapping_add(ahead));
    }

    /// Events written so far.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Adds to one of the writer's own counters.
    #[inline]
    pub fn add(&self, word: RingWord, amount: u64) {
        self.add_at(word as usize, amount);
    }

    /// Counts what recording one event took.
    #[inline]
    pub fn count_cost(&self, ticks: u64) {
        self.add_at(OWN_COST + bucket(ticks), 1);
    }

    #[inline]
    fn add_at(&self, word: usize, amount: u64) {
        let Some(cell) = self.header.get(word) else { return };
        let count = counter(cell.load(Ordering::Relaxed), word).unwrap_or(0);
        cell.store(counted(count.wrapping_add(amount), word), Ordering::Relaxed);
    }

    /// Says which call the thread goes into and when, for a reader who comes while it is there. Answers what
    /// was said before, for [`Writer::leave`]: a call may be made inside another.
    #[inline]
    pub fn enter(&self, call: CallId, since: u64) -> Inside {
        let load = |word: RingWord| self.header[word as usize].load(Ordering::Relaxed);
        let outer = Inside { since: load(RingWord::Since), call: load(RingWord::Call) };
        self.say(Inside { since, call: u64::from(call.0) << CALL_SHIFT | call_check(call, since) });
        outer
    }

    /// The call that was entered has returned.
    #[inline]
    pub fn leave(&self, outer: Inside) {
        self.say(outer);
    }

    /// A reader between the two stores finds a check that does not hold.
    #[inline]
    fn say(&self, inside: Inside) {
        self.header[RingWord::Since as usize].store(inside.since, Ordering::Relaxed);
        self.header[RingWord::Call as usize].store(inside.call, Ordering::Release);
    }

    /// Whether the next event would be lost. For a writer that can wait.
    pub fn is_full(&mut self) -> bool {
        !self.has_room()
    }

    /// Lets another thread have the ring.
    pub fn release(self) {
        self.say(Inside::default());
        self.header[RingWord::State as usize].store(RELEASED, Ordering::Release);
    }

    #[cold]
    fn has_room(&mut self) -> bool {
        let tail = self.header[RingWord::Tail as usize].load(Ordering::Acquire);
        let capacity = self.records.len() as u64;
        let has_room = self.head.wrapping_sub(tail) < capacity;
        self.limit = if has_room { tail.wrapping_add(capacity) } else { self.head };
        has_room
    }

    #[cold]
    fn lose(&self) {
        self.add(RingWord::Lost, 1);
    }
}

/// What a ring's header says of the call that its owner is in, as two words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    since: u64,
    call: u64,
}

impl Inside {
    /// The call and when it began; nothing while there is none, or one that was not written by [`Writer::enter`].
    fn read(self) -> Option<(CallId, u64)> {
        let call = CallId((self.call >> CALL_SHIFT) as u16);
        (self.call == u64::from(call.0) << CALL_SHIFT | call_check(call, self.since))
            .then_some((call, self.since))
    }
}

const CALL_SHIFT: u32 = 48;

/// Forty-eight bits over a call and its beginning; never zero, because a fresh file is all zeros.
#[inline]
fn call_check(call: CallId, since: u64) -> u64 {
    let mixed = (since ^ u64::from(call.0) << CALL_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> (64 - CALL_SHIFT) | 1
}

/// Where a collector reads rings from: a file, or memory in tests.
pub trait Source {
    /// Fills `words` from byte `offset`; `false` if that many bytes are not there.
    fn read(&self, offset: u64, words: &mut [u64]) -> io::Result<bool>;
    /// Writes one word at byte `offset`.
    fn write(&self, offset: u64, word: u64) -> io::Result<()>;
}

impl Source for std::fs::File {
    fn read(&self, offset: u64, words: &mut [u64]) -> io::Result<bool> {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0_u8; words.len() * 8];
        match self.read_exact_at(&mut bytes, offset) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        }
        Ok(true)
    }

    fn write(&self, offset: u64, word: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        self.write_all_at(&word.to_le_bytes(), offset)
    }
}

/// What a process file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessHeader {
    /// Process id.
    pub pid: u32,
    /// Clock of the event times, as [`crate::time::Clock::code`].
    pub clock: u64,
    /// Records per ring.
    pub ring_events: u64,
    /// Clock reading at the first CUDA call.
    pub start: u64,
    /// Whether the process holds the file by a lock for as long as it lives.
    pub locked: bool,
}

/// Counters of a process and its rings; every loss and every failure of ours is in here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events that found their ring full, or no ring.
    pub lost: u64,
    /// Records refused because their check failed, and skipped stretches.
    pub damaged: u64,
    /// Failures of ours inside the program.
    pub failures: u64,
    /// Facts that could not be written.
    pub facts_lost: u64,
    /// Ticks of recording, of each event whose recording was measured.
    pub own: Histogram,
    /// Ticks spent on timing kernels.
    pub sampling_ticks: u64,
    /// Ticks spent on what is done once: facts of kernels, images and graphs.
    pub lookup_ticks: u64,
    /// What the queue of `--fast` did.
    pub queue: Found,
}

/// The reading end: all rings of one process.
#[derive(Debug)]
pub struct Reader<S> {
    source: S,
    header: ProcessHeader,
    tails: Vec<u64>,
    damaged: u64,
    buffer: Vec<u64>,
}

/// Why a process file is not read.
#[derive(Debug)]
pub enum ReaderError {
    /// The file is being made: look again later.
    NotReady,
    /// The header is not one of ours.
    NotARing(&'static str),
    /// The file cannot be read.
    Io(io::Error),
}

impl std::fmt::Display for ReaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReaderError::NotReady => write!(f, "the ring file is still being made; look again"),
            ReaderError::NotARing(why) => write!(f, "not a ring file of this apex: {why}"),
            ReaderError::Io(error) => write!(f, "the ring file cannot be read: {error}"),
        }
    }
}

impl std::error::Error for ReaderError {}

impl<S: Source> Reader<S> {
    /// Opens the rings behind `source`. Its sizes are read once and believed only within limits.
    pub fn open(source: S) -> Result<Reader<S>, ReaderError> {
        let mut words = [0; 16];
        if !source.read(0, &mut words).map_err(ReaderError::Io)? {
            return Err(ReaderError::NotReady);
        }
        match words[ProcessWord::Magic as usize] {
            MAGIC => {}
            0 => return Err(ReaderError::NotReady),
            _ => return Err(ReaderError::NotARing("its first word is wrong")),
        }
        let ring_events = words[ProcessWord::RingEvents as usize];
        if !RING_EVENTS.contains(&ring_events) || !ring_events.is_power_of_two() {
            return Err(ReaderError::NotARing("its ring size is impossible"));
        }
        let pid = u32::try_from(words[ProcessWord::Pid as usize])
            .map_err(|_| ReaderError::NotARing("its process id is impossible"))?;
        let header = ProcessHeader {
            pid,
            clock: words[ProcessWord::Clock as usize],
            ring_events,
            start: words[ProcessWord::Start as usize],
            locked: words[ProcessWord::Locked as usize] == 1,
        };
        Ok(Reader { source, header, tails: Vec::new(), damaged: 0, buffer: Vec::new() })
    }

    /// What the file said of itself when it was opened.
    #[must_use]
    pub fn header(&self) -> &ProcessHeader {
        &self.header
    }

    /// Where the rings are read from.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Hands every new event to `sink` with the number of its ring, oldest first within a ring, and
    /// frees its place. Bounded: at most one whole ring per thread and call. Returns how full the
    /// fullest ring was, from 0 to 1: a busy collector comes back sooner.
    pub fn drain(&mut self, mut sink: impl FnMut(usize, Event)) -> io::Result<f64> {
        let mut fullest = 0.0_f64;
        for ring in 0..self.rings_used()? {
            if self.tails.len() <= ring {
                let tail = self.ring_word(ring, RingWord::Tail)?;
                self.tails.push(tail);
            }
            let pending = self.drain_ring(ring, &mut sink)?;
            #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
            let share = pending as f64 / self.header.ring_events as f64;
            fullest = fullest.max(share);
        }
        Ok(fullest)
    }

    /// All counters as they stand.
    pub fn counters(&self) -> io::Result<Counters> {
        let mut words = [0; QUEUE + QUEUE_WORDS];
        self.source.read(0, &mut words)?;
        let queue = words[QUEUE..].first_chunk().map(Found::read).unwrap_or_default();
        let mut damaged = queue.damaged;
        let mut read = |words: &[u64], word: usize| {
            counter(words[word], word).unwrap_or_else(|| {
                damaged += 1;
                0
            })
        };
        let mut counters = Counters {
            lost: read(&words, ProcessWord::LostWithoutRing as usize),
            failures: read(&words, ProcessWord::Failures as usize),
            facts_lost: read(&words, ProcessWord::FactsLost as usize),
            queue,
            ..Counters::default()
        };
        for ring in 0..self.rings_used()? {
            let mut line = [0; HEADER_WORDS];
            self.source.read(ring_offset(ring, self.header.ring_events), &mut line)?;
            counters.lost += read(&line, RingWord::Lost as usize);
            for bucket in 0..BUCKETS {
                counters.own.add(bucket, read(&line, OWN_COST + bucket));
            }
            counters.sampling_ticks += read(&line, RingWord::SamplingTicks as usize);
            counters.lookup_ticks += read(&line, RingWord::LookupTicks as usize);
        }
        counters.damaged = self.damaged + damaged;
        Ok(counters)
    }

    /// The calls that threads are in right now, or were in when the process ended: the ring, the call, and the
    /// clock reading when it began.
    pub fn calls_under_way(&self) -> io::Result<Vec<(usize, CallId, u64)>> {
        let mut found = Vec::new();
        for ring in 0..self.rings_used()? {
            let mut line = [0; 8];
            self.source.read(ring_offset(ring, self.header.ring_events), &mut line)?;
            let word = |word: RingWord| line[word as usize];
            let inside = Inside { since: word(RingWord::Since), call: word(RingWord::Call) };
            found.extend(inside.read().map(|(call, since)| (ring, call, since)));
        }
        Ok(found)
    }

    fn rings_used(&self) -> io::Result<usize> {
        let mut word = [0];
        self.source.read(8 * ProcessWord::RingsUsed as u64, &mut word)?;
        Ok(usize::try_from(word[0]).unwrap_or(usize::MAX).min(MOST_RINGS))
    }

    fn ring_word(&self, ring: usize, word: RingWord) -> io::Result<u64> {
        let mut value = [0];
        let offset = ring_offset(ring, self.header.ring_events) + 8 * word as u64;
        self.source.read(offset, &mut value)?;
        Ok(value[0])
    }

    fn drain_ring(&mut self, ring: usize, sink: &mut impl FnMut(usize, Event)) -> io::Result<u64> {
        let capacity = self.header.ring_events;
        let tail = self.tails[ring];
        let head = self.ring_word(ring, RingWord::Head)?;
        let pending = head.wrapping_sub(tail);
        if pending == 0 {
            return Ok(0);
        }
        if pending > capacity {
            // Only a program that wrote over its own ring gets here.
            self.damaged += 1;
        } else {
            self.read_records(ring, tail, pending, sink)?;
        }
        self.tails[ring] = head;
        let place = ring_offset(ring, capacity) + 8 * RingWord::Tail as u64;
        self.source.write(place, head)?;
        Ok(pending.min(capacity))
    }

    fn read_records(
        &mut self,
        ring: usize,
        tail: u64,
        pending: u64,
        sink: &mut impl FnMut(usize, Event),
    ) -> io::Result<()> {
        let capacity = self.header.ring_events;
        let base = ring_offset(ring, capacity) + HEADER_BYTES as u64;
        let mut done = 0;
        while done < pending {
            let position = tail.wrapping_add(done);
            let slot = position & (capacity - 1);
            // Up to the ring's end; the rest begins again at its start.
            let count = (pending - done).min(capacity - slot);
            let words = usize::try_from(count).unwrap_or(0) * WORDS;
            self.buffer.resize(words, 0);
            if !self.source.read(base + slot * RECORD_BYTES as u64, &mut self.buffer)? {
                self.damaged += count;
                done += count;
                continue;
            }
            for (nth, chunk) in self.buffer.chunks_exact(WORDS).enumerate() {
                let mut record = Record::default();
                record.0.copy_from_slice(chunk);
                match Event::unpack(&record, position.wrapping_add(nth as u64)) {
                    Some(event) => sink(ring, event),
                    None => self.damaged += 1,
                }
            }
            done += count;
        }
        Ok(())
    }
}

#[cfg(not(loom))]
pub use mapped::ProcessMap;

#[cfg(not(loom))]
mod mapped {
    use super::{
        AtomicU64, HEADER_BYTES, HEADER_WORDS, MAGIC, MOST_RINGS, OWNED, Ordering, ProcessWord,
        QUEUE, QUEUE_WORDS, RELEASED, RING_EVENTS, RingWord, Writer, counted, counter, ring_offset,
        ring_stride,
    };
    use crate::alive;
    use crate::queue_counts;
    use std::ffi::{CStr, CString};
    use std::io;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// A process's own file of rings, mapped. It is never unmapped: threads may write until the last.
    #[derive(Debug)]
    pub struct ProcessMap {
        path: CString,
        words: &'static [AtomicU64],
        ring_events: u64,
    }

    impl ProcessMap {
        /// Makes the file (private to its owner) and maps it. The file is sparse: a ring takes space
        /// when a thread claims it.
        pub fn create(
            path: &Path,
            ring_events: u64,
            clock: u64,
            start: u64,
        ) -> io::Result<ProcessMap> {
            let ring_events =
                ring_events.clamp(*RING_EVENTS.start(), *RING_EVENTS.end()).next_power_of_two();
            let file = CString::new(path.as_os_str().as_bytes())?;
            let bytes = HEADER_BYTES as u64 + ring_stride(ring_events) * MOST_RINGS as u64;
            let words = map_new(&file, bytes)?;
            let map = ProcessMap { path: file, words, ring_events };
            // Before the file counts as one. Where there is no such lock, readers ask for the process id.
            map.set(ProcessWord::Locked, u64::from(alive::take_for_life(path).is_ok()));
            map.set(ProcessWord::Pid, u64::from(std::process::id()));
            map.set(ProcessWord::Clock, clock);
            map.set(ProcessWord::RingEvents, ring_events);
            map.set(ProcessWord::Start, start);
            map.words[ProcessWord::Magic as usize].store(MAGIC, Ordering::Release);
            Ok(map)
        }

        /// A ring for the calling thread: one that another thread left drained, or a fresh one.
        pub fn claim(&'static self) -> io::Result<Writer<'static>> {
            let used = self.words[ProcessWord::RingsUsed as usize].load(Ordering::Acquire);
            for index in 0..usize::try_from(used).unwrap_or(0).min(MOST_RINGS) {
                let ring = self.ring(index);
                let word = |word: RingWord| ring[word as usize].load(Ordering::Acquire);
                let state = &ring[RingWord::State as usize];
                if word(RingWord::State) == RELEASED
                    && word(RingWord::Head) == word(RingWord::Tail)
                    && state
                        .compare_exchange(RELEASED, OWNED, Ordering::AcqRel, Ordering::Relaxed)
                        .is_ok()
                {
                    return Ok(Writer::resume(ring));
                }
            }
            let index = self.words[ProcessWord::RingsUsed as usize]
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |used| {
                    (used < MOST_RINGS as u64).then_some(used + 1)
                })
                .map_err(|_| io::Error::other("all rings of this process are in use"))?;
            let index = usize::try_from(index).unwrap_or(0);
            let offset = ring_offset(index, self.ring_events);
            // The place stays unused if the space is refused: nobody may touch its pages.
            reserve(&self.path, offset, ring_stride(self.ring_events))?;
            let ring = self.ring(index);
            map_now(ring);
            ring[RingWord::State as usize].store(OWNED, Ordering::Release);
            Ok(Writer::resume(ring))
        }

        /// Adds to a counter of the process; any thread may.
        pub fn add(&self, word: ProcessWord, amount: u64) {
            let more = |old| {
                let count = counter(old, word as usize).unwrap_or(0);
                Some(counted(count.wrapping_add(amount), word as usize))
            };
            self.words[word as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok();
        }

        /// Where the queue of `--fast` counts.
        #[must_use]
        pub fn queue(&self) -> &'static queue_counts::Counters {
            let words = &self.words[QUEUE..QUEUE + QUEUE_WORDS];
            // SAFETY: as many words as the counters are, each an atomic number of which every bit pattern is a value;
            // the mapping stays for good.
            unsafe { &*words.as_ptr().cast() }
        }

        fn set(&self, word: ProcessWord, value: u64) {
            self.words[word as usize].store(value, Ordering::Relaxed);
        }

        fn ring(&self, index: usize) -> &'static [AtomicU64] {
            let start = usize::try_from(ring_offset(index, self.ring_events) / 8).unwrap_or(0);
            let length = usize::try_from(ring_stride(self.ring_events) / 8).unwrap_or(HEADER_WORDS);
            &self.words[start..start + length]
        }
    }

    fn map_new(path: &CStr, bytes: u64) -> io::Result<&'static [AtomicU64]> {
        // SAFETY: `path` is a C string; the mode is passed as open's third argument.
        let file = unsafe {
            libc::open(
                path.as_ptr(),
                libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC,
                0o600,
            )
        };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = size_and_map(file, bytes);
        // SAFETY: `file` was opened above and is closed once; a mapping outlives its descriptor. It
        // is not kept, because a program may close descriptors it does not know.
        unsafe { libc::close(file) };
        mapped
    }

    fn size_and_map(file: libc::c_int, bytes: u64) -> io::Result<&'static [AtomicU64]> {
        let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
        if bytes > largest_file() {
            // Going on would bring the program a SIGXFSZ.
            return Err(io::Error::other(
                "the limit on file sizes (ulimit -f) leaves no room for rings",
            ));
        }
        // SAFETY: plain calls on an open descriptor.
        let sized = unsafe {
            libc::ftruncate(file, length) == 0
                && libc::posix_fallocate(file, 0, HEADER_BYTES as libc::off_t) == 0
        };
        if !sized {
            return Err(io::Error::other("no space for a ring file"));
        }
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: a fresh shared mapping of the whole file, placed by the kernel.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is page-aligned, `bytes` long, zero-filled, never unmapped, and only
        // ever accessed as atomics; every bit pattern is a valid word.
        Ok(unsafe { std::slice::from_raw_parts(address.cast::<AtomicU64>(), bytes / 8) })
    }

    fn largest_file() -> u64 {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
        // SAFETY: a valid place for the answer.
        unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
        limit.rlim_cur
    }

    /// Maps the ring's pages at once: else every 64th event of a new thread would pay for a page
    /// fault. A kernel that cannot (before 5.14) leaves it at that.
    fn map_now(ring: &[AtomicU64]) {
        const MADV_POPULATE_WRITE: libc::c_int = 23;
        let start = ring.as_ptr().cast_mut().cast();
        // SAFETY: whole pages of our own mapping, whose space is reserved.
        unsafe { libc::madvise(start, size_of_val(ring), MADV_POPULATE_WRITE) };
    }

    fn reserve(path: &CStr, offset: u64, bytes: u64) -> io::Result<()> {
        // SAFETY: `path` is a C string.
        let file = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        let code = match (libc::off_t::try_from(offset), libc::off_t::try_from(bytes)) {
            // SAFETY: a plain call on an open descriptor.
            (Ok(offset), Ok(bytes)) => unsafe { libc::posix_fallocate(file, offset, bytes) },
            _ => libc::EFBIG,
        };
        // SAFETY: opened above, closed once.
        unsafe { libc::close(file) };
        if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
    }
}

#[cfg(test)]
mod tests;
