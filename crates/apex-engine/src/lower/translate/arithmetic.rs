//! Integer arithmetic, and what integers and floating numbers share.

use super::Translator;
use crate::code::{BinaryOp, Class, Inst, Mode, Reg, Src, TernaryOp, Ty, UnaryOp};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

/// Which half of a product.
#[derive(Clone, Copy, PartialEq)]
enum Half {
    Low,
    High,
    Wide,
}

const HALVES: [(&str, Half); 3] = [("lo", Half::Low), ("hi", Half::High), ("wide", Half::Wide)];

impl Translator<'_, '_> {
    /// `add` to `madc`.
    pub(super) fn arithmetic(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let half = words.pick(&HALVES);
        let carry_out = words.take("cc");
        let carry_in = matches!(&*it.opcode, "addc" | "subc" | "madc");
        let approximate = words.pick(&[("approx", true), ("full", false)]);
        let mode = self.mode(&mut words);
        let types = words.types();
        words.finish()?;
        let Some(&ty) = types.first() else {
            return refuse("has no type");
        };
        if carry_in || carry_out {
            return self.carried(it, ty, half, carry_in, carry_out);
        }
        if let [_, small] = types[..] {
            return self.mixed(it, ty, small, mode);
        }
        let op = match (&*it.opcode, half) {
            ("abs", _) => return self.unary(it, UnaryOp::Abs, ty, mode),
            ("neg", _) => return self.unary(it, UnaryOp::Neg, ty, mode),
            ("mad", None) => return self.ternary(it, TernaryOp::Fma, ty, mode),
            ("mad", Some(half)) => return self.mad(it, half, ty, mode),
            ("mad24", half) => {
                let op = match (half, mode.sat) {
                    (Some(Half::High), true) => TernaryOp::Mad24HiSat,
                    (Some(Half::High), false) => TernaryOp::Mad24Hi,
                    _ => TernaryOp::Mad24Lo,
                };
                return self.ternary(it, op, ty, Mode::default());
            }
            ("sad", _) => return self.ternary(it, TernaryOp::Sad, ty, mode),
            ("min", _) if it.operands.len() == 4 => {
                return self.ternary(it, TernaryOp::Min3, ty, mode);
            }
            ("max", _) if it.operands.len() == 4 => {
                return self.ternary(it, TernaryOp::Max3, ty, mode);
            }
            ("add", _) => BinaryOp::Add,
            ("sub", _) => BinaryOp::Sub,
            ("mul", Some(Half::High)) => BinaryOp::MulHi,
            ("mul", Some(Half::Wide)) => BinaryOp::MulWide,
            ("mul", _) => BinaryOp::Mul,
            ("mul24", Some(Half::High)) => BinaryOp::Mul24Hi,
            ("mul24", _) => BinaryOp::Mul24Lo,
            ("div", _) => match approximate {
                Some(true) => BinaryOp::DivApprox,
                Some(false) => BinaryOp::DivFull,
                None => BinaryOp::Div,
            },
            ("rem", _) => BinaryOp::Rem,
            ("min", _) => BinaryOp::Min,
            ("max", _) => BinaryOp::Max,
            _ => return refuse("instruction is not known here"),
        };
        self.binary(it, op, ty, mode)
    }

    /// What modifies results; all words are taken.
    pub(super) fn mode(&mut self, words: &mut Words<'_>) -> Mode {
        let rounding = words.rounding().unwrap_or_default();
        let ftz = words.take("ftz");
        let sat = words.take("sat") | words.take("satfinite");
        let relu = words.take("relu");
        let nan = words.take("NaN");
        let xorsign_abs = words.take("xorsign") && words.take("abs");
        Mode { rounding, ftz, sat, relu, nan, xorsign_abs }
    }

    pub(super) fn unary(&mut self, it: &Instruction, op: UnaryOp, ty: Ty, mode: Mode) -> Outcome {
        let [to, a] = it.operands.as_slice() else {
            return refuse("takes two operands");
        };
        let a = self.read(a, ty)?;
        let dst = self.write(to, ty)?;
        self.emit(Inst::Unary { op, ty, mode, dst, a });
        Ok(())
    }

