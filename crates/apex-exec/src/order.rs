//! Who must wait for whom: the order of work on different streams.
//!
//! A [`Queue`] is a stream of the driver with a count of what was put into it. Each piece of memory remembers
//! its last [`Use`]s, a queue and a count: by whom it was written, by whom it was read since. Work on the same
//! queue needs nothing, the stream keeps order. Work on another queue waits for those uses by an event, which is
//! recorded only then: memory that stays on one stream costs no call of the driver at all. Each queue knows up
//! to which count of every other queue it has already waited, and does not wait twice.
//!
//! What makes it sound: a queue's count rises *after* the driver has taken the work, and is read *before* the
//! event is recorded, so the event stands behind everything up to that count. A use is noted while the memory
//! is still borrowed for the launch. Two threads can use one piece of memory at once (two readers, two halves
//! of a buffer), therefore a note never overwrites a use that the noter has not waited for: it goes to `others`.

use crate::context::Context;
use crate::error::Result;
use crate::lock::lock;
use crate::queue::{Queue, Use};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

/// Lets what comes next in a queue wait for a use in another.
#[inline]
fn wait_for(queue: &Queue, context: &Context, earlier: Use) -> Result<()> {
    if earlier.is_none() || earlier.queue() == queue.number() {
        return Ok(());
    }
    wait_for_other(queue, context, earlier)
}

#[cold]
fn wait_for_other(queue: &Queue, context: &Context, earlier: Use) -> Result<()> {
    let place = usize::from(earlier.queue());
    let mut waited = lock(&queue.waited);
    if waited.get(place).is_some_and(|&count| count >= earlier.count()) {
        return Ok(());
    }
    let other = context.queue(earlier.queue());
    let mark = lock(&other.mark);
    let reached = other.count.load(Ordering::Acquire);
    context.record_event(*mark, &other)?;
    context.wait_event(*mark, queue)?;
    drop(mark);
    if waited.len() <= place {
        waited.resize(place + 1, 0);
    }
    waited[place] = reached;
    Ok(())
}

/// The last uses of a piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    written: Last,
    read: Last,
}

impl Uses {
    /// Lets the queue wait until the memory can be read.
    #[inline]
    pub(crate) fn before_read(&self, context: &Context, queue: &Queue) -> Result<()> {
        self.written.wait(context, queue)
    }

    /// Lets the queue wait until the memory can be written.
    #[inline]
    pub(crate) fn before_write(&self, context: &Context, queue: &Queue) -> Result<()> {
        self.written.wait(context, queue)?;
        self.read.wait(context, queue)
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

/// The last use of one kind, and those on other queues that it did not replace.
#[derive(Debug, Default)]
struct Last {
    latest: AtomicU64,
    /// At most one for each queue, the latest.
    others: Mutex<Vec<Use>>,
    has_others: AtomicBool,
}

impl Last {
    #[inline]
    fn wait(&self, context: &Context, queue: &Queue) -> Result<()> {
        wait_for(queue, context, Use(self.latest.load(Ordering::Acquire)))?;
        if self.has_others.load(Ordering::Acquire) {
            for &other in lock(&self.others).iter() {
                wait_for(queue, context, other)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn note(&self, by: Use) {
        let before = Use(self.latest.load(Ordering::Acquire));
        let replaces = before.is_none() || before.queue() == by.queue();
        if !(replaces && self.replace(before, by)) {
            self.note_beside(by);
        }
    }

    fn replace(&self, before: Use, by: Use) -> bool {
        before.0 >= by.0 && before.queue() == by.queue() && !before.is_none()
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
            if !before.is_none() && before.queue() != by.queue() {
                match others.iter_mut().find(|other| other.queue() == before.queue()) {
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
    use crate::queue::COUNT_BITS;

    fn used(queue: u64, count: u64) -> Use {
        Use(queue << COUNT_BITS | count)
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
        for (queue, count) in [(1, 4), (2, 7), (1, 8), (3, 1), (2, 9)] {
            last.note(used(queue, count));
        }
        let mut found = all(&last);
        found.sort_by_key(|found| found.0);
        found.dedup_by_key(|found| found.queue());
        let queues: Vec<u16> = found.iter().map(|found| found.queue()).collect();
        assert_eq!(queues, [1, 2, 3]);
        assert!(all(&last).contains(&used(2, 9)) && all(&last).contains(&used(1, 8)));
    }

    #[test]
    fn many_threads_lose_no_use() {
        let last = Last::default();
        std::thread::scope(|scope| {
            for queue in 1..=8 {
                let last = &last;
                scope.spawn(move || (1..=1000).for_each(|count| last.note(used(queue, count))));
            }
        });
        let found = all(&last);
        for queue in 1..=8 {
            assert!(found.contains(&used(queue, 1000)), "queue {queue}");
        }
    }
}
