//! Constants as bits.

use crate::code::Ty;
use apex_ptx::tree::Constant;

/// The bits of a constant as an operand of the type, zero-extended.
pub(super) fn constant_bits(constant: Constant, ty: Ty) -> u64 {
    let value = match constant {
        Constant::Integer { bits, .. } => match ty.bits() {
            1 => u64::from(bits != 0),
            64 | 128 => bits,
            width => bits & ((1 << width) - 1),
        },
        Constant::Float32(bits) => match ty {
            Ty::F64 => f64::from(f32::from_bits(bits)).to_bits(),
            Ty::F16 | Ty::Bf16 => small_float(f64::from(f32::from_bits(bits)), ty),
            _ => u64::from(bits),
        },
        Constant::Float64(bits) => match ty {
            Ty::F32 | Ty::Tf32 | Ty::B32 => u64::from((f64::from_bits(bits) as f32).to_bits()),
            Ty::F16 | Ty::Bf16 => small_float(f64::from_bits(bits), ty),
            _ => bits,
        },
    };
    if ty.bits() == 16 { value & 0xFFFF } else { value }
}

/// Rounds to nearest even in `f16` or `bf16`.
fn small_float(value: f64, ty: Ty) -> u64 {
    let (fraction, bias, largest) = if ty == Ty::F16 { (10, 15, 31) } else { (7, 127, 255) };
    let sign = u64::from(value.is_sign_negative()) << 15;
    let magnitude = value.abs();
    if magnitude.is_nan() {
        return (largest << fraction) | (1 << (fraction - 1));
    }
    let exponent = ((magnitude.to_bits() >> 52) as i64 - 1023).max(1 - bias);
    // The power of two of the last kept bit; scaling by it is exact.
    let scaled = magnitude * 2_f64.powi((fraction - exponent) as i32);
    let units = scaled.round_ties_even() as u64;
    let biased = (exponent + bias - 1).cast_unsigned();
    let bits = (biased << fraction).saturating_add(units);
    sign | if magnitude == 0.0 { 0 } else { bits.min(largest << fraction) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_take_the_bits_of_their_operand() {
        let check = |constant, ty, expected| assert_eq!(constant_bits(constant, ty), expected);
        check(Constant::signed(-1), Ty::S32, 0xFFFF_FFFF);
        check(Constant::signed(-1), Ty::U64, u64::MAX);
        check(Constant::signed(-2), Ty::Pred, 1);
        check(Constant::Float64(1.5_f64.to_bits()), Ty::F32, 0x3FC0_0000);
        check(Constant::Float32(0x3F80_0000), Ty::F64, 1_f64.to_bits());
        check(Constant::Float64(1_f64.to_bits()), Ty::F16, 0x3C00);
        check(Constant::Float64((-2_f64).to_bits()), Ty::Bf16, 0xC000);
        check(Constant::Float64(65504_f64.to_bits()), Ty::F16, 0x7BFF);
        check(Constant::Float64(1e9_f64.to_bits()), Ty::F16, 0x7C00);
        check(Constant::Float64(2_f64.powi(-24).to_bits()), Ty::F16, 1);
        check(Constant::Float64(0), Ty::F16, 0);
    }
}
