//! Half-precision numbers as model files keep them.
//!
//! Rounded to the nearest, ties to even, as every other writer of such files does.

/// The value of a half-precision number.
#[inline]
#[must_use]
pub(crate) fn to_f32(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10) & 0x1f;
    let fraction = u32::from(half & 0x3ff);
    match (exponent, fraction) {
        // A subnormal is a multiple of 2^-24, exact in single precision.
        (0, _) => f32::from_bits(sign | (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits()),
        (31, _) => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// The half-precision number nearest to a value; too large a value becomes infinite.
#[must_use]
pub(crate) fn from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    // 65,520 is the first value that rounds to infinity.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    // Below 2^-14 halves are multiples of 2^-24: adding one half rounds the fraction to such a multiple.
    if magnitude < 0x3880_0000 {
        let shifted = f32::from_bits(magnitude) + 0.5;
        return sign | (shifted.to_bits() - 0x3f00_0000) as u16;
    }
    let rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    sign | ((rounded - (112 << 23)) >> 13) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for half in 0..=u16::MAX {
            let value = to_f32(half);
            if value.is_nan() {
                assert!(to_f32(from_f32(value)).is_nan());
            } else {
                assert_eq!(from_f32(value), half, "{value}");
            }
        }
    }

    #[test]
    fn ties_go_to_even() {
        for (value, expected) in [
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (65_519.0, 0x7bff),
            (65_520.0, 0x7c00),
            (2.0_f32.powi(-25), 0x0000),
            (3.0 * 2.0_f32.powi(-25), 0x0002),
            (-2.0_f32.powi(-24), 0x8001),
        ] {
            assert_eq!(from_f32(value), expected, "{value}");
        }
    }
}
