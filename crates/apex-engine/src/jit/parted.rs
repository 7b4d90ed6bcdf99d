//! Code for lanes on different ways.
//!
//! Every block of a region has a mask of lanes that wait to run it. Blocks run in their order,
//! each for the lanes that wait there, and send them on; after the last block of a loop the
//! code goes back while lanes wait at its start. By the order of blocks, lanes that have
//! gone ahead wait where the others will come, so after the last block all stand where
//! the ways meet and the code for whole warps goes on.
//!
//! When fuel runs out, or lanes come to a block that is not compiled so, all masks are given to
//! the interpreter ([`crate::interpret::part`]).

use super::emit::{Emit, own};
use super::flow::Bits;
use super::region::{self, Region};
use super::value::{Form, Home};
use crate::code::{Guard, Inst, Pc, Reg};
use crate::frame::{BlockFrame, Stop, WarpFrame};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{
    Block, InstBuilder, SourceLoc, StackSlot, StackSlotData, StackSlotKind, Value,
};
use std::mem::offset_of;
use std::rc::Rc;

/// The lanes for which code runs.
#[derive(Clone)]
pub(super) struct TakingPart {
    /// One bit per lane.
    pub(super) mask: Value,
    /// 32-bit lanes of zeros or ones.
    pub(super) lanes: Rc<[Value]>,
    /// At least one lane takes part.
    pub(super) some: bool,
}

/// Where masked code is.
pub(super) struct Parted {
    /// Registers that keep other lanes' values.
    crossing: Bits,
    /// The mask of the block.
    pub(super) mask: Value,
}

