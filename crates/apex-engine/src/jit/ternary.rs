//! Integer operations of three operands.

use super::emit::Emit;
use super::shape::Shape;
use super::value::Form;
use crate::code::{BinaryOp, Class, Reg, Src, TernaryOp, Ty};
use cranelift_codegen::ir::{InstBuilder, Value};

impl Emit<'_, '_> {
    pub(super) fn int_ternary(
        &mut self,
        op: TernaryOp,
        ty: Ty,
        dst: Reg,
        [a, b, c]: [Src; 3],
        shape: Shape,
    ) -> Option<()> {
        let class = ty.class();
        let wide = op == TernaryOp::MadWide;
        let sum_class = match (wide, ty.bits()) {
            (true, 16) => Class::B32,
            (true, 32) => Class::B64,
            (true, _) | (_, 8 | 128) => return None,
            _ => class,
        };
        if self.class(dst) != sum_class || !self.src_fits(a, ty) || !self.src_fits(b, ty) {
            return None;
        }
        if let Src::Reg(register) = c
            && self.class(register) != sum_class
        {
            return None;
        }
        let sum_ty = if wide && ty.bits() == 32 {
            Ty::U64
        } else if wide {
            Ty::U32
        } else {
            ty
        };
        match op {
            TernaryOp::Mad | TernaryOp::MadWide | TernaryOp::MadHi => {}
            TernaryOp::Lop3(table) => return self.lop3(table, dst, [a, b, c], shape),
            TernaryOp::Min3 | TernaryOp::Max3 if ty.bits() == 32 => {}
            _ => return None,
        }
        if let Some(stride) = shape.stride() {
            let x = self.scalar_src(a, class);
            let y = self.scalar_src(b, class);
            let z = self.scalar_src(c, sum_class);
            let base = self.mad(op, ty, sum_ty, x, y, z)?;
            self.write_regular(dst, base, stride);
            return Some(());
        }
        let (x, y) = (self.vector_src(a, class), self.vector_src(b, class));
        let z = self.vector_src(c, sum_class);
        let mut result = Vec::new();
        for part in 0..x.len() {
            if wide && ty.bits() == 32 {
                for (half, product) in
                    self.wide_vector(ty, x[part], y[part]).into_iter().enumerate()
                {
                    result.push(self.build.ins().iadd(product, z[part * 2 + half]));
                }
            } else {
                result.push(self.mad(op, ty, sum_ty, x[part], y[part], z[part])?);
            }
        }
        self.write(dst, Form::Vector(result));
        Some(())
    }

    pub(super) fn mad(
        &mut self,
        op: TernaryOp,
        ty: Ty,
        sum: Ty,
        x: Value,
        y: Value,
        z: Value,
    ) -> Option<Value> {
        let first = match op {
            TernaryOp::Mad => self.int_op(BinaryOp::Mul, ty, x, y)?,
            TernaryOp::MadHi => self.int_op(BinaryOp::MulHi, ty, x, y)?,
            TernaryOp::MadWide if self.is_vector(x) => {
                let (x, y) = (self.widen16(ty, x), self.widen16(ty, y));
                self.build.ins().imul(x, y)
            }
            TernaryOp::MadWide => self.wide_scalar(ty, x, y),
            TernaryOp::Min3 | TernaryOp::Max3 => {
                let greatest = op == TernaryOp::Max3;
                let first = self.extreme(greatest, ty, x, y);
                return Some(self.extreme(greatest, ty, first, z));
            }
            _ => return None,
        };
        self.int_op(BinaryOp::Add, sum, first, z)
    }

    pub(super) fn lop3(&mut self, table: u8, dst: Reg, srcs: [Src; 3], shape: Shape) -> Option<()> {
        let each = |emit: &mut Self, [a, b, c]: [Value; 3]| {
            let mut result = None;
            for row in (0..8u8).filter(|row| table >> row & 1 == 1) {
                let mut pick = |value: Value, bit: u8| {
                    if row & bit != 0 { value } else { emit.build.ins().bnot(value) }
                };
                let (x, y, z) = (pick(a, 4), pick(b, 2), pick(c, 1));
                let both = emit.build.ins().band(x, y);
                let term = emit.build.ins().band(both, z);
                result = Some(match result {
                    None => term,
                    Some(sum) => emit.build.ins().bor(sum, term),
                });
            }
            result.unwrap_or_else(|| emit.like(a, 0))
        };
        if shape.uniform() {
            let values = srcs.map(|src| self.scalar_src(src, Class::B32));
            let result = each(self, values);
            self.write(dst, Form::Scalar(result));
        } else {
            let vectors = srcs.map(|src| self.vector_src(src, Class::B32));
            let result = (0..vectors[0].len())
                .map(|part| each(self, [vectors[0][part], vectors[1][part], vectors[2][part]]))
                .collect();
            self.write(dst, Form::Vector(result));
        }
        Some(())
    }
}
