//! Loads and stores.
//!
//! The same address for all is one access, addresses side by side are vector accesses, all
//! else goes lane by lane. Where only some lanes take part, the lanes are visited one after
//! the other in a loop, lowest first, as the interpreter does.

use super::address::LaneAddresses;
use super::emit::Emit;
use super::value::{Form, vector_type};
use crate::code::{Address, Class, Pc, Reg, Space, Ty};
use cranelift_codegen::ir::types::{F32, F32X4, F64, F64X2, I8, I16, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value};

/// Accesses to memory of the program: they may fault, and are not to be moved.
pub(super) fn theirs() -> MemFlagsData {
    MemFlagsData::new()
}

/// The integer type of so many bits.
pub(super) fn memory_type(ty: Ty) -> Option<Type> {
    Some(match ty.bits() {
        8 => I8,
        16 => I16,
        32 => I32,
        64 => I64,
        _ => return None,
    })
}

impl Emit<'_, '_> {
    pub(super) fn load(
        &mut self,
        pc: Pc,
        space: Space,
        ty: Ty,
        dsts: &[Option<Reg>],
        address: Address,
    ) -> Option<()> {
        memory_type(ty)?;
        let bytes = i64::from(ty.bits() / 8);
        for dst in dsts.iter().flatten() {
            let class = self.class(*dst);
            if class == Class::Pred
                || class == Class::B128
                || class.lane_bytes() * 8 < ty.bits() as usize
            {
                return None;
            }
            if class == Class::B64 && ty.bits() < 64 {
                return None;
            }
        }
        let total = bytes * dsts.len() as i64;
        let uniform = self.shapes.src(address.base).uniform() && space != Space::Local;
        if let Some(taking_part) = self.taking_part.clone()
            && !(uniform && taking_part.some)
        {
            let place = self.place(pc, space, address, total)?;
            return self.unless_whole(
                pc,
                &taking_part,
                |emit| emit.load(pc, space, ty, dsts, address),
                |emit| emit.masked_load(pc, (space, address), &place, ty, dsts, taking_part.mask),
            );
        }
        // Where one lane takes part, the address all of them have is a good one.
        let taking_part = self.taking_part.take();
        let place = self.place(pc, space, address, total);
        let mask = taking_part.as_ref().map(|taking_part| taking_part.mask);
        self.taking_part = taking_part;
        let place = place?;
        self.reach(pc, (space, address), &place, total, mask);
        match place {
            LaneAddresses::Regular { pointer, offset, stride: 0 } => {
                for (index, dst) in dsts.iter().enumerate() {
                    if let Some(dst) = dst {
                        let at = offset + index as i32 * bytes as i32;
                        self.load_uniform(*dst, ty, pointer, at);
                    }
                }
                Some(())
            }
            LaneAddresses::Regular { pointer, offset, stride }
                if stride == total && self.is_whole() =>
            {
                self.load_beside(ty, dsts, pointer, offset)
            }
            LaneAddresses::Lanes { ref vectors, base: Some(_), offset } => {
                let bad = self.any_outside(&vectors.clone(), offset, total);
                self.unless(pc, bad, |emit| emit.load_lanes(&place, ty, dsts))
            }
            place => self.load_lanes(&place, ty, dsts),
        }
    }

    /// Runs `body` unless `bad`; then the interpreter does the step.
    pub(super) fn unless(
        &mut self,
        pc: Pc,
        bad: Value,
        body: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let (slow, fast, on) =
            (self.build.create_block(), self.build.create_block(), self.build.create_block());
        self.build.ins().brif(bad, slow, &[], fast, &[]);
        self.build.switch_to_block(slow);
        self.build.set_cold_block(slow);
        self.aside(|emit| emit.interpret(pc));
        self.build.ins().jump(on, &[]);
        self.build.switch_to_block(fast);
        let result = self.aside(body);
        self.build.ins().jump(on, &[]);
        self.build.switch_to_block(on);
        self.forget_written(pc);
        result
    }

