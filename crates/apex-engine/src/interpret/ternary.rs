//! Instructions with three operands, and those with a carry.

use super::binary::mul24;
use super::file::{Span, each3, lanes_of, map3, wide};
use super::float::{extreme32, extreme64, fma32, fma64, pair};
use super::half::{Half, halves};
use crate::code::{Inst, Mode, PrmtMode, Reg, Rounding, Src, TernaryOp, Ty};
use crate::number::{canonical, flush};

wide! {
/// Executes one.
pub(crate) fn ternary(
    span: Span, op: TernaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src, b: Src, c: Src,
) -> bool {
    if ty.float() {
        return float(span, op, ty, mode, dst, a, b, c);
    }
    macro_rules! words {
        (|$x:ident, $y:ident, $z:ident| $f:expr) => {
            map3::<u32, u32, u32, u32>(span, dst, a, b, c, |$x, $y, $z| $f)
        };
    }
    match op {
        TernaryOp::Mad => match ty.bits() {
            16 => map3::<u16, u16, u16, u16>(span, dst, a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
            32 => map3::<u32, u32, u32, u32>(span, dst, a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
            64 => map3::<u64, u64, u64, u64>(span, dst, a, b, c, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
            _ => return false,
        },
        TernaryOp::MadHi => match ty {
            Ty::S16 => map3::<i16, i16, i16, i16>(span, dst, a, b, c, |a, b, c| {
                (((i32::from(a) * i32::from(b)) >> 16) as i16).wrapping_add(c)
            }),
            Ty::U16 => map3::<u16, u16, u16, u16>(span, dst, a, b, c, |a, b, c| {
                (((u32::from(a) * u32::from(b)) >> 16) as u16).wrapping_add(c)
            }),
            Ty::S32 => map3::<i32, i32, i32, i32>(span, dst, a, b, c, |a, b, c| {
                (((i64::from(a) * i64::from(b)) >> 32) as i32).wrapping_add(c)
            }),
            Ty::U32 => words!(|a, b, c| (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c)),
            Ty::S64 => map3::<i64, i64, i64, i64>(span, dst, a, b, c, |a, b, c| {
                (((i128::from(a) * i128::from(b)) >> 64) as i64).wrapping_add(c)
            }),
            Ty::U64 => map3::<u64, u64, u64, u64>(span, dst, a, b, c, |a, b, c| {
                (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c)
            }),
            _ => return false,
        },
        TernaryOp::MadHiSat => map3::<i32, i32, i32, i32>(span, dst, a, b, c, |a, b, c| {
            (((i64::from(a) * i64::from(b)) >> 32) as i32).saturating_add(c)
        }),
        TernaryOp::MadWide => match ty {
            Ty::S16 => map3::<i16, i16, i32, i32>(span, dst, a, b, c, |a, b, c| (i32::from(a) * i32::from(b)).wrapping_add(c)),
            Ty::U16 => map3::<u16, u16, u32, u32>(span, dst, a, b, c, |a, b, c| (u32::from(a) * u32::from(b)).wrapping_add(c)),
            Ty::S32 => map3::<i32, i32, i64, i64>(span, dst, a, b, c, |a, b, c| (i64::from(a) * i64::from(b)).wrapping_add(c)),
            Ty::U32 => map3::<u32, u32, u64, u64>(span, dst, a, b, c, |a, b, c| (u64::from(a) * u64::from(b)).wrapping_add(c)),
            _ => return false,
        },
        TernaryOp::Mad24Lo => words!(|a, b, c| (mul24(ty, a, b) as u32).wrapping_add(c)),
        TernaryOp::Mad24Hi => words!(|a, b, c| ((mul24(ty, a, b) >> 16) as u32).wrapping_add(c)),
        TernaryOp::Mad24HiSat => words!(|a, b, c| ((mul24(ty, a, b) >> 16) as i32).saturating_add(c as i32) as u32),
        TernaryOp::Sad => match ty {
            Ty::S16 => map3::<i16, i16, u16, u16>(span, dst, a, b, c, |a, b, c| c.wrapping_add(a.abs_diff(b))),
            Ty::U16 => map3::<u16, u16, u16, u16>(span, dst, a, b, c, |a, b, c| c.wrapping_add(a.abs_diff(b))),
            Ty::S32 => map3::<i32, i32, u32, u32>(span, dst, a, b, c, |a, b, c| c.wrapping_add(a.abs_diff(b))),
            Ty::U32 => words!(|a, b, c| c.wrapping_add(a.abs_diff(b))),
            Ty::S64 => map3::<i64, i64, u64, u64>(span, dst, a, b, c, |a, b, c| c.wrapping_add(a.abs_diff(b))),
            Ty::U64 => map3::<u64, u64, u64, u64>(span, dst, a, b, c, |a, b, c| c.wrapping_add(a.abs_diff(b))),
            _ => return false,
        },
        TernaryOp::Bfe => match ty.bits() {
            64 => map3::<u64, u32, u32, u64>(span, dst, a, b, c, |a, b, c| extract(ty, a, b, c)),
            _ => words!(|a, b, c| extract(ty, a.into(), b, c) as u32),
        },
        // The high word is `b`.
        TernaryOp::ShfLeftClamp => words!(|a, b, c| ((join(a, b) << c.min(32)) >> 32) as u32),
        TernaryOp::ShfLeftWrap => words!(|a, b, c| ((join(a, b) << (c & 31)) >> 32) as u32),
        TernaryOp::ShfRightClamp => words!(|a, b, c| (join(a, b) >> c.min(32)) as u32),
        TernaryOp::ShfRightWrap => words!(|a, b, c| (join(a, b) >> (c & 31)) as u32),
        TernaryOp::Min3 => match ty {
            Ty::S32 => map3::<i32, i32, i32, i32>(span, dst, a, b, c, |a, b, c| a.min(b).min(c)),
            _ => words!(|a, b, c| a.min(b).min(c)),
        },
        TernaryOp::Max3 => match ty {
            Ty::S32 => map3::<i32, i32, i32, i32>(span, dst, a, b, c, |a, b, c| a.max(b).max(c)),
            _ => words!(|a, b, c| a.max(b).max(c)),
        },
        TernaryOp::Prmt(mode) => words!(|a, b, c| permute(mode, a, b, c)),
        TernaryOp::Lop3(table) => words!(|a, b, c| logic(table, a, b, c)),
        TernaryOp::Dp4a(a_signed, b_signed) => words!(|a, b, c| {
            (0..4).fold(c, |sum, byte| {
                let product = part(a, byte * 8, 8, a_signed) * part(b, byte * 8, 8, b_signed);
                sum.wrapping_add(product as u32)
            })
        }),
        TernaryOp::Dp2a { a_signed, b_signed, high } => words!(|a, b, c| {
            (0..2).fold(c, |sum, half| {
                let byte = if high { half + 2 } else { half };
                let product = part(a, half * 16, 16, a_signed) * part(b, byte * 8, 8, b_signed);
                sum.wrapping_add(product as u32)
            })
        }),
        TernaryOp::Fma => return false,
    }
    true
}
}

#[inline(always)]
fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// A field of a word, extended.
#[inline(always)]
pub(crate) fn part(word: u32, position: u32, bits: u32, signed: bool) -> i32 {
    let top = word >> position << (32 - bits);
    if signed { top as i32 >> (32 - bits) } else { (top >> (32 - bits)) as i32 }
}

/// `bfe`.
#[inline(always)]
fn extract(ty: Ty, value: u64, position: u32, length: u32) -> u64 {
    let bits = ty.bits();
    let (position, length) = field(bits, position, length);
    if length == 0 {
        return 0;
    }
    let sign =
        if ty.signed() { value >> (position + length - 1).min(bits - 1) & 1 == 1 } else { false };
    let field = if position >= bits { 0 } else { value >> position };
    let here = length.min(bits.saturating_sub(position));
    let kept = if here >= 64 { u64::MAX } else { (1 << here) - 1 };
    if sign { field & kept | !kept } else { field & kept }
}

/// Where a field lies. Words count modulo 256, as the ISA says of all; hardware takes the whole
/// numbers for 64 bits.
#[inline(always)]
fn field(bits: u32, position: u32, length: u32) -> (u32, u32) {
    if bits == 64 { (position.min(64), length.min(64)) } else { (position & 0xff, length & 0xff) }
}

/// `bfi`.
#[inline(always)]
pub(crate) fn insert(bits: u32, value: u64, base: u64, position: u32, length: u32) -> u64 {
    let (position, length) = field(bits, position, length);
    if length == 0 || position >= bits {
        return base;
    }
    let here = length.min(bits - position);
    let field = if here >= 64 { u64::MAX } else { (1 << here) - 1 };
    base & !(field << position) | (value & field) << position
}

/// `prmt`.
fn permute(mode: PrmtMode, a: u32, b: u32, c: u32) -> u32 {
    let bytes = join(a, b).to_le_bytes();
    let from = |index: u32| bytes[index as usize & 7];
    let n = c & 3;
    let picked: [u8; 4] = match mode {
        PrmtMode::Index => std::array::from_fn(|i| {
            let selector = c >> (4 * i);
            let byte = from(selector & 7);
            if selector & 8 != 0 { (byte as i8 >> 7) as u8 } else { byte }
        }),
        PrmtMode::F4e => std::array::from_fn(|i| from(n + i as u32)),
        PrmtMode::B4e => std::array::from_fn(|i| from(n.wrapping_sub(i as u32))),
        PrmtMode::Rc8 => [from(n); 4],
        PrmtMode::Ecl => std::array::from_fn(|i| from(n.max(i as u32))),
        PrmtMode::Ecr => std::array::from_fn(|i| from(n.min(i as u32))),
        PrmtMode::Rc16 => std::array::from_fn(|i| from((n & 1) * 2 + (i as u32 & 1))),
    };
    u32::from_le_bytes(picked)
}

/// `lop3`.
#[inline(always)]
fn logic(table: u8, a: u32, b: u32, c: u32) -> u32 {
    let mut result = 0;
    for row in 0..8 {
        let chosen = if table >> row & 1 == 1 { u32::MAX } else { 0 };
        let x = if row & 4 != 0 { a } else { !a };
        let y = if row & 2 != 0 { b } else { !b };
        let z = if row & 1 != 0 { c } else { !c };
        result |= chosen & x & y & z;
    }
    result
}

#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "an instruction's fields")]
fn float(span: Span, op: TernaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src, b: Src, c: Src) -> bool {
    if let Some((half, packed)) = Half::of(ty) {
        if packed {
            each3::<u32, u32, u32, u32>(span, dst, a, b, c, |a, b, c| {
                halves([a, b, c], |[a, b, c]| half.ternary(op, mode, a, b, c))
            });
        } else {
            each3::<u16, u16, u16, u16>(span, dst, a, b, c, |a, b, c| {
                half.ternary(op, mode, a, b, c)
            });
        }
        return true;
    }
    let plain = mode.rounding == Rounding::Rn && !mode.sat && !mode.relu;
    match (op, ty) {
        (TernaryOp::Fma | TernaryOp::Mad, Ty::F32) if plain && !mode.ftz => {
            map3::<f32, f32, f32, f32>(span, dst, a, b, c, |a, b, c| canonical(a.mul_add(b, c)));
        }
        (TernaryOp::Fma | TernaryOp::Mad, Ty::F32) if plain => {
            map3::<f32, f32, f32, f32>(span, dst, a, b, c, |a, b, c| {
                flush(canonical(flush(a).mul_add(flush(b), flush(c))))
            });
        }
        (TernaryOp::Fma | TernaryOp::Mad, Ty::F32) => {
            each3::<f32, f32, f32, f32>(span, dst, a, b, c, |a, b, c| fma32(mode, a, b, c));
        }
        (TernaryOp::Fma | TernaryOp::Mad, Ty::F64) if plain => {
            map3::<f64, f64, f64, f64>(span, dst, a, b, c, |a, b, c| a.mul_add(b, c));
        }
        (TernaryOp::Fma | TernaryOp::Mad, Ty::F64) => {
            each3::<f64, f64, f64, f64>(span, dst, a, b, c, |a, b, c| fma64(mode, a, b, c));
        }
        (TernaryOp::Fma | TernaryOp::Mad, Ty::F32x2) => {
            each3::<u64, u64, u64, u64>(span, dst, a, b, c, |a, b, c| {
                pair([a, b, c], |[a, b, c]| fma32(mode, a, b, c))
            });
        }
        (TernaryOp::Min3 | TernaryOp::Max3, Ty::F32) => {
            let greatest = op == TernaryOp::Max3;
            map3::<f32, f32, f32, f32>(span, dst, a, b, c, |a, b, c| {
                extreme32(greatest, mode, extreme32(greatest, mode, a, b), c)
            });
        }
        (TernaryOp::Min3 | TernaryOp::Max3, Ty::F64) => {
            let greatest = op == TernaryOp::Max3;
            map3::<f64, f64, f64, f64>(span, dst, a, b, c, |a, b, c| {
                extreme64(greatest, extreme64(greatest, a, b), c)
            });
        }
        _ => return false,
    }
    true
}

/// `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`.
pub(crate) fn carry(span: Span, inst: &Inst) {
    match *inst {
        Inst::Carry { sub, ty, dst, a, b, carry_in, carry_out } => {
            // Without a carry coming in, a sum begins with none and a difference with no borrow.
            with_carry(span, ty, dst, (carry_in, sub), carry_out, |lane, flag| {
                let (a, b) = (span.file.wide(a, lane), span.file.wide(b, lane));
                let modulus = 1u128 << ty.bits();
                let b = if sub { b ^ (modulus - 1) } else { b };
                let sum = a + b + u128::from(flag);
                (sum & (modulus - 1), sum >= modulus)
            });
        }
        Inst::MadCarry { high, ty, dst, a, b, c, carry_in, carry_out } => {
            with_carry(span, ty, dst, (carry_in, false), carry_out, |lane, flag| {
                let [a, b, c] = [a, b, c].map(|src| span.file.get(src, lane));
                let product = match ty {
                    Ty::S32 => (i64::from(a as i32) * i64::from(b as i32)) as u64 as u128,
                    Ty::S64 => (i128::from(a as i64) * i128::from(b as i64)) as u128,
                    Ty::U64 => u128::from(a) * u128::from(b),
                    _ => u128::from(a as u32) * u128::from(b as u32),
                };
                let modulus = 1u128 << ty.bits();
                let half = if high { product >> ty.bits() } else { product } & (modulus - 1);
                let sum = half + (u128::from(c) & (modulus - 1)) + u128::from(flag);
                (sum & (modulus - 1), sum >= modulus)
            });
        }
        _ => {}
    }
}

fn with_carry(
    span: Span,
    ty: Ty,
    dst: Reg,
    (carry_in, without): (Option<Reg>, bool),
    carry_out: Option<Reg>,
    f: impl Fn(usize, bool) -> (u128, bool),
) {
    let none = if without { u32::MAX } else { 0 };
    let flags = carry_in.map_or(none, |register| span.file.predicate(register));
    let mask = (1u128 << ty.bits()) - 1;
    let mut out = 0u32;
    for lane in lanes_of(span.mask) {
        let (value, flag) = f(lane, flags >> lane & 1 == 1);
        span.file.set(dst, lane, value & mask);
        out |= u32::from(flag) << lane;
    }
    if let Some(register) = carry_out {
        span.file.set_predicate(register, span.mask, out);
    }
}