impl<'a> Emit<'a, '_> {
    /// Emits the region of a branch whose lanes part, from the current block on. False, with
    /// nothing emitted, when it is not worth it.
    pub(super) fn parted_region(&mut self, index: usize, pc: Pc, alive: &Bits) -> bool {
        if self.parted_steps > self.code.steps.len() * 3 + 300 {
            return false;
        }
        let Some(region) = Region::find(self.code, &self.shapes, index) else { return false };
        let step = &self.code.steps[pc as usize];
        let (Inst::Branch { target }, Some(guard)) = (&step.inst, step.guard) else {
            return false;
        };
        let (Some(taken_to), Some(other_to), Some(meets)) = (
            self.flow.block_at(*target),
            self.flow.block_at(pc + 1),
            self.block_of(region.meets as usize),
        ) else {
            return false;
        };
        self.parted_steps +=
            region.blocks.iter().map(|&b| self.code.blocks[b as usize].steps.len()).sum::<usize>();
        let bytes = region.blocks.len() as u32 * 4;
        let waiting = self.build.create_sized_stack_slot(StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            bytes,
            2,
        ));
        // The values whole warps have, as those of lanes.
        let taken = self.mask(guard);
        let all = i64::from(self.all_lanes());
        let other = self.build.ins().bxor_imm_u(taken, all);
        let crossing: Vec<Reg> = region.crossing.iter().collect();
        let mut values = Vec::new();
        for &register in crossing.iter().filter(|&&register| alive.has(register)) {
            let plain = Guard { predicate: register, negated: false };
            let parts = match self.home(register) {
                Home::Flag | Home::Mask => vec![self.mask(plain)],
                Home::Memory => Vec::new(),
                _ => self.vector(register).to_vec(),
            };
            values.push((register, parts));
        }
        let zero = self.build.ins().iconst(I32, 0);
        for at in 0..region.blocks.len() {
            self.build.ins().stack_store(I64, zero, waiting, at as i32 * 4);
        }
        for (to, mask) in [(taken_to, taken), (other_to, other)] {
            if let Some(at) = region.blocks.iter().position(|&block| block == to) {
                self.build.ins().stack_store(I64, mask, waiting, at as i32 * 4);
            }
        }
        let whole = self.parted_code(&region, waiting, alive, values);
        // All lanes are where the ways meet.
        for (register, parts) in whole {
            if self.home(register) == Home::Mask {
                self.write(register, Form::Mask(parts[0]));
            } else {
                self.write(register, Form::Vector(parts));
            }
        }
        self.build.ins().jump(meets, &[]);
        true
    }

    /// The masked code; gives what the registers alive after it hold.
    pub(super) fn parted_code(
        &mut self,
        region: &Region<'a>,
        waiting: StackSlot,
        alive: &Bits,
        values: Vec<(Reg, Vec<Value>)>,
    ) -> Vec<(Reg, Vec<Value>)> {
        let shapes = self.shapes.clone();
        let variables = self.variables.clone();
        let taking_part = self.taking_part.take();
        self.shapes = region.shapes.clone();
        for register in region.written.iter() {
            self.variables[register.0 as usize] = None;
        }
        self.locals.clear();
        for (register, parts) in values {
            let variables = self.variables(register);
            for (&variable, value) in variables.iter().zip(parts) {
                self.build.def_var(variable, value);
            }
        }
        let heads: Vec<Block> =
            (0..=region.blocks.len()).map(|_| self.build.create_block()).collect();
        let leave = self.build.create_block();
        self.build.ins().jump(heads[0], &[]);
        for (at, &index) in region.blocks.iter().enumerate() {
            self.parted_block(region, waiting, &heads, leave, at, index);
        }
        self.build.switch_to_block(leave);
        self.build.set_cold_block(leave);
        self.locals.clear();
        self.leave_parted(region, waiting, alive);
        self.build.switch_to_block(heads[region.blocks.len()]);
        self.locals.clear();
        let mut whole = Vec::new();
        let after = &self.code.blocks[region.meets as usize].live_in;
        for &register in after.iter().filter(|&&register| region.crossing.has(register)) {
            let plain = Guard { predicate: register, negated: false };
            let parts = match self.home(register) {
                Home::Mask | Home::Flag => vec![self.mask(plain)],
                Home::Memory => continue,
                _ => self.vector(register).to_vec(),
            };
            whole.push((register, parts));
        }
        self.shapes = shapes;
        self.variables = variables;
        self.taking_part = taking_part;
        self.parted = None;
        self.locals.clear();
        whole
    }

    pub(super) fn parted_block(
        &mut self,
        region: &Region<'a>,
        waiting: StackSlot,
        heads: &[Block],
        leave: Block,
        at: usize,
        index: u32,
    ) {
        self.build.switch_to_block(heads[at]);
        self.locals.clear();
        let steps = self.code.blocks[index as usize].steps.clone();
        self.build.set_srcloc(SourceLoc::new(steps.start));
        let mask = self.build.ins().stack_load(I64, I32, waiting, at as i32 * 4);
        let run = self.build.create_block();
        let done = self.build.create_block();
        if region::stops(self.code, &self.shapes, index) {
            self.build.ins().brif(mask, leave, &[], done, &[]);
        } else {
            self.build.ins().brif(mask, run, &[], done, &[]);
            self.build.switch_to_block(run);
            let zero = self.build.ins().iconst(I32, 0);
            self.build.ins().stack_store(I64, zero, waiting, at as i32 * 4);
            self.parted = Some(Parted { crossing: region.crossing.clone(), mask });
            let lanes: Rc<[Value]> = self.mask_lanes(mask).into();
            let here = TakingPart { mask, lanes, some: true };
            let mut ended = false;
            for pc in steps.clone() {
                self.build.set_srcloc(SourceLoc::new(pc));
                let step = &self.code.steps[pc as usize];
                if let Inst::Branch { target } = step.inst {
                    self.send(region, waiting, mask, step.guard, target, pc + 1);
                    ended = true;
                } else {
                    self.taking_part = Some(here.clone());
                    self.parted_step(pc, &here);
                }
            }
            self.taking_part = None;
            if !ended {
                self.send(region, waiting, mask, None, steps.end, steps.end);
            }
            self.build.ins().jump(done, &[]);
        }
        self.build.switch_to_block(done);
        self.locals.clear();
        self.go_round(region, waiting, heads, leave, at, index);
    }

    /// A step for the lanes of the block, or those of them its guard names.
    pub(super) fn parted_step(&mut self, pc: Pc, here: &TakingPart) {
        let step = &self.code.steps[pc as usize];
        match step.guard {
            Some(guard) if self.home(guard.predicate) != Home::Flag => {
                let lanes = self.lanes(guard);
                let lanes = lanes
                    .iter()
                    .zip(here.lanes.iter())
                    .map(|(&x, &y)| self.build.ins().band(x, y))
                    .collect();
                let mask = self.mask(guard);
                let mask = self.build.ins().band(mask, here.mask);
                self.taking_part = Some(TakingPart { mask, lanes, some: false });
                self.compute(pc);
            }
            Some(guard) => self.under_flag(guard, pc),
            None => self.compute(pc),
        }
    }

    /// Sends the lanes of a block on.
    pub(super) fn send(
        &mut self,
        region: &Region<'a>,
        waiting: StackSlot,
        mask: Value,
        guard: Option<Guard>,
        target: Pc,
        next: Pc,
    ) {
        let mut ways = Vec::new();
        match guard {
            None => ways.push((target, mask)),
            Some(guard) => {
                let chosen = self.mask(guard);
                let taken = self.build.ins().band(mask, chosen);
                let rest = self.build.ins().band_not(mask, chosen);
                ways.extend([(target, taken), (next, rest)]);
            }
        }
        for (pc, lanes) in ways {
            let to = self.flow.block_at(pc);
            if let Some(at) = region.blocks.iter().position(|&block| Some(block) == to) {
                let at = at as i32 * 4;
                let there = self.build.ins().stack_load(I64, I32, waiting, at);
                let there = self.build.ins().bor(there, lanes);
                self.build.ins().stack_store(I64, there, waiting, at);
            }
        }
    }

    /// After a block: back to the start of loops that end here, or on to the next block.
    pub(super) fn go_round(
        &mut self,
        region: &Region<'a>,
        waiting: StackSlot,
        heads: &[Block],
        leave: Block,
        at: usize,
        index: u32,
    ) {
        let last_to = |start: u32| {
            region
                .blocks
                .iter()
                .rfind(|&&block| self.code.blocks[block as usize].successors.contains(&start))
        };
        let mut starts: Vec<u32> = self.code.blocks[index as usize]
            .successors
            .iter()
            .copied()
            .filter(|&start| start <= index && region.blocks.contains(&start))
            .filter(|&start| last_to(start) == Some(&index))
            .collect();
        starts.sort_unstable_by(|a, b| b.cmp(a));
        for start in starts {
            let Some(to) = region.blocks.iter().position(|&block| block == start) else { continue };
            let there = self.build.ins().stack_load(I64, I32, waiting, to as i32 * 4);
            let (back, on) = (self.build.create_block(), self.build.create_block());
            self.build.ins().brif(there, back, &[], on, &[]);
            self.build.switch_to_block(back);
            let fuel_at = offset_of!(BlockFrame, fuel) as i32;
            let fuel = self.build.ins().load(I64, own(), self.block_frame, fuel_at);
            let fuel = self.build.ins().iadd_imm_s(fuel, -1);
            self.build.ins().store(own(), fuel, self.block_frame, fuel_at);
            let spent = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, fuel, 0);
            self.build.ins().brif(spent, leave, &[], heads[to], &[]);
            self.build.switch_to_block(on);
        }
        self.build.ins().jump(heads[at + 1], &[]);
    }

    /// Gives all lanes to the interpreter, each where it waits.
    pub(super) fn leave_parted(&mut self, region: &Region<'a>, waiting: StackSlot, alive: &Bits) {
        self.taking_part = None;
        for register in region.crossing.iter() {
            self.store_home(register, false);
        }
        let mut outside = alive.clone();
        for register in region.written.iter() {
            outside.clear(register);
        }
        self.settle_alive(&outside);
        let pcs: Vec<Pc> = region
            .blocks
            .iter()
            .chain([&region.meets])
            .map(|&block| self.code.blocks[block as usize].steps.start)
            .collect();
        let function = self.build.ins().iconst(I64, self.helpers.part as i64);
        let start = self.build.ins().iconst(I64, pcs.as_ptr() as i64);
        let masks = self.build.ins().stack_addr(I64, waiting, 0);
        let count = self.build.ins().iconst(I32, region.blocks.len() as i64);
        self.build.ins().call_indirect(
            self.table_signature,
            function,
            &[self.warp_frame, start, masks, count],
        );
        self.tables.places.push(pcs.into_boxed_slice());
        self.stop_plain(Stop::Parted, 0);
    }

    /// Tells the interpreter's function for one step who takes part.
    pub(super) fn tell_lanes(&mut self, mask: Value) {
        let at = offset_of!(WarpFrame, lanes) as i32;
        self.build.ins().store(own(), mask, self.warp_frame, at);
    }

    /// True when a register keeps the values of lanes that do not take part.
    pub(super) fn keeps_others(&self, register: Reg) -> bool {
        self.parted.as_ref().is_none_or(|parted| parted.crossing.has(register))
    }
}
