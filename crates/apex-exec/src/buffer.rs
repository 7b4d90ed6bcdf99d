//! Device memory that owns itself, and borrowed parts of it.
//!
//! A [`Buffer`] is freed when it is dropped, after everything that was given to a stream with it: the driver
//! frees in stream order, so nobody waits. A [`View`] borrows a part to be read, a [`ViewMut`] a part to be
//! written; the borrow checker keeps a part from being freed, or written twice at once, while it is named.
//!
//! A buffer that was dropped cannot be used:
//!
//! ```compile_fail,E0382
//! # fn main() -> apex_exec::Result<()> {
//! let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
//! let buffer = executor.zeros::<f32>(8)?;
//! drop(buffer);
//! executor.download(&buffer)?;
//! # Ok(())
//! # }
//! ```
//!
//! Nor can it be dropped while a part of it is named:
//!
//! ```compile_fail,E0505
//! # fn main() -> apex_exec::Result<()> {
//! let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
//! let buffer = executor.zeros::<f32>(8)?;
//! let part = buffer.slice(2..4);
//! drop(buffer);
//! executor.stream().download(&part)?;
//! # Ok(())
//! # }
//! ```
//!
//! And one launch cannot read what it writes:
//!
//! ```compile_fail,E0502
//! # fn main() -> apex_exec::Result<()> {
//! let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
//! let add = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("add")?;
//! let mut buffer = executor.zeros::<f32>(8)?;
//! let grid = apex_exec::Grid::linear(1, 8);
//! executor.stream().launch(&add, grid).arg(&buffer).arg(&buffer).arg(&mut buffer).arg(&8_u32).run()?;
//! # Ok(())
//! # }
//! ```

use crate::context::Context;
use crate::element::Element;
use crate::error::Result;
use crate::order::Uses;
use crate::queue::Queue;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// Device memory for `len` elements.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let buffer = executor.upload(&[1_u32, 2, 3])?;
/// assert_eq!(buffer.len(), 3);
/// assert_eq!(executor.download(&buffer)?, [1, 2, 3]);
/// # Ok(())
/// # }
/// ```
pub struct Buffer<T: Element> {
    address: u64,
    len: usize,
    uses: Uses,
    /// Where it was made and will be freed.
    home: Arc<Queue>,
    context: Arc<Context>,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    /// Memory with whatever lies in it, usable in the order of `queue`.
    pub(crate) fn allocate(context: &Arc<Context>, queue: &Arc<Queue>, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(len);
        let uses = Uses::default();
        let address = if bytes == 0 { 0 } else { context.allocate(bytes, queue)? };
        uses.note_write(queue.advance());
        Ok(Buffer {
            address,
            len,
            uses,
            home: queue.clone(),
            context: context.clone(),
            element: PhantomData,
        })
    }

