//! Copies that run beside the program, and the barriers that count them.
//!
//! A copy is done where it stands, which is one of the orders it may have; so waiting for a group
//! of copies is nothing.

use super::Translator;
use super::memory::ATOM_OPS;
use crate::code::{CopyBulk, Inst, Mbarrier, MbarrierOp, Space, Src, Ty};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

impl Translator<'_, '_> {
    /// `cp.async`, `cp.async.bulk`, `cp.reduce.async.bulk` and their groups.
    pub(super) fn copy(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        words.take("async");
        let bulk = words.take("bulk");
        if words.take("tensor") {
            return refuse("copies of tensors are not executed by the software GPU");
        }
        let waits = words.take("wait_group") | words.take("wait_all");
        if words.take("commit_group") || words.take("prefetch") || waits {
            self.emit(Inst::Nop);
            return Ok(());
        }
        if words.take("mbarrier") {
            return self.copy_arrive(it, words);
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
        let size = super::constant::constant_bits(*size, Ty::U32) as u32;
        let (mut bytes, mut ignore) = (None, None);
        // A number of bytes, or a predicate that says to take none; a cache policy may follow.
        match rest.first() {
            Some(Operand::Not(_)) => ignore = Some(self.predicate(&rest[0])?),
            Some(operand) if self.is_predicate(operand) => ignore = Some(self.predicate(operand)?),
            Some(operand) if rest.len() == 2 || !it.has("L2::cache_hint") => {
                bytes = Some(self.read(operand, Ty::U32)?);
            }
            _ => {}
        }
        self.emit(Inst::CopyAsync { dst, src, size, bytes, ignore });
        Ok(())
    }

    fn is_predicate(&mut self, operand: &Operand) -> bool {
        let Operand::Name(name) = operand else {
            return false;
        };
        self.predicate_register(name).is_ok()
    }

    fn copy_bulk(&mut self, it: &Instruction, mut words: Words<'_>) -> Outcome {
        if words.take("multicast::cluster") || words.take("cp_mask") {
            return refuse("copies to several blocks and byte masks are not known here");
        }
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
        let mbarrier = match (counted, rest) {
            (true, [barrier, ..]) => Some(self.address(barrier, Space::Shared)?.1),
            (false, _) => None,
            _ => return refuse("has no barrier"),
        };
        self.emit(Inst::CopyBulk(Box::new(CopyBulk { dst, src, size, mbarrier, reduce })));
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
        let waits = matches!(
            op,
            MbarrierOp::TestWait
                | MbarrierOp::TryWait
                | MbarrierOp::TestWaitParity
                | MbarrierOp::TryWaitParity
        );
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
