//! Shifts.

use super::emit::Emit;
use super::shape::Shape;
use super::value::Form;
use crate::code::{BinaryOp, Class, Reg, Src, Ty};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I32;
use cranelift_codegen::ir::{InstBuilder, Value};

impl Emit<'_, '_> {
    /// Shifts: counts of the width or more give 0 or the sign.
    pub(super) fn shift(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        dst: Reg,
        a: Src,
        b: Src,
        shape: Shape,
    ) -> Option<()> {
        let class = ty.class();
        let bits = u64::from(ty.bits());
        if let Src::Reg(register) = b
            && self.class(register) != Class::B32
        {
            return None;
        }
        if !self.shapes.src(b).uniform() {
            return self.shift_lanes(op, ty, dst, a, b);
        }
        let arithmetic = op == BinaryOp::Shr && ty.signed();
        let count = self.scalar_src(b, Class::B32);
        let most = self.build.ins().iconst(I32, bits as i64 - 1);
        let clamped = self.build.ins().umin(count, most);
        let over = match b {
            Src::Imm(k) => (k >= bits).then(|| self.flag_constant(true)),
            Src::Reg(_) => Some(self.build.ins().icmp_imm_u(
                IntCC::UnsignedGreaterThanOrEqual,
                count,
                bits as i64,
            )),
        };
        let clamped = match b {
            Src::Imm(k) => self.build.ins().iconst(I32, k.min(bits - 1) as i64),
            Src::Reg(_) => clamped,
        };
        let each = |emit: &mut Self, value: Value| {
            let value = emit.widen16(ty, value);
            let shifted = match op {
                BinaryOp::Shl => emit.build.ins().ishl(value, clamped),
                _ if arithmetic => emit.build.ins().sshr(value, clamped),
                _ => emit.build.ins().ushr(value, clamped),
            };
            let shifted = emit.cut16(ty, shifted);
            match over {
                Some(over) if !arithmetic => {
                    let zero = emit.like(shifted, 0);
                    emit.build.ins().select(over, zero, shifted)
                }
                _ => shifted,
            }
        };
        if let Some(stride) = shape.stride() {
            let value = self.scalar_src(a, class);
            let base = each(self, value);
            self.write_regular(dst, base, stride);
        } else {
            let vector = self.vector_src(a, class);
            let result = vector.iter().map(|&value| each(self, value)).collect();
            self.write(dst, Form::Vector(result));
        }
        Some(())
    }

    /// Shifts each lane by its own count.
    pub(super) fn shift_lanes(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        dst: Reg,
        a: Src,
        b: Src,
    ) -> Option<()> {
        if ty.bits() != 32 {
            return None;
        }
        let (x, y) = (self.vector_src(a, Class::B32), self.vector_src(b, Class::B32));
        let mut result = Vec::new();
        for (&x, &y) in x.iter().zip(y.iter()) {
            let most = self.like(y, 31);
            let clamped = self.build.ins().umin(y, most);
            let mut shifted = x;
            for lane in 0..4u8 {
                let value = self.build.ins().extractlane(x, lane);
                let count = self.build.ins().extractlane(clamped, lane);
                let value = match (op, ty.signed()) {
                    (BinaryOp::Shl, _) => self.build.ins().ishl(value, count),
                    (_, true) => self.build.ins().sshr(value, count),
                    _ => self.build.ins().ushr(value, count),
                };
                shifted = self.build.ins().insertlane(shifted, value, lane);
            }
            if op == BinaryOp::Shl || !ty.signed() {
                let inside = self.build.ins().icmp(IntCC::Equal, clamped, y);
                shifted = self.build.ins().band(shifted, inside);
            }
            result.push(shifted);
        }
        self.write(dst, Form::Vector(result));
        Some(())
    }
}
