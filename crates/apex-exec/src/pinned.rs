//! Host memory that the device copies from and to by itself, and copies that are under way.
//!
//! A copy that is not waited for needs memory that nobody touches meanwhile. So it takes the [`Pinned`] memory
//! and gives a [`Pending`], which hands it out again once the copy is done: reading too early does not compile.
//!
//! ```compile_fail,E0382
//! # fn main() -> apex_exec::Result<()> {
//! let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
//! let staging = executor.pinned::<f32>(8)?;
//! let (buffer, pending) = executor.stream().upload_async(staging)?;
//! println!("{}", staging[0]); // still being copied
//! # Ok(())
//! # }
//! ```
//!
//! ```compile_fail,E0608
//! # fn main() -> apex_exec::Result<()> {
//! let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
//! let buffer = executor.zeros::<f32>(8)?;
//! let pending = executor.stream().download_async(&buffer)?;
//! println!("{}", pending[0]); // not there yet: wait() first
//! # Ok(())
//! # }
//! ```

use crate::buffer::bytes_of;
use crate::calls::PinnedHandle;
use crate::context::Context;
use crate::element::Element;
use crate::error::Result;
use crate::event::Event;
use crate::queue::Queue;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Host memory for `len` elements that the device reaches directly; used like a slice.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let mut staging = executor.pinned::<f32>(4)?;
/// staging.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
/// let (buffer, pending) = executor.stream().upload_async(staging)?;
/// let back = executor.stream().download_async(&buffer)?.wait()?;
/// assert_eq!(back[..], [1.0, 2.0, 3.0, 4.0]);
/// let staging = pending.wait()?; // to be used again
/// # drop(staging);
/// # Ok(())
/// # }
/// ```
pub struct Pinned<T: Element> {
    address: PinnedHandle,
    /// Bytes that were taken, more than the elements need.
    bytes: usize,
    len: usize,
    context: Arc<Context>,
    element: PhantomData<T>,
}

impl<T: Element> Pinned<T> {
    /// Memory of zeros.
    pub(crate) fn zeros(context: &Arc<Context>, len: usize) -> Result<Pinned<T>> {
        let pinned = Pinned::<T>::unwritten(context, len)?;
        // SAFETY: the memory is ours alone and has room for `len` elements.
        unsafe { core::ptr::write_bytes(pinned.address.0.cast::<T>(), 0, len) };
        Ok(pinned)
    }

    /// Memory that nobody reads before a copy has written all of it: for [`Pinned::begin_copy_out`] alone.
    pub(crate) fn unwritten(context: &Arc<Context>, len: usize) -> Result<Pinned<T>> {
        let (bytes, address) = context.take_pinned(bytes_of::<T>(len))?;
        Ok(Pinned { address, bytes, len, context: context.clone(), element: PhantomData })
    }

    /// Begins to copy all of it to device memory that has as many bytes.
    pub(crate) fn begin_copy_in(self, to: u64, queue: &Queue) -> Result<Pending<Pinned<T>>> {
        let bytes = bytes_of::<T>(self.len);
        if bytes > 0 {
            // SAFETY: the memory is kept, untouched, by the handle until the copy is done.
            unsafe { self.context.copy_in(self.address.0, to, bytes, queue)? };
        }
        self.pending(queue)
    }

    /// Begins to copy device memory that has as many bytes to all of it.
    pub(crate) fn begin_copy_out(self, from: u64, queue: &Queue) -> Result<Pending<Pinned<T>>> {
        let bytes = bytes_of::<T>(self.len);
        if bytes > 0 {
            // SAFETY: the memory is kept, and given to nobody, by the handle until the copy is done.
            unsafe { self.context.copy_out(from, self.address.0, bytes, queue)? };
        }
        self.pending(queue)
    }

    /// A handle for what was begun. Where no event can be made the copy is waited for at once, since nothing
    /// else could tell when the memory is free.
    fn pending(self, queue: &Queue) -> Result<Pending<Pinned<T>>> {
        match Event::record(&self.context, queue, false) {
            Ok(done) => Ok(Pending::new(self, done)),
            Err(error) => {
                let _ = self.context.synchronize_queue(queue);
                Err(error)
            }
        }
    }

    /// How many elements it has, without a look at them: they may not be written yet.
    pub(crate) fn elements(&self) -> usize {
        self.len
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl<T: Element> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the memory has `len` elements, all written (by zeros, or by the copy it was made for), is aligned to a page, and no copy
        // is under way while a `Pinned` is in anybody's hands.
        unsafe { core::slice::from_raw_parts(self.address.0.cast(), self.len) }
    }
}

impl<T: Element> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.address.0.cast(), self.len) }
    }
}

impl<T: Element> Drop for Pinned<T> {
    fn drop(&mut self) {
        self.context.give_back_pinned(self.bytes, self.address);
    }
}

impl<T: Element> fmt::Debug for Pinned<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Pinned<{}>({} elements)", T::NAME, self.len)
    }
}

/// What a copy that is under way will give back.
///
/// Dropping it waits for the copy; nothing is freed under the device's hands.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let buffer = executor.upload(&[5_u8; 100])?;
/// let pending = executor.stream().download_async(&buffer)?;
/// // the processor is free to do other things here
/// assert_eq!(pending.wait()?[99], 5);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the copy is waited for when this is dropped"]
pub struct Pending<V> {
    /// None once it was handed out.
    value: Option<V>,
    done: Event,
}

impl<V> Pending<V> {
    fn new(value: V, done: Event) -> Pending<V> {
        Pending { value: Some(value), done }
    }

    /// Waits for the copy and hands the memory out.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.upload(&[1_i64])?;
    /// assert_eq!(executor.stream().download_async(&buffer)?.wait()?[..], [1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says, also of work that failed before.
    pub fn wait(mut self) -> Result<V> {
        self.done.wait()?;
        match self.value.take() {
            Some(value) => Ok(value),
            None => unreachable!("a value is taken by `wait` alone, which ends the handle"),
        }
    }

    /// Whether the copy is done, so that [`Pending::wait`] would not wait.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.upload(&[1_i64])?;
    /// let pending = executor.stream().download_async(&buffer)?;
    /// executor.synchronize()?;
    /// assert!(pending.is_done()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the driver says, also of work that failed before.
    pub fn is_done(&self) -> Result<bool> {
        self.done.is_done()
    }
}

impl<V> Drop for Pending<V> {
    fn drop(&mut self) {
        if self.value.is_some() {
            let _ = self.done.wait();
        }
    }
}