    pub(super) fn load_uniform(&mut self, dst: Reg, ty: Ty, pointer: Value, at: i32) {
        let class = self.class(dst);
        self.touches_for(0);
        if ty.bits() >= 32 && self.home(dst) != super::value::Home::Scalar {
            // As a floating number it comes to a vector register without a detour.
            let (one, all) = if class == Class::B64 { (F64, F64X2) } else { (F32, F32X4) };
            let scalar = self.build.ins().load(one, theirs(), pointer, at);
            let splat = self.build.ins().splat(all, scalar);
            let splat = self.cast(vector_type(class), splat);
            self.write(dst, Form::Splat(splat));
            return;
        }
        let value = self.load_scalar(ty, class, pointer, at);
        self.write(dst, Form::Scalar(value));
    }

    /// One value, extended to its register.
    pub(super) fn load_scalar(&mut self, ty: Ty, class: Class, pointer: Value, at: i32) -> Value {
        let value = match (ty.bits(), ty.signed()) {
            (8, false) => self.build.ins().uload8(I32, theirs(), pointer, at),
            (8, true) => self.build.ins().sload8(I32, theirs(), pointer, at),
            (16, false) => self.build.ins().uload16(I32, theirs(), pointer, at),
            (16, true) => self.build.ins().sload16(I32, theirs(), pointer, at),
            (32, _) => return self.build.ins().load(I32, theirs(), pointer, at),
            _ => return self.build.ins().load(I64, theirs(), pointer, at),
        };
        if class == Class::B16 { self.cut16(Ty::U16, value) } else { value }
    }

    /// Values side by side: whole vectors.
    pub(super) fn load_beside(
        &mut self,
        ty: Ty,
        dsts: &[Option<Reg>],
        pointer: Value,
        offset: i32,
    ) -> Option<()> {
        match (ty.bits(), dsts) {
            (32 | 64, [Some(dst)]) => {
                let lanes = vector_type(ty.class());
                let parts = self.parts(ty.class());
                let vector = (0..parts)
                    .map(|part| {
                        let at = offset + part as i32 * 16;
                        self.touches_for(part * 16 / (ty.bits() as usize / 8));
                        self.build.ins().load(lanes, theirs(), pointer, at)
                    })
                    .collect();
                self.write(*dst, Form::Vector(vector));
            }
            (32, [_, _]) => self.load_pairs(dsts, pointer, offset),
            (32, [_, _, _, _]) => self.load_fours(dsts, pointer, offset),
            (64, [_, _]) => self.load_wide_pairs(dsts, pointer, offset),
            (8 | 16, [Some(dst)]) => {
                let vector = self.load_narrow(ty, pointer, offset);
                let class = self.class(*dst);
                let vector = vector
                    .into_iter()
                    .map(
                        |value| {
                            if class == Class::B16 { self.cut16(Ty::U16, value) } else { value }
                        },
                    )
                    .collect();
                self.write(*dst, Form::Vector(vector));
            }
            _ => {
                let stride = i64::from(ty.bits() / 8) * dsts.len() as i64;
                return self.load_lanes(
                    &LaneAddresses::Regular { pointer, offset, stride },
                    ty,
                    dsts,
                );
            }
        }
        Some(())
    }

    /// Two values of 32 bits side by side for each lane: every other one goes to each register.
    fn load_pairs(&mut self, dsts: &[Option<Reg>], pointer: Value, offset: i32) {
        let (mut even, mut odd) = (Vec::new(), Vec::new());
        for part in 0..self.parts(Class::B32) {
            let at = offset + part as i32 * 32;
            self.touches_for(part * 4);
            let low = self.build.ins().load(I32X4, theirs(), pointer, at);
            self.touches_for(part * 4 + 2);
            let high = self.build.ins().load(I32X4, theirs(), pointer, at + 16);
            even.push(self.every_other(low, high, false));
            odd.push(self.every_other(low, high, true));
        }
        for (dst, vector) in dsts.iter().zip([even, odd]) {
            if let Some(dst) = dst {
                self.write(*dst, Form::Vector(vector));
            }
        }
    }

