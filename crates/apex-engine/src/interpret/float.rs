//! f32 and f64 arithmetic in all its modes.
//!
//! To nearest, the host computes; every other rounding goes through `number::soft`.

use crate::code::{Mode, Rounding};
use crate::number::{Format, NAN_F32, canonical, flush, saturate, saturate64, soft};

/// What comes before and after an f32 operation.
#[inline(always)]
pub(crate) fn before(x: f32, mode: Mode) -> f32 {
    if mode.ftz { flush(x) } else { x }
}

/// As [`before`], for the result.
#[inline(always)]
pub(crate) fn after(x: f32, mode: Mode) -> f32 {
    let x = canonical(x);
    let x = if mode.ftz { flush(x) } else { x };
    let x = if mode.relu && x < 0.0 { 0.0 } else { x };
    if mode.sat { saturate(x) } else { x }
}

#[inline(always)]
fn after64(x: f64, mode: Mode) -> f64 {
    if mode.sat { saturate64(x) } else { x }
}

/// The four operations of every mode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
}

pub(crate) fn binary32(op: Arithmetic, mode: Mode, a: f32, b: f32) -> f32 {
    let (a, b) = (before(a, mode), before(b, mode));
    if mode.rounding == Rounding::Rn {
        let result = match op {
            Arithmetic::Add => a + b,
            Arithmetic::Sub => a - b,
            Arithmetic::Mul => a * b,
            Arithmetic::Div => a / b,
        };
        return after(result, mode);
    }
    let (x, y) = (f64::from(a), f64::from(b));
    let bits = match op {
        Arithmetic::Add => soft::add(x, y, Format::F32, mode.rounding),
        Arithmetic::Sub => soft::add(x, -y, Format::F32, mode.rounding),
        Arithmetic::Mul => soft::mul(x, y, Format::F32, mode.rounding),
        Arithmetic::Div => soft::div(x, y, Format::F32, mode.rounding),
    };
    after(f32::from_bits(bits as u32), mode)
}

pub(crate) fn binary64(op: Arithmetic, mode: Mode, a: f64, b: f64) -> f64 {
    let host = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Sub => a - b,
        Arithmetic::Mul => a * b,
        Arithmetic::Div => a / b,
    };
    if mode.rounding == Rounding::Rn || host.is_nan() {
        return after64(host, mode);
    }
    let bits = match op {
        Arithmetic::Add => soft::add(a, b, Format::F64, mode.rounding),
        Arithmetic::Sub => soft::add(a, -b, Format::F64, mode.rounding),
        Arithmetic::Mul => soft::mul(a, b, Format::F64, mode.rounding),
        Arithmetic::Div => soft::div(a, b, Format::F64, mode.rounding),
    };
    after64(f64::from_bits(bits), mode)
}

pub(crate) fn fma32(mode: Mode, a: f32, b: f32, c: f32) -> f32 {
    let (a, b, c) = (before(a, mode), before(b, mode), before(c, mode));
    if mode.rounding == Rounding::Rn {
        return after(a.mul_add(b, c), mode);
    }
    let bits = soft::fma(a.into(), b.into(), c.into(), Format::F32, mode.rounding);
    after(f32::from_bits(bits as u32), mode)
}

pub(crate) fn fma64(mode: Mode, a: f64, b: f64, c: f64) -> f64 {
    let host = a.mul_add(b, c);
    if mode.rounding == Rounding::Rn || host.is_nan() {
        return after64(host, mode);
    }
    after64(f64::from_bits(soft::fma(a, b, c, Format::F64, mode.rounding)), mode)
}

/// `rcp` with a rounding.
pub(crate) fn rcp32(mode: Mode, a: f32) -> f32 {
    binary32(Arithmetic::Div, mode, 1.0, a)
}

pub(crate) fn sqrt32(mode: Mode, a: f32) -> f32 {
    let a = before(a, mode);
    if mode.rounding == Rounding::Rn {
        return after(a.sqrt(), mode);
    }
    after(f32::from_bits(soft::sqrt(a.into(), Format::F32, mode.rounding) as u32), mode)
}

pub(crate) fn sqrt64(mode: Mode, a: f64) -> f64 {
    let host = a.sqrt();
    if mode.rounding == Rounding::Rn || host.is_nan() {
        return host;
    }
    f64::from_bits(soft::sqrt(a, Format::F64, mode.rounding))
}

/// `min` and `max` of f32. Negative zero is less than zero.
#[inline(always)]
pub(crate) fn extreme32(greatest: bool, mode: Mode, a: f32, b: f32) -> f32 {
    let (a, b) = (before(a, mode), before(b, mode));
    let sign = if mode.xorsign_abs { (a.to_bits() ^ b.to_bits()) & 1 << 31 } else { 0 };
    let (a, b) = if mode.xorsign_abs { (a.abs(), b.abs()) } else { (a, b) };
    if a.is_nan() && b.is_nan() || mode.nan && (a.is_nan() || b.is_nan()) {
        return f32::from_bits(NAN_F32);
    }
    // Equal numbers differ at most in the sign of zero.
    let ties = if greatest { a.to_bits() & b.to_bits() } else { a.to_bits() | b.to_bits() };
    let a_first = if greatest { a > b } else { a < b };
    let bits = if b.is_nan() || a_first {
        a.to_bits()
    } else if a == b {
        ties
    } else {
        b.to_bits()
    };
    f32::from_bits(bits | sign)
}

/// `min` and `max` of f64.
#[inline(always)]
pub(crate) fn extreme64(greatest: bool, a: f64, b: f64) -> f64 {
    if a.is_nan() {
        return b;
    }
    let a_first = if greatest { a > b } else { a < b };
    if b.is_nan() || a_first {
        a
    } else if a == b {
        let ties = if greatest { a.to_bits() & b.to_bits() } else { a.to_bits() | b.to_bits() };
        f64::from_bits(ties)
    } else {
        b
    }
}

/// Applies an f32 operation to both halves of a 64-bit register.
#[inline(always)]
pub(crate) fn pair<const N: usize>(words: [u64; N], f: impl Fn([f32; N]) -> f32) -> u64 {
    let low = f(words.map(|word| f32::from_bits(word as u32)));
    let high = f(words.map(|word| f32::from_bits((word >> 32) as u32)));
    u64::from(high.to_bits()) << 32 | u64::from(low.to_bits())
}
