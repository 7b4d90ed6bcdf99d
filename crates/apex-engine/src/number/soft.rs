//! Arithmetic with a rounding other than to nearest.
//!
//! Operands are f64 (every narrower number is one exactly); results are exact up to a
//! jammed last bit and are rounded once, by [`pack`], into the format asked for. Inputs
//! that are infinite or NaN never come here with another rounding's meaning: for them the
//! host's operation is already right.

use super::format::{Format, narrow, pack, split};
use crate::code::Rounding;

/// A finite number: sign, mantissa, exponent.
#[derive(Clone, Copy)]
struct Parts {
    negative: bool,
    mantissa: u128,
    exponent: i32,
}

fn parts(x: f64) -> Parts {
    let (mantissa, exponent) = split(x.to_bits());
    Parts { negative: x.is_sign_negative(), mantissa: mantissa.into(), exponent }
}

/// Shifts right, keeping in bit 0 whether anything was lost.
fn jam(mantissa: u128, shift: u32) -> u128 {
    if shift == 0 {
        mantissa
    } else if shift > 127 {
        u128::from(mantissa != 0)
    } else {
        mantissa >> shift | u128::from(mantissa & ((1 << shift) - 1) != 0)
    }
}

/// Moves the highest bit to bit 125: one bit of room for a carry.
fn raise(x: Parts) -> Parts {
    if x.mantissa == 0 {
        return x;
    }
    let shift = x.mantissa.leading_zeros() as i32 - 2;
    Parts { mantissa: x.mantissa << shift, exponent: x.exponent - shift, ..x }
}

fn sum(a: Parts, b: Parts, rounding: Rounding) -> Parts {
    if a.mantissa == 0 && b.mantissa == 0 {
        let negative = if a.negative == b.negative { a.negative } else { rounding == Rounding::Rm };
        return Parts { negative, mantissa: 0, exponent: 0 };
    }
    if a.mantissa == 0 {
        return b;
    }
    if b.mantissa == 0 {
        return a;
    }
    let (mut high, mut low) = (raise(a), raise(b));
    if (low.exponent, low.mantissa) > (high.exponent, high.mantissa) {
        std::mem::swap(&mut high, &mut low);
    }
    let shifted = jam(low.mantissa, (high.exponent - low.exponent) as u32);
    if high.negative == low.negative {
        Parts { mantissa: high.mantissa + shifted, ..high }
    } else if high.mantissa == shifted {
        Parts { negative: rounding == Rounding::Rm, mantissa: 0, exponent: 0 }
    } else {
        Parts { mantissa: high.mantissa - shifted, ..high }
    }
}

fn product(a: Parts, b: Parts) -> Parts {
    Parts {
        negative: a.negative != b.negative,
        mantissa: a.mantissa * b.mantissa,
        exponent: a.exponent + b.exponent,
    }
}

fn give(x: Parts, format: Format, rounding: Rounding) -> u64 {
    pack(format, x.negative, x.mantissa, x.exponent, rounding, false)
}

/// `a + b`.
pub(crate) fn add(a: f64, b: f64, format: Format, rounding: Rounding) -> u64 {
    if !a.is_finite() || !b.is_finite() {
        return narrow(a + b, format, rounding, false);
    }
    give(sum(parts(a), parts(b), rounding), format, rounding)
}

/// `a * b`.
pub(crate) fn mul(a: f64, b: f64, format: Format, rounding: Rounding) -> u64 {
    if !a.is_finite() || !b.is_finite() {
        return narrow(a * b, format, rounding, false);
    }
    give(product(parts(a), parts(b)), format, rounding)
}

/// `a * b + c`, rounded once.
pub(crate) fn fma(a: f64, b: f64, c: f64, format: Format, rounding: Rounding) -> u64 {
    if !a.is_finite() || !b.is_finite() || !c.is_finite() {
        return narrow(a.mul_add(b, c), format, rounding, false);
    }
    give(sum(product(parts(a), parts(b)), parts(c), rounding), format, rounding)
}

/// `a / b`.
pub(crate) fn div(a: f64, b: f64, format: Format, rounding: Rounding) -> u64 {
    if !a.is_finite() || !b.is_finite() || a == 0.0 || b == 0.0 {
        return narrow(a / b, format, rounding, false);
    }
    let (x, y) = (raise(parts(a)), parts(b));
    let quotient = x.mantissa / y.mantissa;
    let rest = u128::from(!x.mantissa.is_multiple_of(y.mantissa));
    let result = Parts {
        negative: x.negative != y.negative,
        mantissa: quotient | rest,
        exponent: x.exponent - y.exponent,
    };
    give(result, format, rounding)
}

