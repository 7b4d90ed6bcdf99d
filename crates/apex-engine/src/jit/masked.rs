//! Accesses by some lanes: one after the other in a loop, lowest first, as the interpreter does.

use super::address::Place;
use super::emit::{Emit, own};
use super::parted::TakingPart;
use super::value::{Form, scalar_type, vector_type};
use crate::code::{Class, Pc, Reg, Src, Ty};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, StackSlot, Value};

impl Emit<'_, '_> {
    pub(super) fn masked_load(
        &mut self,
        place: &Place,
        ty: Ty,
        dsts: &[Option<Reg>],
        mask: Value,
    ) -> Option<()> {
        let [Some(dst)] = dsts else { return None };
        let class = self.class(*dst);
        let bytes = i64::from(ty.bits() / 8);
        let log = if class == Class::B64 { 3 } else { 2 };
        let [addresses, values, ..] = self.scratch;
        let old = self.vector(*dst);
        self.keep_addresses(addresses, place);
        self.fill_scratch(values, &old);
        self.for_lanes(mask, |emit, lane| {
            let pointer = emit.loop_address(addresses, place, lane, bytes);
            let value = emit.load_scalar(ty, class, pointer, 0);
            let cell = emit.cell(values, lane, log);
            emit.build.ins().store(own(), value, cell, 0);
        });
        let lanes_type = vector_type(class);
        let vector = (0..self.parts(class))
            .map(|part| self.build.ins().stack_load(I64, lanes_type, values, part as i32 * 16))
            .collect();
        let taking_part = self.taking_part.take();
        self.write(*dst, Form::Vector(vector));
        self.taking_part = taking_part;
        Some(())
    }

    pub(super) fn masked_store(
        &mut self,
        place: &Place,
        ty: Ty,
        srcs: &[Src],
        mask: Value,
    ) -> Option<()> {
        let &[src] = srcs else { return None };
        let class = ty.class();
        let bytes = i64::from(ty.bits() / 8);
        let log = if class == Class::B64 { 3 } else { 2 };
        let [addresses, values, ..] = self.scratch;
        self.keep_addresses(addresses, place);
        let vector = self.vector_src(src, class);
        self.fill_scratch(values, &vector);
        self.for_lanes(mask, |emit, lane| {
            let pointer = emit.loop_address(addresses, place, lane, bytes);
            let cell = emit.cell(values, lane, log);
            let value = emit.build.ins().load(scalar_type(class), own(), cell, 0);
            emit.store_scalar(ty, value, pointer, 0);
        });
        Some(())
    }

    /// Emits a loop over the lanes of a mask, lowest first; `body` gets the lane's number.
    pub(super) fn for_lanes(&mut self, mask: Value, body: impl FnOnce(&mut Self, Value)) {
        let (head, each, done) =
            (self.build.create_block(), self.build.create_block(), self.build.create_block());
        let rest = self.build.append_block_param(head, I32);
        self.build.ins().jump(head, &[mask.into()]);
        self.build.switch_to_block(head);
        self.build.ins().brif(rest, each, &[], done, &[]);
        self.build.switch_to_block(each);
        let lane = self.build.ins().ctz(rest);
        let lane = self.build.ins().uextend(I64, lane);
        body(self, lane);
        let below = self.build.ins().iadd_imm_s(rest, -1);
        let rest = self.build.ins().band(rest, below);
        self.build.ins().jump(head, &[rest.into()]);
        self.build.switch_to_block(done);
    }

    /// The address of a lane's cell in a scratch line.
    pub(super) fn cell(&mut self, slot: StackSlot, lane: Value, log_bytes: i64) -> Value {
        let start = self.build.ins().stack_addr(I64, slot, 0);
        let by = self.build.ins().ishl_imm_u(lane, log_bytes);
        self.build.ins().iadd(start, by)
    }

    /// Writes lanes to a scratch line.
    pub(super) fn fill_scratch(&mut self, slot: StackSlot, vector: &[Value]) {
        for (part, &value) in vector.iter().enumerate() {
            self.build.ins().stack_store(I64, value, slot, part as i32 * 16);
        }
    }

    /// Runs `whole`, for all lanes, when all take part, else `masked`.
    pub(super) fn unless_whole(
        &mut self,
        pc: Pc,
        taking_part: &TakingPart,
        whole: impl FnOnce(&mut Self) -> Option<()>,
        masked: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        // Lanes on different ways are never all there.
        if self.parted.is_some() {
            return masked(self);
        }
        let all = i64::from(self.all_lanes());
        let every = self.build.ins().icmp_imm_u(IntCC::Equal, taking_part.mask, all);
        let (fast, slow, on) =
            (self.build.create_block(), self.build.create_block(), self.build.create_block());
        self.build.ins().brif(every, fast, &[], slow, &[]);
        self.build.switch_to_block(fast);
        self.taking_part = None;
        let done = self.aside(whole);
        self.taking_part = Some(taking_part.clone());
        if done.is_none() {
            self.aside(|emit| emit.interpret(pc));
        }
        self.build.ins().jump(on, &[]);
        self.build.switch_to_block(slow);
        if self.aside(masked).is_none() {
            self.aside(|emit| emit.interpret(pc));
        }
        self.build.ins().jump(on, &[]);
        self.build.switch_to_block(on);
        self.forget_written(pc);
        Some(())
    }
}
