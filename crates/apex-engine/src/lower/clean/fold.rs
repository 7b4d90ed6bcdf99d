//! Arithmetic of constants, as far as addresses need it.

use super::super::graph::Graph;
use crate::code::{BinaryOp, Inst, Src, Ty};

/// Computes integer steps whose operands are constants; the result is a copy.
pub(super) fn fold(graph: &mut Graph) -> bool {
    let mut changed = false;
    for step in graph.nodes.iter_mut().flat_map(|node| &mut node.steps) {
        narrow(&mut step.inst);
        constant_last(&mut step.inst);
        if let Some(inst) = folded(&step.inst) {
            step.inst = inst;
            changed = true;
        }
    }
    changed
}

/// A constant that came out of a wider register keeps only the bits that are read.
fn narrow(inst: &mut Inst) {
    let (ty, srcs) = match inst {
        Inst::Cvt { from, a, .. } => (*from, std::slice::from_mut(a)),
        Inst::Store { ty, srcs, .. } => (*ty, srcs.as_mut_slice()),
        Inst::Pack { part, parts, .. } => (*part, parts.as_mut_slice()),
        Inst::Texture(it) => (it.ty, it.srcs.as_mut_slice()),
        _ => return,
    };
    for src in srcs {
        if let Src::Imm(value) = src {
            *value = truncate(*value, ty);
        }
    }
}

/// Where the order makes no difference, a constant stands second.
fn constant_last(inst: &mut Inst) {
    if let Inst::Binary { op, ty, a, b, .. } = inst
        && matches!(
            op,
            BinaryOp::Add
                | BinaryOp::Mul
                | BinaryOp::MulWide
                | BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::Xor
                | BinaryOp::Min
                | BinaryOp::Max
        )
        && plain(*ty)
        && matches!((&*a, &*b), (Src::Imm(_), Src::Reg(_)))
    {
        std::mem::swap(a, b);
    }
}

fn folded(inst: &Inst) -> Option<Inst> {
    match *inst {
        Inst::Cvt { to, from, mode, dst, a: Src::Imm(value) }
            if plain(to) && plain(from) && !mode.sat =>
        {
            let src = Src::Imm(truncate(extend(value, from), to));
            Some(Inst::Mov { ty: to, dst, src })
        }
        Inst::Binary { op, ty, mode, dst, a, b: Src::Imm(b) } if plain(ty) && !mode.sat => {
            let Src::Imm(a) = a else {
                // Adding or shifting by nothing is a copy.
                let nothing = matches!(
                    op,
                    BinaryOp::Add
                        | BinaryOp::Sub
                        | BinaryOp::Or
                        | BinaryOp::Xor
                        | BinaryOp::Shl
                        | BinaryOp::Shr
                );
                return (nothing && b == 0).then_some(Inst::Mov { ty, dst, src: a });
            };
            let value = match op {
                BinaryOp::Add => a.wrapping_add(b),
                BinaryOp::Sub => a.wrapping_sub(b),
                BinaryOp::Mul => a.wrapping_mul(b),
                BinaryOp::And => a & b,
                BinaryOp::Or => a | b,
                BinaryOp::Xor => a ^ b,
                BinaryOp::Shl if b < u64::from(ty.bits()) => a << b,
                _ => return None,
            };
            Some(Inst::Mov { ty, dst, src: Src::Imm(truncate(value, ty)) })
        }
        _ => None,
    }
}

/// Integers of a whole register or less.
fn plain(ty: Ty) -> bool {
    matches!(
        ty,
        Ty::B16 | Ty::U16 | Ty::S16 | Ty::B32 | Ty::U32 | Ty::S32 | Ty::B64 | Ty::U64 | Ty::S64
    )
}

fn extend(value: u64, ty: Ty) -> u64 {
    match ty {
        Ty::S16 => i64::from(value as i16).cast_unsigned(),
        Ty::S32 => i64::from(value as i32).cast_unsigned(),
        _ => value,
    }
}

fn truncate(value: u64, ty: Ty) -> u64 {
    match ty.bits() {
        8 => value & 0xFF,
        16 => value & 0xFFFF,
        32 => value & 0xFFFF_FFFF,
        _ => value,
    }
}
