//! `cvt`, for the pairs of types that fill programs.

use super::emit::Emit;
use super::float::float_type;
use super::shape::Shape;
use super::value::{Form, vector_type};
use crate::code::{Class, Mode, Reg, Rounding, Src, Ty};
use cranelift_codegen::ir::types::{F32X4, F64X2, I32, I32X4};
use cranelift_codegen::ir::{InstBuilder, Value};

impl Emit<'_, '_> {
    pub(super) fn convert(
        &mut self,
        to: Ty,
        from: Ty,
        mode: Mode,
        dst: Reg,
        a: Src,
        shape: Shape,
    ) -> Option<()> {
        if mode.sat || mode.relu {
            return None;
        }
        if let Src::Reg(register) = a
            && (self.class(register) != from.class())
        {
            return None;
        }
        match (to.float(), from.float()) {
            (false, false) => self.convert_integer(to, from, dst, a, shape),
            _ if self.class(dst) != to.class() || mode.ftz => None,
            _ => self.convert_float(to, from, mode, dst, a, shape),
        }
    }

    pub(super) fn convert_integer(
        &mut self,
        to: Ty,
        from: Ty,
        dst: Reg,
        a: Src,
        shape: Shape,
    ) -> Option<()> {
        let class = self.class(dst);
        if to.bits() > 64 || from.bits() > 64 || class == Class::B128 || class == Class::Pred {
            return None;
        }
        if let Some(stride) = shape.stride() {
            let value = self.scalar_src(a, from.class());
            let value = self.widen16(from, value);
            let base = match (from.bits() == 64, class == Class::B64) {
                (false, true) if to.bits() == 64 => self.extend64(from, value),
                (false, true) => return None,
                (true, false) => self.build.ins().ireduce(I32, value),
                (true, true) if to.bits() < 64 => return None,
                _ => value,
            };
            let base = self.fit(to, class, base);
            self.write_regular(dst, base, stride);
            return Some(());
        }
        let values = self.vector_src(a, from.class());
        let mut result = Vec::new();
        match (from.bits() == 64, class == Class::B64) {
            (false, true) if to.bits() == 64 => {
                for &value in values.iter() {
                    let value = self.widen16(from, value);
                    result.extend(self.extend_lanes(from, value));
                }
            }
            (true, false) => {
                for pair in values.chunks(2) {
                    let low = self.every_other(pair[0], pair[1], false);
                    result.push(self.fit(to, class, low));
                }
            }
            (false, false) => {
                for &value in values.iter() {
                    let value = self.widen16(from, value);
                    result.push(self.fit(to, class, value));
                }
            }
            (true, true) if to.bits() == 64 => result.extend(values.iter()),
            _ => return None,
        }
        self.write(dst, Form::Vector(result));
        Some(())
    }

    /// Cuts to a type narrower than 32 bits and extends by its sign to the register.
    pub(super) fn fit(&mut self, to: Ty, class: Class, value: Value) -> Value {
        let value = match (to.bits(), to.signed()) {
            (8, true) => self.sign_extend(value, 24),
            (16, true) => self.sign_extend(value, 16),
            (8, false) => {
                let mask = self.like(value, 0xff);
                self.build.ins().band(value, mask)
            }
            (16, false) => {
                let mask = self.like(value, 0xffff);
                self.build.ins().band(value, mask)
            }
            _ => value,
        };
        if class == Class::B16 { self.cut16(Ty::U16, value) } else { value }
    }

    pub(super) fn convert_float(
        &mut self,
        to: Ty,
        from: Ty,
        mode: Mode,
        dst: Reg,
        a: Src,
        shape: Shape,
    ) -> Option<()> {
        let uniform = shape.uniform();
        // A uniform number is computed in the first lanes of one vector.
        let values = match (uniform, a) {
            (true, _) => vec![self.splat_src(a, from.class())],
            _ => self.vector_src(a, from.class()).to_vec(),
        };
        let mut result = Vec::new();
        let nearest = mode.rounding == Rounding::Rn;
        let zero = matches!(mode.rounding, Rounding::Rzi | Rounding::Rz);
        match (to, from) {
            (Ty::F32, Ty::S32) if nearest => {
                for value in values {
                    result.push(self.build.ins().fcvt_from_sint(F32X4, value));
                }
            }
            (Ty::F32, Ty::U32) if nearest => {
                for value in values {
                    result.push(self.build.ins().fcvt_from_uint(F32X4, value));
                }
            }
            (Ty::F64, Ty::S32 | Ty::U32) if nearest => {
                for value in values {
                    result.extend(self.integers_to_f64(from, value));
                }
            }
            (Ty::F64, Ty::F32) => {
                for value in values {
                    let value = self.cast(F32X4, value);
                    result.extend(self.promote(value));
                }
            }
            (Ty::F32, Ty::F64) if nearest => {
                let values: Vec<Value> =
                    values.into_iter().map(|value| self.cast(F64X2, value)).collect();
                for pair in values.chunks(2) {
                    let both = [pair[0], pair[pair.len() - 1]];
                    let value = self.demote(both);
                    // NaNs keep their sign and payload, as in the reference tier.
                    result.push(value);
                }
            }
            (Ty::S32, Ty::F32) if zero => {
                for value in values {
                    let value = self.cast(F32X4, value);
                    result.push(self.build.ins().fcvt_to_sint_sat(I32X4, value));
                }
            }
            (Ty::U32, Ty::F32) if zero => {
                for value in values {
                    let value = self.cast(F32X4, value);
                    result.push(self.build.ins().fcvt_to_uint_sat(I32X4, value));
                }
            }
            (Ty::F32, Ty::F32) | (Ty::F64, Ty::F64) => {
                let lanes = float_type(from)?;
                for value in values {
                    let value = self.cast(lanes, value);
                    let whole = match mode.rounding {
                        Rounding::Rni => self.build.ins().nearest(value),
                        Rounding::Rzi => self.build.ins().trunc(value),
                        Rounding::Rmi => self.build.ins().floor(value),
                        Rounding::Rpi => self.build.ins().ceil(value),
                        _ => return None,
                    };
                    result.push(if to == Ty::F32 { self.canonical(whole) } else { whole });
                }
            }
            _ => return None,
        }
        let lanes = vector_type(to.class());
        let mut result: Vec<Value> =
            result.into_iter().map(|value| self.cast(lanes, value)).collect();
        if uniform {
            self.write(dst, Form::Splat(result.remove(0)));
        } else {
            self.write(dst, Form::Vector(result));
        }
        Some(())
    }

    /// Four 32-bit integers as twice two f64: exact.
    pub(super) fn integers_to_f64(&mut self, from: Ty, value: Value) -> [Value; 2] {
        // The integer in the low bits of 2^52, minus 2^52; a signed one is moved up by 2^31 first.
        let signed = from.signed();
        let moved = if signed {
            let top = self.like(value, 0x8000_0000);
            self.build.ins().bxor(value, top)
        } else {
            value
        };
        let offset = (1u64 << 52) as f64 + if signed { 2_147_483_648.0 } else { 0.0 };
        let exponent = self.lane_constant(Class::B64, |_| ((1u64 << 52) as f64).to_bits());
        let offset = self.lane_constant(Class::B64, |_| offset.to_bits());
        let offset = self.cast(F64X2, offset);
        let halves = [self.build.ins().uwiden_low(moved), self.build.ins().uwiden_high(moved)];
        halves.map(|half| {
            let number = self.build.ins().bor(half, exponent);
            let number = self.cast(F64X2, number);
            self.build.ins().fsub(number, offset)
        })
    }
}
