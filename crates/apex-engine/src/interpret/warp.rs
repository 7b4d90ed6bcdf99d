//! One warp: groups of lanes, and which of them runs.
//!
//! Lanes at the same step with nothing between them form a group. The group with the
//! lowest step runs: by the order of `Code::blocks` the others wait where they will be met
//! again, and groups that stand at the same step become one. A group that burns its
//! quantum of back edges is probably waiting for another, so the one that has waited
//! longest gets a turn out of order: that is what ends a spin lock between lanes.
//!
//! Steps that need other lanes (`.sync`) park their group until those lanes arrive. When
//! no group can run, the lowest parked one goes on with the lanes it has: the others have
//! ended or wait elsewhere, and can never come.

mod calls;
mod compiled;
mod control;
mod waits;

use super::block::BlockRun;
use super::context::{Context, Stopped};
use super::execute;
use super::facts::Facts;
use crate::code::{Inst, LANES, Pc, Reg, Step};
use crate::frame::WarpFrame;
use compiled::Entered;

/// Back edges a group may take while others wait.
const QUANTUM: i64 = 2048;

/// Frames of one lane: beyond, the recursion has no end.
const CALL_DEPTH: usize = 1 << 16;

/// Whether a group can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// At a step that needs lanes which are not there yet.
    Sync,
    /// At a block-wide barrier.
    Barrier(u8),
    /// At the cluster's barrier.
    Cluster,
}

/// Lanes that stand at the same step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) pc: Pc,
    pub(crate) mask: u32,
    pub(crate) state: State,
    /// A `.sync` step goes on without the lanes that are missing.
    forced: bool,
    /// When it last ran.
    ran: u32,
}

/// What a lane comes back to.
#[derive(Debug, Clone)]
struct Frame {
    back: Pc,
    bytes: u32,
    saved: Vec<(Reg, u128)>,
}

/// Why a warp stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// All lanes ended.
    Done,
    /// All wait for other warps.
    Waiting,
    /// Its turn is over.
    Yield,
}

/// What happened to the group that ran.
enum Turn {
    /// Pick again.
    Again,
    /// The warp's turn is over.
    Over,
}

/// A warp under way.
#[repr(C)]
pub(crate) struct Warp {
    /// What compiled code sees; first, so that its address is the warp's.
    pub(crate) frame: WarpFrame,
    /// Lanes that exist.
    lanes: u32,
    /// Of these, those that have not ended.
    pub(crate) live: u32,
    pub(crate) groups: Vec<Group>,
    /// Not all groups wait for other warps.
    pub(crate) runnable: bool,
    /// Step and lanes being executed, for the report of a memory fault.
    pub(crate) now: (Pc, u32),
    /// Back edges the running group may still take while others wait.
    pub(crate) quantum: i64,
    /// The group that has waited longest is next.
    rotate: bool,
    clock: u32,
    calls: Vec<Vec<Frame>>,
    /// Start of each lane's current frame in its local memory.
    pub(crate) frames: [u32; LANES],
    /// The cluster's phase in which each lane arrived.
    cluster_phase: [u32; LANES],
    /// Where compiled code left lanes on different ways.
    pub(crate) parted: Vec<(Pc, u32)>,
}

impl Warp {
    pub(crate) fn new(frame: WarpFrame) -> Warp {
        Warp {
            lanes: frame.lanes,
            live: 0,
            frame,
            groups: Vec::new(),
            runnable: false,
            now: (0, 0),
            quantum: 0,
            rotate: false,
            clock: 0,
            calls: Vec::new(),
            frames: [0; LANES],
            cluster_phase: [0; LANES],
            parted: Vec::new(),
        }
    }

    /// All lanes at the kernel's start.
    pub(crate) fn reset(&mut self) {
        self.live = self.lanes;
        self.frame.lanes = self.lanes;
        self.frame.pc = 0;
        self.frame.compact = 0;
        self.groups.clear();
        self.groups.push(Group {
            pc: 0,
            mask: self.lanes,
            state: State::Ready,
            forced: false,
            ran: 0,
        });
        self.runnable = true;
        self.rotate = false;
        self.calls.clear();
        self.frames = [0; LANES];
    }

    /// All lanes at a step, as compiled code left them.
    pub(crate) fn stand_at(&mut self, pc: Pc) {
        let compact = self.frame.compact;
        self.reset();
        self.frame.compact = compact;
        self.groups[0].pc = pc;
    }

    /// Groups of lanes as compiled code left them on different ways.
    pub(crate) fn stand_parted(&mut self) {
        self.groups.clear();
        for (pc, mask) in self.parted.drain(..) {
            self.groups.push(Group { pc, mask, state: State::Ready, forced: false, ran: 0 });
        }
    }

