//! Integer arithmetic, on bases or on vectors: the same Cranelift instructions serve both.
//!
//! 16-bit values lie zero-extended in 32-bit lanes; they are extended by their sign first
//! where that matters and cut afterwards.

use super::emit::Emit;
use super::shape::Shape;
use super::value::Form;
use crate::code::{BinaryOp, Class, Reg, Src, Ty, UnaryOp};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};

impl Emit<'_, '_> {
    /// A constant of the same type as a value, in every lane.
    pub(super) fn like(&mut self, value: Value, bits: u64) -> Value {
        let ty = self.build.func.dfg.value_type(value);
        match ty {
            I32X4 => self.lane_constant(Class::B32, |_| bits),
            I64X2 => self.lane_constant(Class::B64, |_| bits),
            I64 => self.build.ins().iconst(I64, bits as i64),
            _ => self.build.ins().iconst(I32, i64::from(bits as u32)),
        }
    }

    pub(super) fn is_vector(&self, value: Value) -> bool {
        self.build.func.dfg.value_type(value).is_vector()
    }

    /// Extends a 16-bit value in its 32-bit lane.
    pub(super) fn widen16(&mut self, ty: Ty, value: Value) -> Value {
        match (ty.bits(), ty.signed()) {
            (16, true) => self.sign_extend(value, 16),
            (8, true) => self.sign_extend(value, 24),
            (8, false) => {
                let mask = self.like(value, 0xff);
                self.build.ins().band(value, mask)
            }
            _ => value,
        }
    }

    pub(super) fn sign_extend(&mut self, value: Value, shift: i64) -> Value {
        let up = self.build.ins().ishl_imm_u(value, shift);
        self.build.ins().sshr_imm_u(up, shift)
    }

    /// Cuts a result to 16 bits.
    pub(super) fn cut16(&mut self, ty: Ty, value: Value) -> Value {
        if ty.bits() < 32 {
            let mask = self.like(value, 0xffff);
            self.build.ins().band(value, mask)
        } else {
            value
        }
    }

    /// True where `class` fits `ty`: registers wider or narrower are left to the interpreter.
    pub(super) fn fits(&self, register: Reg, ty: Ty) -> bool {
        self.class(register) == ty.class()
    }

    pub(super) fn src_fits(&self, src: Src, ty: Ty) -> bool {
        match src {
            Src::Reg(register) => self.fits(register, ty),
            Src::Imm(_) => true,
        }
    }

    pub(super) fn int_unary(
        &mut self,
        op: UnaryOp,
        ty: Ty,
        dst: Reg,
        a: Src,
        shape: Shape,
    ) -> Option<()> {
        let class = ty.class();
        if !self.src_fits(a, ty) || matches!(ty, Ty::U16x2 | Ty::S16x2) || ty.bits() == 8 {
            return None;
        }
        let counts = matches!(op, UnaryOp::Popc | UnaryOp::Clz);
        if counts {
            if !shape.uniform() || self.class(dst) != Class::B32 {
                return None;
            }
            let value = self.scalar_src(a, class);
            let count = match op {
                UnaryOp::Popc => self.build.ins().popcnt(value),
                _ => self.build.ins().clz(value),
            };
            let count = self.narrow32(count);
            self.write(dst, Form::Scalar(count));
            return Some(());
        }
        if !self.fits(dst, ty) || !matches!(op, UnaryOp::Neg | UnaryOp::Not | UnaryOp::Abs) {
            return None;
        }
        let each = |emit: &mut Self, value: Value| {
            let value = emit.widen16(ty, value);
            let result = match op {
                UnaryOp::Neg => emit.build.ins().ineg(value),
                UnaryOp::Not => emit.build.ins().bnot(value),
                _ => {
                    // The sign of `Abs` is its type's even when that is written as bits.
                    let value = if ty.bits() == 16 { emit.sign_extend(value, 16) } else { value };
                    if emit.is_vector(value) {
                        emit.build.ins().iabs(value)
                    } else {
                        let negative = emit.build.ins().ineg(value);
                        emit.build.ins().smax(value, negative)
                    }
                }
            };
            emit.cut16(ty, result)
        };
        if shape.uniform() {
            let value = self.scalar_src(a, class);
            let result = each(self, value);
            self.write(dst, Form::Scalar(result));
        } else {
            let vector = self.vector_src(a, class);
            let result = vector.iter().map(|&value| each(self, value)).collect();
            self.write(dst, Form::Vector(result));
        }
        Some(())
    }

