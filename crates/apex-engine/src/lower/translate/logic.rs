//! Bitwise logic, shifts, and everything about predicates and comparison.

use super::Translator;
use crate::code::{BinaryOp, Class, Compare, Guard, Inst, Join, Mode, PrmtMode, Reg, Src};
use crate::code::{TernaryOp, Ty, UnaryOp};
use crate::lower::words::{COMPARES, Words};
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

/// How predicates are joined, by word.
pub(super) const JOINS: [(&str, Join); 3] =
    [("and", Join::And), ("or", Join::Or), ("xor", Join::Xor)];

impl Translator<'_, '_> {
    /// `and` to `prmt`.
    pub(super) fn logic(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let join = words.pick(&JOINS);
        let right = words.pick(&[("l", false), ("r", true)]).unwrap_or(false);
        let wrap = words.pick(&[("clamp", false), ("wrap", true)]).unwrap_or(false);
        let prmt = words.pick(&[
            ("f4e", PrmtMode::F4e),
            ("b4e", PrmtMode::B4e),
            ("rc8", PrmtMode::Rc8),
            ("ecl", PrmtMode::Ecl),
            ("ecr", PrmtMode::Ecr),
            ("rc16", PrmtMode::Rc16),
        ]);
        let ty = words.ty()?;
        words.finish()?;
        let mode = Mode::default();
        if ty == Ty::Pred {
            return self.predicate_logic(it);
        }
        match (&*it.opcode, it.operands.as_slice()) {
            ("and", _) => self.binary(it, BinaryOp::And, ty, mode),
            ("or", _) => self.binary(it, BinaryOp::Or, ty, mode),
            ("xor", _) => self.binary(it, BinaryOp::Xor, ty, mode),
            ("shl", _) => self.binary(it, BinaryOp::Shl, ty, mode),
            ("shr", _) => self.binary(it, BinaryOp::Shr, ty, mode),
            ("not", _) => self.unary(it, UnaryOp::Not, ty, mode),
            ("cnot", _) => self.unary(it, UnaryOp::Cnot, ty, mode),
            ("prmt", _) => {
                let op = TernaryOp::Prmt(prmt.unwrap_or(PrmtMode::Index));
                self.ternary(it, op, ty, mode)
            }
            ("shf", _) => {
                let op = match (right, wrap) {
                    (false, false) => TernaryOp::ShfLeftClamp,
                    (false, true) => TernaryOp::ShfLeftWrap,
                    (true, false) => TernaryOp::ShfRightClamp,
                    (true, true) => TernaryOp::ShfRightWrap,
                };
                self.ternary(it, op, ty, mode)
            }
            ("lop3", [to, a, b, c, Operand::Constant(table), rest @ ..]) => {
                let table = super::constant::constant_bits(*table, Ty::U8) as u8;
                let (to, flag) = match to {
                    Operand::Pair(to, flag) => (&**to, Some(&**flag)),
                    other => (other, None),
                };
                let a = self.read(a, ty)?;
                let b = self.read(b, ty)?;
                let c = self.read(c, ty)?;
                let dst = self.write(to, ty)?;
                let op = TernaryOp::Lop3(table);
                self.emit(Inst::Ternary { op, ty, mode, dst, a, b, c });
                self.lop3_flag(join, flag, rest, dst)
            }
            _ => refuse("has other operands than known"),
        }
    }

    /// `lop3.or.b32 d|p, .., q`: p is whether d is not 0, joined with q.
    fn lop3_flag(
        &mut self,
        join: Option<Join>,
        flag: Option<&Operand>,
        rest: &[Operand],
        value: Reg,
    ) -> Outcome {
        let Some(flag) = flag else {
            return Ok(());
        };
        let (Some(join), [with]) = (join, rest) else {
            return refuse("a predicate result needs .and, .or or .xor and a predicate");
        };
        let with = self.predicate(with)?;
        let dst = self.write_predicate(flag)?;
        self.emit(Inst::Setp {
            compare: Compare::Ne,
            ty: Ty::B32,
            ftz: false,
            dst,
            not_dst: None,
            a: Src::Reg(value),
            b: Src::Imm(0),
            join: Some((join, with)),
        });
        Ok(())
    }

