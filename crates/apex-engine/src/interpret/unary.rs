//! Instructions with one operand.

use super::file::{Span, each1, map1, wide};
use super::float::{pair, rcp32, sqrt32, sqrt64};
use super::half::{Half, halves};
use crate::code::{Mode, Reg, Src, Ty, UnaryOp};
use crate::number::{approx, flush};

wide! {
/// Executes one.
pub(crate) fn unary(span: Span, op: UnaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src) -> bool {
    if ty.float() {
        return float(span, op, ty, mode, dst, a);
    }
    macro_rules! widths {
        ($f:expr, $g:expr, $h:expr) => {
            match ty.bits() {
                16 => map1::<u16, u16>(span, dst, a, $f),
                32 => map1::<u32, u32>(span, dst, a, $g),
                64 => map1::<u64, u64>(span, dst, a, $h),
                _ => return false,
            }
        };
    }
    match op {
        UnaryOp::Neg if ty == Ty::U16x2 || ty == Ty::S16x2 => {
            map1::<u32, u32>(span, dst, a, |a| halves([a], |[a]| a.wrapping_neg()));
        }
        UnaryOp::Neg => widths!(u16::wrapping_neg, u32::wrapping_neg, u64::wrapping_neg),
        UnaryOp::Abs => widths!(
            |a| (a as i16).unsigned_abs(),
            |a| (a as i32).unsigned_abs(),
            |a| (a as i64).unsigned_abs()
        ),
        UnaryOp::Not => widths!(|a| !a, |a| !a, |a| !a),
        UnaryOp::Cnot => widths!(|a| u16::from(a == 0), |a| u32::from(a == 0), |a| u64::from(a == 0)),
        UnaryOp::Popc if ty.bits() == 64 => map1::<u64, u32>(span, dst, a, |a| a.count_ones()),
        UnaryOp::Popc => map1::<u32, u32>(span, dst, a, |a| a.count_ones()),
        UnaryOp::Clz if ty.bits() == 64 => map1::<u64, u32>(span, dst, a, |a| a.leading_zeros()),
        UnaryOp::Clz => map1::<u32, u32>(span, dst, a, |a| a.leading_zeros()),
        UnaryOp::Brev => widths!(u16::reverse_bits, u32::reverse_bits, u64::reverse_bits),
        UnaryOp::Bfind | UnaryOp::BfindShift => {
            let shift = op == UnaryOp::BfindShift;
            let found = move |zeros: u32, bits: u32| {
                if zeros == bits {
                    u32::MAX
                } else if shift {
                    zeros
                } else {
                    bits - 1 - zeros
                }
            };
            match ty {
                Ty::S32 => map1::<i32, u32>(span, dst, a, |a| found((a ^ a >> 31).leading_zeros(), 32)),
                Ty::S64 => map1::<i64, u32>(span, dst, a, |a| found((a ^ a >> 63).leading_zeros(), 64)),
                Ty::U64 | Ty::B64 => map1::<u64, u32>(span, dst, a, |a| found(a.leading_zeros(), 64)),
                _ => map1::<u32, u32>(span, dst, a, |a| found(a.leading_zeros(), 32)),
            }
        }
        _ => return false,
    }
    true
}
}

#[inline(always)]
fn float(span: Span, op: UnaryOp, ty: Ty, mode: Mode, dst: Reg, a: Src) -> bool {
    if let Some((half, packed)) = Half::of(ty) {
        if packed {
            each1::<u32, u32>(span, dst, a, |a| halves([a], |[a]| half.unary(op, mode, a)));
        } else {
            each1::<u16, u16>(span, dst, a, |a| half.unary(op, mode, a));
        }
        return true;
    }
    match ty {
        Ty::F32 => float32(span, op, mode, dst, a),
        Ty::F64 => float64(span, op, mode, dst, a),
        Ty::F32x2 => {
            match op {
                UnaryOp::Neg => each1::<u64, u64>(span, dst, a, |a| pair([a], |[a]| -a)),
                UnaryOp::Abs => each1::<u64, u64>(span, dst, a, |a| pair([a], |[a]| a.abs())),
                _ => return false,
            }
            true
        }
        _ => false,
    }
}

#[inline(always)]
fn float32(span: Span, op: UnaryOp, mode: Mode, dst: Reg, a: Src) -> bool {
    let ftz = mode.ftz;
    match op {
        UnaryOp::Neg if ftz => map1::<f32, f32>(span, dst, a, |a| -flush(a)),
        UnaryOp::Neg => map1::<u32, u32>(span, dst, a, |a| a ^ 1 << 31),
        UnaryOp::Abs if ftz => map1::<f32, f32>(span, dst, a, |a| flush(a).abs()),
        UnaryOp::Abs => map1::<u32, u32>(span, dst, a, |a| a & !(1 << 31)),
        UnaryOp::Rcp => each1::<f32, f32>(span, dst, a, |a| rcp32(mode, a)),
        UnaryOp::Sqrt => each1::<f32, f32>(span, dst, a, |a| sqrt32(mode, a)),
        UnaryOp::RcpApprox => map1::<f32, f32>(span, dst, a, |a| approx::rcp(a, ftz)),
        UnaryOp::SqrtApprox => map1::<f32, f32>(span, dst, a, |a| approx::sqrt(a, ftz)),
        UnaryOp::RsqrtApprox => map1::<f32, f32>(span, dst, a, |a| approx::rsqrt(a, ftz)),
        UnaryOp::SinApprox => each1::<f32, f32>(span, dst, a, |a| approx::sin(a, ftz)),
        UnaryOp::CosApprox => each1::<f32, f32>(span, dst, a, |a| approx::cos(a, ftz)),
        UnaryOp::Lg2Approx => each1::<f32, f32>(span, dst, a, |a| approx::lg2(a, ftz)),
        UnaryOp::Ex2Approx => each1::<f32, f32>(span, dst, a, |a| approx::ex2(a, ftz)),
        UnaryOp::TanhApprox => each1::<f32, f32>(span, dst, a, approx::tanh),
        _ => return false,
    }
    true
}

#[inline(always)]
fn float64(span: Span, op: UnaryOp, mode: Mode, dst: Reg, a: Src) -> bool {
    match op {
        UnaryOp::Neg => map1::<u64, u64>(span, dst, a, |a| a ^ 1 << 63),
        UnaryOp::Abs => map1::<u64, u64>(span, dst, a, |a| a & !(1 << 63)),
        UnaryOp::Rcp => each1::<f64, f64>(span, dst, a, |a| {
            super::float::binary64(super::float::Arithmetic::Div, mode, 1.0, a)
        }),
        UnaryOp::Sqrt => each1::<f64, f64>(span, dst, a, |a| sqrt64(mode, a)),
        UnaryOp::RcpApprox => {
            each1::<f64, f64>(span, dst, a, |a| approx::upper(1.0 / approx::upper(a)))
        }
        UnaryOp::RsqrtApprox if !mode.ftz => each1::<f64, f64>(span, dst, a, |a| 1.0 / a.sqrt()),
        UnaryOp::RsqrtApprox => {
            each1::<f64, f64>(span, dst, a, |a| approx::upper(1.0 / approx::upper(a).sqrt()));
        }
        _ => return false,
    }
    true
}
