//! Finds the lane a memory fault belongs to.
//!
//! The interpreter leaves registers as they were before the step, so its addresses are worked out again. Compiled code
//! keeps values where the register file does not show them; its tables say which lane a machine instruction
//! touches memory for, and the instruction itself says where that begins.

use super::context::Context;
use super::file::lanes_of;
use crate::code::{Address, Inst, LANES, Order, Space};
use crate::fault::guard::MemoryFault;
use crate::fault::operand;
use crate::frame::Toucher;
use crate::site::Access;

/// Who touched what.
#[derive(Default)]
pub(crate) struct Blame {
    pub(crate) lane: Option<usize>,
    pub(crate) address: Option<u64>,
    pub(crate) bytes: u32,
    pub(crate) access: Option<(Access, Space)>,
}

/// For a fault of a step that was interpreted.
pub(crate) fn interpreted(x: &Context, fault: Option<u64>) -> Blame {
    let accesses = accesses(x);
    for &(access, space, address, bytes) in &accesses {
        if !matches!(space, Space::Generic | Space::Global) {
            continue;
        }
        for lane in lanes_of(x.mask()) {
            let at = x.get(address.base, lane).wrapping_add(address.offset as u64);
            let hit = match fault {
                Some(fault) => fault >= at && fault - at < u64::from(bytes).max(1),
                None => at >> 47 != 0,
            };
            if hit {
                let address = fault.or(Some(at));
                return Blame { lane: Some(lane), address, bytes, access: Some((access, space)) };
            }
        }
    }
    unknown(&accesses, fault)
}

/// For a fault of a step that was compiled.
///
/// # Safety
/// The instruction that faulted lies in the compiled code of the launch.
pub(crate) unsafe fn compiled(x: &Context, fault: &MemoryFault, toucher: Toucher) -> Blame {
    let accesses = accesses(x);
    let Some(&(access, space, _, bytes)) = accesses.first() else {
        return unknown(&accesses, fault.address);
    };
    // A bad offset in shared memory was turned into an address that faults, for all lanes together or for one.
    let is_shared = space == Space::Shared;
    let lane = match toucher {
        Toucher::InFrame => Some(x.warp().frame.lane),
        Toucher::Lane(first) if !is_shared => {
            // The instruction may touch memory for several lanes that lie side by side.
            // SAFETY: the caller's.
            let start = unsafe { operand::start(fault.instruction, &fault.registers) };
            let into =
                fault.address.zip(start).and_then(|(address, start)| address.checked_sub(start));
            into.map(|into| first + (into / u64::from(bytes).max(1)) as u32)
        }
        _ => None,
    };
    Blame {
        lane: lane.map(|lane| lane as usize).filter(|&lane| lane < LANES),
        address: fault.address.filter(|_| !is_shared),
        bytes,
        access: Some((access, space)),
    }
}

fn unknown(accesses: &[(Access, Space, Address, u32)], address: Option<u64>) -> Blame {
    let first = accesses.first();
    Blame {
        lane: None,
        address,
        bytes: first.map_or(0, |&(.., bytes)| bytes),
        access: first.map(|&(access, space, ..)| (access, space)),
    }
}

fn accesses(x: &Context) -> Vec<(Access, Space, Address, u32)> {
    let Some(step) = x.block().facts().code().steps.get(x.pc as usize) else { return Vec::new() };
    let weak = |order: &Order, access| if *order == Order::Weak { access } else { Access::Atomic };
    match &step.inst {
        Inst::Load { space, ty, dsts, address, order } => {
            vec![(weak(order, Access::Read), *space, *address, ty.bits() / 8 * dsts.len() as u32)]
        }
        Inst::Store { space, ty, srcs, address, order } => {
            vec![(weak(order, Access::Write), *space, *address, ty.bits() / 8 * srcs.len() as u32)]
        }
        Inst::Atom { space, ty, values, address, .. } => {
            vec![(Access::Atomic, *space, *address, ty.bits() / 8 * values.len() as u32)]
        }
        Inst::Mbarrier(it) => vec![(Access::Atomic, it.space, it.address, 8)],
        Inst::CopyAsyncArrive { address, space, .. } => {
            vec![(Access::Atomic, *space, *address, 8)]
        }
        // The size of these is known only to the step itself; a page tells the lane.
        Inst::CopyBulk(copy) => vec![
            (Access::Write, copy.dst.0, copy.dst.1, 1 << 20),
            (Access::Read, copy.src.0, copy.src.1, 1 << 20),
        ],
        Inst::WmmaMemory(memory) => {
            let access = if memory.store { Access::Write } else { Access::Read };
            vec![(access, memory.space, memory.address, 1 << 16)]
        }
        Inst::MatrixMemory { space, address, store, .. } => {
            vec![(if *store { Access::Write } else { Access::Read }, *space, *address, 16)]
        }
        _ => Vec::new(),
    }
}
