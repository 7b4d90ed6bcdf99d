//! What an instruction is executed with: the lanes, the warp and the block.

use super::block::BlockRun;
use super::file::{File, Span};
use super::warp::Warp;
use crate::code::{Guard, Pc, Reg, Space, Src};
use crate::fault::Fault;
use crate::site::{Access, Site};

/// The step went wrong; the fault lies in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Of a step.
pub(crate) type Outcome = Result<(), Stopped>;

/// One step of one warp, for the lanes of `mask`.
///
/// The pointers are raw because a step may reach other warps (barriers) and other blocks
/// (clusters) besides its own; only the worker that holds the block touches any of them.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) span: Span,
    pub(crate) pc: Pc,
    pub(crate) warp: *mut Warp,
    pub(crate) block: *mut BlockRun,
}

impl Context {
    pub(crate) fn file(&self) -> File {
        self.span.file
    }

    pub(crate) fn mask(&self) -> u32 {
        self.span.mask
    }

    /// The block. The reference must end before another one is made.
    #[allow(clippy::mut_from_ref, reason = "the worker owns the block; see the type")]
    pub(crate) fn block(&self) -> &mut BlockRun {
        // SAFETY: the block outlives the step, and its worker is the only one to touch it.
        unsafe { &mut *self.block }
    }

    /// The warp; as for [`Self::block`].
    #[allow(clippy::mut_from_ref, reason = "the worker owns the block; see the type")]
    pub(crate) fn warp(&self) -> &mut Warp {
        // SAFETY: as for the block.
        unsafe { &mut *self.warp }
    }

    pub(crate) fn get(&self, src: Src, lane: usize) -> u64 {
        self.span.file.get(src, lane)
    }

    pub(crate) fn set(&self, dst: Reg, lane: usize, bits: u64) {
        self.span.file.set(dst, lane, bits.into());
    }

    /// For a subset of the lanes.
    pub(crate) fn only(self, mask: u32) -> Context {
        Context { span: Span { mask: self.span.mask & mask, ..self.span }, ..self }
    }

    pub(crate) fn guarded(self, guard: Option<Guard>) -> Context {
        match guard {
            Some(guard) => Context { span: self.span.guarded(guard), ..self },
            None => self,
        }
    }

    /// Where this step stands, for a report.
    pub(crate) fn place(&self, lane: Option<usize>) -> Site {
        let thread = lane.map(|lane| self.warp().frame.first_thread + lane as u32);
        self.block().place(self.pc, thread)
    }

    /// Ends the block with a fault.
    pub(crate) fn fail(&self, fault: Fault) -> Outcome {
        let block = self.block();
        block.fault.get_or_insert(fault);
        Err(Stopped)
    }

    pub(crate) fn illegal(&self, reason: impl Into<String>) -> Outcome {
        let place = self.place(None);
        self.fail(Fault::IllegalInstruction { place, reason: reason.into() })
    }

    pub(crate) fn bad_address(
        &self,
        lane: usize,
        address: u64,
        bytes: u32,
        access: Option<(Access, Space)>,
    ) -> Stopped {
        let place = self.place(Some(lane));
        let _ = self.fail(Fault::IllegalAddress { place, address: Some(address), bytes, access });
        Stopped
    }
}