/// The square root.
pub(crate) fn sqrt(a: f64, format: Format, rounding: Rounding) -> u64 {
    if !a.is_finite() || a <= 0.0 {
        return narrow(a.sqrt(), format, rounding, false);
    }
    let mut x = raise(parts(a));
    if x.exponent & 1 != 0 {
        x.mantissa >>= 1;
        x.exponent += 1;
    }
    let root = x.mantissa.isqrt();
    let rest = u128::from(root * root != x.mantissa);
    let result =
        Parts { negative: false, mantissa: root << 1 | rest, exponent: x.exponent / 2 - 1 };
    give(result, format, rounding)
}

/// An integer to a floating format.
pub(crate) fn from_integer(x: i128, format: Format, rounding: Rounding) -> u64 {
    pack(format, x < 0, x.unsigned_abs(), 0, rounding, false)
}

/// `a * b + c` for f16 and bf16 operands, which f64 holds with room to spare.
pub(crate) fn fma_half(a: f64, b: f64, c: f64, format: Format) -> u64 {
    let exact = a * b;
    let total = exact + c;
    if !total.is_finite() {
        return narrow(total, format, Rounding::Rn, false);
    }
    // What the sum lost, after Knuth; f64 has range enough for it never to overflow here.
    let part = total - exact;
    let lost = (exact - (total - part)) + (c - part);
    if lost == 0.0 || total.to_bits() & 1 == 1 {
        return narrow(total, format, Rounding::Rn, false);
    }
    // Round to odd instead: the last bit then says on which side of a tie the sum lies.
    let away = (lost > 0.0) == (total > 0.0);
    let bits = if away { total.to_bits() + 1 } else { total.to_bits() - 1 };
    narrow(f64::from_bits(bits), format, Rounding::Rn, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To nearest, the host knows the answer: all of f32's and f64's bits must agree with it.
    #[test]
    fn to_nearest_agrees_with_the_host() {
        let mut state = 7u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        for round in 0..60_000 {
            let (x, y, z) = (next(), next(), next());
            // Every second time exponents close to each other, where cancellation happens.
            let pull = |v: u64| if round % 2 == 0 { v } else { v & !(0x7f0 << 52) | 0x3f0 << 52 };
            let (a, b, c) =
                (f64::from_bits(pull(x)), f64::from_bits(pull(y)), f64::from_bits(pull(z)));
            let rn = Rounding::Rn;
            let same = |soft: u64, host: f64, what: &str| {
                if !host.is_nan() {
                    assert_eq!(soft, host.to_bits(), "{what} {a:e} {b:e} {c:e}");
                }
            };
            same(add(a, b, Format::F64, rn), a + b, "add");
            same(mul(a, b, Format::F64, rn), a * b, "mul");
            same(div(a, b, Format::F64, rn), a / b, "div");
            same(sqrt(a, Format::F64, rn), a.sqrt(), "sqrt");
            same(fma(a, b, c, Format::F64, rn), a.mul_add(b, c), "fma");
            let (p, q, r) =
                (f32::from_bits(x as u32), f32::from_bits(y as u32), f32::from_bits(z as u32));
            let (u, v, w) = (f64::from(p), f64::from(q), f64::from(r));
            let same = |soft: u64, host: f32, what: &str| {
                if !host.is_nan() {
                    assert_eq!(soft as u32, host.to_bits(), "{what} {p:e} {q:e} {r:e}");
                }
            };
            same(add(u, v, Format::F32, rn), p + q, "add");
            same(mul(u, v, Format::F32, rn), p * q, "mul");
            same(div(u, v, Format::F32, rn), p / q, "div");
            same(sqrt(u, Format::F32, rn), p.sqrt(), "sqrt");
            same(fma(u, v, w, Format::F32, rn), p.mul_add(q, r), "fma");
        }
    }

    #[test]
    fn directed_roundings_enclose_the_value() {
        let check = |rounding, expected: f64| {
            assert_eq!(div(1.0, 3.0, Format::F64, rounding), expected.to_bits());
        };
        let below = 1.0 / 3.0;
        check(Rounding::Rz, below);
        check(Rounding::Rm, below);
        check(Rounding::Rp, f64::from_bits(below.to_bits() + 1));
        assert_eq!(add(1.0, -1.0, Format::F32, Rounding::Rm), 0x8000_0000);
        assert_eq!(add(1.0, 1e-300, Format::F64, Rounding::Rp), 1.0f64.to_bits() + 1);
        assert_eq!(add(1.0, -1e-300, Format::F64, Rounding::Rz), 1.0f64.to_bits() - 1);
        assert_eq!(from_integer(0x1_0000_0001, Format::F32, Rounding::Rp), 0x4f80_0001);
    }

    #[test]
    fn a_half_tie_is_broken_by_a_small_addend() {
        // 1 + 2^-11 is a tie in f16; the addend decides.
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!(fma_half(tie, 1.0, 2f64.powi(-70), Format::F16), 0x3c01);
        assert_eq!(fma_half(tie, 1.0, 0.0, Format::F16), 0x3c00);
        assert_eq!(fma_half(tie, 1.0, -(2f64.powi(-70)), Format::F16), 0x3c00);
    }
}
