//! `cvt` in all its forms.
//!
//! The pairs that fill real programs have a vector loop each; all others go through
//! [`convert`], which takes every source exactly and rounds once.

use super::file::{Span, lanes_of, map1, wide};
use crate::code::{Mode, Reg, Rounding, Src, Ty};
use crate::number::format::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, f64_to_f32, tf32};
use crate::number::{Format, NAN_F32, canonical, flush, narrow, saturate64, soft, widen};

wide! {
/// Executes `cvt` with one source.
pub(crate) fn cvt(span: Span, to: Ty, from: Ty, mode: Mode, dst: Reg, a: Src) -> bool {
    let plain = !mode.sat && !mode.relu && !mode.ftz;
    let nearest = plain && mode.rounding == Rounding::Rn;
    let toward_zero = plain && matches!(mode.rounding, Rounding::Rzi | Rounding::Rz);
    match (to, from) {
        (Ty::U32 | Ty::S32 | Ty::B32, Ty::U64 | Ty::S64 | Ty::B64) if plain => {
            map1::<u64, u32>(span, dst, a, |a| a as u32);
        }
        (Ty::U64 | Ty::S64 | Ty::B64, Ty::S32) if plain => map1::<i32, i64>(span, dst, a, i64::from),
        (Ty::U64 | Ty::S64 | Ty::B64, Ty::U32 | Ty::B32) if plain => map1::<u32, u64>(span, dst, a, u64::from),
        (Ty::U32 | Ty::S32 | Ty::B32, Ty::U16 | Ty::B16) if plain => map1::<u16, u32>(span, dst, a, u32::from),
        (Ty::U32 | Ty::S32 | Ty::B32, Ty::S16) if plain => map1::<i16, i32>(span, dst, a, i32::from),
        (Ty::U16 | Ty::B16, Ty::U32 | Ty::S32 | Ty::B32) if plain => map1::<u32, u16>(span, dst, a, |a| a as u16),
        (Ty::F32, Ty::S32) if nearest => map1::<i32, f32>(span, dst, a, |a| a as f32),
        (Ty::F32, Ty::U32) if nearest => map1::<u32, f32>(span, dst, a, |a| a as f32),
        (Ty::F64, Ty::S32) if nearest => map1::<i32, f64>(span, dst, a, f64::from),
        (Ty::F64, Ty::U32) if nearest => map1::<u32, f64>(span, dst, a, f64::from),
        (Ty::F64, Ty::F32) if plain => map1::<f32, f64>(span, dst, a, f64::from),
        (Ty::F32, Ty::F64) if nearest => map1::<f64, f32>(span, dst, a, f64_to_f32),
        (Ty::S32, Ty::F32) if toward_zero => map1::<f32, i32>(span, dst, a, |a| a as i32),
        (Ty::U32, Ty::F32) if toward_zero => map1::<f32, u32>(span, dst, a, |a| a as u32),
        (Ty::F32, Ty::F16) if plain => map1::<u16, f32>(span, dst, a, |a| canonical(f16_to_f32(a))),
        (Ty::F32, Ty::Bf16) if plain => map1::<u16, f32>(span, dst, a, bf16_to_f32),
        (Ty::F16, Ty::F32) if nearest => map1::<f32, u16>(span, dst, a, f32_to_f16),
        (Ty::Bf16, Ty::F32) if nearest => map1::<f32, u16>(span, dst, a, f32_to_bf16),
        _ => {
            for lane in lanes_of(span.mask) {
                let Some(bits) = convert(to, from, mode, span.file.get(a, lane)) else { return false };
                span.file.set(dst, lane, bits);
            }
        }
    }
    true
}
}

