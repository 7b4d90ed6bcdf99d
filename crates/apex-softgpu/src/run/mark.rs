//! Points that a stream reaches, and when it did.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::memory::shared::SharedEvent;
use crate::object::lock;

/// A point that a stream reaches, and when it did.
pub(crate) struct Mark {
    /// Nanoseconds on the device's clock; 0 before.
    pub(crate) time: AtomicU64,
    /// The count that other processes wait for, when the event is shared.
    pub(crate) shared: Mutex<Option<(Arc<SharedEvent>, u64)>>,
}

impl Mark {
    pub(crate) fn new() -> Arc<Mark> {
        Arc::new(Mark { time: AtomicU64::new(0), shared: Mutex::new(None) })
    }

    /// The stream is at the point.
    pub(crate) fn reach(&self, time: u64) {
        self.time.store(time, Ordering::Release);
        if let Some((shared, count)) = lock(&self.shared).as_ref() {
            shared.reach(*count);
        }
    }
}