    pub(super) fn int_binary(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        dst: Reg,
        a: Src,
        b: Src,
        shape: Shape,
    ) -> Option<()> {
        let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        let wide = op == BinaryOp::MulWide;
        if ty.bits() == 8 || ty.bits() == 128 || matches!(ty, Ty::U16x2 | Ty::S16x2) {
            return None;
        }
        let result_class = match (wide, ty.bits()) {
            (true, 16) => Class::B32,
            (true, 32) => Class::B64,
            (true, _) => return None,
            _ => ty.class(),
        };
        if self.class(dst) != result_class || !self.src_fits(a, ty) {
            return None;
        }
        if shift {
            return self.shift(op, ty, dst, a, b, shape);
        }
        if !self.src_fits(b, ty) {
            return None;
        }
        let class = ty.class();
        if let Some(stride) = shape.stride() {
            let x = self.scalar_src(a, class);
            let y = self.scalar_src(b, class);
            let base = if wide { self.wide_scalar(ty, x, y) } else { self.int_op(op, ty, x, y)? };
            self.write_regular(dst, base, stride);
            return Some(());
        }
        // Addresses are mostly an index times a power of two.
        if let (true, 32, Src::Imm(k)) = (wide, ty.bits(), b)
            && (k as u32).is_power_of_two()
            && !(ty.signed() && k >> 31 == 1)
        {
            let mut result = Vec::new();
            for &x in self.vector_src(a, class).iter() {
                for half in self.extend_lanes(ty, x) {
                    let by = i64::from((k as u32).trailing_zeros());
                    result.push(self.build.ins().ishl_imm_u(half, by));
                }
            }
            self.write(dst, Form::Vector(result));
            return Some(());
        }
        let (x, y) = (self.vector_src(a, class), self.vector_src(b, class));
        let mut result = Vec::with_capacity(x.len() * 2);
        for (&x, &y) in x.iter().zip(y.iter()) {
            match (wide, ty.bits()) {
                (true, 32) => result.extend(self.wide_vector(ty, x, y)),
                (true, _) => {
                    let (x, y) = (self.widen16(ty, x), self.widen16(ty, y));
                    result.push(self.build.ins().imul(x, y));
                }
                _ => result.push(self.int_op(op, ty, x, y)?),
            }
        }
        self.write(dst, Form::Vector(result));
        Some(())
    }

    pub(super) fn wide_scalar(&mut self, ty: Ty, x: Value, y: Value) -> Value {
        let (x, y) = (self.widen16(ty, x), self.widen16(ty, y));
        if ty.bits() == 16 {
            return self.build.ins().imul(x, y);
        }
        let (x, y) = (self.extend64(ty, x), self.extend64(ty, y));
        self.build.ins().imul(x, y)
    }

    /// A 32-bit scalar in 64 bits.
    pub(super) fn extend64(&mut self, ty: Ty, value: Value) -> Value {
        if ty.signed() {
            self.build.ins().sextend(I64, value)
        } else {
            self.build.ins().uextend(I64, value)
        }
    }

    /// Full products of four 32-bit lanes: the lower two, the upper two.
    pub(super) fn wide_vector(&mut self, ty: Ty, x: Value, y: Value) -> [Value; 2] {
        let [x_low, x_high] = self.extend_lanes(ty, x);
        let [y_low, y_high] = self.extend_lanes(ty, y);
        [self.build.ins().imul(x_low, y_low), self.build.ins().imul(x_high, y_high)]
    }

    /// Four 32-bit lanes as twice two 64-bit ones.
    pub(super) fn extend_lanes(&mut self, ty: Ty, value: Value) -> [Value; 2] {
        if ty.signed() {
            [self.build.ins().swiden_low(value), self.build.ins().swiden_high(value)]
        } else {
            [self.build.ins().uwiden_low(value), self.build.ins().uwiden_high(value)]
        }
    }

