//! Calls of other libraries that put work into one of our streams, such as cuBLASLt.
//!
//! They need what a launch needs: the context current, memory waited for before, and its use noted after.

use crate::buffer::{MemoryRef, View, ViewMut};
use crate::element::Element;
use crate::error::Result;
use crate::order::Uses;
use crate::stream::Stream;
use apex_cuda::types::CUstream;

/// A call being prepared.
pub(crate) struct ForeignCall<'a> {
    stream: &'a Stream,
    uses: Vec<(&'a Uses, bool)>,
}

impl<'a> ForeignCall<'a> {
    pub(crate) fn new(stream: &'a Stream) -> ForeignCall<'a> {
        ForeignCall { stream, uses: Vec::new() }
    }

    /// Memory that it reads; its address comes back.
    pub(crate) fn reads<T: Element>(&mut self, memory: &'a View<'_, T>) -> Result<u64> {
        self.note(memory.place(), false)
    }

    /// Memory that it writes; its address comes back.
    pub(crate) fn writes<T: Element>(&mut self, memory: &'a mut ViewMut<'_, T>) -> Result<u64> {
        self.note(memory.place(), true)
    }

    fn note(&mut self, place: MemoryRef<'a>, is_written: bool) -> Result<u64> {
        self.stream.belongs("the buffer", place.context)?;
        self.uses.push((place.uses, is_written));
        Ok(*place.address)
    }

    /// Makes the call, with the driver's stream.
    pub(crate) fn run(self, call: impl FnOnce(CUstream) -> Result<()>) -> Result<()> {
        let (context, queue) = (self.stream.context(), self.stream.queue());
        context.bind()?;
        for &(uses, is_written) in &self.uses {
            if is_written {
                uses.before_write(context, queue)?;
            } else {
                uses.before_read(context, queue)?;
            }
        }
        call(queue.stream().0)?;
        let by = queue.advance();
        for (uses, is_written) in self.uses {
            if is_written {
                uses.note_write(by);
            } else {
                uses.note_read(by);
            }
        }
        Ok(())
    }
}
