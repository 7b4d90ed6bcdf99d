//! What the queue and the pool of `apex run --fast` count, as words of its process's ring file.
//!
//! They lie in shared memory, so those of a program that is killed stay, and the collector reads them without asking.
//! Each has a check like the other counters of that file ([`crate::ring`]): a program that writes over them is not
//! believed. A table makes the words, their reader and what a report is told.

use crate::checked::{counted, counter};
use crate::histogram::{self, Histogram};
use std::sync::atomic::{AtomicU64, Ordering};

/// Checks of these words are made for this place, whichever it is: the program writes them without knowing theirs.
const PLACE: usize = 0x51;

/// Buckets of the lag; each takes [`LAG_WIDTH`] of those of [`crate::histogram`], so that a median is told within 12 %.
const LAG_BUCKETS: usize = histogram::BUCKETS / LAG_WIDTH;
const LAG_WIDTH: usize = 4;

/// A number that only grows, with its check.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    #[must_use]
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Its value; zero where its check does not hold.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        counter(self.0.load(Ordering::Relaxed), PLACE).unwrap_or(0)
    }

    /// Adds, where only one thread at a time does.
    #[inline(always)]
    pub fn add(&self, more: u64) {
        self.0.store(counted(self.value().wrapping_add(more), PLACE), Ordering::Relaxed);
    }

    /// Adds, where several threads may at a time; what an atomic number does under that name.
    #[inline]
    pub fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
        let sum = |old| Some(counted(counter(old, PLACE).unwrap_or(0).wrapping_add(more), PLACE));
        self.0
            .fetch_update(order, Ordering::Relaxed, sum)
            .map_or(0, |old| counter(old, PLACE).unwrap_or(0))
    }
}

