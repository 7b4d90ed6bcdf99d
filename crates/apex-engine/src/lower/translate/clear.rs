//! `st.bulk`: shared memory cleared by one thread, as a loop of stores.

use super::Translator;
use crate::code::{
    Address, BinaryOp, Class, Compare, Guard, Inst, Mode, Order, Reg, Space, Src, Step, Ty,
};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

impl Translator<'_, '_> {
    /// `st.bulk [a], size, 0`: sizes are multiples of eight bytes.
    pub(super) fn clear(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        words.drop_all(&["bulk", "weak"]);
        let space = words.space().unwrap_or(Space::Generic);
        words.finish()?;
        let [memory, size, Operand::Constant(_)] = it.operands.as_slice() else {
            return refuse("has other operands than known");
        };
        let (space, address) = self.address(memory, space)?;
        let size = self.read(size, Ty::U64)?;
        let end = self.new_label();
        if let Some(guard) = self.guard.take() {
            let around = Guard { negated: !guard.negated, ..guard };
            let inst = Inst::Branch { target: end };
            self.body.steps.push(Step { guard: Some(around), inst, line: self.line });
        }
        let (at, left) = (self.register(Class::B64), self.register(Class::B64));
        match address.base {
            Src::Reg(base) if self.class(base) == Class::B32 => {
                let (to, from, mode, a) = (Ty::U64, Ty::U32, Mode::default(), address.base);
                self.emit(Inst::Cvt { to, from, mode, dst: at, a });
            }
            src => self.emit(Inst::Mov { ty: Ty::U64, dst: at, src }),
        }
        self.emit(Inst::Mov { ty: Ty::U64, dst: left, src: size });
        let again = self.new_label();
        self.set_label(again);
        let done = self.temporary(Class::Pred);
        self.emit(Inst::Setp {
            compare: Compare::Lt,
            ty: Ty::U64,
            ftz: false,
            dst: Some(done),
            not_dst: None,
            a: Src::Reg(left),
            b: Src::Imm(8),
            join: None,
        });
        let guard = Some(Guard { predicate: done, negated: false });
        self.body.steps.push(Step { guard, inst: Inst::Branch { target: end }, line: self.line });
        let address = Address { base: Src::Reg(at), offset: address.offset };
        let (ty, order, srcs) = (Ty::B64, Order::Weak, vec![Src::Imm(0)]);
        self.emit(Inst::Store { space, ty, order, srcs, address });
        self.add(BinaryOp::Add, at);
        self.add(BinaryOp::Sub, left);
        self.emit(Inst::Branch { target: again });
        self.set_label(end);
        Ok(())
    }

    /// Eight more, or eight less.
    fn add(&mut self, op: BinaryOp, dst: Reg) {
        let (ty, mode) = (Ty::U64, Mode::default());
        self.emit(Inst::Binary { op, ty, mode, dst, a: Src::Reg(dst), b: Src::Imm(8) });
    }
}