/// One value. Integers come out extended by their type, for registers wider than it.
pub(crate) fn convert(to: Ty, from: Ty, mode: Mode, bits: u64) -> Option<u128> {
    if let Some(pair) = convert_pair(to, from, mode, bits) {
        return Some(pair.into());
    }
    if !from.float() {
        let value = integer(from, bits);
        if to.float() {
            let format = format_of(to)?;
            let value = if mode.sat { value.clamp(0, 1) } else { value };
            return Some(finish_float(to, soft::from_integer(value, format, mode.rounding), mode));
        }
        return Some(fit(to, value, mode.sat) as u128);
    }
    let (value, nan) = number(from, mode.ftz, bits)?;
    if !to.float() {
        return Some(to_integer(to, from, mode.rounding, value, nan) as u128);
    }
    if nan && to == Ty::Tf32 {
        // Rounding half away from zero is done on the bits alone, and so is keeping the result finite.
        let rounded = match (mode.rounding, mode.sat) {
            (Rounding::Rna, false) => bits as u32 & !0x1fff,
            (Rounding::Rna, true) => (bits as u32 & !0x1fff) - 0x2000,
            _ => NAN_F32 & !0x1fff,
        };
        return Some(rounded.into());
    }
    if nan && from == Ty::F64 && !mode.sat && matches!(to, Ty::F32 | Ty::F16 | Ty::Bf16) {
        return Some(format_of(to)?.quiet(bits).into());
    }
    if nan && !(to == Ty::F64 || mode.sat) {
        return Some(format_of(to).map_or(NAN_F32.into(), |format| format.nan).into());
    }
    let value = integral(value, mode.rounding);
    let value = if mode.relu && value <= 0.0 { 0.0 } else { value };
    if to == Ty::Tf32 {
        return Some(tf32(value as f32, mode.rounding, mode.sat).into());
    }
    let format = format_of(to)?;
    let clamps = matches!(to, Ty::F16 | Ty::Bf16 | Ty::F32 | Ty::F64);
    let value = if mode.sat && clamps { saturate64(value) } else { value };
    if to == Ty::F64 {
        return Some(value.to_bits().into());
    }
    let bits = narrow(value, format, plain_rounding(mode.rounding), mode.sat && !clamps);
    Some(finish_float(to, bits, mode))
}

fn finish_float(to: Ty, bits: u64, mode: Mode) -> u128 {
    if mode.ftz && to == Ty::F32 {
        return flush(f32::from_bits(bits as u32)).to_bits().into();
    }
    bits.into()
}

/// What rounds to an integral value is exact afterwards.
fn plain_rounding(rounding: Rounding) -> Rounding {
    match rounding {
        Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi => Rounding::Rn,
        other => other,
    }
}

pub(crate) fn format_of(ty: Ty) -> Option<Format> {
    Some(match ty {
        Ty::F64 => Format::F64,
        Ty::F32 | Ty::F32x2 => Format::F32,
        Ty::F16 | Ty::F16x2 => Format::F16,
        Ty::Bf16 | Ty::Bf16x2 => Format::BF16,
        Ty::E4m3 | Ty::E4m3x2 => Format::E4M3,
        Ty::E5m2 | Ty::E5m2x2 => Format::E5M2,
        Ty::E2m3x2 => Format::E2M3,
        Ty::E3m2x2 => Format::E3M2,
        Ty::E2m1x2 => Format::E2M1,
        _ => return None,
    })
}

/// An integer of a type.
fn integer(ty: Ty, bits: u64) -> i128 {
    match ty {
        Ty::S8 => (bits as i8).into(),
        Ty::S16 => (bits as i16).into(),
        Ty::S32 => (bits as i32).into(),
        Ty::S64 => (bits as i64).into(),
        other => i128::from(bits) & ((1 << other.bits()) - 1),
    }
}

/// Clamped or truncated to a type, and extended by it.
fn fit(ty: Ty, value: i128, saturating: bool) -> i128 {
    let bits = ty.bits();
    if saturating {
        let (low, high) = range(ty);
        return value.clamp(low, high);
    }
    let kept = value & ((1 << bits) - 1);
    if ty.signed() && kept >> (bits - 1) & 1 == 1 { kept - (1 << bits) } else { kept }
}