    fn predicate_logic(&mut self, it: &Instruction) -> Outcome {
        let join = JOINS.iter().find(|(word, _)| **word == *it.opcode).map(|(_, join)| *join);
        match (join, it.operands.as_slice()) {
            (Some(join), [to, a, b]) => {
                let a = self.predicate(a)?;
                let b = self.predicate(b)?;
                if let Some(dst) = self.write_predicate(to)? {
                    self.emit(Inst::PredLogic { join, dst, a, b });
                }
                Ok(())
            }
            (None, [to, a]) if &*it.opcode == "not" => {
                let a = self.predicate(a)?;
                if let Some(dst) = self.write_predicate(to)? {
                    let a = Guard { negated: !a.negated, ..a };
                    self.emit(Inst::PredCopy { dst, a });
                }
                Ok(())
            }
            _ => refuse("has other operands than known"),
        }
    }

    /// `setp`, `set`, `selp`, `slct`.
    pub(super) fn comparison(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let ftz = words.take("ftz");
        match &*it.opcode {
            "selp" => return self.selp(it, words),
            "slct" => return self.slct(it, words, ftz),
            _ => {}
        }
        let mut unsigned = false;
        let compare = words.take_if(|word| {
            unsigned = matches!(word, "lo" | "ls" | "hi" | "hs");
            COMPARES.iter().find(|(known, _)| *known == word).map(|(_, compare)| *compare)
        });
        let Some(compare) = compare else {
            return refuse("has no comparison");
        };
        let join = words.pick(&JOINS);
        let types = words.types();
        words.finish()?;
        let [to, a, b, rest @ ..] = it.operands.as_slice() else {
            return refuse("takes three operands");
        };
        let join = match (join, rest) {
            (Some(join), [with]) => Some((join, self.predicate(with)?)),
            (None, []) => None,
            _ => return refuse("a join needs a predicate"),
        };
        match (&*it.opcode, &types[..]) {
            ("setp", &[ty]) => {
                let ty = if unsigned { as_unsigned(ty) } else { ty };
                let a = self.read(a, ty)?;
                let b = self.read(b, ty)?;
                let (dst, not_dst) = match to {
                    Operand::Pair(dst, not_dst) => {
                        (self.write_predicate(dst)?, self.write_predicate(not_dst)?)
                    }
                    dst => (self.write_predicate(dst)?, None),
                };
                self.emit(Inst::Setp { compare, ty, ftz, dst, not_dst, a, b, join });
                Ok(())
            }
            ("set", &[to_ty, ty]) => {
                let ty = if unsigned { as_unsigned(ty) } else { ty };
                let a = self.read(a, ty)?;
                let b = self.read(b, ty)?;
                let dst = self.write(to, to_ty)?;
                self.emit(Inst::Set { compare, ty, to: to_ty, ftz, dst, a, b, join });
                Ok(())
            }
            _ => refuse("has other types than known"),
        }
    }

    fn selp(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        let ty = words.ty()?;
        words.finish()?;
        let [to, a, b, predicate] = it.operands.as_slice() else {
            return refuse("takes four operands");
        };
        let a = self.read(a, ty)?;
        let b = self.read(b, ty)?;
        let predicate = self.predicate(predicate)?;
        let dst = self.write(to, ty)?;
        self.emit(Inst::Select { ty, dst, a, b, predicate });
        Ok(())
    }

    fn slct(&mut self, it: &Instruction, mut words: Words<'_>, ftz: bool) -> Outcome {
        let types = words.types();
        words.finish()?;
        let (&[ty, by], [to, a, b, c]) = (&types[..], it.operands.as_slice()) else {
            return refuse("takes two types and four operands");
        };
        let a = self.read(a, ty)?;
        let b = self.read(b, ty)?;
        let c = self.read(c, by)?;
        let dst = self.write(to, ty)?;
        self.emit(Inst::Slct { ty, by, ftz, dst, a, b, c });
        Ok(())
    }