    pub(super) fn binary(&mut self, it: &Instruction, op: BinaryOp, ty: Ty, mode: Mode) -> Outcome {
        let [to, a, b] = it.operands.as_slice() else {
            return refuse("takes three operands");
        };
        let result = if op == BinaryOp::MulWide { doubled(ty)? } else { ty };
        let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        let a = self.read(a, ty)?;
        let b = self.read(b, if shift { Ty::U32 } else { ty })?;
        let dst = self.write(to, result)?;
        self.emit(Inst::Binary { op, ty, mode, dst, a, b });
        self.at_least_zero(ty, mode, dst);
        Ok(())
    }

    pub(super) fn ternary(
        &mut self,
        it: &Instruction,
        op: TernaryOp,
        ty: Ty,
        mode: Mode,
    ) -> Outcome {
        let [to, a, b, c] = it.operands.as_slice() else {
            return refuse("takes four operands");
        };
        let wide = if op == TernaryOp::MadWide { doubled(ty)? } else { ty };
        let a = self.read(a, ty)?;
        let b = self.read(b, ty)?;
        let c = self.read(c, wide)?;
        let dst = self.write(to, wide)?;
        self.emit_ternary(op, ty, mode, dst, [a, b, c]);
        self.at_least_zero(ty, mode, dst);
        Ok(())
    }

    /// `.relu` of words is a step of its own; floats and pairs have it in theirs.
    fn at_least_zero(&mut self, ty: Ty, mode: Mode, dst: Reg) {
        if mode.relu && ty == Ty::S32 {
            let (op, mode, a) = (BinaryOp::Max, Mode::default(), Src::Reg(dst));
            self.emit(Inst::Binary { op, ty, mode, dst, a, b: Src::Imm(0) });
        }
    }

    fn mad(&mut self, it: &Instruction, half: Half, ty: Ty, mode: Mode) -> Outcome {
        let op = match (half, mode.sat) {
            (Half::Low, _) => TernaryOp::Mad,
            (Half::Wide, _) => TernaryOp::MadWide,
            (Half::High, false) => TernaryOp::MadHi,
            (Half::High, true) => TernaryOp::MadHiSat,
        };
        self.ternary(it, op, ty, Mode::default())
    }

    fn carried(
        &mut self,
        it: &Instruction,
        ty: Ty,
        half: Option<Half>,
        carry_in: bool,
        carry_out: bool,
    ) -> Outcome {
        let flag = self.carry();
        let carry_in = carry_in.then_some(flag);
        let carry_out = carry_out.then_some(flag);
        match it.operands.as_slice() {
            [to, a, b] => {
                let sub = it.opcode.starts_with("sub");
                let a = self.read(a, ty)?;
                let b = self.read(b, ty)?;
                let dst = self.write(to, ty)?;
                self.emit(Inst::Carry { sub, ty, dst, a, b, carry_in, carry_out });
            }
            [to, a, b, c] => {
                let high = half == Some(Half::High);
                let a = self.read(a, ty)?;
                let b = self.read(b, ty)?;
                let c = self.read(c, ty)?;
                let dst = self.write(to, ty)?;
                self.emit(Inst::MadCarry { high, ty, dst, a, b, c, carry_in, carry_out });
            }
            _ => return refuse("takes three or four operands"),
        }
        Ok(())
    }

    /// `add.f32.f16 d, a, c` and `fma.rn.f32.f16 d, a, b, c`: the factors, and the first summand,
    /// are of the smaller type.
    pub(super) fn mixed(&mut self, it: &Instruction, ty: Ty, small: Ty, mode: Mode) -> Outcome {
        let widen = |this: &mut Self, operand: &Operand| -> Outcome<Src> {
            let a = this.read(operand, small)?;
            let dst = this.temporary(Class::B32);
            let mode = Mode::default();
            this.emit_free(Inst::Cvt { to: ty, from: small, mode, dst, a });
            Ok(Src::Reg(dst))
        };
        if ty != Ty::F32 || !matches!(small, Ty::F16 | Ty::Bf16) {
            return refuse("these types do not go together");
        }
        match (&*it.opcode, it.operands.as_slice()) {
            (opcode @ ("add" | "sub"), [to, a, b]) => {
                let a = widen(self, a)?;
                let b = self.read(b, ty)?;
                let dst = self.write(to, ty)?;
                let op = if opcode == "add" { BinaryOp::Add } else { BinaryOp::Sub };
                self.emit(Inst::Binary { op, ty, mode, dst, a, b });
            }
            ("fma", [to, a, b, c]) => {
                let a = widen(self, a)?;
                let b = widen(self, b)?;
                let c = self.read(c, ty)?;
                let dst = self.write(to, ty)?;
                self.emit(Inst::Ternary { op: TernaryOp::Fma, ty, mode, dst, a, b, c });
            }
            _ => return refuse("has other operands than known"),
        }
        Ok(())
    }

