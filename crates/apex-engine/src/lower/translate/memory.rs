//! Loads, stores, atomics and hints.

use super::Translator;
use crate::code::{AtomOp, Class, Inst, Mbarrier, MbarrierOp, Order, Space, Src, Ty};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

/// Read-modify-write operations by their words.
pub(super) const ATOM_OPS: [(&str, AtomOp); 10] = [
    ("and", AtomOp::And),
    ("or", AtomOp::Or),
    ("xor", AtomOp::Xor),
    ("add", AtomOp::Add),
    ("min", AtomOp::Min),
    ("max", AtomOp::Max),
    ("inc", AtomOp::Inc),
    ("dec", AtomOp::Dec),
    ("exch", AtomOp::Exch),
    ("cas", AtomOp::Cas),
];

impl Translator<'_, '_> {
    /// `ld`, `ldu`. A hint of a cache policy is a third operand and makes no difference.
    pub(super) fn load(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let order = words.order().unwrap_or_default();
        words.take("unified");
        let vector = words.vector();
        let space = words.space().unwrap_or(Space::Generic);
        let ty = words.ty()?;
        words.finish()?;
        let [to, from, ..] = it.operands.as_slice() else {
            return refuse("takes two operands");
        };
        let (space, address) = self.address(from, space)?;
        let to = self.parts(to);
        if to.len() != vector {
            return refuse("the result has another length than the vector");
        }
        let dsts = to.iter().map(|operand| self.load_destination(operand, ty));
        let dsts = dsts.collect::<Outcome<Vec<_>>>()?;
        self.emit(Inst::Load { space, ty, order, dsts, address });
        Ok(())
    }

    /// A load may fill a register wider than its type.
    fn load_destination(&mut self, operand: &Operand, ty: Ty) -> Outcome<Option<crate::code::Reg>> {
        let Some(register) = self.destination(operand)? else {
            return Ok(None);
        };
        let class = self.class(register);
        match class {
            Class::B16 | Class::B32 | Class::B64 if class >= ty.class() => Ok(Some(register)),
            _ => self.write_optional(operand, ty),
        }
    }

    /// `st`, `st.async`.
    pub(super) fn store(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let order = words.order().unwrap_or_default();
        let asynchronous = words.take("async");
        words.take("mbarrier::complete_tx::bytes");
        let vector = words.vector();
        let space = words.space().unwrap_or(Space::Generic);
        let ty = words.ty()?;
        words.finish()?;
        let [to, from, rest @ ..] = it.operands.as_slice() else {
            return refuse("takes two operands");
        };
        // Nobody stores to a kernel's parameters: what is meant are those of a call.
        let space = if space == Space::Param { Space::Local } else { space };
        let (space, address) = self.address(to, space)?;
        let from = self.parts(from);
        if from.len() != vector {
            return refuse("the value has another length than the vector");
        }
        let srcs = from.iter().map(|operand| self.read_low(operand, ty));
        let srcs = srcs.collect::<Outcome<Vec<_>>>()?;
        let bytes = u64::from(ty.bits() / 8) * srcs.len() as u64;
        self.emit(Inst::Store { space, ty, order, srcs, address });
        if let (true, [barrier, ..]) = (asynchronous, rest) {
            self.complete_bytes(barrier, Src::Imm(bytes))?;
        }
        Ok(())
    }

    /// Tells a barrier that bytes have arrived.
    pub(super) fn complete_bytes(&mut self, barrier: &Operand, bytes: Src) -> Outcome {
        let (space, address) = self.address(barrier, Space::Shared)?;
        let op = MbarrierOp::CompleteTx;
        let value = Some(bytes);
        let it = Mbarrier { op, space, address, dst: None, value, count: None };
        self.emit(Inst::Mbarrier(Box::new(it)));
        Ok(())
    }

    /// `atom`, `red`, `red.async`.
    pub(super) fn atom(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let order = words.order().unwrap_or(Order::Relaxed);
        let asynchronous = words.take("async");
        words.take("mbarrier::complete_tx::bytes");
        words.take("noftz");
        let vector = words.vector();
        let space = words.space().unwrap_or(Space::Generic);
        let Some(op) = words.pick(&ATOM_OPS) else {
            return refuse("has no operation");
        };
        let ty = words.ty()?;
        words.finish()?;
        let mut operands = it.operands.as_slice();
        let mut dsts = Vec::new();
        if &*it.opcode == "atom" {
            let [to, rest @ ..] = operands else {
                return refuse("has no result");
            };
            operands = rest;
            for operand in self.parts(to) {
                dsts.push(self.write(&operand, ty)?);
            }
            // Nobody wants the old value: then it is a reduction.
            if self.parts(to).iter().all(|part| matches!(part, Operand::Sink)) {
                dsts.clear();
            }
        }
        let [memory, operands @ ..] = operands else {
            return refuse("has no address");
        };
        let (space, address) = self.address(memory, space)?;
        let (compare, value, rest) = match operands {
            [compare, value, rest @ ..] if op == AtomOp::Cas => {
                (Some(self.read(compare, ty)?), value, rest)
            }
            [value, rest @ ..] if op != AtomOp::Cas => (None, value, rest),
            _ => return refuse("has too few operands"),
        };
        let values = self.parts(value);
        if values.len() != vector {
            return refuse("the value has another length than the vector");
        }
        let values = values.iter().map(|operand| self.read(operand, ty));
        let values = values.collect::<Outcome<Vec<_>>>()?;
        let bytes = u64::from(ty.bits() / 8) * values.len() as u64;
        // Units beside the memory add single precision, and they know no subnormals.
        let ftz = ty == Ty::F32 && space == Space::Global && op == AtomOp::Add;
        self.emit(Inst::Atom { op, space, ty, order, dsts, address, values, compare, ftz });
        if let (true, [barrier, ..]) = (asynchronous, rest) {
            self.complete_bytes(barrier, Src::Imm(bytes))?;
        }
        Ok(())
    }

    /// What only makes hardware faster.
    pub(super) fn hint(&mut self, it: &Instruction) -> Outcome {
        if &*it.opcode == "createpolicy"
            && let [to, ..] = it.operands.as_slice()
        {
            let dst = self.write(to, Ty::B64)?;
            self.emit(Inst::Mov { ty: Ty::B64, dst, src: Src::Imm(0) });
            return Ok(());
        }
        self.emit(Inst::Nop);
        Ok(())
    }
}