    /// `fns`: the position of the n-th set bit from `base`, as a loop.
    pub(super) fn find_nth_set(
        &mut self,
        to: &Operand,
        mask: &Operand,
        base: &Operand,
        offset: &Operand,
    ) -> Outcome {
        let mask = self.read(mask, Ty::B32)?;
        let base = self.read(base, Ty::U32)?;
        let offset = self.read(offset, Ty::S32)?;
        let to = self.write(to, Ty::B32)?;
        let guard = self.guard.take();
        let (position, left, step, found) = (
            self.register(Class::B32),
            self.register(Class::B32),
            self.register(Class::B32),
            self.register(Class::B32),
        );
        let (inside, set) = (self.register(Class::Pred), self.register(Class::Pred));
        let (top, done) = (self.new_label(), self.new_label());
        let is = |predicate, negated| Guard { predicate, negated };
        let reg = Src::Reg;
        self.binary_step(BinaryOp::Shr, Ty::S32, step, offset, Src::Imm(31));
        self.binary_step(BinaryOp::Or, Ty::B32, step, reg(step), Src::Imm(1));
        let mode = Mode::default();
        self.emit(Inst::Unary { op: UnaryOp::Abs, ty: Ty::S32, mode, dst: left, a: offset });
        // Offset 0 means the bit at the base itself, which is the first one only if it is set.
        self.binary_step(BinaryOp::Max, Ty::S32, left, reg(left), Src::Imm(1));
        self.emit(Inst::Mov { ty: Ty::B32, dst: position, src: base });
        self.emit(Inst::Mov { ty: Ty::B32, dst: found, src: Src::Imm(0xFFFF_FFFF) });
        self.set_label(top);
        self.compare_step(Compare::Lt, Ty::U32, inside, reg(position), Src::Imm(32));
        self.guard = Some(is(inside, true));
        self.emit(Inst::Branch { target: done });
        self.guard = None;
        let bit = self.temporary(Class::B32);
        self.binary_step(BinaryOp::Shr, Ty::U32, bit, mask, reg(position));
        self.binary_step(BinaryOp::And, Ty::B32, bit, reg(bit), Src::Imm(1));
        self.binary_step(BinaryOp::Sub, Ty::S32, left, reg(left), reg(bit));
        self.compare_step(Compare::Le, Ty::S32, set, reg(left), Src::Imm(0));
        self.guard = Some(is(set, false));
        self.emit(Inst::Mov { ty: Ty::B32, dst: found, src: reg(position) });
        self.emit(Inst::Branch { target: done });
        self.guard = None;
        self.binary_step(BinaryOp::Add, Ty::S32, position, reg(position), reg(step));
        // With offset 0 one look is all there is.
        self.compare_step(Compare::Ne, Ty::S32, set, offset, Src::Imm(0));
        self.guard = Some(is(set, false));
        self.emit(Inst::Branch { target: top });
        self.guard = None;
        self.set_label(done);
        self.guard = guard;
        self.emit(Inst::Mov { ty: Ty::B32, dst: to, src: reg(found) });
        Ok(())
    }

    fn binary_step(&mut self, op: BinaryOp, ty: Ty, dst: Reg, a: Src, b: Src) {
        self.emit(Inst::Binary { op, ty, mode: Mode::default(), dst, a, b });
    }

    fn compare_step(&mut self, compare: Compare, ty: Ty, dst: Reg, a: Src, b: Src) {
        let (dst, not_dst) = (Some(dst), None);
        self.emit(Inst::Setp { compare, ty, ftz: false, dst, not_dst, a, b, join: None });
    }
}

/// The same width without a sign.
fn as_unsigned(ty: Ty) -> Ty {
    match ty {
        Ty::S16 => Ty::U16,
        Ty::S32 => Ty::U32,
        Ty::S64 => Ty::U64,
        other => other,
    }
}
