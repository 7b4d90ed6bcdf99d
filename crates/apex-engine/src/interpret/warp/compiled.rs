//! Where the compiled code is called.

use super::Warp;
use crate::code::Pc;
use crate::fault::Fault;
use crate::frame::{NOT_STOPPED, Stop};
use crate::interpret::block::BlockRun;
use crate::interpret::context::Stopped;
use crate::interpret::facts::Facts;

impl Warp {
    /// Calls the compiled code.
    pub(super) unsafe fn compiled(
        block: *mut BlockRun,
        warp: *mut Warp,
        chosen: usize,
        facts: &Facts,
        pc: Pc,
    ) -> Result<Entered, Stopped> {
        let tier = facts.tier();
        let Some((tier, entry)) = tier.and_then(|tier| Some((tier, tier.entry(pc)?))) else {
            return Ok(Entered::At(pc));
        };
        // SAFETY: the caller's.
        let index = unsafe { (*warp).frame.index } as usize;
        let function = if index < tier.whole_warps { tier.whole } else { tier.last };
        let Some(function) = function else { return Ok(Entered::At(pc)) };
        // SAFETY: as for `run`; all living lanes are together at an entry, which is what the
        // compiled code asks for.
        unsafe {
            (*warp).frame.lanes = (*warp).live;
            (*warp).frame.pc = pc;
            (*warp).now = (pc, (*warp).live);
            (*block).frame.last_warp = &raw mut (*warp).frame;
            (*block).frame.stopped = NOT_STOPPED;
            let result = function(&raw mut (*block).frame, &raw mut (*warp).frame, entry);
            let at = result as u32;
            (&mut (*warp).groups)[chosen].pc = at;
            match (result >> 32) as u32 {
                stop if stop == Stop::Exit as u32 => {
                    let live = (*warp).live;
                    Self::exit(block, warp, chosen, live, at);
                    Ok(Entered::Left)
                }
                stop if stop == Stop::Yield as u32 => {
                    (*block).frame.fuel = (*block).frame.fuel.min(0);
                    Ok(Entered::Over)
                }
                stop if stop == Stop::Fault as u32 => {
                    if (*block).fault.is_none() {
                        let place = (*block).place(at, None);
                        (*block).fault = Some(Fault::IllegalInstruction {
                            place,
                            reason: "compiled code stopped".into(),
                        });
                    }
                    Err(Stopped)
                }
                stop if stop == Stop::Parted as u32 => {
                    (*warp).stand_parted();
                    Ok(Entered::Left)
                }
                // A barrier is a step like others here.
                _ => Ok(Entered::At(at)),
            }
        }
    }
}

/// How compiled code came back.
pub(super) enum Entered {
    /// The group is gone, or has become several.
    Left,
    /// Out of fuel.
    Over,
    /// Interpret this step.
    At(Pc),
}
