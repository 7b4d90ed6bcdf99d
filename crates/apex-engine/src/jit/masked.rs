//! Accesses by some lanes: one after the other in a loop, lowest first, as the interpreter does.

use super::address::LaneAddresses;
use super::emit::{Emit, own};
use super::parted::TakingPart;
use super::value::{Form, scalar_type, vector_type};
use crate::code::{Address, Class, Pc, Reg, Space, Src, Ty};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, StackSlot, Value};

/// Bytes of a lane in a scratch line, as a power of two.
fn lane_log(class: Class) -> i64 {
    if class == Class::B64 { 3 } else { 2 }
}

impl Emit<'_, '_> {
    pub(super) fn masked_load(
        &mut self,
        pc: Pc,
        (space, address): (Space, Address),
        place: &LaneAddresses,
        ty: Ty,
        dsts: &[Option<Reg>],
        mask: Value,
    ) -> Option<()> {
        let [addresses, values @ ..] = self.scratch;
        let classes: Vec<_> = dsts.iter().map(|dst| dst.map(|dst| self.class(dst))).collect();
        let bytes = i64::from(ty.bits() / 8);
        let total = bytes * dsts.len() as i64;
        let seen = self.reach(pc, (space, address), place, total, Some(mask));
        self.keep_addresses(addresses, place);
        for (&dst, slot) in dsts.iter().zip(values) {
            if let Some(dst) = dst {
                let old = self.vector(dst);
                self.fill_scratch(slot, &old);
            }
        }
        self.for_lanes(mask, |emit, lane| {
            let pointer = emit.loop_address(addresses, place, lane, total);
            if !seen {
                emit.reach_lane(pc, space, pointer, lane, total);
            }
            emit.touches_in_turn(lane);
            for ((index, class), slot) in (0..).zip(&classes).zip(values) {
                if let Some(class) = *class {
                    let value = emit.load_scalar(ty, class, pointer, index * bytes as i32);
                    let cell = emit.cell(slot, lane, lane_log(class));
                    emit.build.ins().store(own(), value, cell, 0);
                }
            }
        });
        let taking_part = self.taking_part.take();
        for (&dst, slot) in dsts.iter().zip(values) {
            let Some(dst) = dst else { continue };
            let class = self.class(dst);
            let lanes_type = vector_type(class);
            let vector = (0..self.parts(class))
                .map(|part| self.build.ins().stack_load(I64, lanes_type, slot, part as i32 * 16))
                .collect();
            self.write(dst, Form::Vector(vector));
        }
        self.taking_part = taking_part;
        Some(())
    }

    pub(super) fn masked_store(
        &mut self,
        pc: Pc,
        (space, address): (Space, Address),
        place: &LaneAddresses,
        ty: Ty,
        srcs: &[Src],
        mask: Value,
    ) -> Option<()> {
        let class = ty.class();
        let bytes = i64::from(ty.bits() / 8);
        let total = bytes * srcs.len() as i64;
        let [addresses, values @ ..] = self.scratch;
        let seen = self.reach(pc, (space, address), place, total, Some(mask));
        self.keep_addresses(addresses, place);
        for (&src, slot) in srcs.iter().zip(values) {
            let vector = self.vector_src(src, class);
            self.fill_scratch(slot, &vector);
        }
        self.for_lanes(mask, |emit, lane| {
            let pointer = emit.loop_address(addresses, place, lane, total);
            if !seen {
                emit.reach_lane(pc, space, pointer, lane, total);
            }
            for (index, slot) in (0..srcs.len() as i32).zip(values) {
                let cell = emit.cell(slot, lane, lane_log(class));
                let value = emit.build.ins().load(scalar_type(class), own(), cell, 0);
                emit.touches_in_turn(lane);
                emit.store_scalar(ty, value, pointer, index * bytes as i32);
            }
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
