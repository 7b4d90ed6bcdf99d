//! Barriers: of the block, of the cluster and of the warp.

use super::{Group, State, Warp};
use crate::code::{BarrierMode, Inst, Src};
use crate::interpret::block::BlockRun;
use crate::interpret::context::{Context, Outcome};
use crate::interpret::file::lanes_of;

impl Warp {
    #[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
    pub(super) unsafe fn barrier(
        block: *mut BlockRun,
        warp: *mut Warp,
        chosen: usize,
        x: &Context,
        mode: BarrierMode,
        id: Src,
        threads: Option<Src>,
        aligned: bool,
    ) -> Outcome {
        // SAFETY: as for `run`.
        unsafe {
            let first = x.mask().trailing_zeros() as usize;
            let id = x.get(id, first);
            let threads = threads.map(|threads| x.get(threads, first));
            let whole = (&(*warp).groups)[chosen].mask;
            if aligned {
                (*block).check_barrier(x, (*warp).live);
            }
            let waits = (*block).arrive(x, mode, id, threads)?;
            let me = &mut *warp;
            if !waits {
                me.groups[chosen].pc = x.pc + 1;
                return Ok(());
            }
            me.groups[chosen].mask = x.mask();
            me.groups[chosen].state = State::Barrier(id as u8);
            if whole != x.mask() {
                me.push(x.pc + 1, whole & !x.mask());
            }
            (*block).settle(id as usize);
            Ok(())
        }
    }

    /// Lets the groups at a completed barrier go on, with its result.
    ///
    /// # Safety
    /// As for [`Self::run`].
    pub(crate) unsafe fn wake_from_barrier(
        block: *mut BlockRun,
        warp: *mut Warp,
        id: usize,
        yes: u32,
        all: bool,
    ) {
        // SAFETY: the caller's.
        unsafe {
            for index in 0..(*warp).groups.len() {
                let Group { pc, mask, state, .. } = (&(*warp).groups)[index];
                if state != State::Barrier(id as u8) {
                    continue;
                }
                let x = (*block).context(warp, mask, pc);
                let step = &(*block).facts().code().steps[pc as usize];
                if let Inst::Barrier { mode, .. } = &step.inst {
                    let (dst, value) = match *mode {
                        BarrierMode::RedPopc(dst, _) => (Some(dst), yes),
                        BarrierMode::RedAnd(dst, _) => (Some(dst), u32::from(all)),
                        BarrierMode::RedOr(dst, _) => (Some(dst), u32::from(yes != 0)),
                        _ => (None, 0),
                    };
                    if let Some(dst) = dst {
                        for lane in lanes_of(mask) {
                            x.set(dst, lane, value.into());
                        }
                    }
                }
                let me = &mut *warp;
                me.groups[index].pc = pc + 1;
                me.groups[index].state = State::Ready;
                me.runnable = true;
            }
        }
    }

    /// Lets groups go on whose cluster barrier is complete.
    pub(crate) fn wake_from_cluster(&mut self, phase: u32) -> bool {
        let mut woken = false;
        for group in &mut self.groups {
            let done = lanes_of(group.mask).all(|lane| self.cluster_phase[lane] != phase);
            if group.state == State::Cluster && done {
                group.state = State::Ready;
                group.pc += 1;
                woken = true;
            }
        }
        self.runnable |= woken;
        woken
    }

    /// `bar.warp.sync`: lanes may stand at different ones.
    pub(super) fn warp_barrier(&mut self, chosen: usize, x: &Context, mask: Src) {
        let members = lanes_of(x.mask()).fold(0, |bits, lane| bits | x.get(mask, lane) as u32);
        let group = &mut self.groups[chosen];
        let mine = group.mask;
        let forced = std::mem::take(&mut group.forced);
        let code = x.block().facts().code();
        let at_barrier = |group: &Group| {
            group.state == State::Sync
                && matches!(code.steps[group.pc as usize].inst, Inst::WarpBarrier { .. })
        };
        let there = self.groups.iter().filter(|group| at_barrier(group));
        let there = there.fold(mine, |bits, group| bits | group.mask);
        if members & self.live & !there != 0 && !forced {
            self.groups[chosen].state = State::Sync;
            return;
        }
        for (index, group) in self.groups.iter_mut().enumerate() {
            if index == chosen || at_barrier(group) && group.mask & members != 0 && !forced {
                group.state = State::Ready;
                group.pc += 1;
            }
        }
    }
}
