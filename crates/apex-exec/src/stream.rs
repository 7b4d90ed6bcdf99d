//! A queue of work for the device: done in order, beside that of other streams.
//!
//! Every method puts something into the queue and returns; those that say so wait. Memory that was used on
//! another stream is waited for on the device (see [`crate::order`]); nothing need be said for it.

use crate::buffer::{Buffer, Readable, Writable};
use crate::context::Context;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::pinned::{Pending, Pinned};
use crate::queue::Queue;
use core::fmt;
use std::sync::Arc;

/// A queue of work. Clones are the same queue.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let (first, second) = (executor.new_stream()?, executor.new_stream()?);
/// let mut buffer = first.zeros::<u8>(4)?;
/// second.fill_bytes(&mut buffer, 3)?; // after `first` is done with it, without being told
/// assert_eq!(first.download(&buffer)?, [3, 3, 3, 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stream {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<Context>,
    queue: Arc<Queue>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.context.give_back_queue(&self.queue);
    }
}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Stream> {
        let queue = context.take_queue()?;
        Ok(Stream { inner: Arc::new(Inner { context: context.clone(), queue }) })
    }

    /// Memory with the elements of a slice. Waits until they are copied.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.stream().upload(&[1_i16, -1])?;
    /// assert_eq!(executor.stream().download(&buffer)?, [1, -1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], and what the driver says of work that failed before.
    pub fn upload<T: Element>(&self, host: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.uninitialized(host.len())?;
        self.write(host, &mut buffer)?;
        Ok(buffer)
    }

    /// Overwrites memory with the elements of a slice of the same length. Waits until they are copied.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let mut buffer = executor.zeros::<i16>(3)?;
    /// executor.stream().write(&[1, 2], &mut buffer.slice_mut(1..))?;
    /// assert_eq!(executor.stream().download(&buffer)?, [0, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::BadShape`] for another length, and what the driver says of work that failed before.
    pub fn write<T: Element>(&self, host: &[T], mut to: impl Writable<T>) -> Result<()> {
        let to = to.as_view_mut();
        same_length("write", host.len(), to.len())?;
        let (place, bytes) = (to.place(), to.bytes());
        self.belongs("the buffer", place.context)?;
        if bytes == 0 {
            return Ok(());
        }
        let (context, queue) = (self.context(), self.queue());
        place.uses.before_write(context, queue)?;
        context.write_slice(host, *place.address, queue)
    }

    /// Memory of zeros.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.stream().zeros::<f64>(2)?;
    /// assert_eq!(executor.stream().download(&buffer)?, [0.0, 0.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.filled(len, 0)
    }

    /// Memory whose every byte is 0xFF, which is a NaN in every floating-point type: for results, so that an
    /// element that was not written shows.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.stream().poisoned::<f32>(2)?;
    /// assert!(executor.stream().download(&buffer)?.iter().all(|value| value.is_nan()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn poisoned<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.filled(len, 0xFF)
    }

    fn filled<T: Element>(&self, len: usize, byte: u8) -> Result<Buffer<T>> {
        let mut buffer = self.uninitialized(len)?;
        self.fill_bytes(&mut buffer, byte)?;
        Ok(buffer)
    }

    /// Memory with whatever lies in it: for results that are written whole before they are read. Nothing on the
    /// host is ever unwritten by it; any bits are a value of every [`Element`].
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.stream().uninitialized::<f64>(2)?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn uninitialized<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::allocate(self.context(), self.queue(), len)
    }

    /// Sets every byte of some memory.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let mut buffer = executor.zeros::<u16>(1)?;
    /// executor.stream().fill_bytes(&mut buffer, 0x11)?;
    /// assert_eq!(executor.stream().download(&buffer)?, [0x1111]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says of work that failed before.
    pub fn fill_bytes<T: Element>(&self, mut to: impl Writable<T>, byte: u8) -> Result<()> {
        let to = to.as_view_mut();
        let (place, bytes) = (to.place(), to.bytes());
        self.belongs("the buffer", place.context)?;
        if bytes == 0 {
            return Ok(());
        }
        place.uses.before_write(self.context(), self.queue())?;
        self.context().fill(*place.address, byte, bytes, self.queue())?;
        place.uses.note_write(self.queue().advance());
        Ok(())
    }

    /// Copies from memory to memory of the same length.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let from = executor.upload(&[1_u16, 2])?;
    /// let mut to = executor.zeros::<u16>(2)?;
    /// executor.stream().copy(&from, &mut to)?;
    /// assert_eq!(executor.stream().download(&to)?, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::BadShape`] for another length, and what the driver says of work that failed before.
    pub fn copy<T: Element>(&self, from: impl Readable<T>, mut to: impl Writable<T>) -> Result<()> {
        let (from, to) = (from.as_view(), to.as_view_mut());
        same_length("copy", from.len(), to.len())?;
        let (source, target, bytes) = (from.place(), to.place(), to.bytes());
        self.belongs("the source", source.context)?;
        self.belongs("the target", target.context)?;
        if bytes == 0 {
            return Ok(());
        }
        source.uses.before_read(self.context(), self.queue())?;
        target.uses.before_write(self.context(), self.queue())?;
        self.context().copy(*source.address, *target.address, bytes, self.queue())?;
        let by = self.queue().advance();
        source.uses.note_read(by);
        target.uses.note_write(by);
        Ok(())
    }

    /// The elements of some memory. Waits for everything that is in the stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.upload(&[1_u16, 2, 3])?;
    /// assert_eq!(executor.stream().download(buffer.slice(..2))?, [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says, also of work that failed before.
    pub fn download<T: Element>(&self, from: impl Readable<T>) -> Result<Vec<T>> {
        let from = from.as_view();
        let len = from.len();
        let place = from.place();
        self.belongs("the buffer", place.context)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        place.uses.before_read(self.context(), self.queue())?;
        self.context().read_vector(*place.address, len, self.queue())
    }

    /// Memory with the elements of some pinned memory, which comes back once they are copied. The buffer can be
    /// used at once, on any stream.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let (buffer, staging) = executor.stream().upload_async(executor.pinned_from(&[1_u8, 2])?)?;
    /// assert_eq!(executor.download(&buffer)?, [1, 2]);
    /// assert_eq!(staging.wait()?[..], [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], and what the driver says of work that failed before.
    pub fn upload_async<T: Element>(
        &self,
        host: Pinned<T>,
    ) -> Result<(Buffer<T>, Pending<Pinned<T>>)> {
        let mut buffer = self.uninitialized(host.len())?;
        let pending = self.write_async(host, &mut buffer)?;
        Ok((buffer, pending))
    }

    /// Overwrites memory with the elements of some pinned memory of the same length.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let mut buffer = executor.zeros::<u8>(2)?;
    /// let staging = executor.stream().write_async(executor.pinned_from(&[1_u8, 2])?, &mut buffer)?;
    /// assert_eq!(executor.download(&buffer)?, [1, 2]);
    /// # drop(staging);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::BadShape`] for another length, and what the driver says of work that failed before.
    pub fn write_async<T: Element>(
        &self,
        host: Pinned<T>,
        mut to: impl Writable<T>,
    ) -> Result<Pending<Pinned<T>>> {
        let to = to.as_view_mut();
        same_length("write_async", host.elements(), to.len())?;
        let place = to.place();
        self.belongs("the pinned memory", host.context())?;
        self.belongs("the buffer", place.context)?;
        place.uses.before_write(self.context(), self.queue())?;
        let pending = host.begin_copy_in(*place.address, self.queue())?;
        place.uses.note_write(self.queue().advance());
        Ok(pending)
    }

    /// Begins to copy memory out; the elements can be had once they are there.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.upload(&[1_u8, 2])?;
    /// let pending = executor.stream().download_async(&buffer)?;
    /// assert_eq!(pending.wait()?[..], [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfPinnedMemory`], and what the driver says of work that failed before.
    pub fn download_async<T: Element>(&self, from: impl Readable<T>) -> Result<Pending<Pinned<T>>> {
        let host = Pinned::unwritten(self.context(), from.as_view().len())?;
        self.read_async(from, host)
    }

    /// Begins to copy memory out into pinned memory of the same length, which was used before.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.upload(&[1_u8, 2])?;
    /// let pending = executor.stream().read_async(&buffer, executor.pinned(2)?)?;
    /// assert_eq!(pending.wait()?[..], [1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::BadShape`] for another length, and what the driver says of work that failed before.
    pub fn read_async<T: Element>(
        &self,
        from: impl Readable<T>,
        host: Pinned<T>,
    ) -> Result<Pending<Pinned<T>>> {
        let from = from.as_view();
        same_length("read_async", from.len(), host.elements())?;
        let place = from.place();
        self.belongs("the pinned memory", host.context())?;
        self.belongs("the buffer", place.context)?;
        place.uses.before_read(self.context(), self.queue())?;
        let pending = host.begin_copy_out(*place.address, self.queue())?;
        place.uses.note_read(self.queue().advance());
        Ok(pending)
    }

    /// Marks where the stream is now, for waiting and for measuring.
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
    /// What the driver says of work that failed before.
    pub fn record(&self) -> Result<Event> {
        Event::record(self.context(), self.queue(), true)
    }

    /// Lets what comes next in this stream wait, on the device, for an event of another.
    ///
    /// Memory needs none of this; it is for what is not memory, such as measuring.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let other = executor.new_stream()?;
    /// other.wait_for(&executor.stream().record()?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OtherExecutor`], and what the driver says of work that failed before.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.belongs("the event", event.context())?;
        self.context().wait_event(event.raw(), self.queue())
    }

    /// Waits until everything in the stream is done.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// executor.stream().synchronize()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says, also of work that failed before.
    pub fn synchronize(&self) -> Result<()> {
        self.context().synchronize_queue(self.queue())
    }

    pub(crate) fn belongs(&self, what: &'static str, context: &Arc<Context>) -> Result<()> {
        if Arc::ptr_eq(self.context(), context) {
            Ok(())
        } else {
            Err(Error::OtherExecutor { what })
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.inner.context
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.inner.queue
    }
}

fn same_length(operation: &'static str, from: usize, to: usize) -> Result<()> {
    if from == to {
        return Ok(());
    }
    Err(Error::BadShape {
        operation,
        reason: format!(
            "{from} elements cannot become {to}: give both the same length (slice one)"
        ),
    })
}

impl fmt::Debug for Stream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Stream({})", self.queue().number())
    }
}