fn range(ty: Ty) -> (i128, i128) {
    let bits = ty.bits();
    if ty.signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// A floating source, exact, and whether it is NaN.
fn number(ty: Ty, ftz: bool, bits: u64) -> Option<(f64, bool)> {
    let value = match ty {
        Ty::F64 => f64::from_bits(bits),
        Ty::F32 | Ty::Tf32 => {
            let x = f32::from_bits(bits as u32);
            f64::from(if ftz { flush(x) } else { x })
        }
        Ty::F16 => f16_to_f32(bits as u16).into(),
        Ty::Bf16 => bf16_to_f32(bits as u16).into(),
        Ty::E4m3 | Ty::E5m2 => widen(bits & 0xff, format_of(ty)?),
        _ => return None,
    };
    Some((value, value.is_nan()))
}

fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Rni => value.round_ties_even(),
        Rounding::Rzi => value.trunc(),
        Rounding::Rmi => value.floor(),
        Rounding::Rpi => value.ceil(),
        _ => value,
    }
}

/// Floating to integer always clamps; what NaN becomes depends on the types.
fn to_integer(to: Ty, from: Ty, rounding: Rounding, value: f64, nan: bool) -> i128 {
    if nan {
        let wide = from == Ty::F64 || to.bits() == 64;
        return match (wide, to.signed()) {
            (false, _) => 0,
            (true, true) => range(to).0,
            (true, false) => 1 << (to.bits() - 1),
        };
    }
    let whole = match rounding {
        Rounding::Rn | Rounding::Rni | Rounding::Rna | Rounding::Rs => value.round_ties_even(),
        Rounding::Rz | Rounding::Rzi => value.trunc(),
        Rounding::Rm | Rounding::Rmi => value.floor(),
        Rounding::Rp | Rounding::Rpi => value.ceil(),
    };
    let (low, high) = range(to);
    // i128 holds every f64 below 2^127, and `as` clamps the others.
    (whole as i128).clamp(low, high)
}

/// Element types of a pair, and where its halves lie.
fn pair_bits(ty: Ty) -> Option<u32> {
    match ty {
        Ty::F16x2 | Ty::Bf16x2 | Ty::U16x2 | Ty::S16x2 => Some(16),
        Ty::E4m3x2 | Ty::E5m2x2 | Ty::E2m3x2 | Ty::E3m2x2 => Some(8),
        Ty::S2f6x2 | Ty::Ue8m0x2 => Some(8),
        Ty::E2m1x2 => Some(4),
        _ => None,
    }
}

fn convert_pair(to: Ty, from: Ty, mode: Mode, bits: u64) -> Option<u32> {
    let (out, into) = (pair_bits(from)?, pair_bits(to)?);
    let mask = (1u64 << out) - 1;
    let element = |part: u64| -> u32 {
        let value = element_value(from, part & mask);
        element_bits(to, value, mode)
    };
    Some(element(bits >> out) << into | element(bits))
}

fn element_value(ty: Ty, bits: u64) -> f64 {
    match (ty, format_of(ty)) {
        (Ty::Ue8m0x2, _) if bits == 0xff => f64::NAN,
        (Ty::Ue8m0x2, _) => f64::from_bits((bits + 1023 - 127) << 52),
        (Ty::S2f6x2, _) => f64::from(bits as i8) / 64.0,
        (_, Some(format)) => widen(bits, format),
        _ => f64::NAN,
    }
}

/// `cvt.scaled::n2::ue8m0`: each element of a pair times its power of two, rounded once.
pub(crate) fn scaled_pair(to: Ty, from: Ty, mode: Mode, bits: u64, scales: u64) -> Option<u32> {
    let (out, into) = (pair_bits(from)?, pair_bits(to)?);
    let mask = (1u64 << out) - 1;
    let element = |part: u64, scale: u64| -> u32 {
        let value = element_value(from, part & mask) * element_value(Ty::Ue8m0x2, scale & 0xff);
        element_bits(to, value, mode)
    };
    Some(element(bits >> out, scales >> 8) << into | element(bits, scales))
}

/// One element of a pair.
fn element_bits(ty: Ty, value: f64, mode: Mode) -> u32 {
    let value = if mode.relu && value <= 0.0 { 0.0 } else { value };
    if ty == Ty::Ue8m0x2 {
        return exponent_only(value, mode.rounding);
    }
    let Some(format) = format_of(ty) else { return 0 };
    if value.is_nan() {
        return format.nan as u32;
    }
    let half = matches!(ty, Ty::F16x2 | Ty::Bf16x2);
    narrow(value, format, plain_rounding(mode.rounding), mode.sat || !half) as u32
}

