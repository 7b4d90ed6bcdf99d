//! f32 and f64 arithmetic to nearest, on vectors: a uniform number is one vector.
//!
//! Other roundings, halves and the functions that need more than a few instructions are the
//! interpreter's. f32 results have one NaN; see [`super::shape::Shapes::raw`] for when it is made.

use super::emit::Emit;
use super::shape::{Shape, gives_raw};
use super::value::{Form, vector_type};
use crate::code::{BinaryOp, Class, Inst, Mode, Reg, Rounding, Src, TernaryOp, Ty, UnaryOp};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::types::{F32X4, F64X2, I32X4};
use cranelift_codegen::ir::{InstBuilder, Type, Value};

/// The vector type of a floating type, where it is computed here.
pub(super) fn float_type(ty: Ty) -> Option<Type> {
    match ty {
        Ty::F32 => Some(F32X4),
        Ty::F64 => Some(F64X2),
        _ => None,
    }
}

impl Emit<'_, '_> {
    /// Makes every f32 NaN the one of PTX.
    pub(super) fn canonical(&mut self, value: Value) -> Value {
        let value = self.cast(F32X4, value);
        let nan = self.build.ins().fcmp(FloatCC::Unordered, value, value);
        let value = self.cast(I32X4, value);
        // All ones, moved down by one, are that NaN.
        let one = self.build.ins().ushr_imm_u(nan, 1);
        let number = self.build.ins().band_not(value, nan);
        self.build.ins().bor(number, one)
    }

    /// Subnormal f32 to zero of the same sign.
    pub(super) fn flush(&mut self, value: Value) -> Value {
        use cranelift_codegen::ir::condcodes::IntCC;
        let value = self.cast(I32X4, value);
        let exponent = self.lane_constant(Class::B32, |_| 0x7f80_0000);
        let sign = self.lane_constant(Class::B32, |_| 0x8000_0000);
        let zero = self.lane_constant(Class::B32, |_| 0);
        let exponent = self.build.ins().band(value, exponent);
        let small = self.build.ins().icmp(IntCC::Equal, exponent, zero);
        let signed = self.build.ins().band(value, sign);
        self.build.ins().bitselect(small, signed, value)
    }

    /// Clamps to [0, 1]; NaN and -0 become 0.
    pub(super) fn saturate(&mut self, value: Value) -> Value {
        let value = self.cast(F32X4, value);
        let zero = self.lane_constant(Class::B32, |_| 0);
        let zero = self.cast(F32X4, zero);
        let one = self.lane_constant(Class::B32, |_| u64::from(1f32.to_bits()));
        let one_float = self.cast(F32X4, one);
        let positive = self.build.ins().fcmp(FloatCC::GreaterThan, value, zero);
        let bits = self.cast(I32X4, value);
        let low = self.build.ins().band(bits, positive);
        let low_float = self.cast(F32X4, low);
        let above = self.build.ins().fcmp(FloatCC::GreaterThan, low_float, one_float);
        self.build.ins().bitselect(above, one, low)
    }

    /// The operands of a floating step, part by part; one part when the result is uniform.
    pub(super) fn float_parts<const N: usize>(
        &mut self,
        ty: Ty,
        srcs: [Src; N],
        uniform: bool,
        ftz: bool,
    ) -> Option<Vec<[Value; N]>> {
        let class = ty.class();
        let lanes = float_type(ty)?;
        for src in srcs {
            if let Src::Reg(register) = src
                && self.class(register) != class
            {
                return None;
            }
        }
        let parts = if uniform { 1 } else { self.parts(class) };
        let mut result = vec![[self.file; N]; parts];
        for (index, src) in srcs.into_iter().enumerate() {
            // Any NaN is as good as PTX's for an operand.
            let values = match src {
                Src::Reg(register) if uniform => vec![self.splat(register)],
                Src::Reg(register) => self.vector(register).to_vec(),
                Src::Imm(_) => vec![self.splat_src(src, class); parts],
            };
            for (part, value) in values.into_iter().enumerate() {
                let value = if ftz && ty == Ty::F32 { self.flush(value) } else { value };
                result[part][index] = self.cast(lanes, value);
            }
        }
        Some(result)
    }

