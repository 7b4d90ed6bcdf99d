//! Arithmetic on f16 and bf16, and on pairs of them.
//!
//! f64 holds every sum and product of two such numbers with room to spare, so one rounding
//! at the end gives the correctly rounded result.

use crate::code::{BinaryOp, Mode, Rounding, TernaryOp, Ty, UnaryOp};
use crate::number::format::{bf16_to_f32, f16_to_f32};
use crate::number::{Format, approx, narrow, soft};

/// f16 or bf16.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Half {
    bf16: bool,
}

impl Half {
    /// The element type of a half type, if it is one.
    pub(crate) fn of(ty: Ty) -> Option<(Half, bool)> {
        match ty {
            Ty::F16 => Some((Half { bf16: false }, false)),
            Ty::F16x2 => Some((Half { bf16: false }, true)),
            Ty::Bf16 => Some((Half { bf16: true }, false)),
            Ty::Bf16x2 => Some((Half { bf16: true }, true)),
            _ => None,
        }
    }

    pub(crate) fn format(self) -> Format {
        if self.bf16 { Format::BF16 } else { Format::F16 }
    }

    pub(crate) fn value(self, bits: u16) -> f32 {
        if self.bf16 { bf16_to_f32(bits) } else { f16_to_f32(bits) }
    }

    fn round(self, x: f64) -> u16 {
        narrow(x, self.format(), Rounding::Rn, false) as u16
    }

    pub(crate) fn is_nan(self, bits: u16) -> bool {
        self.value(bits).is_nan()
    }

    fn flush(self, bits: u16, ftz: bool) -> u16 {
        let exponent = if self.bf16 { 0x7f80 } else { 0x7c00 };
        if ftz && bits & exponent == 0 { bits & 0x8000 } else { bits }
    }

    fn finish(self, bits: u16, mode: Mode) -> u16 {
        let bits = self.flush(bits, mode.ftz);
        if mode.sat {
            let one = if self.bf16 { 0x3f80 } else { 0x3c00 };
            let x = self.value(bits);
            return if x.is_nan() || x <= 0.0 {
                0
            } else if x > 1.0 {
                one
            } else {
                bits
            };
        }
        if mode.relu && !self.is_nan(bits) && bits & 0x8000 != 0 { 0 } else { bits }
    }

    pub(crate) fn unary(self, op: UnaryOp, mode: Mode, a: u16) -> u16 {
        let a = self.flush(a, mode.ftz);
        let through = |f: fn(f32) -> f32| self.round(f64::from(f(self.value(a))));
        match op {
            // As an H200 has it.
            UnaryOp::Neg | UnaryOp::Abs if self.is_nan(a) => 0x7fff,
            UnaryOp::Neg => a ^ 0x8000,
            UnaryOp::Abs => a & 0x7fff,
            UnaryOp::TanhApprox => through(approx::tanh),
            UnaryOp::Ex2Approx => self.finish(through(|x| approx::ex2(x, false)), mode),
            UnaryOp::RcpApprox | UnaryOp::Rcp => through(|x| approx::rcp(x, false)),
            UnaryOp::SqrtApprox | UnaryOp::Sqrt => through(|x| approx::sqrt(x, false)),
            UnaryOp::RsqrtApprox => through(|x| approx::rsqrt(x, false)),
            UnaryOp::SinApprox => through(|x| approx::sin(x, false)),
            UnaryOp::CosApprox => through(|x| approx::cos(x, false)),
            UnaryOp::Lg2Approx => through(|x| approx::lg2(x, false)),
            _ => a,
        }
    }

    pub(crate) fn binary(self, op: BinaryOp, mode: Mode, a: u16, b: u16) -> u16 {
        let (a, b) = (self.flush(a, mode.ftz), self.flush(b, mode.ftz));
        let (x, y) = (f64::from(self.value(a)), f64::from(self.value(b)));
        match op {
            BinaryOp::Add => self.finish(self.round(x + y), mode),
            BinaryOp::Sub => self.finish(self.round(x - y), mode),
            BinaryOp::Mul => self.finish(self.round(x * y), mode),
            BinaryOp::Div | BinaryOp::DivApprox | BinaryOp::DivFull => {
                self.finish(self.round(x / y), mode)
            }
            BinaryOp::Min => self.extreme(false, mode, a, b),
            BinaryOp::Max => self.extreme(true, mode, a, b),
            BinaryOp::Copysign => a & 0x8000 | b & 0x7fff,
            _ => 0x7fff,
        }
    }

    fn extreme(self, greatest: bool, mode: Mode, a: u16, b: u16) -> u16 {
        let sign = if mode.xorsign_abs { (a ^ b) & 0x8000 } else { 0 };
        let (a, b) = if mode.xorsign_abs { (a & 0x7fff, b & 0x7fff) } else { (a, b) };
        let (a_nan, b_nan) = (self.is_nan(a), self.is_nan(b));
        if a_nan && b_nan || mode.nan && (a_nan || b_nan) {
            return 0x7fff;
        }
        if a_nan || b_nan {
            return if a_nan { b | sign } else { a | sign };
        }
        // Magnitudes order by their bits; negative ones the other way round.
        let key = |bits: u16| if bits & 0x8000 != 0 { !bits } else { bits | 0x8000 };
        let a_first = if greatest { key(a) >= key(b) } else { key(a) <= key(b) };
        sign | if a_first { a } else { b }
    }

    pub(crate) fn ternary(self, op: TernaryOp, mode: Mode, a: u16, b: u16, c: u16) -> u16 {
        match op {
            TernaryOp::Fma | TernaryOp::Mad => {
                let [x, y, z] =
                    [a, b, c].map(|bits| f64::from(self.value(self.flush(bits, mode.ftz))));
                let bits = soft::fma_half(x, y, z, self.format()) as u16;
                self.finish(bits, mode)
            }
            TernaryOp::Min3 => self.extreme(false, mode, self.extreme(false, mode, a, b), c),
            TernaryOp::Max3 => self.extreme(true, mode, self.extreme(true, mode, a, b), c),
            _ => 0x7fff,
        }
    }
}

/// Applies a function of 16 bits to both halves of 32.
#[inline(always)]
pub(crate) fn halves<const N: usize>(words: [u32; N], f: impl Fn([u16; N]) -> u16) -> u32 {
    let low = f(words.map(|word| word as u16));
    let high = f(words.map(|word| (word >> 16) as u16));
    u32::from(high) << 16 | u32::from(low)
}
