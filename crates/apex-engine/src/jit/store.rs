//! Stores; see [`super::access`].

use super::access::{memory_type, theirs};
use super::address::LaneAddresses;
use super::emit::Emit;
use crate::code::{Address, Class, Pc, Space, Src, Ty};
use cranelift_codegen::ir::types::{I8X16, I16X8};
use cranelift_codegen::ir::{InstBuilder, Type, Value};

impl Emit<'_, '_> {
    pub(super) fn store(
        &mut self,
        pc: Pc,
        space: Space,
        ty: Ty,
        srcs: &[Src],
        address: Address,
    ) -> Option<()> {
        memory_type(ty)?;
        let bytes = i64::from(ty.bits() / 8);
        for src in srcs {
            if let Src::Reg(register) = src {
                let class = self.class(*register);
                if !matches!(class, Class::B16 | Class::B32 | Class::B64)
                    || (class == Class::B64) != (ty.bits() == 64)
                {
                    return None;
                }
            }
        }
        let total = bytes * srcs.len() as i64;
        let place = self.place(pc, space, address, total)?;
        if let Some(taking_part) = self.taking_part.clone() {
            return self.unless_whole(
                pc,
                &taking_part,
                |emit| emit.store(pc, space, ty, srcs, address),
                |emit| emit.masked_store(pc, (space, address), &place, ty, srcs, taking_part.mask),
            );
        }
        self.reach(pc, (space, address), &place, total, None);
        match place {
            LaneAddresses::Regular { pointer, offset, stride: 0 } => {
                // All lanes write there; the last one's value stays.
                let last = self.lanes as usize - 1;
                self.touches_for(0);
                for (index, &src) in srcs.iter().enumerate() {
                    let value = self.lane_value(src, ty, last);
                    self.store_scalar(ty, value, pointer, offset + index as i32 * bytes as i32);
                }
                Some(())
            }
            LaneAddresses::Regular { pointer, offset, stride }
                if stride == total && srcs.len() == 1 && self.is_whole() =>
            {
                self.store_beside(ty, srcs[0], pointer, offset);
                Some(())
            }
            LaneAddresses::Lanes { ref vectors, base: Some(_), offset } => {
                let bad = self.any_outside(&vectors.clone(), offset, total);
                self.unless(pc, bad, |emit| {
                    emit.store_lanes(&place, ty, srcs);
                    Some(())
                })
            }
            place => {
                self.store_lanes(&place, ty, srcs);
                Some(())
            }
        }
    }

    /// One lane of an operand, as a scalar of its class.
    pub(super) fn lane_value(&mut self, src: Src, ty: Ty, lane: usize) -> Value {
        let class = ty.class();
        if self.shapes.src(src).uniform() {
            return self.scalar_src(src, class);
        }
        let vector = self.vector_src(src, class);
        let per = if class == Class::B64 { 2 } else { 4 };
        self.build.ins().extractlane(vector[lane / per], (lane % per) as u8)
    }

    pub(super) fn store_scalar(&mut self, ty: Ty, value: Value, pointer: Value, at: i32) {
        match ty.bits() {
            8 => self.build.ins().istore8(theirs(), value, pointer, at),
            16 => self.build.ins().istore16(theirs(), value, pointer, at),
            _ => self.build.ins().store(theirs(), value, pointer, at),
        };
    }

    pub(super) fn store_beside(&mut self, ty: Ty, src: Src, pointer: Value, offset: i32) {
        let mut vector = self.vector_src(src, ty.class()).to_vec();
        if ty.bits() < 32 {
            let mask = u64::MAX >> (64 - ty.bits());
            for value in &mut vector {
                let mask = self.like(*value, mask);
                *value = self.build.ins().band(*value, mask);
            }
            vector = self.narrow(I16X8, &vector);
            if ty.bits() == 8 {
                vector = self.narrow(I8X16, &vector);
            }
        }
        for (part, value) in vector.into_iter().enumerate() {
            self.touches_for(part * 16 / (ty.bits() as usize / 8));
            self.build.ins().store(theirs(), value, pointer, offset + part as i32 * 16);
        }
    }

    /// Half as many vectors of lanes half as wide; the values fit.
    pub(super) fn narrow(&mut self, ty: Type, vector: &[Value]) -> Vec<Value> {
        vector
            .chunks(2)
            .map(|pair| {
                let narrow = self.build.ins().unarrow(pair[0], pair[1]);
                debug_assert_eq!(self.build.func.dfg.value_type(narrow), ty);
                narrow
            })
            .collect()
    }

    pub(super) fn store_lanes(&mut self, place: &LaneAddresses, ty: Ty, srcs: &[Src]) {
        let bytes = ty.bits() as i32 / 8;
        for (index, &src) in srcs.iter().enumerate() {
            for lane in 0..self.lanes as usize {
                let (pointer, at) = self.lane_address(place, lane);
                let value = self.lane_value(src, ty, lane);
                self.touches_for(lane);
                self.store_scalar(ty, value, pointer, at + index as i32 * bytes);
            }
        }
    }
}
