//! Finds the lane a memory fault belongs to.
//!
//! The registers are as they were before the step, so its addresses are worked out again.

use super::context::Context;
use super::file::lanes_of;
use crate::code::{Address, Inst, Space};

/// The lane, its address and the bytes of the access.
pub(crate) fn lane(x: &Context, fault: Option<u64>, compiled: bool) -> Option<(usize, u64, u32)> {
    // Compiled code keeps values where the register file does not show them.
    if compiled {
        return None;
    }
    let step = x.block().facts().code().steps.get(x.pc as usize)?;
    let accesses = accesses(&step.inst);
    for (space, address, bytes) in &accesses {
        if !matches!(space, Space::Generic | Space::Global) {
            continue;
        }
        for lane in lanes_of(x.mask()) {
            let at = x.get(address.base, lane).wrapping_add(address.offset as u64);
            let hit = match fault {
                Some(fault) => fault >= at && fault - at < u64::from(*bytes).max(1),
                None => at >> 47 != 0,
            };
            if hit {
                return Some((lane, at, *bytes));
            }
        }
    }
    None
}

fn accesses(inst: &Inst) -> Vec<(Space, Address, u32)> {
    match inst {
        Inst::Load { space, ty, dsts, address, .. } => {
            vec![(*space, *address, ty.bits() / 8 * dsts.len() as u32)]
        }
        Inst::Store { space, ty, srcs, address, .. } => {
            vec![(*space, *address, ty.bits() / 8 * srcs.len() as u32)]
        }
        Inst::Atom { space, ty, values, address, .. } => {
            vec![(*space, *address, ty.bits() / 8 * values.len() as u32)]
        }
        Inst::CopyAsync { src, size, .. } => vec![(Space::Global, *src, *size)],
        // The size of these is known only to the step itself; a page tells the lane.
        Inst::CopyBulk(copy) => {
            vec![(copy.dst.0, copy.dst.1, 1 << 20), (copy.src.0, copy.src.1, 1 << 20)]
        }
        Inst::WmmaMemory(memory) => vec![(memory.space, memory.address, 1 << 16)],
        Inst::MatrixMemory { space, address, .. } => vec![(*space, *address, 16)],
        _ => Vec::new(),
    }
}
