//! The largest value that a register can hold, as an unsigned number.
//!
//! Indices of threads and blocks are small and never negative. Compilers that do not know it compute signs of them
//! (`shr.s64 %x, 63`) and mask these; what is known here shows that such a value is 0 in every lane. A bound belongs
//! to a register in the whole kernel, and to all of its lanes.

use crate::code::{BinaryOp, Code, Inst, Special, Src, Step, TernaryOp, Ty};
use crate::operands;

/// Walks over the code before what still grows counts as unbounded: a counter of a loop.
const WALKS: usize = 6;

/// The largest value of a type.
fn most(ty: Ty) -> u64 {
    u64::MAX >> (64 - ty.bits().clamp(1, 64))
}

/// The bounds of all registers, for blocks of `threads`.
pub(super) fn find(code: &Code, threads: [u32; 3]) -> Vec<u64> {
    let mut bounds = Bounds { of: vec![0; code.registers.len()], threads };
    for walk in 0.. {
        let mut changed = false;
        for step in &code.steps {
            let result = bounds.result(step);
            operands::writes(step, &mut |register| {
                let bound = &mut bounds.of[register.0 as usize];
                if result > *bound {
                    *bound = if walk < WALKS { result } else { u64::MAX };
                    changed = true;
                }
            });
        }
        if !changed {
            break;
        }
    }
    bounds.of
}

struct Bounds {
    of: Vec<u64>,
    threads: [u32; 3],
}

impl Bounds {
    fn src(&self, src: Src, ty: Ty) -> u64 {
        let bound = match src {
            Src::Reg(register) => self.of[register.0 as usize],
            Src::Imm(bits) => bits & most(ty),
        };
        bound.min(most(ty))
    }

    fn result(&self, step: &Step) -> u64 {
        match &step.inst {
            Inst::Special { which, .. } => self.special(*which),
            Inst::Mov { ty, src, .. } => self.src(*src, *ty),
            Inst::Cvt { to, from, mode, a, .. } if !to.float() && !from.float() && !mode.sat => {
                let bound = self.src(*a, *from);
                let negative = from.signed() && bound > most(*from) / 2;
                if negative || bound > most(*to) { u64::MAX } else { bound }
            }
            Inst::Binary { op, ty, mode, a, b, .. } if !ty.float() && !mode.sat => {
                self.binary(*op, *ty, self.src(*a, *ty), *b)
            }
            Inst::Ternary { op, ty, mode, a, b, c, .. } if !ty.float() && !mode.sat => {
                let (op, wide) = match op {
                    TernaryOp::Mad => (BinaryOp::Mul, *ty),
                    TernaryOp::MadWide => (BinaryOp::MulWide, Ty::U64),
                    _ => return u64::MAX,
                };
                let product = self.binary(op, *ty, self.src(*a, *ty), *b);
                within(product.checked_add(self.src(*c, wide)), wide)
            }
            Inst::Select { ty, a, b, .. } => self.src(*a, *ty).max(self.src(*b, *ty)),
            _ => u64::MAX,
        }
    }

    fn binary(&self, op: BinaryOp, ty: Ty, a: u64, b: Src) -> u64 {
        let shift = match b {
            Src::Imm(by) if by < u64::from(ty.bits()) => Some(by as u32),
            _ => None,
        };
        let b = self.src(b, ty);
        let negative = ty.signed() && a.max(b) > most(ty) / 2;
        match (op, shift) {
            (BinaryOp::Add, _) => within(a.checked_add(b), ty),
            (BinaryOp::Mul, _) => within(a.checked_mul(b), ty),
            (BinaryOp::MulWide, _) if !negative => a.saturating_mul(b),
            (BinaryOp::And, _) => a.min(b),
            (BinaryOp::Or | BinaryOp::Xor, _) => within_bits(a | b),
            (BinaryOp::Shl, Some(by)) => within(a.checked_mul(1 << by), ty),
            (BinaryOp::Shr, Some(by)) if !ty.signed() || a <= most(ty) / 2 => a >> by,
            _ => u64::MAX,
        }
    }

    fn special(&self, which: Special) -> u64 {
        let axis = |axis: u8| u64::from(self.threads[usize::from(axis).min(2)]);
        match which {
            Special::Tid(number) => axis(number).saturating_sub(1),
            Special::Ntid(number) => axis(number),
            Special::Ctaid(_) | Special::Nctaid(_) => i32::MAX as u64,
            Special::Laneid | Special::Warpid => 31,
            _ => u64::MAX,
        }
    }
}

/// A result that wraps is unbounded.
fn within(result: Option<u64>, ty: Ty) -> u64 {
    result.filter(|&result| result <= most(ty)).unwrap_or(u64::MAX)
}

/// All bits up to the highest one.
fn within_bits(bound: u64) -> u64 {
    u64::MAX.checked_shr(bound.leading_zeros()).unwrap_or(0)
}

/// True when `a op by` is 0 for every `a` up to the bound.
pub(super) fn vanishes(bound: u64, op: BinaryOp, ty: Ty, by: u64) -> bool {
    if bound > most(ty) {
        return false;
    }
    match op {
        BinaryOp::And => by & most(ty) & within_bits(bound) == 0,
        BinaryOp::Shr if by < u64::from(ty.bits()) => {
            bound >> by == 0 && (!ty.signed() || bound <= most(ty) / 2)
        }
        _ => false,
    }
}
