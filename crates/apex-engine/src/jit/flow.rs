//! What flows where: which blocks the compiled code has, where a warp can enter it and leave
//! it, and which registers must lie in the register file then.
//!
//! Compiled code keeps registers in the processor's own between an entry and an exit. A
//! register is loaded at an entry only when something before the next exit reads it, and
//! stored at an exit only when something since the entry wrote it: at a barrier most of a
//! kernel's registers stay where they are.

use super::shape::{self, Shape, Shapes};
use super::{Compilation, region};
use crate::code::{Code, Inst, Pc, Reg, Step};
use crate::operands;
use std::collections::HashMap;

/// Finds the flow.
pub(crate) fn run(it: &mut Compilation<'_>) -> Option<()> {
    it.flow = Some(Flow::find(it.job.code, it.shapes.as_ref()?));
    Some(())
}

/// A set of registers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// Empty, for so many registers.
    pub(super) fn new(count: usize) -> Self {
        Bits(vec![0; count.div_ceil(64)])
    }

    /// True when the register is in it.
    pub(super) fn has(&self, register: Reg) -> bool {
        self.0[register.0 as usize / 64] >> (register.0 % 64) & 1 != 0
    }

    /// Puts a register in.
    pub(super) fn set(&mut self, register: Reg) {
        self.0[register.0 as usize / 64] |= 1 << (register.0 % 64);
    }

    /// Takes a register out.
    pub(super) fn clear(&mut self, register: Reg) {
        self.0[register.0 as usize / 64] &= !(1 << (register.0 % 64));
    }

    /// Puts all of another set in; true when that changed something.
    pub(super) fn join(&mut self, other: &Bits) -> bool {
        let mut changed = false;
        for (word, &new) in self.0.iter_mut().zip(&other.0) {
            changed |= new & !*word != 0;
            *word |= new;
        }
        changed
    }

    fn meet(&mut self, other: &Bits) {
        for (word, &kept) in self.0.iter_mut().zip(&other.0) {
            *word &= kept;
        }
    }

    /// The registers in it, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = Reg> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 != 0)
                .map(move |bit| Reg((index * 64 + bit) as u32))
        })
    }
}

/// How compiled code treats a step that is not plain computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    /// Goes on with the next step.
    Plain,
    /// Jumps inside the compiled code, when the lanes agree.
    Jump,
    /// Stops for the block's barrier, or for the other warps.
    Barrier,
    /// Goes on when all lanes were told yes; else it lets the other warps go first.
    Wait,
    /// The end of the warp.
    Exit,
    /// Left to the interpreter, with all that follows up to the next entry.
    HandOver,
}

/// One block of the compiled code.
#[derive(Debug, Default)]
pub(super) struct BlockFlow {
    /// Blocks that follow inside the compiled code.
    pub(super) next: Vec<u32>,
    /// True when a jump back leads here: fuel is counted.
    pub(super) header: bool,
    /// Number of the entry here.
    pub(super) entry: Option<u32>,
    /// Registers written since an entry, on some way here.
    pub(super) dirty: Bits,
    /// Registers an entry here must load.
    pub(super) needed: Bits,
    reachable: bool,
}

/// The flow of a kernel's compiled code.
pub(super) struct Flow<'a> {
    code: &'a Code,
    /// By block; only reachable ones are compiled.
    pub(super) blocks: Vec<BlockFlow>,
    /// Entries in order: their blocks.
    pub(super) entries: Vec<u32>,
    block_at: HashMap<Pc, u32>,
}

impl<'a> Flow<'a> {
    /// Finds the flow, given the shapes.
    pub(super) fn find(code: &'a Code, shapes: &Shapes<'_>) -> Self {
        let count = code.registers.len();
        let block_at =
            code.blocks.iter().enumerate().map(|(index, block)| (block.steps.start, index as u32));
        let blocks = code.blocks.iter().map(|_| BlockFlow {
            dirty: Bits::new(count),
            needed: Bits::new(count),
            ..BlockFlow::default()
        });
        let mut flow = Flow {
            code,
            blocks: blocks.collect(),
            entries: Vec::new(),
            block_at: block_at.collect(),
        };
        flow.find_blocks(shapes);
        flow.find_dirty();
        flow.find_needed(shapes);
        flow
    }

    /// The block that begins at a step.
    pub(super) fn block_at(&self, pc: Pc) -> Option<u32> {
        self.block_at.get(&pc).copied()
    }

    /// True for a block the compiled code contains.
    pub(super) fn reachable(&self, block: usize) -> bool {
        self.blocks[block].reachable
    }

