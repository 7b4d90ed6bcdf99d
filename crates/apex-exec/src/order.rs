//! Who must wait for whom: the order of work on different streams.
//!
//! A [`Lane`] is a stream of the driver with a count of what was put into it. Each piece of memory remembers
//! its last [`Use`]s, a lane and a count: by whom it was written, by whom it was read since. Work on the same
//! lane needs nothing, the stream keeps order. Work on another lane waits for those uses by an event, which is
//! recorded only then: memory that stays on one stream costs no call of the driver at all. Each lane knows up
//! to which count of every other lane it has already waited, and does not wait twice.
//!
//! What makes it sound: a lane's count rises *after* the driver has taken the work, and is read *before* the
//! event is recorded, so the event stands behind everything up to that count. A use is noted while the memory
//! is still borrowed for the launch. Two threads can use one piece of memory at once (two readers, two halves
//! of a buffer), therefore a note never overwrites a use that the noter has not waited for: it goes to `others`.

use crate::context::{Context, EventHandle, StreamHandle, lock};
use crate::error::Result;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

/// A stream of the driver, and what was put into it.
#[derive(Debug)]
pub(crate) struct Lane {
    stream: StreamHandle,
    number: u16,
    /// How many pieces of work the driver has taken.
    count: AtomicU64,
    /// Up to which count of each other lane this one waits.
    waited: Mutex<Vec<u64>>,
    /// The event that others wait for; each recording replaces the one before, and who waits has already
    /// taken note of its own.
    mark: Mutex<EventHandle>,
    last_kernel: AtomicU32,
}

impl Lane {
    pub(crate) fn new(stream: StreamHandle, number: u16, mark: EventHandle) -> Lane {
        Lane {
            stream,
            number,
            count: AtomicU64::new(0),
            waited: Mutex::default(),
            mark: Mutex::new(mark),
            last_kernel: AtomicU32::new(0),
        }
    }

    pub(crate) fn stream(&self) -> StreamHandle {
        self.stream
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn mark_for_drop(&self) -> EventHandle {
        *lock(&self.mark)
    }

    pub(crate) fn last_kernel(&self) -> u32 {
        self.last_kernel.load(Ordering::Relaxed)
    }

    pub(crate) fn set_last_kernel(&self, number: u32) {
        self.last_kernel.store(number, Ordering::Relaxed);
    }

    /// Counts a piece of work that the driver has taken.
    #[inline]
    pub(crate) fn advance(&self) -> Use {
        let count = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        Use(u64::from(self.number) << COUNT_BITS | count)
    }

    /// Lets what comes next in this lane wait for a use in another.
    #[inline]
    pub(crate) fn wait_for(&self, context: &Context, earlier: Use) -> Result<()> {
        if earlier.is_none() || earlier.lane() == self.number {
            return Ok(());
        }
        self.wait_for_other(context, earlier)
    }

    #[cold]
    fn wait_for_other(&self, context: &Context, earlier: Use) -> Result<()> {
        let place = usize::from(earlier.lane());
        let mut waited = lock(&self.waited);
        if waited.get(place).is_some_and(|&count| count >= earlier.count()) {
            return Ok(());
        }
        let other = context.lane(earlier.lane());
        let mark = lock(&other.mark);
        let reached = other.count.load(Ordering::Acquire);
        context.record_event(*mark, &other)?;
        context.wait_event(*mark, self)?;
        drop(mark);
        if waited.len() <= place {
            waited.resize(place + 1, 0);
        }
        waited[place] = reached;
        Ok(())
    }
}

const COUNT_BITS: u32 = 48;

/// A piece of work: a lane in the upper bits, its count in the lower. 0 is none; counts begin at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use(u64);

impl Use {
    fn is_none(self) -> bool {
        self.0 == 0
    }

    fn lane(self) -> u16 {
        (self.0 >> COUNT_BITS) as u16
    }

    fn count(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }
}

/// The last uses of a piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    written: Last,
    read: Last,
}

