//! Binary formats narrower than f64, and the one function that rounds into them.
//!
//! Every rounding of every format goes through [`pack`]: it takes an exact value, or one
//! whose lowest bit says "and something more" (jammed), so no result is rounded twice.

use crate::code::Rounding;

/// What a format does with its highest exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Top {
    /// Infinities and NaNs.
    Ieee,
    /// Numbers, but all ones is NaN (E4M3).
    NanOnly,
    /// Numbers only (the 6- and 4-bit formats).
    Numbers,
}

/// A binary floating format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// Stored fraction bits.
    pub(crate) fraction: u32,
    /// Exponent bits.
    pub(crate) exponent: u32,
    /// The use of the highest exponent.
    pub(crate) top: Top,
    /// Bits a NaN becomes.
    pub(crate) nan: u64,
}

impl Format {
    pub(crate) const F64: Format =
        Format { fraction: 52, exponent: 11, top: Top::Ieee, nan: 0x7fff_ffff_ffff_ffff };
    pub(crate) const F32: Format =
        Format { fraction: 23, exponent: 8, top: Top::Ieee, nan: 0x7fff_ffff };
    /// Stored in the upper bits of an f32; see [`tf32`].
    pub(crate) const TF32: Format =
        Format { fraction: 10, exponent: 8, top: Top::Ieee, nan: 0x3_ffff };
    pub(crate) const F16: Format =
        Format { fraction: 10, exponent: 5, top: Top::Ieee, nan: 0x7fff };
    pub(crate) const BF16: Format =
        Format { fraction: 7, exponent: 8, top: Top::Ieee, nan: 0x7fff };
    pub(crate) const E4M3: Format =
        Format { fraction: 3, exponent: 4, top: Top::NanOnly, nan: 0x7f };
    pub(crate) const E5M2: Format = Format { fraction: 2, exponent: 5, top: Top::Ieee, nan: 0x7f };
    pub(crate) const E2M3: Format =
        Format { fraction: 3, exponent: 2, top: Top::Numbers, nan: 0x1f };
    pub(crate) const E3M2: Format =
        Format { fraction: 2, exponent: 3, top: Top::Numbers, nan: 0x1f };
    pub(crate) const E2M1: Format =
        Format { fraction: 1, exponent: 2, top: Top::Numbers, nan: 0x7 };

    /// Exponent bias.
    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Power of two of the lowest bit of a subnormal.
    pub(crate) const fn lowest(self) -> i32 {
        1 - self.bias() - self.fraction as i32
    }

    /// Bits of the largest finite number.
    pub(crate) const fn largest(self) -> u64 {
        let all = (1u64 << (self.exponent + self.fraction)) - 1;
        match self.top {
            Top::Ieee => (((1u64 << self.exponent) - 1) << self.fraction) - 1,
            Top::NanOnly => all - 1,
            Top::Numbers => all,
        }
    }

    /// Bits of infinity, where the format has it.
    const fn infinity(self) -> u64 {
        ((1u64 << self.exponent) - 1) << self.fraction
    }

    /// The sign bit.
    pub(crate) const fn sign(self) -> u64 {
        1 << (self.exponent + self.fraction)
    }

    /// The NaN an f64's NaN becomes: quiet, with its sign and the upper bits of its payload.
    pub(crate) const fn quiet(self, bits: u64) -> u64 {
        let sign = if bits >> 63 == 1 { self.sign() } else { 0 };
        let payload = (bits & ((1 << 52) - 1)) >> (52 - self.fraction);
        sign | self.infinity() | 1 << (self.fraction - 1) | payload
    }

    /// Bits after an overflow.
    fn overflow(self, negative: bool, rounding: Rounding, saturating: bool) -> u64 {
        let to_largest = match rounding {
            Rounding::Rz | Rounding::Rzi => true,
            Rounding::Rm | Rounding::Rmi => !negative,
            Rounding::Rp | Rounding::Rpi => negative,
            _ => false,
        };
        if saturating || to_largest {
            return self.largest();
        }
        match self.top {
            Top::Ieee => self.infinity(),
            Top::NanOnly => self.nan,
            Top::Numbers => self.largest(),
        }
    }
}

