//! The ways out of compiled code, and from one warp to the next.

use super::emit::{Emit, Regular, own};
use super::flow::Bits;
use super::value::Home;
use crate::code::{Pc, Reg};
use crate::frame::{BlockFrame, NOT_STOPPED, Stop, TURN_FUEL, WarpFrame};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value};
use std::collections::HashMap;
use std::mem::offset_of;

impl Emit<'_, '_> {
    pub(super) fn stop_plain(&mut self, kind: Stop, pc: Pc) {
        let pc = if kind == Stop::Exit { 0 } else { pc };
        let result = (kind as i64) << 32 | i64::from(pc);
        let result = self.build.ins().iconst(I64, result);
        if matches!(kind, Stop::Exit | Stop::Barrier | Stop::Yield) {
            self.build.ins().jump(self.next_warp, &[BlockArg::Value(result)]);
        } else {
            self.build.ins().return_(&[result]);
        }
    }

    /// A warp has stopped in a way that others may: the next one has its turn, when there is one and this
    /// one stopped as the first did.
    pub(super) fn next_warp(&mut self) {
        self.build.switch_to_block(self.next_warp);
        let result = self.build.append_block_param(self.next_warp, I64);
        let field = |emit: &mut Self, at: usize| {
            emit.build.ins().load(I64, own(), emit.block_frame, at as i32)
        };
        let first = field(self, offset_of!(BlockFrame, stopped));
        let none = self.build.ins().icmp_imm_s(IntCC::Equal, first, NOT_STOPPED as i64);
        let first = self.build.ins().select(none, result, first);
        let at = offset_of!(BlockFrame, stopped) as i32;
        self.build.ins().store(own(), first, self.block_frame, at);
        let last = field(self, offset_of!(BlockFrame, last_warp));
        let other = self.build.ins().icmp(IntCC::NotEqual, first, result);
        let over = self.build.ins().icmp(IntCC::Equal, last, self.warp_frame);
        let leave = self.build.ins().bor(other, over);
        let (back, on) = (self.build.create_block(), self.build.create_block());
        self.build.ins().brif(leave, back, &[], on, &[]);
        self.build.switch_to_block(back);
        self.build.ins().return_(&[result]);
        self.build.switch_to_block(on);
        if self.flow.blocks.iter().any(|block| block.header) {
            let (fuel_at, burnt_at) = (offset_of!(BlockFrame, fuel), offset_of!(BlockFrame, burnt));
            let fuel = field(self, fuel_at);
            let burnt = field(self, burnt_at);
            let full = self.build.ins().iconst(I64, TURN_FUEL);
            let own_part = self.build.ins().isub(full, fuel);
            let burnt = self.build.ins().iadd(burnt, own_part);
            self.build.ins().store(own(), burnt, self.block_frame, burnt_at as i32);
            self.build.ins().store(own(), full, self.block_frame, fuel_at as i32);
        }
        let next = self.build.ins().iadd_imm_s(self.warp_frame, self.helpers.warp_bytes as i64);
        self.build.ins().jump(self.head, &[BlockArg::Value(next)]);
    }

    /// Writes what is alive and was written since the entry, in compact form, and returns.
    pub(super) fn stop(&mut self, kind: Stop, pc: Pc, alive: &Bits) {
        self.save(alive);
        let one = self.build.ins().iconst(I32, 1);
        let at = offset_of!(WarpFrame, compact) as i32;
        self.build.ins().store(own(), one, self.warp_frame, at);
        self.stop_plain(kind, pc);
    }

    pub(super) fn save(&mut self, alive: &Bits) {
        let stored: Vec<Reg> = alive.iter().filter(|&register| self.dirty.has(register)).collect();
        for register in stored {
            self.store_home(register, true);
        }
    }

    /// Leaves this step and what follows to the interpreter.
    pub(super) fn hand_over(&mut self, pc: Pc, alive: &HashMap<Pc, Bits>) {
        let alive = alive.get(&pc).cloned().unwrap_or_else(|| self.dirty.clone());
        self.settle_alive(&alive);
        self.stop_plain(Stop::HandOver, pc);
    }

    /// Writes registers so that the interpreter finds them.
    pub(super) fn settle_alive(&mut self, alive: &Bits) {
        self.save(alive);
        let table = self.regulars(alive);
        self.call_table(self.helpers.settle, table);
    }

    pub(super) fn regulars(&self, alive: &Bits) -> Vec<Regular> {
        let regular = |register: Reg| {
            let class = self.class(register);
            let shape = self.shapes.of(register);
            let raw = self.shapes.raw(register);
            let spread = matches!(self.home(register), Home::Scalar | Home::Splat);
            (raw || spread).then(|| Regular {
                offset: self.code.registers[register.0 as usize].offset,
                lane_bytes: class.lane_bytes() as u8,
                spread,
                raw,
                stride: shape.stride().unwrap_or(0),
            })
        };
        alive.iter().filter_map(regular).collect()
    }

    /// Calls one of the functions that take a table of registers.
    pub(super) fn call_table(&mut self, function: usize, table: Vec<Regular>) -> Value {
        let table = table.into_boxed_slice();
        let function = self.build.ins().iconst(I64, function as i64);
        let start = self.build.ins().iconst(I64, table.as_ptr() as i64);
        let count = self.build.ins().iconst(I64, table.len() as i64);
        let width = self.build.ins().iconst(I32, i64::from(self.lanes));
        let call = self.build.ins().call_indirect(
            self.table_signature,
            function,
            &[self.warp_frame, start, count, width],
        );
        self.tables.regulars.push(table);
        self.build.inst_results(call)[0]
    }
}