/// UE8M0: the exponent of a positive number.
fn exponent_only(value: f64, rounding: Rounding) -> u32 {
    if value.is_nan() {
        return 0xff;
    }
    let bits = value.abs().to_bits();
    let exponent = (bits >> 52) as i64 - 1023 + 127;
    let up = rounding == Rounding::Rp && bits & ((1 << 52) - 1) != 0;
    (exponent + i64::from(up)).clamp(0, 0xfe) as u32
}

/// `cvt.f16x2.f32` and its like, one lane: `a` into the upper half.
pub(crate) fn pack_pair(to: Ty, mode: Mode, a: f32, b: f32, random: Option<u32>) -> Option<u32> {
    let width = pair_bits(to)?;
    let element = |x: f32, random: Option<u32>| {
        let x = if mode.ftz { flush(x) } else { x };
        match (mode.rounding, random) {
            (Rounding::Rs, Some(random)) => {
                stochastic(to, x, random, if to == Ty::F16x2 { 13 } else { 16 }, mode)
            }
            _ => element_bits(to, x.into(), mode),
        }
    };
    Some(element(a, random.map(|bits| bits >> 16)) << width | element(b, random))
}

/// `cvt.rs` to four elements, the first uppermost. Two elements share 16 random bits, which the first reads in reverse
/// order: so it was found on a B200.
pub(crate) fn pack_four(to: Ty, mode: Mode, values: [f32; 4], random: u32) -> Option<u32> {
    let width = pair_bits(to)?;
    let [low, high] = [random as u16, (random >> 16) as u16];
    let fields = if width == 4 {
        let [[e, a], [f, b]] = [low, high].map(u16::to_le_bytes);
        [u16::from_le_bytes([a, b]), u16::from_le_bytes([e, f])]
    } else {
        [high, low]
    };
    let randoms = fields.into_iter().flat_map(|field| [field.reverse_bits(), field]);
    let elements = values.into_iter().zip(randoms);
    Some(elements.fold(0, |packed, (x, random)| {
        packed << width | stochastic(to, x, random.into(), 16, mode)
    }))
}

/// Adds so many random bits at the top of those that are cut off, then cuts.
fn stochastic(to: Ty, x: f32, random: u32, bits: u32, mode: Mode) -> u32 {
    let Some(format) = format_of(to) else { return 0 };
    let (field, fraction) = ((x.to_bits() >> 23 & 0xff) as i32, x.to_bits() & 0x7f_ffff);
    if !x.is_finite() {
        return element_bits(to, x.into(), mode);
    }
    let significand = if field == 0 { fraction } else { fraction | 1 << 23 };
    let exponent = field.max(1) - 127;
    let last = (exponent - format.fraction as i32).max(format.lowest());
    let shift = last - (exponent - 23);
    let random = u64::from(random) & ((1 << bits) - 1);
    // Far below the last place kept, nothing carries.
    let kept = match u32::try_from(shift) {
        Ok(shift @ 0..40) => (u64::from(significand) + (random << (shift - bits))) >> shift,
        _ => 0,
    };
    let value = (kept as f64 * 2f64.powi(last)).copysign(x.into());
    element_bits(to, value, Mode { rounding: Rounding::Rn, ..mode })
}

