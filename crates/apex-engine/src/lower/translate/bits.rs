//! Funnel shifts and bit fields by constants become plain shifts and masks.
//!
//! Rotations and fields of packed values have constant distances nearly always, and the plain
//! forms are what both tiers do for many lanes at once.

use super::Translator;
use crate::code::{BinaryOp, Inst, Mode, Reg, Src, TernaryOp, Ty};

impl Translator<'_, '_> {
    /// Emits a step of three operands, in its plain form where its distances are constants.
    pub(super) fn emit_ternary(
        &mut self,
        op: TernaryOp,
        ty: Ty,
        mode: Mode,
        dst: Reg,
        from: [Src; 3],
    ) {
        let [a, b, c] = from;
        let done = match op {
            TernaryOp::ShfLeftWrap | TernaryOp::ShfLeftClamp => {
                distance(c, op == TernaryOp::ShfLeftWrap)
                    .is_some_and(|n| self.funnel(dst, a, b, 32 - n))
            }
            TernaryOp::ShfRightWrap | TernaryOp::ShfRightClamp => {
                distance(c, op == TernaryOp::ShfRightWrap)
                    .is_some_and(|n| self.funnel(dst, a, b, n))
            }
            TernaryOp::Bfe => self.extract(ty, dst, a, b, c),
            _ => false,
        };
        if !done {
            self.emit(Inst::Ternary { op, ty, mode, dst, a, b, c });
        }
    }

    /// The low 32 bits of `high:low` shifted right by 0 to 32.
    fn funnel(&mut self, dst: Reg, low: Src, high: Src, right: u32) -> bool {
        match right {
            0 => self.emit(Inst::Mov { ty: Ty::B32, dst, src: low }),
            32 => self.emit(Inst::Mov { ty: Ty::B32, dst, src: high }),
            _ => {
                let below = self.part(BinaryOp::Shr, Ty::U32, low, u64::from(right));
                let above = self.part(BinaryOp::Shl, Ty::U32, high, u64::from(32 - right));
                self.finish_part(BinaryOp::Or, Ty::U32, dst, below, above);
            }
        }
        true
    }

    /// A field that lies inside the value.
    fn extract(&mut self, ty: Ty, dst: Reg, a: Src, position: Src, length: Src) -> bool {
        let Some((position, length)) = field(ty, position, length) else { return false };
        let bits = u64::from(ty.bits());
        if ty.signed() {
            let top = self.part(BinaryOp::Shl, ty, a, bits - position - length);
            self.finish_part(BinaryOp::Shr, ty, dst, top, Src::Imm(bits - length));
        } else {
            let low = self.part(BinaryOp::Shr, ty, a, position);
            self.finish_part(BinaryOp::And, ty, dst, low, Src::Imm(mask(length)));
        }
        true
    }

    /// `bfi` of a field that lies inside the value; whether it was one.
    pub(super) fn insert(
        &mut self,
        ty: Ty,
        dst: Reg,
        insert: Src,
        base: Src,
        at: [Src; 2],
    ) -> bool {
        let Some((position, length)) = field(ty, at[0], at[1]) else { return false };
        let unsigned = if ty.bits() == 64 { Ty::U64 } else { Ty::U32 };
        let hole = mask(length) << position;
        let shifted = self.part(BinaryOp::Shl, unsigned, insert, position);
        let inserted = self.part_of(BinaryOp::And, unsigned, shifted, Src::Imm(hole));
        let kept = !hole & mask(u64::from(ty.bits()));
        let rest = self.part_of(BinaryOp::And, unsigned, base, Src::Imm(kept));
        self.finish_part(BinaryOp::Or, unsigned, dst, inserted, rest);
        true
    }

    fn part(&mut self, op: BinaryOp, ty: Ty, a: Src, by: u64) -> Src {
        if by == 0 && matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
            return a;
        }
        self.part_of(op, ty, a, Src::Imm(by))
    }

    fn part_of(&mut self, op: BinaryOp, ty: Ty, a: Src, b: Src) -> Src {
        let dst = self.temporary(ty.class());
        self.emit_free(Inst::Binary { op, ty, mode: Mode::default(), dst, a, b });
        Src::Reg(dst)
    }

    fn finish_part(&mut self, op: BinaryOp, ty: Ty, dst: Reg, a: Src, b: Src) {
        self.emit(Inst::Binary { op, ty, mode: Mode::default(), dst, a, b });
    }
}

/// A constant shift distance, 0 to 32.
fn distance(count: Src, wraps: bool) -> Option<u32> {
    match count {
        Src::Imm(count) if wraps => Some(count as u32 & 31),
        Src::Imm(count) => Some((count as u32).min(32)),
        Src::Reg(_) => None,
    }
}

/// A constant position and length, if the field lies inside the type and holds something.
fn field(ty: Ty, position: Src, length: Src) -> Option<(u64, u64)> {
    let (Src::Imm(position), Src::Imm(length)) = (position, length) else { return None };
    // Beyond the type, 32 and 64 bits differ in how they read the numbers: left to the full form.
    let inside = position <= 64 && length <= 64 && position + length <= u64::from(ty.bits());
    (inside && length > 0).then_some((position, length))
}

/// So many ones.
fn mask(length: u64) -> u64 {
    if length >= 64 { u64::MAX } else { (1 << length) - 1 }
}
