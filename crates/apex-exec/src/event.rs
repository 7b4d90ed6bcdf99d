//! A point in a stream's work, to wait for and to measure between.

use crate::calls::EventHandle;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::queue::Queue;
use core::fmt;
use std::sync::Arc;

/// Marks what was in a stream when it was recorded, with the time at which the device got there.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let stream = executor.stream();
/// let before = stream.record()?;
/// let buffer = stream.zeros::<f32>(1 << 16)?;
/// let after = stream.record()?;
/// assert!(after.seconds_since(&before)? >= 0.0);
/// # drop(buffer);
/// # Ok(())
/// # }
/// ```
pub struct Event {
    raw: EventHandle,
    context: Arc<Context>,
}

impl Event {
    pub(crate) fn record(context: &Arc<Context>, queue: &Queue, timed: bool) -> Result<Event> {
        let event = Event { raw: context.make_event(timed)?, context: context.clone() };
        context.record_event(event.raw, queue)?;
        Ok(event)
    }

    /// Waits until the device is there.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// executor.stream().record()?.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says, also of work that failed before.
    pub fn wait(&self) -> Result<()> {
        self.context.synchronize_event(self.raw)
    }

    /// Whether the device is there.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let event = executor.stream().record()?;
    /// executor.synchronize()?;
    /// assert!(event.is_done()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says, also of work that failed before.
    pub fn is_done(&self) -> Result<bool> {
        self.context.is_event_done(self.raw)
    }

    /// Seconds of device time since an earlier event; waits until the device is at both.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let before = executor.stream().record()?;
    /// let after = executor.stream().record()?;
    /// assert!(after.seconds_since(&before)? < 10.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says, also of work that failed before; [`Error::OtherExecutor`].
    pub fn seconds_since(&self, earlier: &Event) -> Result<f64> {
        if !Arc::ptr_eq(&self.context, &earlier.context) {
            return Err(Error::OtherExecutor { what: "the earlier event" });
        }
        earlier.wait()?;
        self.wait()?;
        Ok(f64::from(self.context.milliseconds(earlier.raw, self.raw)?) / 1e3)
    }

    pub(crate) fn raw(&self) -> EventHandle {
        self.raw
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.context.destroy_event(self.raw);
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Event(done: {:?})", self.is_done())
    }
}