    /// How many elements it has.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.zeros::<f64>(5)?.len(), 5);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert!(executor.zeros::<f64>(0)?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part to be read.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.upload(&[1_u32, 2, 3, 4])?;
    /// assert_eq!(executor.stream().download(&buffer.slice(1..3))?, [2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// When the range goes beyond the buffer, as with a slice.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
        self.view().slice(range)
    }

    /// A part to be written.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let ones = executor.upload(&[1_u32, 1])?;
    /// let mut buffer = executor.zeros::<u32>(4)?;
    /// executor.stream().copy(&ones, &mut buffer.slice_mut(1..3))?;
    /// assert_eq!(executor.download(&buffer)?, [0, 1, 1, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// When the range goes beyond the buffer, as with a slice.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        let View { address, len, uses, context, .. } = self.view().slice(range);
        ViewMut { address, len, uses, context, element: PhantomData }
    }

    /// Two parts to be written, before and from `middle`.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let mut buffer = executor.zeros::<u32>(4)?;
    /// let (mut low, mut high) = buffer.split_at_mut(2);
    /// executor.stream().fill_bytes(&mut low, 1)?;
    /// executor.stream().fill_bytes(&mut high, 2)?;
    /// assert_eq!(executor.download(&buffer)?, [0x0101_0101, 0x0101_0101, 0x0202_0202, 0x0202_0202]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// When `middle` lies beyond the buffer, as with a slice.
    #[must_use]
    pub fn split_at_mut(&mut self, middle: usize) -> (ViewMut<'_, T>, ViewMut<'_, T>) {
        let whole = self.view();
        let part = |view: View<'_, T>| (view.address, view.len);
        let (low, high) = (part(whole.slice(..middle)), part(whole.slice(middle..)));
        let view = |(address, len)| ViewMut {
            address,
            len,
            uses: &self.uses,
            context: &self.context,
            element: PhantomData,
        };
        (view(low), view(high))
    }

    /// All of it, to be read.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let buffer = executor.zeros::<u32>(4)?;
    /// assert_eq!(buffer.view().len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn view(&self) -> View<'_, T> {
        View {
            address: self.address,
            len: self.len,
            uses: &self.uses,
            context: &self.context,
            element: PhantomData,
        }
    }

    /// All of it, to be written.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let mut buffer = executor.zeros::<u32>(4)?;
    /// assert_eq!(buffer.view_mut().len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        self.slice_mut(..)
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.address == 0 {
            return;
        }
        // Where the order cannot be made the context is lost, and nothing runs that could still use it.
        let _ = self.uses.before_write(&self.context, &self.home);
        self.context.free(self.address, &self.home);
        self.home.advance();
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Buffer<{}>({} elements)", T::NAME, self.len)
    }
}

/// A borrowed part of a buffer, to be read.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let buffer = executor.upload(&[1_u32, 2, 3, 4])?;
/// let tail = buffer.slice(1..);
/// assert_eq!(executor.stream().download(&tail.slice(1..))?, [3, 4]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct View<'a, T: Element> {
    address: u64,
    len: usize,
    uses: &'a Uses,
    context: &'a Arc<Context>,
    element: PhantomData<&'a T>,
}

impl<'a, T: Element> View<'a, T> {
    /// How many elements it has.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.zeros::<u8>(9)?.slice(..4).len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert!(executor.zeros::<u8>(9)?.slice(9..).is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of the part.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.zeros::<u8>(9)?.slice(2..).slice(..3).len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// When the range goes beyond the part, as with a slice.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'a, T> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        assert!(
            start <= end && end <= self.len,
            "the range {start}..{end} goes beyond {} elements",
            self.len
        );
        View { address: self.address + bytes_of::<T>(start) as u64, len: end - start, ..*self }
    }
}

/// A borrowed part of a buffer, to be written.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let mut buffer = executor.zeros::<u8>(4)?;
/// executor.stream().fill_bytes(&mut buffer.slice_mut(2..), 7)?;
/// assert_eq!(executor.download(&buffer)?, [0, 0, 7, 7]);
/// # Ok(())
/// # }
/// ```
pub struct ViewMut<'a, T: Element> {
    address: u64,
    len: usize,
    uses: &'a Uses,
    context: &'a Arc<Context>,
    element: PhantomData<&'a mut T>,
}

impl<T: Element> ViewMut<'_, T> {
    /// How many elements it has.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(executor.zeros::<u8>(9)?.slice_mut(..4).len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert!(executor.zeros::<u8>(9)?.slice_mut(9..).is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The same part, to be read.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let mut buffer = executor.zeros::<u8>(2)?;
    /// let part = buffer.slice_mut(1..);
    /// assert_eq!(executor.stream().download(&part.view())?, [0]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn view(&self) -> View<'_, T> {
        View {
            address: self.address,
            len: self.len,
            uses: self.uses,
            context: self.context,
            element: PhantomData,
        }
    }
}

impl<T: Element> fmt::Debug for View<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "View<{}>({} elements)", T::NAME, self.len)
    }
}

