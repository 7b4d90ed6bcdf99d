//! Where the queue counts what it does: in the process's ring file once there is one, so that the report has it even
//! of a program that is killed; before, and in a process that nobody watches, in memory of its own.

use core::ops::Deref;
use core::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use apex_core::queue_counts::{Counter, Counters};
use apex_core::time;
use apex_ptx::touches::Barrier;

pub use apex_core::queue_counts::{Counts, Reason};

/// What all threads count together. Whoever adds holds a lock, or does so rarely.
pub(crate) static COUNTERS: Place = Place(AtomicPtr::new(null_mut()));

/// Until somebody says where.
static OWN: Counters = Counters::new();

/// Where it is counted.
pub(crate) struct Place(AtomicPtr<Counters>);

impl Deref for Place {
    type Target = Counters;

    #[inline(always)]
    fn deref(&self) -> &Counters {
        self.place()
    }
}

impl Place {
    #[inline(always)]
    fn place(&self) -> &'static Counters {
        // SAFETY: null, or what `count_in` was given, which is never taken away.
        unsafe { self.0.load(Ordering::Relaxed).as_ref() }.unwrap_or(&OWN)
    }
}

/// Counts there from now on.
pub fn count_in(place: &'static Counters) {
    COUNTERS.0.store(from_ref(place).cast_mut(), Ordering::Relaxed);
}

/// Counts in own memory again: in a child of `fork` the file is its parent's.
pub fn count_in_own() {
    COUNTERS.0.store(null_mut(), Ordering::Relaxed);
}

/// What the queue did so far in this process.
#[must_use]
pub fn counts() -> Counts {
    COUNTERS.counts()
}

/// Adds to a counter that only one thread at a time adds to.
#[inline(always)]
pub(crate) fn add(counter: &Counter, more: u64) {
    counter.add(more);
}

/// Where launches are counted of which nothing is known, by the reason.
pub(crate) fn barrier(reason: Barrier) -> &'static Counter {
    let counters: &'static Counters = COUNTERS.place();
    match reason {
        Barrier::Text => &counters.unproven_text,
        Barrier::Large => &counters.unproven_large,
        Barrier::Call => &counters.unproven_call,
        Barrier::Texture => &counters.unproven_texture,
        Barrier::Pointer => &counters.unproven_pointer,
        Barrier::Spin => &counters.unproven_spin,
        Barrier::Launch => &counters.unproven_launch,
        Barrier::Copy => &counters.unproven_copy,
        Barrier::Unknown => &counters.unproven_unknown,
        Barrier::Loop => &counters.unproven_loop,
        Barrier::Memory => &counters.unproven_memory,
    }
}

#[inline(always)]
pub(crate) fn went_directly(reason: Reason) {
    COUNTERS.direct[reason as usize].fetch_add(1, Ordering::Relaxed);
}

/// One launch in so many that waits is timed from its call to its submission.
const TIMED_EVERY: u64 = 64;
/// Launches on their way at most that are timed; a ring full of the smallest has as many.
const MOST_TIMED: usize = 256;

/// Launches that are timed, the oldest first, each in the place of its number: the writer adds, who sends takes away.
struct Timed {
    added: AtomicU64,
    taken: AtomicU64,
    launches: [Marked; MOST_TIMED],
}

/// A launch that is timed.
struct Marked {
    /// Where it begins in the ring.
    at: AtomicU64,
    /// When it was put there.
    since: AtomicU64,
}

static TIMED: Timed = Timed {
    added: AtomicU64::new(0),
    taken: AtomicU64::new(0),
    launches: [const { Marked { at: AtomicU64::new(0), since: AtomicU64::new(0) } }; MOST_TIMED],
};

impl Timed {
    fn launch(&self, number: u64) -> &Marked {
        &self.launches[number as usize % MOST_TIMED]
    }
}

/// A launch is about to be put into the ring, where `at` is. Its writer alone tells this.
#[inline(always)]
pub(crate) fn put_in(at: u64) {
    if COUNTERS.queued.value().is_multiple_of(TIMED_EVERY) {
        mark(at);
    }
}

#[cold]
fn mark(at: u64) {
    let number = TIMED.added.load(Ordering::Relaxed);
    if number.wrapping_sub(TIMED.taken.load(Ordering::Acquire)) < MOST_TIMED as u64 {
        TIMED.launch(number).at.store(at, Ordering::Relaxed);
        TIMED.launch(number).since.store(time::ticks(), Ordering::Relaxed);
        TIMED.added.store(number + 1, Ordering::Release);
    }
}

/// The driver was given everything before `tail`. Who sends alone tells this.
#[inline(always)]
pub(crate) fn sent(tail: u64) {
    if TIMED.taken.load(Ordering::Relaxed) != TIMED.added.load(Ordering::Acquire) {
        take_until(tail);
    }
}

#[cold]
fn take_until(tail: u64) {
    let (mut number, added) =
        (TIMED.taken.load(Ordering::Relaxed), TIMED.added.load(Ordering::Acquire));
    while number != added && TIMED.launch(number).at.load(Ordering::Relaxed) < tail {
        COUNTERS
            .lagged(time::ticks().wrapping_sub(TIMED.launch(number).since.load(Ordering::Relaxed)));
        number += 1;
    }
    TIMED.taken.store(number, Ordering::Release);
}