    /// All lanes ended; gives how many.
    pub(crate) fn end(&mut self) -> u32 {
        let lanes = std::mem::take(&mut self.live);
        self.frame.lanes = 0;
        self.groups.clear();
        self.runnable = false;
        lanes.count_ones()
    }

    /// Lanes that exist.
    pub(crate) fn frame_lanes(&self) -> u32 {
        self.lanes
    }

    /// Runs until no group can go on or the block's fuel is burnt.
    ///
    /// # Safety
    /// Both pointers are valid, the warp belongs to the block, and nobody else touches either.
    pub(crate) unsafe fn run(block: *mut BlockRun, warp: *mut Warp) -> Result<Pause, Stopped> {
        // SAFETY: the caller's. References are made anew after everything that may reach
        // the same warp through the block.
        unsafe {
            loop {
                let me = &mut *warp;
                if me.groups.is_empty() {
                    return Ok(Pause::Done);
                }
                let Some(chosen) = me.pick() else {
                    if me.force() {
                        continue;
                    }
                    return Ok(Pause::Waiting);
                };
                match Self::run_group(block, warp, chosen)? {
                    Turn::Again => {}
                    Turn::Over => return Ok(Pause::Yield),
                }
            }
        }
    }

    /// The group to run.
    fn pick(&mut self) -> Option<usize> {
        if self.groups.len() == 1 {
            self.rotate = false;
            self.quantum = QUANTUM;
            return (self.groups[0].state == State::Ready).then_some(0);
        }
        self.merge();
        let rotate = std::mem::take(&mut self.rotate);
        let ready = self.groups.iter().enumerate().filter(|(_, group)| group.state == State::Ready);
        let key = |group: &Group| if rotate { group.ran } else { group.pc };
        let chosen = ready.min_by_key(|(_, group)| key(group)).map(|(index, _)| index)?;
        self.clock += 1;
        self.groups[chosen].ran = self.clock;
        self.quantum = QUANTUM;
        Some(chosen)
    }

    /// Joins groups that stand at the same step.
    fn merge(&mut self) {
        let mut first = 0;
        while first < self.groups.len() {
            let mut second = first + 1;
            while second < self.groups.len() {
                let (a, b) = (self.groups[first], self.groups[second]);
                let movable = |state| matches!(state, State::Ready | State::Sync);
                if a.pc == b.pc && movable(a.state) && movable(b.state) {
                    self.groups[first].mask |= b.mask;
                    self.groups[first].state = State::Ready;
                    self.groups[first].forced = a.forced || b.forced;
                    self.groups.swap_remove(second);
                } else {
                    second += 1;
                }
            }
            first += 1;
        }
    }

    /// Lets the lowest parked group go on with the lanes it has.
    fn force(&mut self) -> bool {
        let parked = self.groups.iter_mut().filter(|group| group.state == State::Sync);
        match parked.min_by_key(|group| group.pc) {
            Some(group) => {
                group.state = State::Ready;
                group.forced = true;
                true
            }
            None => false,
        }
    }

    /// The nearest step from `pc` on at which other lanes stand.
    fn limit(&self, chosen: usize, pc: Pc) -> Pc {
        let others = self.groups.iter().enumerate().filter(|(index, group)| {
            *index != chosen && group.pc >= pc && matches!(group.state, State::Ready | State::Sync)
        });
        others.map(|(_, group)| group.pc).min().unwrap_or(Pc::MAX)
    }

