//! Comparisons, selections and predicates.

use super::file::{Cell, Lane, Scratch, Span, lanes_of, map3, wide};
use super::half::Half;
use crate::code::{Compare, FloatTest, Guard, Join, LANES, Reg, Src, Ty};
use crate::number::flush;

/// What two values can be to each other.
fn holds(compare: Compare, order: Option<std::cmp::Ordering>) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match compare {
        Compare::Eq => order == Some(Equal),
        Compare::Ne => matches!(order, Some(Less | Greater)),
        Compare::Lt => order == Some(Less),
        Compare::Le => matches!(order, Some(Less | Equal)),
        Compare::Gt => order == Some(Greater),
        Compare::Ge => matches!(order, Some(Greater | Equal)),
        Compare::Equ => matches!(order, None | Some(Equal)),
        Compare::Neu => order != Some(Equal),
        Compare::Ltu => matches!(order, None | Some(Less)),
        Compare::Leu => order != Some(Greater),
        Compare::Gtu => matches!(order, None | Some(Greater)),
        Compare::Geu => order != Some(Less),
        Compare::Num => order.is_some(),
        Compare::Nan => order.is_none(),
    }
}

/// The lanes for which `f` holds, as bits.
#[inline(always)]
fn bits2<T: Lane>(span: Span, a: Src, b: Src, f: impl Fn(T, T) -> bool) -> u32 {
    let (mut x, mut y) = (Scratch::new(), Scratch::new());
    let a = span.file.cells::<T::Cell>(a, &mut x);
    let b = span.file.cells::<T::Cell>(b, &mut y);
    let mut flags = [0u8; LANES];
    for lane in 0..LANES {
        flags[lane] = u8::from(f(T::load(a[lane]), T::load(b[lane])));
    }
    // Eight flags at a time: the product gathers their bits in the top byte.
    let mut bits = 0;
    for (group, eight) in flags.chunks_exact(8).enumerate() {
        let mut bytes = [0u8; 8];
        bytes.copy_from_slice(eight);
        let gathered = u64::from_le_bytes(bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= (gathered as u32) << (8 * group);
    }
    bits
}

#[inline(always)]
#[allow(clippy::double_comparisons, reason = "unlike `!=`, false where one is NaN")]
fn compared<T: Lane + PartialOrd>(span: Span, compare: Compare, a: Src, b: Src) -> u32 {
    match compare {
        Compare::Eq => bits2::<T>(span, a, b, |a, b| a == b),
        Compare::Ne => bits2::<T>(span, a, b, |a, b| a < b || a > b),
        Compare::Lt => bits2::<T>(span, a, b, |a, b| a < b),
        Compare::Le => bits2::<T>(span, a, b, |a, b| a <= b),
        Compare::Gt => bits2::<T>(span, a, b, |a, b| a > b),
        Compare::Ge => bits2::<T>(span, a, b, |a, b| a >= b),
        // The unordered ones are the contrary of the ordered ones.
        Compare::Equ => !bits2::<T>(span, a, b, |a, b| a < b || a > b),
        Compare::Neu => bits2::<T>(span, a, b, |a, b| a != b),
        Compare::Ltu => !bits2::<T>(span, a, b, |a, b| a >= b),
        Compare::Leu => !bits2::<T>(span, a, b, |a, b| a > b),
        Compare::Gtu => !bits2::<T>(span, a, b, |a, b| a <= b),
        Compare::Geu => !bits2::<T>(span, a, b, |a, b| a < b),
        Compare::Num => bits2::<T>(span, a, b, |a, b| a.partial_cmp(&b).is_some()),
        Compare::Nan => bits2::<T>(span, a, b, |a, b| a.partial_cmp(&b).is_none()),
    }
}

fn half_holds(half: Half, compare: Compare, ftz: bool, a: u16, b: u16) -> bool {
    let value = |bits: u16| {
        let x = half.value(bits);
        if ftz && x != 0.0 && x.abs() < 6.103_515_6e-5 && half.format().exponent == 5 {
            0.0
        } else {
            x
        }
    };
    holds(compare, value(a).partial_cmp(&value(b)))
}

wide! {
fn scalar(span: Span, compare: Compare, ty: Ty, ftz: bool, a: Src, b: Src, out: &mut u32) -> bool {
    *out = match ty {
        Ty::U16 | Ty::B16 | Ty::U8 | Ty::B8 => compared::<u16>(span, compare, a, b),
        Ty::S16 | Ty::S8 => compared::<i16>(span, compare, a, b),
        Ty::U32 | Ty::B32 => compared::<u32>(span, compare, a, b),
        Ty::S32 => compared::<i32>(span, compare, a, b),
        Ty::U64 | Ty::B64 => compared::<u64>(span, compare, a, b),
        Ty::S64 => compared::<i64>(span, compare, a, b),
        Ty::B128 => compared::<u128>(span, compare, a, b),
        Ty::F32 if ftz => bits2::<f32>(span, a, b, |a, b| holds(compare, flush(a).partial_cmp(&flush(b)))),
        Ty::F32 => compared::<f32>(span, compare, a, b),
        Ty::F64 => compared::<f64>(span, compare, a, b),
        _ => return false,
    };
    true
}
}

/// The results of a comparison: of the value or low halves, and of the high halves.
fn compare_lanes(
    span: Span,
    compare: Compare,
    ty: Ty,
    ftz: bool,
    a: Src,
    b: Src,
) -> Option<(u32, Option<u32>)> {
    if let Some((half, packed)) = Half::of(ty) {
        let (mut low, mut high) = (0, 0);
        for lane in lanes_of(span.mask) {
            let (x, y) = (span.file.get(a, lane) as u32, span.file.get(b, lane) as u32);
            low |= u32::from(half_holds(half, compare, ftz, x as u16, y as u16)) << lane;
            if packed {
                let (x, y) = ((x >> 16) as u16, (y >> 16) as u16);
                high |= u32::from(half_holds(half, compare, ftz, x, y)) << lane;
            }
        }
        return Some((low, packed.then_some(high)));
    }
    let mut bits = 0;
    scalar(span, compare, ty, ftz, a, b, &mut bits).then_some((bits, None))
}

fn joined(span: Span, bits: u32, join: Option<(Join, Guard)>) -> u32 {
    match join {
        None => bits,
        Some((Join::And, guard)) => bits & span.file.guard(guard),
        Some((Join::Or, guard)) => bits | span.file.guard(guard),
        Some((Join::Xor, guard)) => bits ^ span.file.guard(guard),
    }
}

/// `setp`.
#[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
pub(crate) fn setp(
    span: Span,
    compare: Compare,
    ty: Ty,
    ftz: bool,
    dst: Option<Reg>,
    not_dst: Option<Reg>,
    a: Src,
    b: Src,
    join: Option<(Join, Guard)>,
) -> bool {
    let Some((bits, high)) = compare_lanes(span, compare, ty, ftz, a, b) else { return false };
    let first = joined(span, bits, join);
    let second = joined(span, high.unwrap_or(!bits), join);
    if let Some(dst) = dst {
        span.file.set_predicate(dst, span.mask, first);
    }
    if let Some(dst) = not_dst {
        span.file.set_predicate(dst, span.mask, second);
    }
    true
}

/// `set`.
#[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
pub(crate) fn set(
    span: Span,
    compare: Compare,
    ty: Ty,
    to: Ty,
    ftz: bool,
    dst: Reg,
    a: Src,
    b: Src,
    join: Option<(Join, Guard)>,
) -> bool {
    let Some((bits, high)) = compare_lanes(span, compare, ty, ftz, a, b) else { return false };
    let first = joined(span, bits, join);
    let second = high.map(|high| joined(span, high, join));
    let yes: u64 = match to {
        Ty::F32 => 1.0f32.to_bits().into(),
        Ty::F64 => 1.0f64.to_bits(),
        Ty::F16 | Ty::F16x2 => 0x3c00,
        Ty::Bf16 | Ty::Bf16x2 => 0x3f80,
        _ if second.is_some() => 0xffff,
        other => u64::MAX >> (64 - other.bits()),
    };
    for lane in lanes_of(span.mask) {
        let low = if first >> lane & 1 == 1 { yes } else { 0 };
        let high = second.map_or(0, |second| if second >> lane & 1 == 1 { yes << 16 } else { 0 });
        span.file.set(dst, lane, (low | high).into());
    }
    true
}

wide! {
/// `selp`.
pub(crate) fn select(span: Span, ty: Ty, dst: Reg, a: Src, b: Src, predicate: Guard) -> bool {
    let bits = span.file.guard(predicate);
    match ty.bits() {
        1 => {
            let (x, y) = (predicate_of(span, a), predicate_of(span, b));
            span.file.set_predicate(dst, span.mask, x & bits | y & !bits);
        }
        64 => choose::<u64>(span, dst, a, b, bits),
        128 => choose::<u128>(span, dst, a, b, bits),
        _ => choose::<u32>(span, dst, a, b, bits),
    }
    true
}
}

fn predicate_of(span: Span, src: Src) -> u32 {
    match src {
        Src::Reg(register) => span.file.predicate(register),
        Src::Imm(0) => 0,
        Src::Imm(_) => u32::MAX,
    }
}

#[inline(always)]
fn choose<T: Lane<Cell = T> + Cell>(span: Span, dst: Reg, a: Src, b: Src, bits: u32) {
    let (mut x, mut y) = (Scratch::new(), Scratch::new());
    let a = span.file.cells::<T>(a, &mut x);
    let b = span.file.cells::<T>(b, &mut y);
    let mut out = *b;
    for lane in 0..LANES {
        out[lane] = if bits & 1 << lane != 0 { a[lane] } else { b[lane] };
    }
    span.file.put(dst, span.mask, &out);
}

wide! {
/// `slct`: `a` where `c` is not negative; NaN is.
pub(crate) fn slct(span: Span, ty: Ty, by: Ty, ftz: bool, dst: Reg, a: Src, b: Src, c: Src) -> bool {
    macro_rules! widths {
        ($third:ty, $test:expr) => {
            match ty.bits() {
                64 => map3::<u64, u64, $third, u64>(span, dst, a, b, c, |a, b, c| if $test(c) { a } else { b }),
                16 => map3::<u16, u16, $third, u16>(span, dst, a, b, c, |a, b, c| if $test(c) { a } else { b }),
                32 => map3::<u32, u32, $third, u32>(span, dst, a, b, c, |a, b, c| if $test(c) { a } else { b }),
                _ => return false,
            }
        };
    }
    if by == Ty::F32 {
        widths!(f32, |c: f32| if ftz { flush(c) >= 0.0 } else { c >= 0.0 });
    } else {
        widths!(i32, |c: i32| c >= 0);
    }
    true
}
}

/// `testp`.
pub(crate) fn testp(span: Span, test: FloatTest, ty: Ty, dst: Reg, a: Src) {
    let mut bits = 0;
    for lane in lanes_of(span.mask) {
        let value = span.file.get(a, lane);
        let category = if ty == Ty::F64 {
            f64::from_bits(value).classify()
        } else {
            f32::from_bits(value as u32).classify()
        };
        use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal, Zero};
        let yes = match test {
            FloatTest::Finite => !matches!(category, Infinite | Nan),
            FloatTest::Infinite => category == Infinite,
            FloatTest::Number => category != Nan,
            FloatTest::NotANumber => category == Nan,
            // Zero counts as normal, on hardware too.
            FloatTest::Normal => matches!(category, Normal | Zero),
            FloatTest::Subnormal => category == Subnormal,
        };
        bits |= u32::from(yes) << lane;
    }
    span.file.set_predicate(dst, span.mask, bits);
}

/// `and`, `or`, `xor` of predicates.
pub(crate) fn predicate_logic(span: Span, join: Join, dst: Reg, a: Guard, b: Guard) {
    let (a, b) = (span.file.guard(a), span.file.guard(b));
    let bits = match join {
        Join::And => a & b,
        Join::Or => a | b,
        Join::Xor => a ^ b,
    };
    span.file.set_predicate(dst, span.mask, bits);
}
