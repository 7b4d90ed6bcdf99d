//! Jumps, and steps that end a warp's stay in compiled code.
//!
//! A branch asks whether the lanes agree. Where they do not, the masked code of its region
//! takes over, or the interpreter.

use super::emit::{Emit, own};
use super::flow::{self, Bits, Control};
use super::shape::Shape;
use super::value::Home;
use crate::code::{Guard, Inst, Pc, Reg};
use crate::frame::{BlockFrame, Stop, WAIT_COST};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, BlockArg, BlockCall, InstBuilder, JumpTableData, Value};
use std::collections::HashMap;
use std::mem::offset_of;

impl Emit<'_, '_> {
    /// Translates one step; true when the block ends with it.
    pub(super) fn step(&mut self, index: usize, pc: Pc, alive: &HashMap<Pc, Bits>) -> bool {
        let step = &self.code.steps[pc as usize];
        let guard = step.guard;
        let parts = guard.is_some_and(|guard| self.shapes.of(guard.predicate) == Shape::Varying);
        match flow::control(&self.shapes, step) {
            Control::Plain => {
                self.plain(pc, alive);
                false
            }
            Control::Jump => {
                self.jump(index, pc, alive);
                true
            }
            Control::Barrier => {
                for register in self.reads(pc) {
                    self.store_home(register, false);
                }
                let alive = alive.get(&(pc + 1)).cloned().unwrap_or_default();
                if matches!(step.inst, Inst::Pass) {
                    self.stop(Stop::Yield, pc + 1, &alive);
                } else {
                    self.stop(Stop::Barrier, pc, &alive);
                }
                true
            }
            Control::Wait => {
                self.wait(pc, alive);
                true
            }
            Control::Exit if guard.is_none() => {
                self.stop_plain(Stop::Exit, pc);
                true
            }
            Control::HandOver if guard.is_none() => {
                self.hand_over(pc, alive);
                true
            }
            kind => {
                let guard = guard.unwrap_or(Guard { predicate: Reg(0), negated: false });
                let mask = self.mask(guard);
                let on = self.build.create_block();
                if kind == Control::Exit {
                    let (all, none, some) =
                        (self.build.create_block(), on, self.build.create_block());
                    self.three_ways(mask, all, none, if parts { some } else { none });
                    self.build.switch_to_block(all);
                    self.stop_plain(Stop::Exit, pc);
                    if parts {
                        self.build.switch_to_block(some);
                        self.build.set_cold_block(some);
                        self.aside(|emit| emit.hand_over(pc, alive));
                    }
                } else {
                    let some = self.build.create_block();
                    self.build.ins().brif(mask, some, &[], on, &[]);
                    self.build.switch_to_block(some);
                    self.build.set_cold_block(some);
                    self.aside(|emit| emit.hand_over(pc, alive));
                }
                self.build.switch_to_block(on);
                false
            }
        }
    }

    /// Asks an mbarrier. While not all lanes are told yes the warp yields, behind the question.
    fn wait(&mut self, pc: Pc, alive: &HashMap<Pc, Bits>) {
        let step = &self.code.steps[pc as usize];
        self.compute(pc);
        flow::written(&mut self.dirty, step);
        let (vain, on) = (self.build.create_block(), self.build.create_block());
        let Inst::Mbarrier(barrier) = &step.inst else { return };
        let Some(predicate) = barrier.dst else { return };
        let told = self.mask(Guard { predicate, negated: false });
        let all = i64::from(self.all_lanes());
        let over = self.build.ins().icmp_imm_u(IntCC::Equal, told, all);
        self.build.ins().brif(over, on, &[], vain, &[]);
        self.build.switch_to_block(vain);
        let at = offset_of!(BlockFrame, fuel) as i32;
        let fuel = self.build.ins().load(I64, own(), self.block_frame, at);
        let fuel = self.build.ins().iadd_imm_s(fuel, -WAIT_COST);
        self.build.ins().store(own(), fuel, self.block_frame, at);
        let alive = alive.get(&(pc + 1)).cloned().unwrap_or_default();
        self.aside(|emit| emit.stop(Stop::Yield, pc + 1, &alive));
        self.build.switch_to_block(on);
        self.go(pc + 1);
    }

