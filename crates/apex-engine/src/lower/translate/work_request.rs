//! `clusterlaunchcontrol`: a block asks for the work of one that has not begun.
//!
//! The software GPU has handed out all blocks by then, so every request fails: a program must expect that.

use super::Translator;
use crate::code::{Compare, Inst, Order, Space, Src, Ty};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::Instruction;

/// Bytes of an answer.
const ANSWER: u64 = 16;

impl Translator<'_, '_> {
    /// `clusterlaunchcontrol.*`.
    pub(super) fn work_request(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        if !words.take("try_cancel") {
            return self.work_answer(it);
        }
        words.drop_all(&["async", "mbarrier::complete_tx::bytes"]);
        let space = words.space().unwrap_or(Space::Generic);
        words.types();
        words.finish()?;
        let [memory, barrier] = it.operands.as_slice() else {
            return refuse("takes two operands");
        };
        let (space, address) = self.address(memory, space)?;
        let (ty, order, srcs) = (Ty::B64, Order::Weak, vec![Src::Imm(0); 2]);
        self.emit(Inst::Store { space, ty, order, srcs, address });
        self.complete_bytes(barrier, Src::Imm(ANSWER))
    }

    /// What a failed request answers: not cancelled, and no block.
    fn work_answer(&mut self, it: &Instruction) -> Outcome {
        let [result, _] = it.operands.as_slice() else {
            return refuse("takes two operands");
        };
        if it.has("is_canceled") {
            let dst = self.write_predicate(result)?;
            let (compare, ty, ftz) = (Compare::Ne, Ty::U32, false);
            let (a, b) = (Src::Imm(0), Src::Imm(0));
            self.emit(Inst::Setp { compare, ty, ftz, dst, not_dst: None, a, b, join: None });
            return Ok(());
        }
        for part in self.parts(result) {
            if let Some(dst) = self.write_optional(&part, Ty::B32)? {
                self.emit(Inst::Mov { ty: Ty::B32, dst, src: Src::Imm(0) });
            }
        }
        Ok(())
    }
}
