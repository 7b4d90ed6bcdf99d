//! Instructions with two operands.

use super::file::{Span, each2, map2, wide};
use super::float::{Arithmetic, binary32, binary64, extreme32, extreme64, pair};
use super::half::{Half, halves};
use crate::code::{BinaryOp, Mode, Reg, Rounding, Src, Ty};
use crate::number::{approx, canonical, flush};

wide! {
/// Executes one.
pub(crate) fn binary(
    span: Span, op: BinaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src, b: Src,
) -> bool {
    if ty.float() {
        return float(span, op, ty, mode, dst, a, b);
    }
    if matches!(ty, Ty::U16x2 | Ty::S16x2) {
        return packed(span, op, ty, mode, dst, a, b);
    }
    // By width alone.
    macro_rules! bits {
        ($f:ident) => {
            match ty.bits() {
                8 => map2::<u8, u8, u8>(span, dst, a, b, u8::$f),
                16 => map2::<u16, u16, u16>(span, dst, a, b, u16::$f),
                32 => map2::<u32, u32, u32>(span, dst, a, b, u32::$f),
                64 => map2::<u64, u64, u64>(span, dst, a, b, u64::$f),
                _ => return false,
            }
        };
        (|$x:ident, $y:ident| $f:expr) => {
            match ty.bits() {
                8 | 16 | 32 => map2::<u32, u32, u32>(span, dst, a, b, |$x, $y| $f),
                64 => map2::<u64, u64, u64>(span, dst, a, b, |$x, $y| $f),
                128 => map2::<u128, u128, u128>(span, dst, a, b, |$x, $y| $f),
                _ => return false,
            }
        };
    }
    // By width and sign.
    macro_rules! signed {
        ($f:ident) => {
            match ty {
                Ty::S8 => map2::<i8, i8, i8>(span, dst, a, b, i8::$f),
                Ty::S16 => map2::<i16, i16, i16>(span, dst, a, b, i16::$f),
                Ty::S32 => map2::<i32, i32, i32>(span, dst, a, b, i32::$f),
                Ty::S64 => map2::<i64, i64, i64>(span, dst, a, b, i64::$f),
                Ty::U8 | Ty::B8 => map2::<u8, u8, u8>(span, dst, a, b, u8::$f),
                Ty::U16 | Ty::B16 => map2::<u16, u16, u16>(span, dst, a, b, u16::$f),
                Ty::U32 | Ty::B32 => map2::<u32, u32, u32>(span, dst, a, b, u32::$f),
                Ty::U64 | Ty::B64 => map2::<u64, u64, u64>(span, dst, a, b, u64::$f),
                _ => return false,
            }
        };
        ($($ty:ident)|* => |$x:ident, $y:ident| $f:expr) => {
            match ty {
                Ty::S16 => map2::<i16, i16, i16>(span, dst, a, b, |$x, $y| $f),
                Ty::S32 => map2::<i32, i32, i32>(span, dst, a, b, |$x, $y| $f),
                Ty::S64 => map2::<i64, i64, i64>(span, dst, a, b, |$x, $y| $f),
                Ty::U16 | Ty::B16 => map2::<u16, u16, u16>(span, dst, a, b, |$x, $y| $f),
                Ty::U32 | Ty::B32 => map2::<u32, u32, u32>(span, dst, a, b, |$x, $y| $f),
                Ty::U64 | Ty::B64 => map2::<u64, u64, u64>(span, dst, a, b, |$x, $y| $f),
                _ => return false,
            }
        };
    }
    match op {
        BinaryOp::Add if mode.sat => signed!(saturating_add),
        BinaryOp::Sub if mode.sat => signed!(saturating_sub),
        BinaryOp::Add => bits!(wrapping_add),
        BinaryOp::Sub => bits!(wrapping_sub),
        BinaryOp::Mul => bits!(wrapping_mul),
        BinaryOp::MulHi => match ty {
            Ty::S16 => map2::<i16, i16, i16>(span, dst, a, b, |a, b| ((i32::from(a) * i32::from(b)) >> 16) as i16),
            Ty::S32 => map2::<i32, i32, i32>(span, dst, a, b, |a, b| ((i64::from(a) * i64::from(b)) >> 32) as i32),
            Ty::S64 => map2::<i64, i64, i64>(span, dst, a, b, |a, b| ((i128::from(a) * i128::from(b)) >> 64) as i64),
            Ty::U16 => map2::<u16, u16, u16>(span, dst, a, b, |a, b| ((u32::from(a) * u32::from(b)) >> 16) as u16),
            Ty::U32 => map2::<u32, u32, u32>(span, dst, a, b, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
            Ty::U64 => map2::<u64, u64, u64>(span, dst, a, b, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64),
            _ => return false,
        },
        BinaryOp::MulWide => match ty {
            Ty::S16 => map2::<i16, i16, i32>(span, dst, a, b, |a, b| i32::from(a) * i32::from(b)),
            Ty::U16 => map2::<u16, u16, u32>(span, dst, a, b, |a, b| u32::from(a) * u32::from(b)),
            Ty::S32 => map2::<i32, i32, i64>(span, dst, a, b, |a, b| i64::from(a) * i64::from(b)),
            Ty::U32 => map2::<u32, u32, u64>(span, dst, a, b, |a, b| u64::from(a) * u64::from(b)),
            Ty::S64 => map2::<i64, i64, u128>(span, dst, a, b, |a, b| (i128::from(a) * i128::from(b)) as u128),
            Ty::U64 => map2::<u64, u64, u128>(span, dst, a, b, |a, b| u128::from(a) * u128::from(b)),
            _ => return false,
        },
        BinaryOp::Mul24Lo => map2::<u32, u32, u32>(span, dst, a, b, |a, b| mul24(ty, a, b) as u32),
        BinaryOp::Mul24Hi => map2::<u32, u32, u32>(span, dst, a, b, |a, b| (mul24(ty, a, b) >> 16) as u32),
        // Division by zero gives all ones, as the hardware's own routine does.
        BinaryOp::Div => signed!(S16 | S32 => |a, b| if b == 0 { !b } else { a.wrapping_div(b) }),
        BinaryOp::Rem => signed!(S16 | S32 => |a, b| if b == 0 { !b } else { a.wrapping_rem(b) }),
        BinaryOp::Min => signed!(min),
        BinaryOp::Max => signed!(max),
        BinaryOp::And => bits!(|a, b| a & b),
        BinaryOp::Or => bits!(|a, b| a | b),
        BinaryOp::Xor => bits!(|a, b| a ^ b),
        BinaryOp::Shl => match ty.bits() {
            16 => map2::<u16, u32, u16>(span, dst, a, b, |a, b| if b > 15 { 0 } else { a << b }),
            32 => map2::<u32, u32, u32>(span, dst, a, b, |a, b| if b > 31 { 0 } else { a << b }),
            64 => map2::<u64, u32, u64>(span, dst, a, b, |a, b| if b > 63 { 0 } else { a << b }),
            _ => return false,
        },
        BinaryOp::Shr => match ty {
            Ty::S16 => map2::<i16, u32, i16>(span, dst, a, b, |a, b| a >> b.min(15)),
            Ty::S32 => map2::<i32, u32, i32>(span, dst, a, b, |a, b| a >> b.min(31)),
            Ty::S64 => map2::<i64, u32, i64>(span, dst, a, b, |a, b| a >> b.min(63)),
            Ty::U16 | Ty::B16 => map2::<u16, u32, u16>(span, dst, a, b, |a, b| if b > 15 { 0 } else { a >> b }),
            Ty::U32 | Ty::B32 => map2::<u32, u32, u32>(span, dst, a, b, |a, b| if b > 31 { 0 } else { a >> b }),
            Ty::U64 | Ty::B64 => map2::<u64, u32, u64>(span, dst, a, b, |a, b| if b > 63 { 0 } else { a >> b }),
            _ => return false,
        },
        BinaryOp::BmskClamp => map2::<u32, u32, u32>(span, dst, a, b, |a, b| bit_mask(a.min(32), b.min(32))),
        BinaryOp::BmskWrap => map2::<u32, u32, u32>(span, dst, a, b, |a, b| bit_mask(a & 31, b & 31)),
        BinaryOp::SzextClamp => map2::<u32, u32, u32>(span, dst, a, b, |a, b| extend(ty, a, b.min(32))),
        BinaryOp::SzextWrap => map2::<u32, u32, u32>(span, dst, a, b, |a, b| extend(ty, a, b & 31)),
        _ => return false,
    }
    true
}
}

/// The 48-bit product of the low 24 bits.
#[inline(always)]
pub(crate) fn mul24(ty: Ty, a: u32, b: u32) -> i64 {
    if ty.signed() {
        i64::from((a as i32) << 8 >> 8) * i64::from((b as i32) << 8 >> 8)
    } else {
        i64::from(a & 0xff_ffff) * i64::from(b & 0xff_ffff)
    }
}

fn bit_mask(start: u32, length: u32) -> u32 {
    (((1u64 << length) - 1) << start) as u32
}

fn extend(ty: Ty, value: u32, bits: u32) -> u32 {
    match bits {
        0 => 0,
        32.. => value,
        _ if ty.signed() => ((value as i32) << (32 - bits) >> (32 - bits)) as u32,
        _ => value & ((1 << bits) - 1),
    }
}

#[inline(always)]
fn packed(span: Span, op: BinaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src, b: Src) -> bool {
    let signed = ty == Ty::S16x2;
    macro_rules! both {
        ($f:expr) => {
            map2::<u32, u32, u32>(span, dst, a, b, |a, b| halves([a, b], $f))
        };
    }
    match op {
        BinaryOp::Add if mode.sat && signed => {
            both!(|[a, b]| (a as i16).saturating_add(b as i16) as u16);
        }
        BinaryOp::Add => both!(|[a, b]| a.wrapping_add(b)),
        BinaryOp::Sub => both!(|[a, b]| a.wrapping_sub(b)),
        BinaryOp::Min if signed => both!(|[a, b]| (a as i16).min(b as i16) as u16),
        BinaryOp::Max if signed => both!(|[a, b]| (a as i16).max(b as i16) as u16),
        BinaryOp::Min => both!(|[a, b]| a.min(b)),
        BinaryOp::Max => both!(|[a, b]| a.max(b)),
        _ => return false,
    }
    if mode.relu && signed {
        let clamp = |a: u32, _: u32| halves([a], |[a]| (a as i16).max(0) as u16);
        map2::<u32, u32, u32>(span, dst, Src::Reg(dst), Src::Imm(0), clamp);
    }
    true
}

#[inline(always)]
fn float(span: Span, op: BinaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src, b: Src) -> bool {
    if let Some((half, packed)) = Half::of(ty) {
        if packed {
            each2::<u32, u32, u32>(span, dst, a, b, |a, b| {
                halves([a, b], |[a, b]| half.binary(op, mode, a, b))
            });
        } else {
            each2::<u16, u16, u16>(span, dst, a, b, |a, b| half.binary(op, mode, a, b));
        }
        return true;
    }
    let arithmetic = match op {
        BinaryOp::Add => Some(Arithmetic::Add),
        BinaryOp::Sub => Some(Arithmetic::Sub),
        BinaryOp::Mul => Some(Arithmetic::Mul),
        BinaryOp::Div => Some(Arithmetic::Div),
        _ => None,
    };
    match ty {
        Ty::F32 => float32(span, op, arithmetic, mode, dst, a, b),
        Ty::F64 => float64(span, op, arithmetic, mode, dst, a, b),
        Ty::F32x2 => {
            let Some(arithmetic) = arithmetic else { return false };
            each2::<u64, u64, u64>(span, dst, a, b, |a, b| {
                pair([a, b], |[a, b]| binary32(arithmetic, mode, a, b))
            });
            true
        }
        _ => false,
    }
}

#[inline(always)]
fn float32(
    span: Span,
    op: BinaryOp,
    arithmetic: Option<Arithmetic>,
    mode: Mode,
    dst: Reg,
    a: Src,
    b: Src,
) -> bool {
    if let Some(arithmetic) = arithmetic {
        if mode.rounding != Rounding::Rn || mode.sat || mode.relu {
            each2::<f32, f32, f32>(span, dst, a, b, |a, b| binary32(arithmetic, mode, a, b));
            return true;
        }
        macro_rules! plain {
            (|$x:ident, $y:ident| $f:expr) => {
                if mode.ftz {
                    map2::<f32, f32, f32>(span, dst, a, b, |$x, $y| {
                        let ($x, $y) = (flush($x), flush($y));
                        flush(canonical($f))
                    });
                } else {
                    map2::<f32, f32, f32>(span, dst, a, b, |$x, $y| canonical($f));
                }
            };
        }
        match arithmetic {
            Arithmetic::Add => plain!(|a, b| a + b),
            Arithmetic::Sub => plain!(|a, b| a - b),
            Arithmetic::Mul => plain!(|a, b| a * b),
            Arithmetic::Div => plain!(|a, b| a / b),
        }
        return true;
    }
    match op {
        BinaryOp::DivApprox => {
            map2::<f32, f32, f32>(span, dst, a, b, |a, b| approx::div(a, b, mode.ftz))
        }
        BinaryOp::DivFull => {
            map2::<f32, f32, f32>(span, dst, a, b, |a, b| approx::div_full(a, b, mode.ftz))
        }
        BinaryOp::Min => {
            map2::<f32, f32, f32>(span, dst, a, b, |a, b| extreme32(false, mode, a, b))
        }
        BinaryOp::Max => map2::<f32, f32, f32>(span, dst, a, b, |a, b| extreme32(true, mode, a, b)),
        BinaryOp::Copysign => {
            map2::<u32, u32, u32>(span, dst, a, b, |a, b| a & 1 << 31 | b & !(1 << 31));
        }
        _ => return false,
    }
    true
}

#[inline(always)]
fn float64(
    span: Span,
    op: BinaryOp,
    arithmetic: Option<Arithmetic>,
    mode: Mode,
    dst: Reg,
    a: Src,
    b: Src,
) -> bool {
    if let Some(arithmetic) = arithmetic {
        if mode.rounding != Rounding::Rn || mode.sat {
            each2::<f64, f64, f64>(span, dst, a, b, |a, b| binary64(arithmetic, mode, a, b));
            return true;
        }
        match arithmetic {
            Arithmetic::Add => map2::<f64, f64, f64>(span, dst, a, b, |a, b| a + b),
            Arithmetic::Sub => map2::<f64, f64, f64>(span, dst, a, b, |a, b| a - b),
            Arithmetic::Mul => map2::<f64, f64, f64>(span, dst, a, b, |a, b| a * b),
            Arithmetic::Div => map2::<f64, f64, f64>(span, dst, a, b, |a, b| a / b),
        }
        return true;
    }
    match op {
        BinaryOp::Min => map2::<f64, f64, f64>(span, dst, a, b, |a, b| extreme64(false, a, b)),
        BinaryOp::Max => map2::<f64, f64, f64>(span, dst, a, b, |a, b| extreme64(true, a, b)),
        BinaryOp::Copysign => {
            map2::<u64, u64, u64>(span, dst, a, b, |a, b| a & 1 << 63 | b & !(1 << 63));
        }
        _ => return false,
    }
    true
}