/// Rounds `mantissa * 2^exponent` into a format. Bit 0 of the mantissa may be jammed as long
/// as at least two bits below the result's last are kept.
pub(crate) fn pack(
    format: Format,
    negative: bool,
    mantissa: u128,
    exponent: i32,
    rounding: Rounding,
    saturating: bool,
) -> u64 {
    let sign = if negative { format.sign() } else { 0 };
    if mantissa == 0 {
        return sign;
    }
    let top = 127 - mantissa.leading_zeros() as i32 + exponent;
    let last = (top - format.fraction as i32).max(format.lowest());
    let shift = last - exponent;
    let kept = if shift <= 0 {
        // A value this far above its format overflows whatever its bits are.
        if -shift > 63 {
            return sign | format.overflow(negative, rounding, saturating);
        }
        (mantissa << -shift) as u64
    } else if shift > 127 {
        u64::from(round_up(rounding, negative, false, false, true))
    } else {
        let kept = (mantissa >> shift) as u64;
        let half = mantissa >> (shift - 1) & 1 == 1;
        let below = mantissa & ((1u128 << (shift - 1)) - 1) != 0;
        kept + u64::from(round_up(rounding, negative, kept & 1 == 1, half, below))
    };
    let steps = (last - format.lowest()) as u64;
    if steps > 1 << format.exponent {
        return sign | format.overflow(negative, rounding, saturating);
    }
    // The hidden bit adds one to the exponent field.
    let bits = (steps << format.fraction) + kept;
    if bits > format.largest() {
        return sign | format.overflow(negative, rounding, saturating);
    }
    sign | bits
}

/// Whether the value kept so far goes one up in magnitude.
pub(crate) fn round_up(
    rounding: Rounding,
    negative: bool,
    odd: bool,
    half: bool,
    below: bool,
) -> bool {
    match rounding {
        Rounding::Rn | Rounding::Rni | Rounding::Rs => half && (below || odd),
        Rounding::Rna => half,
        Rounding::Rz | Rounding::Rzi => false,
        Rounding::Rm | Rounding::Rmi => negative && (half || below),
        Rounding::Rp | Rounding::Rpi => !negative && (half || below),
    }
}

/// An f64 rounded into a format.
pub(crate) fn narrow(x: f64, format: Format, rounding: Rounding, saturating: bool) -> u64 {
    let bits = x.to_bits();
    let negative = bits >> 63 == 1;
    let sign = if negative { format.sign() } else { 0 };
    if x.is_nan() {
        return format.nan;
    }
    if x.is_infinite() {
        return sign
            | match format.top {
                Top::Ieee if !saturating => format.infinity(),
                _ => format.largest(),
            };
    }
    let (mantissa, exponent) = split(bits);
    pack(format, negative, u128::from(mantissa), exponent, rounding, saturating)
}

/// Mantissa and exponent of a finite f64: its magnitude is `mantissa * 2^exponent`.
pub(crate) fn split(bits: u64) -> (u64, i32) {
    let field = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) }
}

/// The number that bits of a format stand for.
#[inline(always)]
pub(crate) fn widen(bits: u64, format: Format) -> f64 {
    let negative = bits & format.sign() != 0;
    let magnitude = bits & (format.sign() - 1);
    let fraction = magnitude & ((1 << format.fraction) - 1);
    let field = magnitude >> format.fraction;
    let value = if format.top == Top::Ieee && magnitude >= format.infinity() {
        if fraction == 0 { f64::INFINITY } else { f64::NAN }
    } else if format.top == Top::NanOnly && magnitude == format.nan {
        f64::NAN
    } else if field == 0 {
        fraction as f64 * power(format.lowest())
    } else {
        let exponent = field as i32 - format.bias() + 1023;
        f64::from_bits((exponent as u64) << 52 | fraction << (52 - format.fraction))
    };
    if negative { -value } else { value }
}

/// 2 to a power that is a normal f64.
#[inline(always)]
const fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// An f32 with the precision of tf32; the low 13 bits are zero.
pub(crate) fn tf32(x: f32, rounding: Rounding, saturating: bool) -> u32 {
    if x.is_nan() {
        return super::NAN_F32;
    }
    (narrow(f64::from(x), Format::TF32, rounding, saturating) as u32) << 13
}

/// f32 to f16, to nearest even: the commonest narrowing, without the general way.
#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0x7fff;
    }
    if magnitude >= 0x4780_0000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Subnormal: adding 0.5 puts the last place of the f16 at the last place of the sum.
        let shifted = f32::from_bits(magnitude) + 0.5;
        return sign | (shifted.to_bits() - 0.5f32.to_bits()) as u16;
    }
    let odd = magnitude >> 13 & 1;
    sign | ((magnitude - (112 << 23) + 0xfff + odd) >> 13) as u16
}

