//! Instructions by which the lanes of a warp see each other.

use super::Translator;
use crate::code::{AtomOp, Class, Inst, ShuffleMode, Src, Ty, VoteMode};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

impl Translator<'_, '_> {
    /// `shfl`, `vote`, `match`, `activemask`, `redux`, `elect`.
    pub(super) fn warp(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let sync = words.take("sync");
        match &*it.opcode {
            "shfl" => self.shuffle(it, words, sync),
            "vote" => self.vote(it, words, sync),
            "match" => self.matching(it, words),
            "redux" => self.redux(it, words),
            "elect" => self.elect(it, &words),
            _ => {
                words.types();
                words.finish()?;
                let [to] = it.operands.as_slice() else {
                    return refuse("takes one operand");
                };
                let dst = self.write(to, Ty::B32)?;
                self.emit(Inst::ActiveMask { dst });
                Ok(())
            }
        }
    }

    fn shuffle(&mut self, it: &Instruction, mut words: Words<'_>, sync: bool) -> Outcome {
        let mode = words.pick(&[
            ("up", ShuffleMode::Up),
            ("down", ShuffleMode::Down),
            ("bfly", ShuffleMode::Bfly),
            ("idx", ShuffleMode::Idx),
        ]);
        let ty = words.ty()?;
        words.finish()?;
        let (Some(mode), [to, a, b, c, rest @ ..]) = (mode, it.operands.as_slice()) else {
            return refuse("has other operands than known");
        };
        let mask = match (sync, rest) {
            (true, [mask]) => Some(self.read(mask, Ty::B32)?),
            (false, []) => None,
            _ => return refuse("has other operands than known"),
        };
        let a = self.read(a, ty)?;
        let b = self.read(b, Ty::B32)?;
        let c = self.read(c, Ty::B32)?;
        let (to, in_range) = match to {
            Operand::Pair(to, flag) => (&**to, self.write_predicate(flag)?),
            to => (to, None),
        };
        let dst = self.write(to, ty)?;
        self.emit(Inst::Shuffle { mode, dst, in_range, a, b, c, mask });
        Ok(())
    }

    fn vote(&mut self, it: &Instruction, mut words: Words<'_>, sync: bool) -> Outcome {
        let mode = words.pick(&[
            ("all", VoteMode::All),
            ("any", VoteMode::Any),
            ("uni", VoteMode::Uni),
            ("ballot", VoteMode::Ballot),
        ]);
        words.types();
        words.finish()?;
        let (Some(mode), [to, a, rest @ ..]) = (mode, it.operands.as_slice()) else {
            return refuse("has other operands than known");
        };
        let mask = match (sync, rest) {
            (true, [mask]) => Some(self.read(mask, Ty::B32)?),
            (false, []) => None,
            _ => return refuse("has other operands than known"),
        };
        let a = self.predicate(a)?;
        let dst = match mode {
            VoteMode::Ballot => self.write(to, Ty::B32)?,
            _ => match self.write_predicate(to)? {
                Some(dst) => dst,
                None => self.temporary(Class::Pred),
            },
        };
        self.emit(Inst::Vote { mode, dst, a, mask });
        Ok(())
    }

    fn matching(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        let all = words.pick(&[("any", false), ("all", true)]);
        let ty = words.ty()?;
        words.finish()?;
        let (Some(all), [to, a, mask]) = (all, it.operands.as_slice()) else {
            return refuse("has other operands than known");
        };
        let a = self.read(a, ty)?;
        let mask = self.read(mask, Ty::B32)?;
        let (to, all_equal) = match to {
            Operand::Pair(to, flag) => (&**to, self.write_predicate(flag)?),
            to => (to, None),
        };
        let dst = self.write(to, Ty::B32)?;
        self.emit(Inst::Match { all, ty, dst, all_equal, a, mask });
        Ok(())
    }

    fn redux(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        let op = words.pick(&[
            ("add", AtomOp::Add),
            ("min", AtomOp::Min),
            ("max", AtomOp::Max),
            ("and", AtomOp::And),
            ("or", AtomOp::Or),
            ("xor", AtomOp::Xor),
        ]);
        let abs = words.take("abs");
        let nan = words.take("NaN");
        let ty = words.ty()?;
        words.finish()?;
        let (Some(op), [to, a, mask]) = (op, it.operands.as_slice()) else {
            return refuse("has other operands than known");
        };
        let a = self.read(a, ty)?;
        let mask = self.read(mask, Ty::B32)?;
        let dst = self.write(to, ty)?;
        self.emit(Inst::Redux { op, ty, abs, nan, dst, a, mask });
        Ok(())
    }

    fn elect(&mut self, it: &Instruction, words: &Words<'_>) -> Outcome {
        words.finish()?;
        let [Operand::Pair(to, flag), mask] = it.operands.as_slice() else {
            return refuse("has other operands than known");
        };
        let mask: Src = self.read(mask, Ty::B32)?;
        let dst = self.write_optional(to, Ty::B32)?;
        let elected = match self.write_predicate(flag)? {
            Some(elected) => elected,
            None => self.temporary(Class::Pred),
        };
        self.emit(Inst::Elect { dst, elected, mask });
        Ok(())
    }
}
