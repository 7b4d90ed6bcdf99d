//! For whom a machine instruction touches memory, kept with its step in the place that Cranelift keeps of each.

use super::emit::{Emit, own};
use crate::code::Pc;
use crate::frame::{Toucher, WarpFrame};
use cranelift_codegen::ir::types::I32;
use cranelift_codegen::ir::{InstBuilder, SourceLoc, Value};
use std::mem::offset_of;

/// Bits of the step; [`super::MOST_STEPS`] fits.
const STEP_BITS: u32 = 16;
const _: () = assert!(super::MOST_STEPS < 1 << STEP_BITS);
const IN_FRAME: u32 = 33;

/// The step and the lane of a place.
pub(super) fn read(place: u32) -> (Pc, Toucher) {
    let toucher = match place >> STEP_BITS {
        0 => Toucher::Unknown,
        IN_FRAME => Toucher::InFrame,
        lane => Toucher::Lane(lane - 1),
    };
    (place & ((1 << STEP_BITS) - 1), toucher)
}

impl Emit<'_, '_> {
    /// What follows of the step touches memory for this lane first.
    pub(super) fn touches_for(&mut self, lane: usize) {
        self.mark(lane as u32 + 1);
    }

    /// What follows of the step touches memory for a lane that is known when it runs.
    pub(super) fn touches_in_turn(&mut self, lane: Value) {
        let lane = self.build.ins().ireduce(I32, lane);
        self.build.ins().store(own(), lane, self.warp_frame, offset_of!(WarpFrame, lane) as i32);
        self.mark(IN_FRAME);
    }

    fn mark(&mut self, who: u32) {
        let step = self.build.srcloc().bits() & ((1 << STEP_BITS) - 1);
        self.build.set_srcloc(SourceLoc::new(step | who << STEP_BITS));
    }
}