    /// Runs one group until it must make room.
    unsafe fn run_group(
        block: *mut BlockRun,
        warp: *mut Warp,
        chosen: usize,
    ) -> Result<Turn, Stopped> {
        // SAFETY: as for `run`. The facts outlive the block's run.
        unsafe {
            let facts: &Facts = (*block).facts();
            let steps: &[Step] = &facts.code().steps;
            let Group { mut pc, mask, .. } = (&(*warp).groups)[chosen];
            let mut limit = (*warp).limit(chosen, pc);
            let tier = facts.tier().filter(|_| mask == (*warp).live);
            let enters = |pc| tier.is_some_and(|tier| tier.entry(pc).is_some());
            let mut interpret_one = false;
            let context = (*block).context(warp, mask, pc);
            loop {
                if pc >= limit {
                    (&mut (*warp).groups)[chosen].pc = pc;
                    return Ok(Turn::Again);
                }
                if !interpret_one && enters(pc) {
                    match Self::compiled(block, warp, chosen, facts, pc)? {
                        Entered::Left => return Ok(Turn::Again),
                        Entered::Over => return Ok(Turn::Over),
                        Entered::At(at) => {
                            pc = at;
                            interpret_one = true;
                            continue;
                        }
                    }
                }
                interpret_one = false;
                let step = &steps[pc as usize];
                (*block).instructions += 1;
                let x = Context { pc, ..context }.guarded(step.guard);
                (*warp).now = (pc, x.mask());
                if (*block).checker.is_some() {
                    (*block).check_step(&x, step);
                }
                match &step.inst {
                    Inst::Branch { target } => {
                        let taken = x.mask();
                        if taken == mask {
                            let back = *target <= pc;
                            pc = *target;
                            if (*warp).groups.len() > 1 {
                                limit = (*warp).limit(chosen, pc);
                                // Another ready group below goes first, unless this one has its turn.
                                if !back && (*warp).is_below(chosen, pc) {
                                    (&mut (*warp).groups)[chosen].pc = pc;
                                    return Ok(Turn::Again);
                                }
                            }
                            if back && let Some(turn) = Self::burn(block, warp, chosen, pc) {
                                return Ok(turn);
                            }
                        } else if taken == 0 {
                            pc += 1;
                        } else {
                            (*warp).split(chosen, pc + 1, *target, taken);
                            return if *target <= pc {
                                (*block).frame.fuel -= 1;
                                (*warp).quantum -= 1;
                                Ok(Self::after_burn(block, warp))
                            } else {
                                Ok(Turn::Again)
                            };
                        }
                    }
                    inst if execute::is_plain(inst) => {
                        if x.mask() != 0 {
                            execute::one(&x, inst)?;
                        }
                        pc += 1;
                        if (*block).frame.fuel <= 0 {
                            (&mut (*warp).groups)[chosen].pc = pc;
                            return Ok(Turn::Over);
                        }
                    }
                    inst => {
                        (&mut (*warp).groups)[chosen].pc = pc;
                        return Self::control(block, warp, chosen, &x, inst);
                    }
                }
            }
        }
    }

    /// A ready group stands below `pc`.
    fn is_below(&self, chosen: usize, pc: Pc) -> bool {
        self.groups
            .iter()
            .enumerate()
            .any(|(index, group)| index != chosen && group.state == State::Ready && group.pc < pc)
    }

    /// A back edge was taken.
    unsafe fn burn(block: *mut BlockRun, warp: *mut Warp, chosen: usize, pc: Pc) -> Option<Turn> {
        // SAFETY: as for `run`.
        unsafe {
            (*block).frame.fuel -= 1;
            (*warp).quantum -= 1;
            let crowded = (*warp).groups.len() > 1;
            if (*block).warms() {
                (&mut (*warp).groups)[chosen].pc = pc;
                return Some(Turn::Again);
            }
            if (*block).frame.fuel > 0 && !(crowded && (*warp).quantum <= 0) {
                return None;
            }
            (&mut (*warp).groups)[chosen].pc = pc;
            Some(Self::after_burn(block, warp))
        }
    }

    unsafe fn after_burn(block: *mut BlockRun, warp: *mut Warp) -> Turn {
        // SAFETY: as for `run`.
        unsafe {
            if (*warp).quantum <= 0 {
                (*warp).rotate = true;
            }
            if (*block).frame.fuel <= 0 { Turn::Over } else { Turn::Again }
        }
    }

    /// Lanes of `taken` go to `target`, the others to `rest`.
    fn split(&mut self, chosen: usize, rest: Pc, target: Pc, taken: u32) {
        if self.groups.len() == 1 {
            // What it burnt while nobody waited does not count.
            self.quantum = QUANTUM;
        }
        let group = &mut self.groups[chosen];
        group.mask &= !taken;
        group.pc = rest;
        let other = Group { pc: target, mask: taken, ..*group };
        self.groups.push(other);
    }

    /// Leaves `mask` of a group at `pc`, or removes it.
    fn take(&mut self, chosen: usize, mask: u32, pc: Pc) {
        if mask == 0 {
            self.groups.swap_remove(chosen);
        } else {
            self.groups[chosen].mask = mask;
            self.groups[chosen].pc = pc;
        }
    }

    fn push(&mut self, pc: Pc, mask: u32) {
        self.groups.push(Group { pc, mask, state: State::Ready, forced: false, ran: self.clock });
    }

    unsafe fn exit(block: *mut BlockRun, warp: *mut Warp, chosen: usize, lanes: u32, next: Pc) {
        // SAFETY: as for `run`.
        unsafe {
            let me = &mut *warp;
            let rest = me.groups[chosen].mask & !lanes;
            me.take(chosen, rest, next);
            me.live &= !lanes;
            me.frame.lanes = me.live;
            // Those who wait for the lanes that ended must look again.
            for group in me.groups.iter_mut().filter(|group| group.state == State::Sync) {
                group.state = State::Ready;
            }
            (*block).ended(lanes.count_ones());
        }
    }
}
