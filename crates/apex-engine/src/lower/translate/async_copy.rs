//! Copies that run beside the program, and the barriers that count them.
//!
//! A copy is done where it stands, which is one of the orders it may have; so waiting for a group
//! of copies is nothing.

use super::Translator;
use super::memory::ATOM_OPS;
use crate::code::{
    Address, BinaryOp, Class, Compare, CopyBulk, Guard, Inst, Join, Mbarrier, MbarrierOp, Mode,
    Order, Reg, Space, Src, Step, Ty,
};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

impl Translator<'_, '_> {
    /// `cp.async`, `cp.async.bulk`, `cp.reduce.async.bulk` and their groups.
    pub(super) fn copy(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        words.take("async");
        let bulk = words.take("bulk");
        let tensor = words.take("tensor");
        let waits = words.take("wait_group") | words.take("wait_all");
        if words.take("commit_group") || words.take("prefetch") || waits {
            self.emit(Inst::Nop);
            return Ok(());
        }
        if words.take("mbarrier") {
            return self.copy_arrive(it, words);
        }
        if tensor {
            return self.copy_tensor(it, words);
        }
        if bulk { self.copy_bulk(it, words) } else { self.copy_small(it, words) }
    }

    fn copy_arrive(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        words.take("arrive");
        let no_inc = words.take("noinc");
        let space = words.space().unwrap_or(Space::Generic);
        words.types();
        words.finish()?;
        let [barrier] = it.operands.as_slice() else {
            return refuse("takes one operand");
        };
        let (space, address) = self.address(barrier, space)?;
        self.emit(Inst::CopyAsyncArrive { address, space, no_inc });
        Ok(())
    }

    fn copy_small(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        let to = words.space();
        let from = words.space();
        words.order();
        words.finish()?;
        let ([dst, src, Operand::Constant(size), rest @ ..], Some(to), Some(from)) =
            (it.operands.as_slice(), to, from)
        else {
            return refuse("has other operands than known");
        };
        let (_, dst) = self.address(dst, to)?;
        let (_, src) = self.address(src, from)?;
        let size = super::constant::constant_bits(*size, Ty::U32);
        if !matches!(size, 4 | 8 | 16) {
            return refuse("copies of other than 4, 8 or 16 bytes are not known");
        }
        let words: Vec<Reg> = (0..size / 4).map(|_| self.temporary(Class::B32)).collect();
        // A number of bytes, or a predicate that says to take none; a cache policy may follow.
        match rest.first() {
            Some(operand) if matches!(operand, Operand::Not(_)) || self.is_predicate(operand) => {
                let ignore = self.predicate(operand)?;
                self.load_words(&words, src, Some(Guard { negated: !ignore.negated, ..ignore }));
            }
            Some(operand) if rest.len() == 2 || !it.has("L2::cache_hint") => {
                match self.read(operand, Ty::U32)? {
                    Src::Imm(bytes) if bytes >= size => self.load_words(&words, src, None),
                    bytes => self.load_bytes(&words, src, bytes),
                }
            }
            _ => self.load_words(&words, src, None),
        }
        let srcs = words.into_iter().map(Src::Reg).collect();
        let (space, ty, order) = (Space::Shared, Ty::B32, Order::Weak);
        self.emit(Inst::Store { space, ty, order, srcs, address: dst });
        Ok(())
    }

    /// Loads words from global memory for the lanes of a predicate; for others they are 0.
    fn load_words(&mut self, words: &[Reg], address: Address, only: Option<Guard>) {
        let dsts = words.iter().copied().map(Some).collect();
        let (space, ty, order) = (Space::Global, Ty::B32, Order::Weak);
        let load = Inst::Load { space, ty, order, dsts, address };
        let Some(only) = only else { return self.emit(load) };
        for &dst in words {
            self.emit_free(Inst::Mov { ty: Ty::B32, dst, src: Src::Imm(0) });
        }
        let guard = match self.guard {
            None => only,
            Some(guard) => {
                let dst = self.temporary(Class::Pred);
                self.emit_free(Inst::PredLogic { join: Join::And, dst, a: guard, b: only });
                Guard { predicate: dst, negated: false }
            }
        };
        self.body.steps.push(Step { guard: Some(guard), inst: load, line: self.line });
    }

    /// Loads so many bytes; the rest of the words is 0. A copy is aligned to its size, so that to
    /// read the rest and to throw it away touches no other page.
    fn load_bytes(&mut self, words: &[Reg], address: Address, bytes: Src) {
        let some = self.temporary(Class::Pred);
        self.emit_free(Inst::Setp {
            compare: Compare::Ne,
            ty: Ty::U32,
            ftz: false,
            dst: Some(some),
            not_dst: None,
            a: bytes,
            b: Src::Imm(0),
            join: None,
        });
        self.load_words(words, address, Some(Guard { predicate: some, negated: false }));
        let most = words.len() as u64 * 4;
        let bytes = self.integer(BinaryOp::Min, Ty::U32, bytes, Src::Imm(most));
        for (index, &word) in words.iter().enumerate() {
            // The bytes of this word, from 0 to 4; a shift by 32 gives 0, and 0 - 1 all ones.
            let here = self.integer(BinaryOp::Sub, Ty::S32, bytes, Src::Imm(index as u64 * 4));
            let here = self.integer(BinaryOp::Max, Ty::S32, here, Src::Imm(0));
            let here = self.integer(BinaryOp::Min, Ty::S32, here, Src::Imm(4));
            let bits = self.integer(BinaryOp::Shl, Ty::B32, here, Src::Imm(3));
            let above = self.integer(BinaryOp::Shl, Ty::B32, Src::Imm(1), bits);
            let kept = self.integer(BinaryOp::Sub, Ty::U32, above, Src::Imm(1));
            let (op, ty, mode) = (BinaryOp::And, Ty::B32, Mode::default());
            self.emit_free(Inst::Binary { op, ty, mode, dst: word, a: Src::Reg(word), b: kept });
        }
    }

