//! The shape of what a step computes, from the shapes of its operands.

use super::bound;
use super::shape::Shapes;
use super::shape::{Shape, extend, regular};
use crate::code::{BinaryOp, Inst, ShuffleMode, Space, Special, Src, Step, TernaryOp, Ty};
use crate::operands;

impl Shapes<'_> {
    pub(super) fn result_together(&self, step: &Step) -> Shape {
        let inst = &step.inst;
        match inst {
            Inst::Mov { src, .. } => self.src(*src),
            Inst::Special { which, .. } => self.special(*which),
            Inst::Binary { op, ty, mode, a, b, .. } if !ty.float() && !mode.sat => {
                self.binary(*op, *ty, *a, *b)
            }
            Inst::Ternary { op, ty, mode, a, b, c, .. } if !ty.float() && !mode.sat => {
                self.ternary(*op, *ty, *a, *b, *c)
            }
            Inst::Cvt { to, from, .. } if !to.float() && !from.float() => {
                let Inst::Cvt { a, mode, .. } = inst else { return Shape::Varying };
                if mode.sat { self.alike(step) } else { self.convert(*to, *from, *a) }
            }
            Inst::ToGeneric { a, space, .. } | Inst::FromGeneric { a, space, .. } => {
                match (self.src(*a), space) {
                    (shape, Space::Global | Space::Generic) => shape,
                    (Shape::Regular { stride, .. }, Space::Shared) => {
                        Shape::Regular { stride, align: 0 }
                    }
                    (Shape::Unknown, _) => Shape::Unknown,
                    _ => Shape::Varying,
                }
            }
            Inst::Load { space, address, .. } => match (space, self.src(address.base)) {
                (Space::Local, _) => Shape::Varying,
                (_, shape) if shape.uniform() || shape == Shape::Unknown => shape.base_only(),
                _ => Shape::Varying,
            },
            Inst::Vote { mask: None | Some(Src::Imm(0xffff_ffff)), .. } => Shape::UNIFORM,
            Inst::ActiveMask { .. } | Inst::PredSet { .. } => Shape::UNIFORM,
            Inst::Shuffle { mode: ShuffleMode::Idx, in_range: None, a, b, c, mask, .. } => {
                match (self.src(*a), self.src(*b), c, mask) {
                    (Shape::Unknown, ..) | (_, Shape::Unknown, ..) => Shape::Unknown,
                    (_, shape, Src::Imm(0x1f), Some(Src::Imm(0xffff_ffff))) if shape.uniform() => {
                        Shape::UNIFORM
                    }
                    _ => Shape::Varying,
                }
            }
            Inst::Mbarrier(it) if it.op.waits() => self.alike(step),
            Inst::Unary { .. }
            | Inst::Binary { .. }
            | Inst::Ternary { .. }
            | Inst::Bfi { .. }
            | Inst::Setp { .. }
            | Inst::Set { .. }
            | Inst::Select { .. }
            | Inst::Slct { .. }
            | Inst::Testp { .. }
            | Inst::PredLogic { .. }
            | Inst::PredCopy { .. }
            | Inst::Cvt { .. }
            | Inst::CvtPack { .. }
            | Inst::Pack { .. }
            | Inst::Unpack { .. }
            | Inst::Carry { .. }
            | Inst::MadCarry { .. } => self.alike(step),
            _ => Shape::Varying,
        }
    }

    /// Uniform when every operand is.
    pub(super) fn alike(&self, step: &Step) -> Shape {
        let mut shape = Shape::UNIFORM;
        // The guard is not an operand of the result.
        let bare = Step { guard: None, ..step.clone() };
        operands::reads(&bare, &mut |register| {
            shape = match (shape, self.of(register)) {
                (Shape::Varying, _) => Shape::Varying,
                (_, Shape::Unknown) => Shape::Unknown,
                (kept, of) if of.uniform() => kept,
                _ => Shape::Varying,
            };
        });
        shape
    }

    pub(super) fn binary(&self, op: BinaryOp, ty: Ty, a: Src, b: Src) -> Shape {
        use Shape::{Regular, Unknown, Varying};
        let (left, right) = (self.src(a), self.src(b));
        let (Regular { stride: x, align: p }, Regular { stride: y, align: q }) = (left, right)
        else {
            return if left == Unknown || right == Unknown { Unknown } else { Varying };
        };
        let wide = ty.bits() >= 32;
        if let (true, Src::Reg(register), Src::Imm(by)) = (wide, a, b)
            && bound::vanishes(self.bounds[register.0 as usize], op, ty, by)
        {
            return Regular { stride: 0, align: 63 };
        }
        let lanes_log = self.code.width.trailing_zeros() as u8;
        match op {
            BinaryOp::Add if wide => regular(ty, x.wrapping_add(y), p.min(q)),
            BinaryOp::Sub if wide => regular(ty, x.wrapping_sub(y), p.min(q)),
            BinaryOp::Mul if wide => match (x, y, a, b) {
                (0, 0, ..) => regular(ty, 0, p.saturating_add(q)),
                (_, 0, _, Src::Imm(k)) => {
                    regular(ty, x.wrapping_mul(k as i64), p.saturating_add(q))
                }
                (0, _, Src::Imm(k), _) => {
                    regular(ty, y.wrapping_mul(k as i64), p.saturating_add(q))
                }
                _ => Varying,
            },
            BinaryOp::Shl if wide => match (x, b) {
                (_, Src::Imm(k)) if k < u64::from(ty.bits()) => {
                    regular(ty, x.wrapping_shl(k as u32), p.saturating_add(k as u8))
                }
                (0, _) if y == 0 => Shape::UNIFORM,
                _ => Varying,
            },
            BinaryOp::MulWide if ty.bits() == 32 => match (x, y, a, b) {
                (0, 0, ..) => Shape::UNIFORM,
                (_, 0, _, Src::Imm(k)) => {
                    regular(Ty::U64, x.wrapping_mul(extend(ty, k)), p.saturating_add(q))
                }
                _ => Varying,
            },
            // Whole warps lie inside the mask's period, or share what is left by the shift.
            BinaryOp::And if wide && x == 1 && p >= lanes_log => match b {
                Src::Imm(k) if (k + 1).is_power_of_two() && k + 1 >= u64::from(self.code.width) => {
                    regular(ty, 1, p.min((k + 1).trailing_zeros() as u8))
                }
                _ => Varying,
            },
            BinaryOp::Shr if wide && x == 1 && p >= lanes_log => match b {
                Src::Imm(k) if k >= u64::from(lanes_log) && k < u64::from(ty.bits()) => {
                    Shape::UNIFORM
                }
                _ => Varying,
            },
            _ if x == 0 && y == 0 => Shape::UNIFORM,
            _ => Varying,
        }
    }

    pub(super) fn ternary(&self, op: TernaryOp, ty: Ty, a: Src, b: Src, c: Src) -> Shape {
        let product = match op {
            TernaryOp::Mad => self.binary(BinaryOp::Mul, ty, a, b),
            TernaryOp::MadWide => self.binary(BinaryOp::MulWide, ty, a, b),
            _ => {
                let shapes = [self.src(a), self.src(b), self.src(c)];
                return if shapes.contains(&Shape::Unknown) {
                    Shape::Unknown
                } else if shapes.iter().all(|shape| shape.uniform()) {
                    Shape::UNIFORM
                } else {
                    Shape::Varying
                };
            }
        };
        let result = if op == TernaryOp::MadWide { Ty::U64 } else { ty };
        match (product, self.src(c)) {
            (Shape::Unknown, _) | (_, Shape::Unknown) => Shape::Unknown,
            (Shape::Regular { stride: x, align: p }, Shape::Regular { stride: y, align: q })
                if ty.bits() >= 32 || (x == 0 && y == 0) =>
            {
                regular(result, x.wrapping_add(y), p.min(q))
            }
            _ => Shape::Varying,
        }
    }

    pub(super) fn convert(&self, to: Ty, from: Ty, a: Src) -> Shape {
        match self.src(a) {
            Shape::Regular { stride: 0, .. } => Shape::UNIFORM,
            Shape::Regular { stride, align } if to.bits() >= 32 && from.bits() >= 32 => {
                regular(to, stride, align.min(31))
            }
            Shape::Unknown => Shape::Unknown,
            _ => Shape::Varying,
        }
    }

    pub(super) fn special(&self, which: Special) -> Shape {
        let [x, y, z] = self.threads;
        let width = self.code.width;
        let lanes_log = width.trailing_zeros() as u8;
        match which {
            Special::Tid(0) if x % width == 0 => Shape::Regular { stride: 1, align: lanes_log },
            Special::Tid(0) if y == 1 && z == 1 => Shape::Regular { stride: 1, align: lanes_log },
            Special::Tid(_) if x % width == 0 || (y == 1 && z == 1) => Shape::UNIFORM,
            Special::Tid(_) => Shape::Varying,
            Special::Laneid => Shape::Regular { stride: 1, align: 31 },
            Special::Ntid(_)
            | Special::Ctaid(_)
            | Special::Nctaid(_)
            | Special::Warpid
            | Special::Smid
            | Special::Nsmid => Shape::UNIFORM,
            _ => Shape::Varying,
        }
    }
}