/// f16 to f32, exact.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let value = if magnitude >= 0x7c00 {
        magnitude << 13 | 0x7f80_0000
    } else {
        // Scaling by 2^112 moves the exponent and turns subnormals into normals.
        (f32::from_bits(magnitude << 13) * f32::from_bits((112 + 127) << 23)).to_bits()
    };
    f32::from_bits(sign | value)
}

/// bf16 to f32, exact.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// f64 to f32, to nearest even.
#[inline(always)]
pub(crate) fn f64_to_f32(x: f64) -> f32 {
    if x.is_nan() { f32::from_bits(Format::F32.quiet(x.to_bits()) as u32) } else { x as f32 }
}

/// f32 to bf16, to nearest even.
#[inline(always)]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return 0x7fff;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_survives() {
        for bits in 0..=u16::MAX {
            let wide = f16_to_f32(bits);
            let general = widen(bits.into(), Format::F16);
            assert_eq!(wide.is_nan(), general.is_nan());
            if wide.is_nan() {
                continue;
            }
            assert_eq!(f64::from(wide).to_bits(), general.to_bits());
            assert_eq!(f32_to_f16(wide), bits);
            assert_eq!(narrow(f64::from(wide), Format::F16, Rounding::Rn, false) as u16, bits);
        }
    }

    #[test]
    fn the_short_way_to_f16_and_bf16_rounds_as_the_general_one() {
        let mut state = 1u32;
        for _ in 0..200_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for bits in [state, state >> 3 | 0x3800_0000, (state & 0x007f_ffff) | 0x3300_0000] {
                let x = f32::from_bits(bits);
                let wide = f64::from(x);
                assert_eq!(
                    u64::from(f32_to_f16(x)),
                    narrow(wide, Format::F16, Rounding::Rn, false)
                );
                assert_eq!(
                    u64::from(f32_to_bf16(x)),
                    narrow(wide, Format::BF16, Rounding::Rn, false)
                );
                if !x.is_nan() {
                    assert_eq!(u64::from(bits), narrow(wide, Format::F32, Rounding::Rz, false));
                }
            }
        }
    }

    #[test]
    fn small_formats_saturate_and_round() {
        let check = |x: f64, format, expected: u64| {
            assert_eq!(narrow(x, format, Rounding::Rn, true), expected, "{x} {format:?}");
        };
        check(448.0, Format::E4M3, 0x7e);
        check(1e9, Format::E4M3, 0x7e);
        check(-1e9, Format::E4M3, 0xfe);
        check(f64::NAN, Format::E4M3, 0x7f);
        check(1e9, Format::E5M2, 0x7b);
        check(0.001953125, Format::E4M3, 1);
        check(6.0, Format::E2M1, 7);
        check(100.0, Format::E2M3, 0x1f);
        check(2.5, Format::E2M1, 4);
        check(3.5, Format::E2M1, 6);
        assert_eq!(narrow(1e9, Format::E5M2, Rounding::Rn, false), 0x7c);
    }

    #[test]
    fn directed_roundings_of_overflow() {
        let check = |x: f64, rounding, expected: u32| {
            assert_eq!(narrow(x, Format::F32, rounding, false), u64::from(expected));
        };
        check(1e40, Rounding::Rz, f32::MAX.to_bits());
        check(1e40, Rounding::Rp, f32::INFINITY.to_bits());
        check(-1e40, Rounding::Rp, f32::MIN.to_bits());
        check(-1e40, Rounding::Rm, f32::NEG_INFINITY.to_bits());
        check(1e-50, Rounding::Rp, 1);
        check(1e-50, Rounding::Rn, 0);
        check(-1e-300, Rounding::Rm, 0x8000_0001);
    }

    #[test]
    fn tf32_keeps_ten_bits() {
        assert_eq!(tf32(1.0, Rounding::Rn, false), 1.0f32.to_bits());
        assert_eq!(tf32(f32::from_bits(0x3f80_1000), Rounding::Rna, false), 0x3f80_2000);
        assert_eq!(tf32(f32::from_bits(0x3f80_1000), Rounding::Rn, false), 0x3f80_0000);
    }
}
