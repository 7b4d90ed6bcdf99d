//! `mov`, and conversions of addresses between spaces.
//!
//! Global and constant memory have the host's addresses in every space, so their `cvta` is a
//! plain copy and goes away later.

use super::Translator;
use super::scope::Entity;
use super::special::special;
use crate::code::{Class, Compare, Guard, Inst, Join, Reg, Space, SpaceTest, Src, Ty};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand, Type};

impl<'t> Translator<'_, 't> {
    /// `mov` in all its forms: copies, packing, unpacking, addresses, special registers.
    pub(super) fn mov(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let vector = words.vector();
        let ty = words.ty()?;
        words.finish()?;
        let [to, from] = it.operands.as_slice() else {
            return refuse("takes two operands");
        };
        if vector > 1 {
            let (to, from) = (self.parts(to), self.parts(from));
            if to.len() != from.len() {
                return refuse("the vectors differ in length");
            }
            return self.mov_vector(ty, &to, &from);
        }
        match (&self.parts(to)[..], &self.parts(from)[..]) {
            ([_], [_]) => self.mov_one(ty, to, from),
            (parts, [_]) => self.unpack(ty, parts, from),
            ([_], parts) => self.pack(ty, to, parts),
            _ => refuse("has other operands than known"),
        }
    }

    /// All parts are read before the first is written: one register may stand on both sides.
    fn mov_vector(&mut self, ty: Ty, to: &[Operand], from: &[Operand]) -> Outcome {
        if ty == Ty::Pred {
            return refuse("predicates are not moved as vectors");
        }
        let mut values = Vec::with_capacity(from.len());
        for operand in from {
            let src = self.read(operand, ty)?;
            let dst = self.temporary(ty.class());
            self.emit_free(Inst::Mov { ty, dst, src });
            values.push(dst);
        }
        for (operand, value) in to.iter().zip(values) {
            let dst = self.write(operand, ty)?;
            self.emit(Inst::Mov { ty, dst, src: Src::Reg(value) });
        }
        Ok(())
    }

    fn mov_one(&mut self, ty: Ty, to: &Operand, from: &Operand) -> Outcome {
        if ty == Ty::Pred {
            let Some(dst) = self.write_predicate(to)? else {
                return Ok(());
            };
            if let Operand::Constant(constant) = from {
                let value = super::constant::constant_bits(*constant, Ty::Pred) != 0;
                self.emit(Inst::PredSet { dst, value });
                return Ok(());
            }
            if let Operand::Name(name) = from
                && self.find(name).is_none()
                && let Some((which, class)) = special(name, None)
            {
                let value = self.temporary(class);
                self.emit(Inst::Special { dst: value, which });
                self.emit(Inst::Setp {
                    compare: Compare::Ne,
                    ty: Ty::U32,
                    ftz: false,
                    dst: Some(dst),
                    not_dst: None,
                    a: Src::Reg(value),
                    b: Src::Imm(0),
                    join: None,
                });
                return Ok(());
            }
            let a = self.predicate(from)?;
            self.emit(Inst::PredCopy { dst, a });
            return Ok(());
        }
        let dst = self.write(to, ty)?;
        // A special register is read straight into its place.
        let named = match from {
            Operand::Name(name) if self.find(name).is_none() => special(name, None),
            Operand::Member(name, member) if self.find(name).is_none() => {
                special(name, Some(member))
            }
            _ => None,
        };
        if let Some((which, natural)) = named
            && (ty.class() == natural || ty.class() == Class::B64)
        {
            self.emit(Inst::Special { dst, which });
            return Ok(());
        }
        let src = self.read(from, ty)?;
        self.emit(Inst::Mov { ty, dst, src });
        Ok(())
    }

    fn pack(&mut self, ty: Ty, to: &Operand, parts: &[Operand]) -> Outcome {
        let part = part_type(ty, parts.len())?;
        let parts = parts.iter().map(|operand| self.read_low(operand, part));
        let parts = parts.collect::<Outcome<Vec<_>>>()?;
        let dst = self.write(to, ty)?;
        self.emit(Inst::Pack { part, dst, parts });
        Ok(())
    }

    fn unpack(&mut self, ty: Ty, parts: &[Operand], from: &Operand) -> Outcome {
        let part = part_type(ty, parts.len())?;
        let src = self.read(from, ty)?;
        let dsts = parts.iter().map(|operand| self.write_optional(operand, part));
        let dsts = dsts.collect::<Outcome<Vec<_>>>()?;
        self.emit(Inst::Unpack { part, dsts, src });
        Ok(())
    }

    /// `cvta`, `isspacep`, `mapa`, `getctarank`, `istypep`.
    pub(super) fn address_conversion(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        match (&*it.opcode, it.operands.as_slice()) {
            ("cvta", [to, from]) => {
                let back = words.take("to");
                let space = words.space().unwrap_or(Space::Generic);
                let ty = words.ty()?;
                words.finish()?;
                let dst = self.write(to, ty)?;
                let a = self.read(from, ty)?;
                let space = self.variable_space(from).unwrap_or(space);
                self.emit(match space {
                    Space::Global | Space::Generic => Inst::Mov { ty, dst, src: a },
                    _ if back => Inst::FromGeneric { space, dst, a },
                    _ => Inst::ToGeneric { space, dst, a },
                });
                Ok(())
            }
            ("isspacep", [to, from]) => {
                let space = words.pick(&[
                    ("global", SpaceTest::Global),
                    ("shared", SpaceTest::Shared),
                    ("shared::cta", SpaceTest::Shared),
                    ("shared::cluster", SpaceTest::SharedCluster),
                    ("local", SpaceTest::Local),
                    ("const", SpaceTest::Const),
                    ("param", SpaceTest::Param),
                    ("param::entry", SpaceTest::Param),
                ]);
                words.finish()?;
                let Some(space) = space else {
                    return refuse("has no space");
                };
                let a = self.read_any(from, Class::B64)?;
                if let Some(dst) = self.write_predicate(to)? {
                    self.emit(Inst::IsSpace { space, dst, a });
                }
                Ok(())
            }
            ("mapa", [to, from, rank]) => {
                let shared = words.take("shared::cluster");
                let ty = words.ty()?;
                words.finish()?;
                let dst = self.write(to, ty)?;
                let a = self.read(from, ty)?;
                let rank = self.read(rank, Ty::U32)?;
                self.emit(Inst::Mapa { shared, dst, a, rank });
                Ok(())
            }
            ("getctarank", [to, from]) => {
                let shared = words.take("shared::cluster");
                let ty = words.ty()?;
                words.finish()?;
                let dst = self.write(to, Ty::U32)?;
                let a = self.read(from, ty)?;
                self.emit(Inst::CtaRank { shared, dst, a });
                Ok(())
            }
            ("istypep", [to, from]) => {
                let wanted = words.pick(&[
                    ("texref", Type::TexRef),
                    ("samplerref", Type::SamplerRef),
                    ("surfref", Type::SurfRef),
                ]);
                words.finish()?;
                let a = self.read(from, Ty::B64)?;
                let (Some(wanted), Some(dst)) = (wanted, self.write_predicate(to)?) else {
                    return refuse("has no type");
                };
                self.is_reference(dst, a, wanted);
                Ok(())
            }
            _ => refuse("has other operands than known"),
        }
    }

    /// Whether an address is that of a variable of this type: it is one of them, or none.
    fn is_reference(&mut self, dst: Reg, a: Src, wanted: Type) {
        self.emit(Inst::PredSet { dst, value: false });
        for address in self.program.references(wanted) {
            self.emit(Inst::Setp {
                compare: Compare::Eq,
                ty: Ty::B64,
                ftz: false,
                dst: Some(dst),
                not_dst: None,
                a,
                b: Src::Imm(address),
                join: Some((Join::Or, Guard { predicate: dst, negated: false })),
            });
        }
    }

    /// The space of a variable named as an operand.
    fn variable_space(&mut self, operand: &Operand) -> Option<Space> {
        let (Operand::Name(name) | Operand::SymbolOffset { name, .. }) = operand else {
            return None;
        };
        match self.find(name)? {
            Entity::Slot(_) => Some(Space::Local),
            _ => None,
        }
    }

    /// A value in a register, for places where no constant may stand.
    pub(super) fn in_register(&mut self, src: Src, ty: Ty) -> Reg {
        match src {
            Src::Reg(register) => register,
            Src::Imm(_) => {
                let dst = self.temporary(ty.class());
                self.emit_free(Inst::Mov { ty, dst, src });
                dst
            }
        }
    }
}

/// The type of one of the parts of a packed value.
fn part_type(ty: Ty, parts: usize) -> Outcome<Ty> {
    match (ty.bits(), parts) {
        (16, 2) | (32, 4) => Ok(Ty::B8),
        (32, 2) | (64, 4) => Ok(Ty::B16),
        (64, 2) | (128, 4) => Ok(Ty::B32),
        (128, 2) => Ok(Ty::B64),
        _ => refuse("cannot be split into that many parts"),
    }
}