    /// Counting and moving bits.
    pub(super) fn bits(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let wrap = words.pick(&[("wrap", true), ("clamp", false)]).unwrap_or(false);
        let shift = words.take("shiftamt");
        let high = words.pick(&[("lo", false), ("hi", true)]).unwrap_or(false);
        let types = words.types();
        words.finish()?;
        let Some(&ty) = types.first() else {
            return refuse("has no type");
        };
        let mode = Mode::default();
        match (&*it.opcode, it.operands.as_slice()) {
            (opcode @ ("popc" | "clz" | "bfind"), [to, a]) => {
                let op = match opcode {
                    "popc" => UnaryOp::Popc,
                    "clz" => UnaryOp::Clz,
                    _ if shift => UnaryOp::BfindShift,
                    _ => UnaryOp::Bfind,
                };
                let a = self.read(a, ty)?;
                // The count is 32 bits whatever is counted.
                let dst = self.write(to, Ty::U32)?;
                self.emit(Inst::Unary { op, ty, mode, dst, a });
                Ok(())
            }
            ("brev", _) => self.unary(it, UnaryOp::Brev, ty, mode),
            ("bfe", [to, a, position, length]) => {
                let a = self.read(a, ty)?;
                let b = self.read(position, Ty::U32)?;
                let c = self.read(length, Ty::U32)?;
                let dst = self.write(to, ty)?;
                self.emit_ternary(TernaryOp::Bfe, ty, mode, dst, [a, b, c]);
                Ok(())
            }
            ("bfi", [to, insert, base, position, length]) => {
                let insert = self.read(insert, ty)?;
                let base = self.read(base, ty)?;
                let position = self.read(position, Ty::U32)?;
                let length = self.read(length, Ty::U32)?;
                let dst = self.write(to, ty)?;
                if !self.insert(ty, dst, insert, base, [position, length]) {
                    self.emit(Inst::Bfi { ty, dst, insert, base, position, length });
                }
                Ok(())
            }
            ("szext", _) => {
                let op = if wrap { BinaryOp::SzextWrap } else { BinaryOp::SzextClamp };
                self.binary(it, op, ty, mode)
            }
            ("bmsk", _) => {
                let op = if wrap { BinaryOp::BmskWrap } else { BinaryOp::BmskClamp };
                self.binary(it, op, ty, mode)
            }
            ("dp4a" | "dp2a", _) => {
                let [a, b] = types[..] else {
                    return refuse("takes two types");
                };
                let (a_signed, b_signed) = (a.signed(), b.signed());
                let op = match &*it.opcode {
                    "dp4a" => TernaryOp::Dp4a(a_signed, b_signed),
                    _ => TernaryOp::Dp2a { a_signed, b_signed, high },
                };
                let ty = if a_signed || b_signed { Ty::S32 } else { Ty::U32 };
                self.ternary(it, op, ty, mode)
            }
            ("fns", [to, mask, base, offset]) => self.find_nth_set(to, mask, base, offset),
            _ => refuse("has other operands than known"),
        }
    }
}

/// The integer type of twice the width.
fn doubled(ty: Ty) -> Outcome<Ty> {
    Ok(match ty {
        Ty::U16 => Ty::U32,
        Ty::S16 => Ty::S32,
        Ty::U32 => Ty::U64,
        Ty::S32 => Ty::S64,
        _ => return refuse("has no wider type"),
    })
}