    /// Registers alive before each step of a block at which compiled code may stop.
    pub(super) fn alive(&self, shapes: &Shapes<'_>, block: usize) -> HashMap<Pc, Bits> {
        let it = &self.code.blocks[block];
        let mut alive = Bits::new(self.code.registers.len());
        for &next in &it.successors {
            for &register in &self.code.blocks[next as usize].live_in {
                alive.set(register);
            }
        }
        let mut result = HashMap::new();
        for pc in it.steps.clone().rev() {
            let step = &self.code.steps[pc as usize];
            if matches!(control(shapes, step), Control::Barrier | Control::Wait) {
                result.insert(pc + 1, alive.clone());
            }
            before(&mut alive, step);
            if may_stop(shapes, step) {
                result.insert(pc, alive.clone());
            }
        }
        result
    }

    fn find_blocks(&mut self, shapes: &Shapes<'_>) {
        let mut entry = vec![false; self.blocks.len()];
        let mut work = vec![0u32];
        if let Some(first) = entry.first_mut() {
            *first = true;
        }
        while let Some(block) = work.pop() {
            let index = block as usize;
            if std::mem::replace(&mut self.blocks[index].reachable, true) {
                continue;
            }
            let it = &self.code.blocks[index];
            let stop = it
                .steps
                .clone()
                .map(|pc| &self.code.steps[pc as usize])
                .map(|step| (control(shapes, step), step.guard.is_some()))
                .find(|(control, guarded)| !matches!(control, Control::Plain) && !guarded);
            let last = it.steps.clone().next_back().map(|pc| &self.code.steps[pc as usize]);
            match stop {
                Some((Control::Exit, _)) => {}
                Some((Control::Barrier | Control::HandOver, _)) => {
                    // A call's callee is not entered: only what follows the stop is.
                    let next = block + 1;
                    if (next as usize) < self.blocks.len() && !it.successors.is_empty() {
                        entry[next as usize] = true;
                        work.push(next);
                    }
                }
                _ => {
                    self.blocks[index].next = it.successors.clone();
                    work.extend(&it.successors);
                    if let Some((Control::Wait, _)) = stop {
                        it.successors.iter().for_each(|&next| entry[next as usize] = true);
                    }
                    for &next in &it.successors {
                        if next <= block {
                            self.blocks[next as usize].header = true;
                            entry[next as usize] = true;
                        }
                    }
                    if last.is_some_and(|step| control(shapes, step) == Control::HandOver) {
                        for &next in &it.successors {
                            entry[next as usize] = true;
                        }
                    }
                }
            }
            if let (true, Some(meets)) = (shapes.parts_at(index), it.meets) {
                entry[meets as usize] = true;
                work.push(meets);
            }
        }
        for (index, _) in entry.iter().enumerate().filter(|(_, entry)| **entry) {
            self.blocks[index].entry = Some(self.entries.len() as u32);
            self.entries.push(index as u32);
        }
    }

