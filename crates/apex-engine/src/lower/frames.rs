//! Variables that stay in memory get their offsets, and with them kernel and functions their frames.
//!
//! Frames are bounded here, because only variables that are used count.

use super::draft::{MOST_LOCAL, Slot};
use super::{Lowering, Outcome, refuse};
use crate::code::{Inst, Step};

/// What hardware gives a block of static shared memory.
const MOST_SHARED: u32 = 48 << 10;
/// How deep recursive functions may call each other before local memory ends, and how much of it
/// they get at most. A device gives a thread 1 KiB unless it is asked for more.
const DEPTH: u32 = 256;
const LARGE_STACK: u32 = 64 << 10;

/// Lays out the frames of all functions, and refuses what no thread has room for.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    let mut align = 16;
    lay_out_all(it, &mut align);
    // Frames follow each other, lane by lane: each begins as the strictest variable wants it.
    let whole = |bytes: u32| bytes.checked_next_multiple_of(align).unwrap_or(u32::MAX);
    let local = whole(it.functions[0].frame);
    if local > MOST_LOCAL {
        return refuse(format!("uses too much local memory ({local} bytes, {MOST_LOCAL} at most)"));
    }
    let shared = it.draft.static_shared;
    if shared > MOST_SHARED {
        return refuse(format!(
            "uses too much shared data ({shared:#x} bytes, {MOST_SHARED:#x} max)"
        ));
    }
    it.functions[0].frame = local;
    for function in it.functions.iter_mut().skip(1) {
        function.frame = whole(function.frame.max(1));
    }
    let called = it.functions.iter().skip(1).fold(0, |all: u32, it| all.saturating_add(it.frame));
    if called > MOST_LOCAL {
        return refuse(format!("calls functions that use too much local memory ({called} bytes)"));
    }
    let recursive = it.functions.iter().any(|function| function.recursive);
    let deep = called.saturating_mul(DEPTH).min(LARGE_STACK).max(called.saturating_mul(4));
    it.code.local_bytes = local;
    it.code.local_align = align;
    it.code.stack_bytes = if recursive { deep } else { called };
    Ok(())
}

/// Gives every variable its offset: as a constant in the kernel, from the frame's start in functions.
fn lay_out_all(it: &mut Lowering<'_, '_>, align: &mut u32) {
    if let Some(register) = it.draft.dynamic_shared {
        it.constants.insert(register, u64::from(it.draft.static_shared));
    }
    for (index, function) in it.functions.iter_mut().enumerate() {
        *align = function.slots.iter().fold(*align, |most: u32, slot| most.max(slot.align));
        function.frame = lay_out(&function.slots, |slot, offset| {
            if index == 0 {
                it.constants.insert(slot.base, u64::from(offset));
            } else {
                let inst = Inst::FrameAddress { dst: slot.base, offset };
                let step = Step { guard: None, inst, line: 0 };
                function.graph.nodes[0].steps.insert(0, step);
            }
        });
    }
    if let Some((register, bytes)) = it.draft.arguments {
        let kernel = &mut it.functions[0];
        it.constants.insert(register, u64::from(kernel.frame));
        kernel.frame = kernel.frame.saturating_add(bytes);
    }
}

/// Offsets of variables in a frame; gives the bytes of all.
fn lay_out(slots: &[Slot], mut put: impl FnMut(&Slot, u32)) -> u32 {
    let mut bytes = 0_u32;
    for slot in slots {
        // Where that overflows, nothing fits and the kernel is refused.
        let offset = bytes.checked_next_multiple_of(slot.align).unwrap_or(u32::MAX);
        put(slot, offset);
        bytes = offset.saturating_add(slot.bytes);
    }
    bytes.checked_next_multiple_of(16).unwrap_or(u32::MAX)
}
