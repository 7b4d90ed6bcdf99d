//! Steps that move lanes in another way than to the next step.

use super::{State, Turn, Warp};
use crate::code::{Inst, Mbarrier, Pc, Reg, Src};
use crate::fault::Fault;
use crate::frame::WAIT_COST;
use crate::interpret::block::BlockRun;
use crate::interpret::context::{Context, Outcome, Stopped};
use crate::interpret::execute;
use crate::interpret::file::lanes_of;

impl Warp {
    /// Executes a step that moves lanes in another way than to the next step.
    pub(super) unsafe fn control(
        block: *mut BlockRun,
        warp: *mut Warp,
        chosen: usize,
        x: &Context,
        inst: &Inst,
    ) -> Result<Turn, Stopped> {
        let active = x.mask();
        let pc = x.pc;
        // SAFETY: as for `run`.
        unsafe {
            let me = &mut *warp;
            if active == 0 {
                me.groups[chosen].pc = pc + 1;
                return Ok(Turn::Again);
            }
            match inst {
                Inst::BranchIndexed { index, targets } => {
                    return Self::branch_indexed(block, warp, chosen, x, *index, targets);
                }
                Inst::Call { callee, save, frame } => {
                    me.call(x, chosen, *callee, save, *frame)?;
                }
                Inst::Return => me.back(block, x, chosen)?,
                Inst::Exit => Self::exit(block, warp, chosen, active, pc + 1),
                Inst::Trap => {
                    let place = x.place(Some(active.trailing_zeros() as usize));
                    x.fail(Fault::Trap(place))?;
                }
                Inst::Breakpoint => {
                    let place = x.place(Some(active.trailing_zeros() as usize));
                    x.fail(Fault::Breakpoint(place))?;
                }
                Inst::Barrier { mode, id, threads, aligned } => {
                    Self::barrier(block, warp, chosen, x, *mode, *id, *threads, *aligned)?;
                }
                Inst::WarpBarrier { mask } => me.warp_barrier(chosen, x, *mask),
                Inst::ClusterArrive => {
                    let phase = (*block).cluster_phase();
                    for lane in lanes_of(active) {
                        me.cluster_phase[lane] = phase;
                    }
                    (*block).cluster_arrive(active.count_ones());
                    (&mut (*warp).groups)[chosen].pc = pc + 1;
                }
                Inst::ClusterWait => {
                    let phase = (*block).cluster_phase();
                    let waits = lanes_of(active).any(|lane| me.cluster_phase[lane] == phase);
                    if waits {
                        me.groups[chosen].state = State::Cluster;
                    } else {
                        me.groups[chosen].pc = pc + 1;
                    }
                }
                Inst::Pass => {
                    me.groups[chosen].pc = pc + 1;
                    return Ok(Turn::Over);
                }
                Inst::Yield => {
                    me.groups[chosen].pc = pc + 1;
                    me.rotate = true;
                    (*block).frame.fuel = 0;
                    return Ok(Turn::Over);
                }
                Inst::Mbarrier(barrier) => {
                    return Self::mbarrier(block, warp, chosen, x, inst, barrier);
                }
                _ => Self::together(warp, chosen, x, inst)?,
            }
            Ok(Turn::Again)
        }
    }

    /// Lanes go where their indices say.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn branch_indexed(
        block: *mut BlockRun,
        warp: *mut Warp,
        chosen: usize,
        x: &Context,
        index: Reg,
        targets: &[Pc],
    ) -> Result<Turn, Stopped> {
        let pc = x.pc;
        // SAFETY: the caller's.
        unsafe {
            let me = &mut *warp;
            let left = me.groups[chosen].mask & !x.mask();
            me.take(chosen, left, pc + 1);
            let mut rest = x.mask();
            while rest != 0 {
                let lane = rest.trailing_zeros() as usize;
                let number = x.get(Src::Reg(index), lane) as u32;
                let same = lanes_of(rest)
                    .filter(|&other| x.get(Src::Reg(index), other) as u32 == number)
                    .fold(0u32, |bits, other| bits | 1 << other);
                let Some(&target) = targets.get(number as usize) else {
                    x.illegal(format!("brx.idx {number} of {} targets", targets.len()))?;
                    return Err(Stopped);
                };
                if target <= pc {
                    (*block).frame.fuel -= 1;
                    me.quantum -= 1;
                }
                me.push(target, same);
                rest &= !same;
            }
            Ok(Self::after_burn(block, warp))
        }
    }

    /// A step on an `mbarrier`: lanes that tried in vain let others go first.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn mbarrier(
        block: *mut BlockRun,
        warp: *mut Warp,
        chosen: usize,
        x: &Context,
        inst: &Inst,
        barrier: &Mbarrier,
    ) -> Result<Turn, Stopped> {
        let active = x.mask();
        // SAFETY: the caller's.
        unsafe {
            let me = &mut *warp;
            execute::one(x, inst)?;
            me.groups[chosen].pc = x.pc + 1;
            let dst = barrier.dst.map_or(u32::MAX, |dst| x.file().predicate(dst));
            let tried = barrier.op.waits();
            if let Some(checker) = &mut (*block).checker
                && dst & active == active
            {
                // What was waited for is ordered before what comes.
                checker.barrier();
            }
            if tried && dst & active != active {
                me.rotate = true;
                (*block).frame.fuel -= WAIT_COST;
                return Ok(Self::after_burn(block, warp));
            }
            Ok(Turn::Again)
        }
    }

    /// A step that needs the lanes of its mask together.
    ///
    /// # Safety
    /// As for [`Self::run`].
    unsafe fn together(warp: *mut Warp, chosen: usize, x: &Context, inst: &Inst) -> Outcome {
        // SAFETY: the caller's.
        unsafe {
            let me = &mut *warp;
            let members = execute::members(x, inst);
            let group = &mut me.groups[chosen];
            let forced = std::mem::take(&mut group.forced);
            if members & me.live & !group.mask != 0 && !forced {
                group.state = State::Sync;
            } else {
                execute::one(x, inst)?;
                (&mut (*warp).groups)[chosen].pc = x.pc + 1;
            }
            Ok(())
        }
    }
}