    fn find_dirty(&mut self) {
        loop {
            let mut changed = false;
            for index in 0..self.blocks.len() {
                if !self.blocks[index].reachable {
                    continue;
                }
                let mut dirty = self.blocks[index].dirty.clone();
                for pc in self.code.blocks[index].steps.clone() {
                    written(&mut dirty, &self.code.steps[pc as usize]);
                }
                for next in self.blocks[index].next.clone() {
                    changed |= self.blocks[next as usize].dirty.join(&dirty);
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn find_needed(&mut self, shapes: &Shapes<'_>) {
        let alive: Vec<_> = (0..self.blocks.len())
            .map(|index| {
                if self.blocks[index].reachable {
                    self.alive(shapes, index)
                } else {
                    HashMap::new()
                }
            })
            .collect();
        let parted: Vec<Option<Bits>> = (0..self.blocks.len())
            .map(|index| {
                if !self.blocks[index].reachable || !shapes.parts_at(index) {
                    return None;
                }
                let (blocks, _) = region::blocks(self.code, index)?;
                let mut touched = region::touched(self.code, &blocks);
                touched.meet(alive[index].get(&(self.code.blocks[index].steps.end - 1))?);
                Some(touched)
            })
            .collect();
        loop {
            let mut changed = false;
            for index in (0..self.blocks.len()).rev() {
                if !self.blocks[index].reachable {
                    continue;
                }
                let needed = self.needed_in(index, &alive[index], parted[index].as_ref());
                changed |= self.blocks[index].needed.join(&needed);
            }
            if !changed {
                return;
            }
        }
    }

    /// `parted`: what masked code after the block looks at.
    fn needed_in(&self, index: usize, alive: &HashMap<Pc, Bits>, parted: Option<&Bits>) -> Bits {
        let it = &self.blocks[index];
        let steps = self.code.blocks[index].steps.clone();
        // Registers written before each step, for the stops inside the block.
        let mut dirty = vec![it.dirty.clone()];
        for pc in steps.clone() {
            let mut next = dirty[dirty.len() - 1].clone();
            written(&mut next, &self.code.steps[pc as usize]);
            dirty.push(next);
        }
        let mut needed = Bits::new(self.code.registers.len());
        for &next in &it.next {
            needed.join(&self.blocks[next as usize].needed);
        }
        if let Some(parted) = parted {
            needed.join(parted);
        }
        let stored = |pc: Pc, needed: &mut Bits| {
            if let Some(alive) = alive.get(&pc) {
                let mut stored = alive.clone();
                stored.meet(&dirty[(pc - steps.start) as usize]);
                needed.join(&stored);
            }
        };
        for pc in steps.clone().rev() {
            stored(pc + 1, &mut needed);
            let step = &self.code.steps[pc as usize];
            before(&mut needed, step);
            // A guarded result keeps the lanes that do not take part.
            if step.guard.is_some() {
                operands::writes(step, &mut |register| needed.set(register));
            }
            stored(pc, &mut needed);
        }
        if it.header {
            let mut stored = Bits::new(self.code.registers.len());
            for &register in &self.code.blocks[index].live_in {
                stored.set(register);
            }
            stored.meet(&it.dirty);
            needed.join(&stored);
        }
        needed
    }
}

/// What a step is to compiled code.
pub(super) fn control(shapes: &Shapes<'_>, step: &Step) -> Control {
    match &step.inst {
        Inst::Branch { .. } => Control::Jump,
        Inst::BranchIndexed { index, .. } => {
            if shapes.of(*index).uniform() && step.guard.is_none() {
                Control::Jump
            } else {
                Control::HandOver
            }
        }
        Inst::Barrier { .. } if step.guard.is_none() => Control::Barrier,
        Inst::Pass => Control::Barrier,
        Inst::Exit | Inst::Return => Control::Exit,
        Inst::Mbarrier(it) if it.op.waits() => {
            if step.guard.is_none() && it.dst.is_some() {
                Control::Wait
            } else {
                Control::HandOver
            }
        }
        Inst::Barrier { .. }
        | Inst::Call { .. }
        | Inst::Trap
        | Inst::Breakpoint
        | Inst::Yield
        | Inst::ClusterArrive
        | Inst::ClusterWait
        | Inst::System { .. } => Control::HandOver,
        _ => Control::Plain,
    }
}

/// True when compiled code may hand over before this step.
pub(super) fn may_stop(shapes: &Shapes<'_>, step: &Step) -> bool {
    let parts = step.guard.is_some_and(|guard| shapes.of(guard.predicate) == Shape::Varying);
    match control(shapes, step) {
        Control::Plain => shape::widens(shapes, step).is_some(),
        Control::Jump | Control::Exit => parts,
        Control::Barrier | Control::Wait => false,
        Control::HandOver => true,
    }
}

/// Adds what a step writes.
pub(super) fn written(set: &mut Bits, step: &Step) {
    operands::writes(step, &mut |register| set.set(register));
}

/// From the registers alive after a step to those alive before it.
fn before(alive: &mut Bits, step: &Step) {
    if step.guard.is_none() {
        operands::writes(step, &mut |register| alive.clear(register));
    }
    operands::reads(step, &mut |register| alive.set(register));
}

/// For each block: the registers written on some way from it to where its ways meet, and those
/// alive there. When the lanes part at the block's end, what is in both differs between them.
pub(super) fn divergent_reach(code: &Code) -> Vec<(Bits, Vec<Reg>)> {
    let count = code.registers.len();
    let written_by: Vec<Bits> = code
        .blocks
        .iter()
        .map(|block| {
            let mut set = Bits::new(count);
            for pc in block.steps.clone() {
                written(&mut set, &code.steps[pc as usize]);
            }
            set
        })
        .collect();
    let reach = |index: usize| {
        let block = &code.blocks[index];
        let mut set = Bits::new(count);
        let Some(meets) = block.meets.filter(|_| block.successors.len() > 1) else {
            return (set, Vec::new());
        };
        let mut seen = vec![false; code.blocks.len()];
        let mut work = block.successors.clone();
        while let Some(next) = work.pop() {
            if next == meets || std::mem::replace(&mut seen[next as usize], true) {
                continue;
            }
            set.join(&written_by[next as usize]);
            work.extend(&code.blocks[next as usize].successors);
        }
        (set, code.blocks[meets as usize].live_in.clone())
    };
    (0..code.blocks.len()).map(reach).collect()
}
