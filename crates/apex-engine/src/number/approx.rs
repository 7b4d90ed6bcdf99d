//! The `.approx` functions: computed in f64 and rounded to f32.
//!
//! That is nearer to the true value than the ISA's bounds ask for, and so not bit-equal
//! to hardware. Special values follow the ISA's tables; they fall out of f64's own rules
//! except where a function here says otherwise.

use super::{canonical, flush};

fn through(x: f32, ftz: bool, f: impl Fn(f64) -> f64) -> f32 {
    let x = if ftz { flush(x) } else { x };
    let result = canonical(f(f64::from(x)) as f32);
    if ftz { flush(result) } else { result }
}

/// `rcp.approx`.
pub(crate) fn rcp(x: f32, ftz: bool) -> f32 {
    through(x, ftz, |x| 1.0 / x)
}

/// `sqrt.approx`.
pub(crate) fn sqrt(x: f32, ftz: bool) -> f32 {
    through(x, ftz, f64::sqrt)
}

/// `rsqrt.approx`.
pub(crate) fn rsqrt(x: f32, ftz: bool) -> f32 {
    through(x, ftz, |x| 1.0 / x.sqrt())
}

/// `sin.approx`.
pub(crate) fn sin(x: f32, ftz: bool) -> f32 {
    through(x, ftz, f64::sin)
}

/// `cos.approx`.
pub(crate) fn cos(x: f32, ftz: bool) -> f32 {
    through(x, ftz, f64::cos)
}

/// `lg2.approx`.
pub(crate) fn lg2(x: f32, ftz: bool) -> f32 {
    through(x, ftz, |x| if x == 0.0 { f64::NEG_INFINITY } else { x.log2() })
}

/// `ex2.approx`.
pub(crate) fn ex2(x: f32, ftz: bool) -> f32 {
    through(x, ftz, f64::exp2)
}

/// `tanh.approx`.
pub(crate) fn tanh(x: f32) -> f32 {
    through(x, false, f64::tanh)
}

/// `div.approx`: a divisor between 2^126 and 2^128 gives 0, as the ISA says.
pub(crate) fn div(a: f32, b: f32, ftz: bool) -> f32 {
    let (a, b) = if ftz { (flush(a), flush(b)) } else { (a, b) };
    let size = b.abs();
    let result = if size > f32::from_bits(253 << 23) && size.is_finite() {
        if a.is_infinite() || a.is_nan() {
            f32::NAN
        } else {
            f32::from_bits((a.to_bits() ^ b.to_bits()) & 0x8000_0000)
        }
    } else {
        a / b
    };
    let result = canonical(result);
    if ftz { flush(result) } else { result }
}

/// `div.full`: no such hole.
pub(crate) fn div_full(a: f32, b: f32, ftz: bool) -> f32 {
    let (a, b) = if ftz { (flush(a), flush(b)) } else { (a, b) };
    let result = canonical(a / b);
    if ftz { flush(result) } else { result }
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: only the upper half of the result counts.
pub(crate) fn upper(x: f64) -> f64 {
    let bits = x.to_bits();
    if bits & 0x7ff0_0000_0000_0000 == 0 {
        return f64::from_bits(bits & 1 << 63);
    }
    f64::from_bits(bits & 0xffff_ffff_0000_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_values_follow_the_tables() {
        let inf = f32::INFINITY;
        let check = |got: f32, expected: f32| {
            if expected.is_nan() {
                assert_eq!(got.to_bits(), super::super::NAN_F32);
            } else {
                assert_eq!(got.to_bits(), expected.to_bits());
            }
        };
        check(rcp(-0.0, false), -inf);
        check(rcp(-inf, false), -0.0);
        check(rcp(f32::from_bits(1), true), inf);
        check(rsqrt(-0.0, false), -inf);
        check(rsqrt(-1.0, false), f32::NAN);
        check(sqrt(-0.0, false), -0.0);
        check(sin(inf, false), f32::NAN);
        check(sin(-0.0, false), -0.0);
        check(cos(f32::from_bits(1), true), 1.0);
        check(lg2(-0.0, false), -inf);
        check(lg2(-1.0, false), f32::NAN);
        check(ex2(-inf, false), 0.0);
        check(ex2(f32::from_bits(0x8000_0001), true), 1.0);
        check(tanh(-inf), -1.0);
        check(div(1.0, f32::from_bits(0x7f00_0000), false), 0.0);
        check(div(inf, f32::MAX, false), f32::NAN);
        check(div_full(8.0, -2.0, false), -4.0);
    }
}