impl Uses {
    /// Lets the lane wait until the memory can be read.
    #[inline]
    pub(crate) fn before_read(&self, context: &Context, lane: &Lane) -> Result<()> {
        self.written.wait(context, lane)
    }

    /// Lets the lane wait until the memory can be written.
    #[inline]
    pub(crate) fn before_write(&self, context: &Context, lane: &Lane) -> Result<()> {
        self.written.wait(context, lane)?;
        self.read.wait(context, lane)
    }

    #[inline]
    pub(crate) fn note_read(&self, by: Use) {
        self.read.note(by);
    }

    #[inline]
    pub(crate) fn note_write(&self, by: Use) {
        self.written.note(by);
    }
}

/// The last use of one kind, and those on other lanes that it did not replace.
#[derive(Debug, Default)]
struct Last {
    latest: AtomicU64,
    /// At most one for each lane, the latest.
    others: Mutex<Vec<Use>>,
    has_others: AtomicBool,
}

impl Last {
    #[inline]
    fn wait(&self, context: &Context, lane: &Lane) -> Result<()> {
        lane.wait_for(context, Use(self.latest.load(Ordering::Acquire)))?;
        if self.has_others.load(Ordering::Acquire) {
            for &other in lock(&self.others).iter() {
                lane.wait_for(context, other)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn note(&self, by: Use) {
        let before = Use(self.latest.load(Ordering::Acquire));
        let replaces = before.is_none() || before.lane() == by.lane();
        if !(replaces && self.replace(before, by)) {
            self.note_beside(by);
        }
    }

    fn replace(&self, before: Use, by: Use) -> bool {
        before.0 >= by.0 && before.lane() == by.lane() && !before.is_none()
            || self
                .latest
                .compare_exchange(before.0, by.0, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    /// The slow way: the lock is held while the latest is moved to the others, so none is lost.
    #[cold]
    fn note_beside(&self, by: Use) {
        let mut others = lock(&self.others);
        loop {
            let before = Use(self.latest.load(Ordering::Acquire));
            if !before.is_none() && before.lane() != by.lane() {
                match others.iter_mut().find(|other| other.lane() == before.lane()) {
                    Some(other) => other.0 = other.0.max(before.0),
                    None => others.push(before),
                }
                self.has_others.store(true, Ordering::Release);
            }
            if self.replace(before, by) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(lane: u64, count: u64) -> Use {
        Use(lane << COUNT_BITS | count)
    }

    fn all(last: &Last) -> Vec<Use> {
        let mut all = lock(&last.others).clone();
        all.push(Use(last.latest.load(Ordering::Relaxed)));
        all
    }

    #[test]
    fn uses_of_one_lane_replace_each_other() {
        let last = Last::default();
        for count in [1, 5, 3, 9] {
            last.note(used(2, count));
        }
        assert_eq!(all(&last), [used(2, 9)]);
    }

    #[test]
    fn uses_of_different_lanes_stand_beside_each_other() {
        let last = Last::default();
        for (lane, count) in [(1, 4), (2, 7), (1, 8), (3, 1), (2, 9)] {
            last.note(used(lane, count));
        }
        let mut found = all(&last);
        found.sort_by_key(|found| found.0);
        found.dedup_by_key(|found| found.lane());
        let lanes: Vec<u16> = found.iter().map(|found| found.lane()).collect();
        assert_eq!(lanes, [1, 2, 3]);
        assert!(all(&last).contains(&used(2, 9)) && all(&last).contains(&used(1, 8)));
    }

    #[test]
    fn many_threads_lose_no_use() {
        let last = Last::default();
        std::thread::scope(|scope| {
            for lane in 1..=8 {
                let last = &last;
                scope.spawn(move || (1..=1000).for_each(|count| last.note(used(lane, count))));
            }
        });
        let found = all(&last);
        for lane in 1..=8 {
            assert!(found.contains(&used(lane, 1000)), "lane {lane}");
        }
    }
}