    /// Finishes results and writes them.
    pub(super) fn float_write(
        &mut self,
        ty: Ty,
        mode: Mode,
        dst: Reg,
        inst: &Inst,
        uniform: bool,
        values: Vec<Value>,
    ) {
        let raw = gives_raw(inst) && self.shapes.raw(dst);
        let lanes = vector_type(ty.class());
        let finish = |value: Value| {
            if ty == Ty::F64 || raw {
                return self.cast(lanes, value);
            }
            let value = self.canonical(value);
            let value = if mode.ftz { self.flush(value) } else { value };
            if mode.sat { self.saturate(value) } else { value }
        };
        let mut values: Vec<Value> = values.into_iter().map(finish).collect();
        if uniform {
            self.write(dst, Form::Splat(values.remove(0)));
        } else {
            self.write(dst, Form::Vector(values));
        }
    }

    /// True for a mode computed here.
    pub(super) fn plain_mode(&self, ty: Ty, mode: Mode) -> bool {
        mode.rounding == Rounding::Rn
            && !mode.relu
            && !mode.nan
            && !mode.xorsign_abs
            && (ty == Ty::F32 || !mode.sat)
    }

    #[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
    pub(super) fn float_unary(
        &mut self,
        op: UnaryOp,
        ty: Ty,
        mode: Mode,
        dst: Reg,
        a: Src,
        shape: Shape,
        inst: &Inst,
    ) -> Option<()> {
        if !self.plain_mode(ty, mode) || self.class(dst) != ty.class() {
            return None;
        }
        let uniform = shape.uniform();
        let class = ty.class();
        float_type(ty)?;
        if matches!(op, UnaryOp::Neg | UnaryOp::Abs) {
            if mode.ftz {
                return None;
            }
            if let Src::Reg(register) = a
                && self.class(register) != class
            {
                return None;
            }
            // These work on bits, NaNs too.
            let top = 1u64 << (ty.bits() - 1);
            let (bits, op) =
                if op == UnaryOp::Neg { (top, BinaryOp::Xor) } else { (!top, BinaryOp::And) };
            let mask = self.lane_constant(class, |_| bits);
            let each = |emit: &mut Self, value: Value| match op {
                BinaryOp::Xor => emit.build.ins().bxor(value, mask),
                _ => emit.build.ins().band(value, mask),
            };
            if uniform {
                let value = self.splat_src(a, class);
                let result = each(self, value);
                self.write(dst, Form::Splat(result));
            } else {
                let values = self.vector_src(a, class);
                let result = values.iter().map(|&value| each(self, value)).collect();
                self.write(dst, Form::Vector(result));
            }
            return Some(());
        }
        let one = match (op, ty) {
            (UnaryOp::Rcp, _) => Some(self.lane_constant(class, |_| {
                if ty == Ty::F64 { 1f64.to_bits() } else { u64::from(1f32.to_bits()) }
            })),
            (UnaryOp::Sqrt, _) => None,
            (UnaryOp::RcpApprox | UnaryOp::SqrtApprox | UnaryOp::RsqrtApprox, Ty::F32) => None,
            _ => return None,
        };
        let parts = self.float_parts(ty, [a], uniform, mode.ftz)?;
        let mut results = Vec::new();
        for [value] in parts {
            results.push(match (op, one) {
                (UnaryOp::Rcp, Some(one)) => {
                    let one = self.cast(float_type(ty)?, one);
                    self.build.ins().fdiv(one, value)
                }
                (UnaryOp::Sqrt, _) => self.build.ins().sqrt(value),
                _ => self.through_f64(op, value),
            });
        }
        self.float_write(ty, mode, dst, inst, uniform, results);
        Some(())
    }

    /// Reciprocals and roots the way the interpreter approximates them: in f64, then rounded.
    pub(super) fn through_f64(&mut self, op: UnaryOp, value: Value) -> Value {
        let halves = self.promote(value).map(|wide| {
            let root = match op {
                UnaryOp::RcpApprox => wide,
                _ => self.build.ins().sqrt(wide),
            };
            if op == UnaryOp::SqrtApprox {
                return root;
            }
            let one = self.lane_constant(Class::B64, |_| 1f64.to_bits());
            let one = self.cast(F64X2, one);
            self.build.ins().fdiv(one, root)
        });
        self.demote(halves)
    }

