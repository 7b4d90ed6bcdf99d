//! One step that neither jumps nor stops: natively, or by the interpreter's function for one step.

use super::emit::{Emit, own};
use super::flow::Bits;
use super::parted::TakingPart;
use super::shape;
use super::value::{Home, scalar_type};
use crate::code::{Class, Guard, Pc, Reg, Src};
use crate::frame::Stop;
use crate::operands;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use std::collections::HashMap;

impl Emit<'_, '_> {
    /// A step that neither jumps nor stops.
    pub(super) fn plain(&mut self, pc: Pc, alive: &HashMap<Pc, Bits>) {
        let step = &self.code.steps[pc as usize];
        if let Some((operand, signed)) = shape::widens(&self.shapes, step) {
            self.test_wrap(operand, signed, pc, alive);
        }
        match step.guard {
            None => self.compute(pc),
            Some(guard) if self.home(guard.predicate) == Home::Flag => self.under_flag(guard, pc),
            Some(guard) => {
                let (mask, lanes) = (self.mask(guard), self.lanes(guard));
                self.taking_part = Some(TakingPart { mask, lanes, some: false });
                self.compute(pc);
                self.taking_part = None;
            }
        }
    }

    /// A step that all lanes do, or none.
    pub(super) fn under_flag(&mut self, guard: Guard, pc: Pc) {
        let flag = self.flag(guard);
        let (take, on) = (self.build.create_block(), self.build.create_block());
        self.build.ins().brif(flag, take, &[], on, &[]);
        self.build.switch_to_block(take);
        self.aside(|emit| {
            emit.compute(pc);
            emit.build.ins().jump(on, &[]);
        });
        self.build.switch_to_block(on);
        self.forget_written(pc);
    }

    /// Forgets the forms of what a step wrote on one way and not on another.
    pub(super) fn forget_written(&mut self, pc: Pc) {
        let locals = &mut self.locals;
        operands::writes(&self.code.steps[pc as usize], &mut |register| {
            locals.remove(register);
        });
    }

    /// Hands over when lanes of a regular 32-bit value wrap between first and last.
    pub(super) fn test_wrap(&mut self, a: Src, signed: bool, pc: Pc, alive: &HashMap<Pc, Bits>) {
        let Some(stride) = self.shapes.src(a).stride() else { return };
        let base = self.scalar_src(a, Class::B32);
        let reach = stride.wrapping_mul(i64::from(self.lanes) - 1);
        let wraps = if signed {
            let wide = self.build.ins().sextend(I64, base);
            let last = self.build.ins().iadd_imm_s(wide, reach);
            let short = self.build.ins().ireduce(I32, last);
            let again = self.build.ins().sextend(I64, short);
            self.build.ins().icmp(IntCC::NotEqual, again, last)
        } else {
            let wide = self.build.ins().uextend(I64, base);
            let last = self.build.ins().iadd_imm_s(wide, reach);
            let upper = self.build.ins().ushr_imm_u(last, 32);
            self.build.ins().icmp_imm_u(IntCC::NotEqual, upper, 0)
        };
        let (wrapped, on) = (self.build.create_block(), self.build.create_block());
        self.build.ins().brif(wraps, wrapped, &[], on, &[]);
        self.build.switch_to_block(wrapped);
        self.build.set_cold_block(wrapped);
        self.aside(|emit| emit.hand_over(pc, alive));
        self.build.switch_to_block(on);
    }

    /// Computes a step, natively or through the interpreter's function for one step.
    pub(super) fn compute(&mut self, pc: Pc) {
        if self.native(pc).is_none() {
            self.interpret(pc);
        }
    }

    /// One step by the interpreter: operands to the register file, results back.
    pub(super) fn interpret(&mut self, pc: Pc) {
        let step = &self.code.steps[pc as usize];
        let mut stored = self.reads(pc);
        let mut written = Vec::new();
        operands::writes(step, &mut |register| written.push(register));
        if step.guard.is_some() || self.parted.is_some() {
            stored.extend(written.iter().filter(|&&register| self.keeps_others(register)));
        }
        stored.sort();
        stored.dedup();
        for register in stored {
            self.store_home(register, false);
        }
        if let Some(mask) = self.parted.as_ref().map(|parted| parted.mask) {
            self.tell_lanes(mask);
        }
        let function = self.build.ins().iconst(I64, self.helpers.step as i64);
        let at = self.build.ins().iconst(I32, i64::from(pc));
        let call = self.build.ins().call_indirect(
            self.step_signature,
            function,
            &[self.block_frame, self.warp_frame, at],
        );
        let fault = self.build.inst_results(call)[0];
        let (bad, on) = (self.build.create_block(), self.build.create_block());
        self.build.ins().brif(fault, bad, &[], on, &[]);
        self.build.switch_to_block(bad);
        self.build.set_cold_block(bad);
        self.stop_plain(Stop::Fault, pc);
        self.build.switch_to_block(on);
        // The interpreter merged the lanes that took part.
        let taking_part = self.taking_part.take();
        let parted = self.parted.take();
        if let Some(parted) = &parted {
            let all = self.all_lanes();
            let all = self.build.ins().iconst(I32, i64::from(all));
            self.tell_lanes(all);
            for &register in &written {
                self.first_lane_first(register, parted.mask);
            }
        }
        for register in written {
            self.load_home(register);
        }
        self.parted = parted;
        self.taking_part = taking_part;
    }

    /// Moves the value of the first lane that takes part to lane 0 of a uniform register's
    /// place, from where it is loaded.
    pub(super) fn first_lane_first(&mut self, register: Reg, mask: Value) {
        let class = self.class(register);
        let at = self.code.registers[register.0 as usize].offset as i32;
        match self.home(register) {
            Home::Scalar | Home::Splat => {
                let lane = self.build.ins().ctz(mask);
                let lane = self.build.ins().uextend(I64, lane);
                let by = self.build.ins().imul_imm_s(lane, class.lane_bytes() as i64);
                let cell = self.build.ins().iadd(self.file, by);
                let value = self.build.ins().load(scalar_type(class), own(), cell, at);
                self.build.ins().store(own(), value, self.file, at);
            }
            Home::Flag => {
                let value = self.build.ins().load(I32, own(), self.file, at);
                let value = self.build.ins().band(value, mask);
                self.build.ins().store(own(), value, self.file, at);
            }
            _ => {}
        }
    }

    pub(super) fn reads(&self, pc: Pc) -> Vec<Reg> {
        let mut registers = Vec::new();
        operands::reads(&self.code.steps[pc as usize], &mut |register| {
            registers.push(register);
        });
        registers
    }

    /// A flag as an 8-bit 0 or 1.
    pub(super) fn flag_constant(&mut self, value: bool) -> Value {
        self.build.ins().iconst(I8, i64::from(value))
    }
}