    /// Four values of 32 bits side by side for each lane: rows become columns.
    fn load_fours(&mut self, dsts: &[Option<Reg>], pointer: Value, offset: i32) {
        let mut vectors = [const { Vec::new() }; 4];
        for part in 0..self.parts(Class::B32) {
            let rows = [0, 1, 2, 3].map(|row| {
                let at = offset + part as i32 * 64 + row * 16;
                self.touches_for(part * 4 + row as usize);
                self.build.ins().load(I32X4, theirs(), pointer, at)
            });
            for (vector, column) in vectors.iter_mut().zip(self.transpose(rows)) {
                vector.push(column);
            }
        }
        for (dst, vector) in dsts.iter().zip(vectors) {
            if let Some(dst) = dst {
                self.write(*dst, Form::Vector(vector));
            }
        }
    }

    /// Two values of 64 bits side by side for each lane.
    fn load_wide_pairs(&mut self, dsts: &[Option<Reg>], pointer: Value, offset: i32) {
        let mut vectors = [const { Vec::new() }; 2];
        for part in 0..self.parts(Class::B64) {
            let at = offset + part as i32 * 32;
            self.touches_for(part * 2);
            let low = self.build.ins().load(I64X2, theirs(), pointer, at);
            self.touches_for(part * 2 + 1);
            let high = self.build.ins().load(I64X2, theirs(), pointer, at + 16);
            let pair = self.transpose64(low, high);
            for (vector, value) in vectors.iter_mut().zip(pair) {
                vector.push(value);
            }
        }
        for (dst, vector) in dsts.iter().zip(vectors) {
            if let Some(dst) = dst {
                self.write(*dst, Form::Vector(vector));
            }
        }
    }

    /// 8- or 16-bit values side by side, extended to 32-bit lanes.
    pub(super) fn load_narrow(&mut self, ty: Ty, pointer: Value, offset: i32) -> Vec<Value> {
        let mut vector = Vec::new();
        if ty.bits() == 16 {
            for part in 0..self.parts(Class::B32) {
                let at = offset + part as i32 * 8;
                self.touches_for(part * 4);
                vector.push(if ty.signed() {
                    self.build.ins().sload16x4(theirs(), pointer, at)
                } else {
                    self.build.ins().uload16x4(theirs(), pointer, at)
                });
            }
            return vector;
        }
        for part in 0..self.code.width as i32 / 8 {
            let at = offset + part * 8;
            self.touches_for(part as usize * 8);
            if ty.signed() {
                let eight = self.build.ins().sload8x8(theirs(), pointer, at);
                vector.push(self.build.ins().swiden_low(eight));
                vector.push(self.build.ins().swiden_high(eight));
            } else {
                let eight = self.build.ins().uload8x8(theirs(), pointer, at);
                vector.push(self.build.ins().uwiden_low(eight));
                vector.push(self.build.ins().uwiden_high(eight));
            }
        }
        vector
    }

    pub(super) fn load_lanes(
        &mut self,
        place: &LaneAddresses,
        ty: Ty,
        dsts: &[Option<Reg>],
    ) -> Option<()> {
        let bytes = ty.bits() as i32 / 8;
        let mut vectors: Vec<Option<Vec<Value>>> = Vec::new();
        for dst in dsts {
            vectors.push(dst.map(|dst| {
                let class = self.class(dst);
                let zero = self.lane_constant(class, |_| 0);
                vec![zero; self.parts(class)]
            }));
        }
        for lane in 0..self.lanes as usize {
            let (pointer, at) = self.lane_address(place, lane);
            self.touches_for(lane);
            for (index, dst) in dsts.iter().enumerate() {
                let (Some(dst), Some(vector)) = (dst, &mut vectors[index]) else { continue };
                let class = self.class(*dst);
                let value = self.load_scalar(ty, class, pointer, at + index as i32 * bytes);
                let per = if class == Class::B64 { 2 } else { 4 };
                let part = &mut vector[lane / per];
                *part = self.build.ins().insertlane(*part, value, (lane % per) as u8);
            }
        }
        for (dst, vector) in dsts.iter().zip(vectors) {
            if let (Some(dst), Some(vector)) = (dst, vector) {
                self.write(*dst, Form::Vector(vector));
            }
        }
        Some(())
    }
}