    /// Four f32 as twice two f64.
    pub(super) fn promote(&mut self, value: Value) -> [Value; 2] {
        let low = self.build.ins().fvpromote_low(value);
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = (8 + index % 8) as u8;
        }
        let upper = self.shuffle_bytes(value, value, bytes);
        let upper = self.cast(F32X4, upper);
        [low, self.build.ins().fvpromote_low(upper)]
    }

    /// Twice two f64 as four f32.
    pub(super) fn demote(&mut self, halves: [Value; 2]) -> Value {
        let [low, high] = halves.map(|half| self.build.ins().fvdemote(half));
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = if index < 8 { index } else { 8 + index } as u8;
        }
        let both = self.shuffle_bytes(low, high, bytes);
        self.cast(F32X4, both)
    }

    #[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
    pub(super) fn float_binary(
        &mut self,
        op: BinaryOp,
        ty: Ty,
        mode: Mode,
        dst: Reg,
        srcs: [Src; 2],
        shape: Shape,
        inst: &Inst,
    ) -> Option<()> {
        if !self.plain_mode(ty, mode) || self.class(dst) != ty.class() {
            return None;
        }
        let extreme = matches!(op, BinaryOp::Min | BinaryOp::Max);
        if extreme && mode.sat {
            return None;
        }
        let uniform = shape.uniform();
        let mut results = Vec::new();
        for [x, y] in self.float_parts(ty, srcs, uniform, mode.ftz)? {
            results.push(match op {
                BinaryOp::Add => self.build.ins().fadd(x, y),
                BinaryOp::Sub => self.build.ins().fsub(x, y),
                BinaryOp::Mul => self.build.ins().fmul(x, y),
                BinaryOp::Div => self.build.ins().fdiv(x, y),
                BinaryOp::Min => self.float_extreme(false, x, y),
                BinaryOp::Max => self.float_extreme(true, x, y),
                _ => return None,
            });
        }
        self.float_write(ty, mode, dst, inst, uniform, results);
        Some(())
    }

    /// The lesser or greater of two: a number wins over NaN, and -0 is less than 0. Of two f64
    /// NaNs the second is taken, as the interpreter does: `cvt` shows its bits.
    pub(super) fn float_extreme(&mut self, greatest: bool, x: Value, y: Value) -> Value {
        let lanes = self.build.func.dfg.value_type(x);
        let ints = if lanes == F64X2 { vector_type(Class::B64) } else { I32X4 };
        let condition = if greatest { FloatCC::GreaterThan } else { FloatCC::LessThan };
        let first = self.build.ins().fcmp(condition, x, y);
        let equal = self.build.ins().fcmp(FloatCC::Equal, x, y);
        let mut y_nan = self.build.ins().fcmp(FloatCC::Unordered, y, y);
        if lanes == F64X2 {
            let x_number = self.build.ins().fcmp(FloatCC::Ordered, x, x);
            y_nan = self.build.ins().band(y_nan, x_number);
        }
        let (x, y) = (self.cast(ints, x), self.cast(ints, y));
        let ties = if greatest { self.build.ins().band(x, y) } else { self.build.ins().bor(x, y) };
        let x_wins = self.build.ins().bor(first, y_nan);
        let picked = self.build.ins().bitselect(x_wins, x, y);
        self.build.ins().bitselect(equal, ties, picked)
    }

    #[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
    pub(super) fn float_ternary(
        &mut self,
        op: TernaryOp,
        ty: Ty,
        mode: Mode,
        dst: Reg,
        srcs: [Src; 3],
        shape: Shape,
        inst: &Inst,
    ) -> Option<()> {
        let fused = matches!(op, TernaryOp::Fma | TernaryOp::Mad) && self.fused;
        if !fused || !self.plain_mode(ty, mode) || self.class(dst) != ty.class() {
            return None;
        }
        let uniform = shape.uniform();
        let mut results = Vec::new();
        // The processor overwrites the first factor: better one that is not used again. Of several
        // NaNs it takes that of the second factor; f64 shows which, and the interpreter takes `a`.
        let [a, b, c] = srcs;
        let swap = self.shapes.src(a).uniform() && !self.shapes.src(b).uniform();
        let srcs = if swap || ty == Ty::F64 { [b, a, c] } else { srcs };
        for [x, y, z] in self.float_parts(ty, srcs, uniform, mode.ftz)? {
            results.push(self.build.ins().fma(x, y, z));
        }
        self.float_write(ty, mode, dst, inst, uniform, results);
        Some(())
    }
}