impl<T: Element> fmt::Debug for ViewMut<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ViewMut<{}>({} elements)", T::NAME, self.len)
    }
}

/// Memory that can be read: a buffer, or a part of one.
///
/// Functions that take either say `impl Readable<T>`; `&Buffer<T>`, `&View<T>` and `View<T>` are.
///
/// ```
/// use apex_exec::{Executor, Readable, Result};
///
/// fn first(executor: &Executor, from: impl Readable<u32>) -> Result<u32> {
///     Ok(executor.stream().download(from.as_view().slice(..1))?[0])
/// }
/// # fn main() -> Result<()> {
/// let executor = Executor::new(apex_exec::Device::Auto)?;
/// let buffer = executor.upload(&[7_u32, 8])?;
/// assert_eq!(first(&executor, &buffer)?, 7);
/// assert_eq!(first(&executor, buffer.slice(1..))?, 8);
/// # Ok(())
/// # }
/// ```
pub trait Readable<T: Element> {
    /// All of it.
    fn as_view(&self) -> View<'_, T>;
}

/// Memory that can be written: a buffer, or a part of one.
///
/// Functions that take either say `impl Writable<T>`; `&mut Buffer<T>`, `&mut ViewMut<T>` and `ViewMut<T>` are.
///
/// ```
/// use apex_exec::{Executor, Result, Writable};
///
/// fn clear(executor: &Executor, to: impl Writable<u32>) -> Result<()> {
///     executor.stream().fill_bytes(to, 0)
/// }
/// # fn main() -> Result<()> {
/// let executor = Executor::new(apex_exec::Device::Auto)?;
/// let mut buffer = executor.upload(&[7_u32, 8])?;
/// clear(&executor, buffer.slice_mut(1..))?;
/// assert_eq!(executor.download(&buffer)?, [7, 0]);
/// # Ok(())
/// # }
/// ```
pub trait Writable<T: Element> {
    /// All of it.
    fn as_view_mut(&mut self) -> ViewMut<'_, T>;
}

impl<T: Element> Readable<T> for Buffer<T> {
    fn as_view(&self) -> View<'_, T> {
        self.view()
    }
}

impl<T: Element> Readable<T> for View<'_, T> {
    fn as_view(&self) -> View<'_, T> {
        *self
    }
}

impl<T: Element, R: Readable<T>> Readable<T> for &R {
    fn as_view(&self) -> View<'_, T> {
        (**self).as_view()
    }
}

impl<T: Element> Writable<T> for Buffer<T> {
    fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        self.view_mut()
    }
}

impl<T: Element> Writable<T> for ViewMut<'_, T> {
    fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            address: self.address,
            len: self.len,
            uses: self.uses,
            context: self.context,
            element: PhantomData,
        }
    }
}

impl<T: Element, W: Writable<T>> Writable<T> for &mut W {
    fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        (**self).as_view_mut()
    }
}

/// What a launch and a copy need of memory, whichever form it has.
#[derive(Clone, Copy)]
pub(crate) struct MemoryRef<'a> {
    pub(crate) address: &'a u64,
    pub(crate) uses: &'a Uses,
    pub(crate) context: &'a Arc<Context>,
}

macro_rules! places {
    ($($type:ty),*) => {$(
        impl<T: Element> $type {
            /// Where it lies, as the address of a number that lives as long as the borrow.
            pub(crate) fn place(&self) -> MemoryRef<'_> {
                MemoryRef { address: &self.address, uses: &self.uses, context: &self.context }
            }
        }
    )*};
}

places!(Buffer<T>, View<'_, T>, ViewMut<'_, T>);

impl<T: Element> ViewMut<'_, T> {
    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of::<T>(self.len)
    }
}

/// Bytes of so many elements. A number beyond the address space becomes the largest, which nobody can allocate.
pub(crate) fn bytes_of<T>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>())
}
