//! The reference tier: a warp interpreter that knows every instruction.
//!
//! Dispatch happens once per step and warp; the loops over lanes inside are what the
//! compiler turns into vector code. Control flow is groups of lanes ([`warp`]), barriers
//! and turns are the block's ([`block`]), and everything is data, so a block stops and
//! goes on wherever its worker wants.

mod arena;
#[cfg(target_arch = "x86_64")]
mod ask;
mod atomic;
mod binary;
mod blame;
pub(crate) mod block;
mod checked;
mod compare;
pub(crate) mod context;
mod convert;
mod copy;
mod exchange;
mod execute;
pub(crate) mod facts;
mod file;
mod float;
mod half;
mod matrix;
mod matrix_memory;
mod memory;
mod reach;
mod rounds;
mod sample;
mod special;
mod swizzle;
mod system;
mod ternary;
mod unary;
mod video;
pub(crate) mod warp;

#[cfg(target_arch = "x86_64")]
pub(crate) use ask::ask;

use crate::code::Pc;
use crate::frame::{BlockFrame, WarpFrame};

/// Executes one step for all of [`WarpFrame::lanes`], over the register file: what compiled
/// code calls for an instruction it does not translate. Branches, calls, exits, barriers and
/// the like move lanes and are not executed here: compiled code hands over for them.
/// Gives 0, or 1 after a fault, which lies in the block then.
///
/// # Safety
/// The frames are those the compiled code was called with, and `pc` is a step of its kernel.
pub unsafe extern "C" fn step(block: *mut BlockFrame, warp: *mut WarpFrame, pc: Pc) -> u32 {
    // SAFETY: the frames stand at the start of the block and of the warp, and `runner` is the
    // block; the caller runs inside that block's turn.
    unsafe {
        let block = (*block).runner.cast::<block::BlockRun>();
        let warp = warp.cast::<warp::Warp>();
        let lanes = (*warp).frame.lanes;
        let facts: *const facts::Facts = (*block).facts();
        let Some(step) = (*facts).code().steps.get(pc as usize) else { return 1 };
        let x = (*block).context(warp, lanes, pc).guarded(step.guard);
        (*warp).now = (pc, x.mask());
        if x.mask() == 0 {
            return 0;
        }
        u32::from(execute::one(&x, &step.inst).is_err())
    }
}

/// Takes note of lanes that compiled code leaves at different steps: for each of `count`
/// places its step and the lanes that wait there; all others wait at the place after
/// these. Compiled code stops with [`Stop::Parted`](crate::frame::Stop::Parted) then.
///
/// # Safety
/// The frame is the one the compiled code was called with; `places` has one more than
/// `count` elements, `masks` has `count`.
pub unsafe extern "C" fn part(
    warp: *mut WarpFrame,
    places: *const Pc,
    masks: *const u32,
    count: u32,
) -> u32 {
    // SAFETY: the frame stands at the start of the warp; the rest is the caller's.
    unsafe {
        let warp = &mut *warp.cast::<warp::Warp>();
        let places = std::slice::from_raw_parts(places, count as usize + 1);
        let masks = std::slice::from_raw_parts(masks, count as usize);
        let rest = masks.iter().fold(warp.frame.lanes, |rest, mask| rest & !mask);
        let lanes = masks.iter().copied().chain([rest]);
        warp.parted.clear();
        warp.parted.extend(places.iter().copied().zip(lanes).filter(|&(_, mask)| mask != 0));
    }
    0
}