/// `cvt.pack.sat`, one lane.
pub(crate) fn pack_integers(to: Ty, from: Ty, a: u64, b: u64, c: Option<u64>) -> u32 {
    let bits = to.bits();
    let mask = (1u64 << bits) - 1;
    let part = |value: u64| fit(to, integer(from, value), true) as u64 & mask;
    let low = part(a) << bits | part(b);
    let above = c.map_or(0, |c| c << (2 * bits).min(63));
    (low | above) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(to: Ty, from: Ty, rounding: Rounding, sat: bool, bits: u64, expected: u128) {
        let mode = Mode { rounding, sat, ..Mode::default() };
        let width =
            if to.bits() == 64 { u64::MAX.into() } else { (1u128 << to.bits().max(32)) - 1 };
        let got = convert(to, from, mode, bits).unwrap() & width;
        assert_eq!(got, expected, "{to:?} from {from:?} {bits:#x}");
    }

    #[test]
    fn floats_to_integers_clamp() {
        use Rounding::*;
        let f = |x: f32| u64::from(x.to_bits());
        check(Ty::S32, Ty::F32, Rzi, false, f(-1.9), 0xffff_ffff);
        check(Ty::S32, Ty::F32, Rmi, false, f(-1.1), 0xffff_fffe);
        check(Ty::S32, Ty::F32, Rni, false, f(2.5), 2);
        check(Ty::S32, Ty::F32, Rzi, false, f(1e20), 0x7fff_ffff);
        check(Ty::U32, Ty::F32, Rzi, false, f(-5.0), 0);
        check(Ty::S8, Ty::F32, Rzi, false, f(300.0), 127);
        check(Ty::S8, Ty::F32, Rzi, false, f(-300.0), 0xffff_ff80);
        check(Ty::S32, Ty::F32, Rzi, false, f(f32::NAN), 0);
        check(Ty::S64, Ty::F32, Rzi, false, f(f32::NAN), 1 << 63);
        check(Ty::S32, Ty::F64, Rzi, false, f64::NAN.to_bits(), 1 << 31);
        check(Ty::U64, Ty::F32, Rpi, false, f(1.5), 2);
    }

    #[test]
    fn integers_clamp_only_when_told() {
        use Rounding::Rn;
        check(Ty::U8, Ty::S32, Rn, false, 0x1ff, 0xff);
        check(Ty::U8, Ty::S32, Rn, true, 0x1ff, 0xff);
        check(Ty::U8, Ty::S32, Rn, true, 0xffff_ffff, 0);
        check(Ty::S8, Ty::S32, Rn, false, 0x80, 0xffff_ff80);
        check(Ty::S16, Ty::U32, Rn, true, 0xffff_ffff, 0x7fff);
        check(Ty::F32, Ty::U64, Rn, false, u64::MAX, 0x5f80_0000);
        check(Ty::F32, Ty::U64, Rounding::Rz, false, u64::MAX, 0x5f7f_ffff);
    }

    #[test]
    fn random_bits_carry_into_the_last_place_kept() {
        let mode = Mode { rounding: Rounding::Rs, sat: true, ..Mode::default() };
        // Half a step above one: the carry comes with the uppermost random bit, which is the lowest for the first of two.
        let check = |to, random, expected| {
            assert_eq!(pack_four(to, mode, [1.0625; 4], random), Some(expected), "{random:08x}");
        };
        check(Ty::E4m3x2, 0, 0x3838_3838);
        check(Ty::E4m3x2, 0x0001_8000, 0x3938_3839);
        check(Ty::E4m3x2, 0x8000_0001, 0x3839_3938);
        let check = |values, random, expected| {
            assert_eq!(pack_four(Ty::E2m1x2, mode, values, random), Some(expected), "{random:08x}");
        };
        check([1.25; 4], 0x8000_0100, 0x3322);
        check([1.25; 4], 0x0080_0001, 0x2233);
        check([f32::NAN, -9.0, 0.0, -0.0], u32::MAX, 0x7f08);
        assert_eq!(pack_pair(Ty::Bf16x2, mode, 1.0, f32::MAX, Some(0xffff)), Some(0x3f80_7f7f));
        let tie = f32::from_bits(0x3f80_8000);
        assert_eq!(pack_pair(Ty::Bf16x2, mode, tie, tie, Some(0x7fff_8000)), Some(0x3f80_3f81));
    }

    #[test]
    fn small_formats() {
        assert_eq!(pack_pair(Ty::F16x2, Mode::default(), 1.0, -2.0, None), Some(0x3c00_c000));
        assert_eq!(pack_pair(Ty::E4m3x2, Mode::default(), 448.0, 1000.0, None), Some(0x7e7e));
        let relu = Mode { relu: true, ..Mode::default() };
        assert_eq!(pack_pair(Ty::Bf16x2, relu, -1.0, 1.0, None), Some(0x3f80));
        check(Ty::F16x2, Ty::E4m3x2, Rounding::Rn, false, 0x7e01, 0x5f00_1800);
        assert_eq!(
            pack_integers(Ty::U8, Ty::S32, 300, (-1i32) as u32 as u64, Some(0x1234)),
            0x1234_ff00
        );
    }
}