macro_rules! counts {
    ($($(#[doc = $about:literal])+ $name:ident;)+) => {
        /// What the queue did so far in a process.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[doc = $about])+ pub $name: u64,)+
            /// Launches that went down from the program's own call, by [`Reason`].
            pub direct: [u64; Reason::COUNT],
        }

        /// The same as words in memory, with the lag between calls and their submission.
        #[derive(Debug)]
        #[repr(C)]
        pub struct Counters {
            $($(#[doc = $about])+ pub $name: Counter,)+
            /// Launches that went down from the program's own call, by [`Reason`].
            pub direct: [Counter; Reason::COUNT],
            lag: [Counter; LAG_BUCKETS],
        }

        /// Words before the lag.
        const COUNTED: usize = <[&str]>::len(&[$(stringify!($name)),+]) + Reason::COUNT;

        impl Counters {
            /// Nothing was counted.
            #[must_use]
            pub const fn new() -> Counters {
                Counters {
                    $($name: Counter::new(),)+
                    direct: [const { Counter::new() }; Reason::COUNT],
                    lag: [const { Counter::new() }; LAG_BUCKETS],
                }
            }

            /// What was counted so far.
            #[must_use]
            pub fn counts(&self) -> Counts {
                Counts {
                    $($name: self.$name.value(),)+
                    direct: core::array::from_fn(|nth| self.direct[nth].value()),
                }
            }
        }

        impl Counts {
            /// Both together.
            #[must_use]
            pub fn plus(self, more: &Counts) -> Counts {
                Counts {
                    $($name: self.$name.saturating_add(more.$name),)+
                    direct: core::array::from_fn(|nth| self.direct[nth].saturating_add(more.direct[nth])),
                }
            }

            fn of(mut next: impl FnMut() -> u64) -> Counts {
                Counts { $($name: next(),)+ direct: core::array::from_fn(|_| next()) }
            }
        }
    };
}

counts! {
    /// Launches that waited in the ring.
    queued;
    /// Other calls that waited in the ring.
    joined;
    /// Launches that went down as nodes of a graph.
    in_graphs;
    /// Launches of graphs.
    graphs;
    /// Nodes of graphs that were given other parameters.
    changed;
    /// Graphs that were made.
    made;
    /// Nodes of the graphs that were made.
    built;
    /// Calls that waited until all that stood in the ring had gone.
    drained;
    /// Queued calls that the driver refused.
    failed;
    /// Allocations served from freed memory.
    pool_served;
    /// Allocations that the driver was asked for by the pool.
    pool_asked;
    /// Freed blocks that went back to the driver.
    pool_given_back;
    /// Times that a stream was made to wait for another because of a block that was handed out again.
    pool_waits;
    /// Bytes that the program had at once at most, in blocks that the pool knows.
    pool_peak_bytes;
    /// The same with what lay idle beside it.
    pool_held_bytes;
    /// Pools of stream-ordered memory that were told to keep what is freed in them.
    pool_raised;
    /// Launches that ran a kernel which was written again for them.
    rewritten_launches;
    /// Rewritten kernels that were tried beside their originals.
    rewritten_tried;
    /// Rewritten kernels that were kept.
    rewritten_won;
    /// Rewritten kernels that were dropped: slower, no faster, or refused by the driver.
    rewritten_lost;
    /// Kernels that were left alone.
    rewritten_left;
    /// Nanoseconds of kernels that rewritten ones took less, by the medians of both forms.
    rewritten_saved_ns;
    /// Launches of new graphs that were asked what they touch.
    overlap_looked;
    /// Of those, the ones of which it is proven.
    overlap_proven;
    /// Pairs of those of which the later reads what the earlier writes.
    overlap_read_after_write;
    /// Pairs of those of which the later writes what the earlier reads.
    overlap_write_after_read;
    /// Pairs of those that write the same.
    overlap_write_after_write;
    /// Graphs that were made with branches.
    overlap_branched;
    /// Launches that went down in graphs with branches.
    overlap_beside;
    /// Launches that went down as a chain because their graph's branches did not hold for their parameters.
    overlap_fell_back;
    /// Graphs whose branches were found to be faster than their chain.
    overlap_kept;
    /// Nanoseconds that launches with those branches took less, by the medians of both forms.
    overlap_saved_ns;
    /// Launches of kernels without a PTX text that is theirs.
    unproven_text;
    /// Launches of kernels that are too large to be followed.
    unproven_large;
    /// Launches of kernels that call what may reach memory.
    unproven_call;
    /// Launches of kernels with textures or surfaces.
    unproven_texture;
    /// Launches of kernels with addresses that come from memory.
    unproven_pointer;
    /// Launches of kernels that wait for others, or give them signs.
    unproven_spin;
    /// Launches of kernels that steer other launches.
    unproven_launch;
    /// Launches of kernels with copies that run by themselves.
    unproven_copy;
    /// Launches of kernels with instructions that are not known.
    unproven_unknown;
    /// Launches of kernels with a loop of several beginnings.
    unproven_loop;
    /// Launches with pointers to memory of which nothing is known.
    unproven_memory;
}

macro_rules! reasons {
    ($($(#[doc = $about:literal])+ $name:ident $word:literal $words:literal;)+) => {
        /// Why a launch went down from the program's own call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Reason {
            $($(#[doc = $about])+ $name,)+
        }

        impl Reason {
            /// How many there are.
            pub const COUNT: usize = Reason::ALL.len();

            /// Every reason.
            pub const ALL: &'static [Reason] = &[$(Reason::$name),+];

            /// In one word, for documents.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Reason::$name => $word,)+
                }
            }

            /// In a few words, behind a number of launches.
            #[must_use]
            pub fn words(self) -> &'static str {
                match self {
                    $(Reason::$name => $words,)+
                }
            }
        }
    };
}

reasons! {
    /// The first of its kernel and block.
    First "first" "first of their kind";
    /// Nothing waited and the thread that sends was asleep.
    Idle "idle" "with nothing waiting";
    /// The program waits after every few launches.
    Few "few" "with few launches before each wait";
    /// Its form is none that can wait: parameters of more than 4,064 bytes, or rare attributes.
    Form "form" "of a form that cannot wait";
    /// The stream is the calling thread's own.
    OwnStream "own-stream" "on a thread's own stream";
    /// A stream was being captured.
    Capture "capture" "while a stream was captured";
    /// The calling thread has another context.
    Context "context" "in another context";
    /// A call before it failed.
    Failed "failed" "after an error";
    /// The queue has stepped aside.
    Aside "aside" "while the queue stood aside";
}

/// Words that the counters take.
pub const WORDS: usize = size_of::<Counters>() / size_of::<u64>();
const _: () = assert!(WORDS == COUNTED + LAG_BUCKETS);

impl Default for Counters {
    fn default() -> Counters {
        Counters::new()
    }
}

impl Counters {
    /// A launch was submitted so many ticks after its call. Only one thread at a time tells this.
    pub fn lagged(&self, ticks: u64) {
        self.lag[(histogram::bucket(ticks) / LAG_WIDTH).min(LAG_BUCKETS - 1)].add(1);
    }
}

/// What the words of a process say, as they lie in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What was counted.
    pub counts: Counts,
    /// Ticks between calls and their submission, of one launch in so many.
    pub lag: Histogram,
    /// Words whose check does not hold.
    pub damaged: u64,
}

impl Found {
    /// Reads as many words as there are.
    #[must_use]
    pub fn read(words: &[u64; WORDS]) -> Found {
        let mut damaged = 0;
        let mut values = words.iter().map(|&word| {
            counter(word, PLACE).unwrap_or_else(|| {
                damaged += 1;
                0
            })
        });
        let counts = Counts::of(|| values.next().unwrap_or(0));
        let mut lag = Histogram::default();
        for (nth, count) in values.enumerate() {
            lag.add(nth * LAG_WIDTH + LAG_WIDTH / 2, count);
        }
        Found { counts, lag, damaged }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, more: &Found) -> Found {
        Found {
            counts: self.counts.plus(&more.counts),
            lag: self.lag.plus(&more.lag),
            damaged: self.damaged.saturating_add(more.damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(counters: &Counters) -> [u64; WORDS] {
        let mut all =
            vec![&counters.queued, &counters.joined, &counters.in_graphs, &counters.graphs];
        all.extend([
            &counters.changed,
            &counters.made,
            &counters.built,
            &counters.drained,
            &counters.failed,
            &counters.pool_served,
            &counters.pool_asked,
            &counters.pool_given_back,
            &counters.pool_waits,
            &counters.pool_peak_bytes,
            &counters.pool_held_bytes,
            &counters.pool_raised,
            &counters.rewritten_launches,
            &counters.rewritten_tried,
            &counters.rewritten_won,
            &counters.rewritten_lost,
            &counters.rewritten_left,
            &counters.rewritten_saved_ns,
            &counters.overlap_looked,
            &counters.overlap_proven,
            &counters.overlap_read_after_write,
            &counters.overlap_write_after_read,
            &counters.overlap_write_after_write,
            &counters.overlap_branched,
            &counters.overlap_beside,
            &counters.overlap_fell_back,
            &counters.overlap_kept,
            &counters.overlap_saved_ns,
            &counters.unproven_text,
            &counters.unproven_large,
            &counters.unproven_call,
            &counters.unproven_texture,
            &counters.unproven_pointer,
            &counters.unproven_spin,
            &counters.unproven_launch,
            &counters.unproven_copy,
            &counters.unproven_unknown,
            &counters.unproven_loop,
            &counters.unproven_memory,
        ]);
        all.extend(counters.direct.iter().chain(&counters.lag));
        let words: Vec<u64> = all.iter().map(|counter| counter.0.load(Ordering::Relaxed)).collect();
        words.try_into().expect("every word")
    }

    #[test]
    fn what_is_counted_is_found() {
        let counters = Counters::new();
        counters.queued.add(7);
        counters.queued.add(3);
        assert_eq!(counters.failed.fetch_add(2, Ordering::Relaxed), 0);
        counters.direct[Reason::Aside as usize].fetch_add(5, Ordering::Relaxed);
        (0..31).for_each(|_| counters.lagged(2_000));
        counters.lagged(u64::MAX);
        let found = Found::read(&words(&counters));
        assert_eq!(found.counts, counters.counts());
        assert_eq!((found.counts.queued, found.counts.failed, found.damaged), (10, 2, 0));
        assert_eq!(found.counts.direct, [0, 0, 0, 0, 0, 0, 0, 0, 5]);
        let median = found.lag.median(30).expect("enough were counted");
        assert!((median - 2_000.0).abs() < 240.0, "{median}");
        assert_eq!(found.clone().plus(&found).counts.queued, 20);
    }

    #[test]
    fn what_a_program_writes_over_them_is_not_believed() {
        let counters = Counters::new();
        counters.queued.add(7);
        let mut words = words(&counters);
        words[0] = 1_000_000;
        words[WORDS - 1] = u64::MAX;
        let found = Found::read(&words);
        assert_eq!((found.counts.queued, found.damaged, found.lag.count()), (0, 2, 0));
    }

    #[test]
    fn every_reason_has_its_own_word() {
        for (nth, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, nth);
            assert_eq!(Reason::ALL.iter().filter(|other| other.word() == reason.word()).count(), 1);
        }
    }
}