    /// A result of integers, for all lanes.
    fn integer(&mut self, op: BinaryOp, ty: Ty, a: Src, b: Src) -> Src {
        let dst = self.temporary(Class::B32);
        self.emit_free(Inst::Binary { op, ty, mode: Mode::default(), dst, a, b });
        Src::Reg(dst)
    }

    fn is_predicate(&mut self, operand: &Operand) -> bool {
        let Operand::Name(name) = operand else {
            return false;
        };
        self.predicate_register(name).is_ok()
    }

    fn copy_bulk(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        if words.take("cp_mask") {
            return refuse("byte masks are not known here");
        }
        let several = words.take("multicast::cluster");
        let reduced = words.take("reduce");
        let to = words.space();
        let from = words.space();
        let counted = words.take("mbarrier::complete_tx::bytes");
        words.take("bulk_group");
        words.take("noftz");
        let op = words.pick(&ATOM_OPS);
        let ty = words.types().first().copied();
        words.order();
        words.finish()?;
        let ([dst, src, size, rest @ ..], Some(to), Some(from)) =
            (it.operands.as_slice(), to, from)
        else {
            return refuse("has other operands than known");
        };
        let reduce = match (reduced, op, ty) {
            (false, None, None) => None,
            (true, Some(op), Some(ty)) => Some((op, ty)),
            _ => return refuse("has other words than known"),
        };
        let dst = self.address(dst, to)?;
        let src = self.address(src, from)?;
        let size = self.read(size, Ty::U32)?;
        let (mbarrier, rest) = match (counted, rest) {
            (true, [barrier, rest @ ..]) => (Some(self.address(barrier, Space::Shared)?.1), rest),
            (false, rest) => (None, rest),
            _ => return refuse("has no barrier"),
        };
        let blocks = match (several, rest) {
            (true, [blocks, ..]) => Some(self.read(blocks, Ty::U16)?),
            (true, []) => return refuse("does not say which blocks"),
            (false, _) => None,
        };
        let copy = CopyBulk { dst, src, size, mbarrier, blocks, reduce };
        self.emit(Inst::CopyBulk(Box::new(copy)));
        Ok(())
    }

    /// `mbarrier.*`.
    pub(super) fn mbarrier(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        words.order();
        words.take("noComplete");
        let op = words.pick(&[
            ("init", MbarrierOp::Init),
            ("inval", MbarrierOp::Inval),
            ("arrive", MbarrierOp::Arrive),
            ("arrive_drop", MbarrierOp::ArriveDrop),
            ("test_wait", MbarrierOp::TestWait),
            ("try_wait", MbarrierOp::TryWait),
            ("complete_tx", MbarrierOp::CompleteTx),
            ("pending_count", MbarrierOp::PendingCount),
        ]);
        let expect = words.take("expect_tx");
        let parity = words.take("parity");
        let space = words.space().unwrap_or(Space::Generic);
        words.types();
        words.finish()?;
        let op = match (op, expect, parity) {
            (None, true, _) => MbarrierOp::ExpectTx,
            (Some(MbarrierOp::Arrive), true, _) => MbarrierOp::ArriveExpectTx,
            (Some(MbarrierOp::ArriveDrop), true, _) => MbarrierOp::ArriveDropExpectTx,
            (Some(MbarrierOp::TestWait), _, true) => MbarrierOp::TestWaitParity,
            (Some(MbarrierOp::TryWait), _, true) => MbarrierOp::TryWaitParity,
            (Some(op), _, _) => op,
            (None, false, _) => return refuse("instruction is not known here"),
        };
        let mut operands = it.operands.as_slice();
        let mut result = None;
        if let [first, rest @ ..] = operands
            && !matches!(first, Operand::Address { .. })
        {
            (result, operands) = (Some(first), rest);
        }
        if op == MbarrierOp::PendingCount {
            return self.pending_count(result, operands);
        }
        let [memory, rest @ ..] = operands else {
            return refuse("has no address");
        };
        let (space, address) = self.address(memory, space)?;
        let waits = op.waits();
        let value_type = match op {
            MbarrierOp::TestWait | MbarrierOp::TryWait => Ty::B64,
            _ => Ty::U32,
        };
        let value = rest.first().map(|value| self.read(value, value_type)).transpose()?;
        let dst = match result {
            Some(result) if waits => self.write_predicate(result)?,
            Some(result) => self.write_optional(result, Ty::B64)?,
            None => None,
        };
        let it = Mbarrier { op, space, address, dst, value, count: None };
        self.emit(Inst::Mbarrier(Box::new(it)));
        Ok(())
    }

    fn pending_count(&mut self, result: Option<&Operand>, operands: &[Operand]) -> Outcome {
        let (Some(result), [state]) = (result, operands) else {
            return refuse("has other operands than known");
        };
        let value = Some(self.read(state, Ty::B64)?);
        let dst = self.write_optional(result, Ty::U32)?;
        let address = crate::code::Address { base: Src::Imm(0), offset: 0 };
        let (op, space) = (MbarrierOp::PendingCount, Space::Shared);
        let it = Mbarrier { op, space, address, dst, value, count: None };
        self.emit(Inst::Mbarrier(Box::new(it)));
        Ok(())
    }
}
