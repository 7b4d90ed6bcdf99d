//! A stream of the driver with a count of what was put into it.
//!
//! The count names a piece of work; [`crate::order`] makes queues wait for each other by it.

use crate::calls::{EventHandle, StreamHandle};
use crate::lock::lock;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

/// A stream of the driver, and what was put into it.
#[derive(Debug)]
pub(crate) struct Queue {
    stream: StreamHandle,
    number: u16,
    /// How many pieces of work the driver has taken.
    pub(crate) count: AtomicU64,
    /// Up to which count of each other queue this one waits.
    pub(crate) waited: Mutex<Vec<u64>>,
    /// The event that others wait for; each recording replaces the one before, and who waits has already
    /// taken note of its own.
    pub(crate) mark: Mutex<EventHandle>,
    last_kernel: AtomicU32,
}

impl Queue {
    pub(crate) fn new(stream: StreamHandle, number: u16, mark: EventHandle) -> Queue {
        Queue {
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
}

pub(crate) const COUNT_BITS: u32 = 48;

/// A piece of work: a queue in the upper bits, its count in the lower. 0 is none; counts begin at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use(pub(crate) u64);

impl Use {
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn queue(self) -> u16 {
        (self.0 >> COUNT_BITS) as u16
    }

    pub(crate) fn count(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }
}