    /// Branches on a mask of lanes: all, none, some.
    pub(super) fn three_ways(&mut self, mask: Value, all: Block, none: Block, some: Block) {
        let full = self.all_lanes();
        let every = self.build.ins().icmp_imm_u(IntCC::Equal, mask, i64::from(full));
        if some == none {
            self.build.ins().brif(every, all, &[], none, &[]);
            return;
        }
        let rest = self.build.create_block();
        self.build.ins().brif(every, all, &[], rest, &[]);
        self.build.switch_to_block(rest);
        self.build.ins().brif(mask, some, &[], none, &[]);
    }

    pub(super) fn jump(&mut self, index: usize, pc: Pc, alive: &HashMap<Pc, Bits>) {
        let step = &self.code.steps[pc as usize];
        let target = |emit: &Self, pc: Pc| {
            emit.flow.block_at(pc).and_then(|block| emit.blocks[block as usize])
        };
        match (&step.inst, step.guard) {
            (Inst::Branch { target: to }, None) => self.go(*to),
            (Inst::Branch { target: to }, Some(guard)) => {
                let (Some(taken), Some(other)) = (target(self, *to), target(self, pc + 1)) else {
                    self.hand_over(pc, alive);
                    return;
                };
                if self.home(guard.predicate) == Home::Flag {
                    let flag = self.flag(guard);
                    self.build.ins().brif(flag, taken, &[], other, &[]);
                    return;
                }
                let mask = self.mask(guard);
                let some = self.build.create_block();
                self.three_ways(mask, taken, other, some);
                self.build.switch_to_block(some);
                let here = alive.get(&pc).cloned().unwrap_or_default();
                let done = self.aside(|emit| emit.parted_region(index, pc, &here));
                if !done {
                    self.build.set_cold_block(some);
                    self.aside(|emit| emit.hand_over(pc, alive));
                }
            }
            (Inst::BranchIndexed { index: by, targets }, _) => {
                let blocks: Option<Vec<Block>> =
                    targets.iter().map(|&pc| target(self, pc)).collect();
                let Some(blocks) = blocks.filter(|blocks| !blocks.is_empty()) else {
                    self.hand_over(pc, alive);
                    return;
                };
                let by = self.scalar(*by);
                let by = self.narrow32(by);
                let other = self.build.create_block();
                let pool = &mut self.build.func.dfg.value_lists;
                let none: [BlockArg; 0] = [];
                let calls: Vec<BlockCall> =
                    blocks.iter().map(|&block| BlockCall::new(block, none, pool)).collect();
                let default = BlockCall::new(other, none, pool);
                let table = self.build.create_jump_table(JumpTableData::new(default, &calls));
                self.build.ins().br_table(by, table);
                self.build.switch_to_block(other);
                self.build.set_cold_block(other);
                // An index out of range is the interpreter's to judge.
                self.hand_over(pc, alive);
            }
            _ => self.go(self.code.blocks[index].steps.end),
        }
    }

    /// The low 32 bits of a scalar.
    pub(super) fn narrow32(&mut self, value: Value) -> Value {
        if self.build.func.dfg.value_type(value) == I64 {
            self.build.ins().ireduce(I32, value)
        } else {
            value
        }
    }

    /// Jumps to the block at a step, or ends there when there is none.
    pub(super) fn go(&mut self, pc: Pc) {
        match self.flow.block_at(pc).and_then(|block| self.blocks[block as usize]) {
            Some(block) => {
                self.build.ins().jump(block, &[]);
            }
            None => self.stop_plain(Stop::Exit, pc),
        }
    }
}