    /// One operation of two operands of the same width.
    pub(super) fn int_op(&mut self, op: BinaryOp, ty: Ty, x: Value, y: Value) -> Option<Value> {
        let (x, y) = (self.widen16(ty, x), self.widen16(ty, y));
        let vector = self.is_vector(x);
        let result = match op {
            BinaryOp::Add => self.build.ins().iadd(x, y),
            BinaryOp::Sub => self.build.ins().isub(x, y),
            BinaryOp::Mul => self.build.ins().imul(x, y),
            BinaryOp::And => self.build.ins().band(x, y),
            BinaryOp::Or => self.build.ins().bor(x, y),
            BinaryOp::Xor => self.build.ins().bxor(x, y),
            BinaryOp::Min | BinaryOp::Max => self.extreme(op == BinaryOp::Max, ty, x, y),
            BinaryOp::MulHi if ty.bits() == 32 && vector => {
                let [low, high] = self.wide_vector(ty, x, y);
                self.every_other(low, high, true)
            }
            BinaryOp::MulHi if ty.bits() == 32 => {
                let (x, y) = (self.extend64(ty, x), self.extend64(ty, y));
                let product = self.build.ins().imul(x, y);
                let upper = self.build.ins().ushr_imm_u(product, 32);
                self.build.ins().ireduce(I32, upper)
            }
            BinaryOp::MulHi if ty.bits() == 64 && !vector && ty.signed() => {
                self.build.ins().smulhi(x, y)
            }
            BinaryOp::MulHi if ty.bits() == 64 && !vector => self.build.ins().umulhi(x, y),
            BinaryOp::Div | BinaryOp::Rem if !vector && ty.bits() >= 32 => {
                self.divide(op == BinaryOp::Rem, ty, x, y)
            }
            _ => return None,
        };
        Some(self.cut16(ty, result))
    }

    /// The lesser or greater of two.
    pub(super) fn extreme(&mut self, greatest: bool, ty: Ty, x: Value, y: Value) -> Value {
        if self.build.func.dfg.value_type(x) == I64X2 {
            let condition =
                if ty.signed() { IntCC::SignedGreaterThan } else { IntCC::UnsignedGreaterThan };
            let greater = self.compare64(condition, x, y);
            let (first, second) = if greatest { (x, y) } else { (y, x) };
            return self.build.ins().bitselect(greater, first, second);
        }
        match (greatest, ty.signed()) {
            (false, true) => self.build.ins().smin(x, y),
            (false, false) => self.build.ins().umin(x, y),
            (true, true) => self.build.ins().smax(x, y),
            (true, false) => self.build.ins().umax(x, y),
        }
    }

    /// Compares two 64-bit lanes.
    pub(super) fn compare64(&mut self, condition: IntCC, x: Value, y: Value) -> Value {
        use IntCC::{
            SignedGreaterThan, SignedGreaterThanOrEqual, SignedLessThan, SignedLessThanOrEqual,
            UnsignedGreaterThan, UnsignedGreaterThanOrEqual, UnsignedLessThan,
            UnsignedLessThanOrEqual,
        };
        let signed = match condition {
            UnsignedGreaterThan => SignedGreaterThan,
            UnsignedGreaterThanOrEqual => SignedGreaterThanOrEqual,
            UnsignedLessThan => SignedLessThan,
            UnsignedLessThanOrEqual => SignedLessThanOrEqual,
            other => return self.build.ins().icmp(other, x, y),
        };
        let top = self.like(x, 1 << 63);
        let (x, y) = (self.build.ins().bxor(x, top), self.build.ins().bxor(y, top));
        self.build.ins().icmp(signed, x, y)
    }

    /// Division of scalars: by zero gives all ones, the least by -1 wraps.
    pub(super) fn divide(&mut self, remainder: bool, ty: Ty, x: Value, y: Value) -> Value {
        let zero = self.build.ins().icmp_imm_u(IntCC::Equal, y, 0);
        let one = self.like(y, 1);
        let mut divisor = self.build.ins().select(zero, one, y);
        let mut minus = None;
        if ty.signed() {
            let is_minus = self.build.ins().icmp_imm_s(IntCC::Equal, y, -1);
            divisor = self.build.ins().select(is_minus, one, divisor);
            minus = Some(is_minus);
        }
        let result = match (remainder, ty.signed()) {
            (false, true) => self.build.ins().sdiv(x, divisor),
            (false, false) => self.build.ins().udiv(x, divisor),
            (true, true) => self.build.ins().srem(x, divisor),
            (true, false) => self.build.ins().urem(x, divisor),
        };
        let result = match minus {
            Some(minus) if !remainder => {
                let negative = self.build.ins().ineg(x);
                self.build.ins().select(minus, negative, result)
            }
            _ => result,
        };
        let ones = self.like(y, u64::MAX);
        self.build.ins().select(zero, ones, result)
    }
}
