//! Operands: values, results and predicates.
//!
//! A value is brought to the width its instruction works on: a register of another width is
//! converted through a temporary, in front of the instruction for what it reads and behind it
//! for what it writes. So every step finds its registers in the class of its type; only loads,
//! stores and conversions may meet wider ones.

use super::constant::constant_bits;
use super::scope::Entity;
use super::special::special;
use super::{Translator, unsigned_of};
use crate::code::{BinaryOp, Class, Guard, Inst, Mode, Reg, Src, Ty, UnaryOp};
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Constant, Operand};

impl<'t> Translator<'_, 't> {
    /// A value of the type.
    pub(super) fn read(&mut self, operand: &Operand, ty: Ty) -> Outcome<Src> {
        match operand {
            Operand::Constant(constant) => Ok(Src::Imm(constant_bits(*constant, ty))),
            Operand::Negative(inner) => {
                let a = self.read(inner, ty)?;
                let dst = self.temporary(ty.class());
                let mode = Mode::default();
                self.emit_free(Inst::Unary { op: UnaryOp::Neg, ty, mode, dst, a });
                Ok(Src::Reg(dst))
            }
            _ => {
                let src = self.read_any(operand, ty.class())?;
                self.fit(src, ty)
            }
        }
    }

    /// The same, where the instruction reads only the low bits of a register that may be wider:
    /// stores and conversions.
    pub(super) fn read_low(&mut self, operand: &Operand, ty: Ty) -> Outcome<Src> {
        if let Operand::Constant(_) | Operand::Negative(_) = operand {
            return self.read(operand, ty);
        }
        let src = self.read_any(operand, ty.class())?;
        match src {
            Src::Reg(register)
                if ty.class() == Class::B16 && self.class(register) == Class::B32 =>
            {
                Ok(src)
            }
            _ => self.fit(src, ty),
        }
    }

    /// A value in whatever register it is in. Special registers come in `class` if they can.
    pub(super) fn read_any(&mut self, operand: &Operand, class: Class) -> Outcome<Src> {
        match operand {
            Operand::Name(name) => match self.find(name) {
                Some(Entity::Register(register)) => Ok(Src::Reg(register)),
                Some(Entity::Vector(_)) => refuse(format!("{name} is a vector")),
                Some(entity) => self.symbol_value(&entity, name, 0),
                None => self.read_special(name, None, class),
            },
            Operand::Member(name, member) => match self.find(name) {
                Some(Entity::Vector(registers)) => {
                    let index = ["x", "y", "z", "w"].iter().position(|part| *part == &**member);
                    let index = index.or_else(|| "rgba".find(&**member));
                    match index.and_then(|index| registers.get(index)) {
                        Some(register) => Ok(Src::Reg(*register)),
                        None => refuse(format!("{name} has no part {member}")),
                    }
                }
                Some(_) => refuse(format!("{name}.{member} is not a part of a vector")),
                None => self.read_special(name, Some(member), class),
            },
            Operand::SymbolOffset { name, offset } => match self.find(name) {
                Some(Entity::Register(register)) => {
                    let class = self.class(register);
                    let dst = self.temporary(class);
                    let ty = unsigned_of(class);
                    let b = Src::Imm(constant_bits(Constant::signed(*offset), ty));
                    let (op, mode, a) = (BinaryOp::Add, Mode::default(), Src::Reg(register));
                    self.emit_free(Inst::Binary { op, ty, mode, dst, a, b });
                    Ok(Src::Reg(dst))
                }
                Some(entity) => self.symbol_value(&entity, name, *offset),
                None => refuse(format!("{name} is not declared")),
            },
            Operand::Element { name, index, offset } => match self.find(name) {
                Some(Entity::Variable(variable)) => {
                    let size = variable.element_bytes();
                    let bytes = offset.wrapping_mul(size.cast_signed());
                    let start = self.symbol_value(&Entity::Variable(variable), name, bytes)?;
                    match index {
                        None => Ok(start),
                        Some(index) => self.element(start, &Operand::Name(index.clone()), size),
                    }
                }
                _ => refuse(format!("{name} is not an array")),
            },
            Operand::Constant(constant) => {
                Ok(Src::Imm(constant_bits(*constant, unsigned_of(class))))
            }
            _ => refuse("an operand is not a value"),
        }
    }

    /// Brings a value to the class of the type.
    pub(super) fn fit(&mut self, src: Src, ty: Ty) -> Outcome<Src> {
        let Src::Reg(register) = src else {
            return Ok(src);
        };
        let (have, want) = (self.class(register), ty.class());
        if have == want {
            return Ok(src);
        }
        if [have, want].iter().any(|class| matches!(class, Class::Pred | Class::B128)) {
            return refuse("a register does not fit the instruction's type");
        }
        let dst = self.temporary(want);
        let (to, from) = (unsigned_of(want), unsigned_of(have));
        self.emit_free(Inst::Cvt { to, from, mode: Mode::default(), dst, a: src });
        Ok(Src::Reg(dst))
    }

    fn read_special(&mut self, name: &str, member: Option<&str>, class: Class) -> Outcome<Src> {
        if name == "WARP_SZ" {
            return Ok(Src::Imm(32));
        }
        let Some((which, natural)) = special(name, member) else {
            return refuse(match member {
                Some(member) => format!("{name}.{member} is not declared"),
                None => format!("{name} is not declared"),
            });
        };
        let class = if class == Class::B64 { class } else { natural };
        let dst = self.temporary(class);
        self.emit_free(Inst::Special { dst, which });
        Ok(Src::Reg(dst))
    }

    /// The register an instruction writes a value of the type to; a sink gets one nobody reads.
    pub(super) fn write(&mut self, operand: &Operand, ty: Ty) -> Outcome<Reg> {
        Ok(match self.write_optional(operand, ty)? {
            Some(register) => register,
            None => self.temporary(ty.class()),
        })
    }

    /// The same; `None` for a sink.
    pub(super) fn write_optional(&mut self, operand: &Operand, ty: Ty) -> Outcome<Option<Reg>> {
        let Some(register) = self.destination(operand)? else {
            return Ok(None);
        };
        let (have, want) = (self.class(register), ty.class());
        if have == want {
            return Ok(Some(register));
        }
        if [have, want].iter().any(|class| matches!(class, Class::Pred | Class::B128)) {
            return refuse("a result does not fit its register");
        }
        let temporary = self.temporary(want);
        self.after.push((temporary, register, ty));
        Ok(Some(temporary))
    }

    /// The register an operand names as a result, whatever its class; `None` for a sink.
    pub(super) fn destination(&mut self, operand: &Operand) -> Outcome<Option<Reg>> {
        match operand {
            Operand::Sink => Ok(None),
            Operand::Name(name) if &**name == "_" => Ok(None),
            Operand::Name(name) => match self.find(name) {
                Some(Entity::Register(register)) => Ok(Some(register)),
                Some(_) => refuse(format!("{name} is not a register")),
                None => refuse(format!("{name} is not declared")),
            },
            Operand::Member(..) => match self.read_any(operand, Class::B32)? {
                Src::Reg(register) => Ok(Some(register)),
                Src::Imm(_) => refuse("a result has no register"),
            },
            _ => refuse("a result is not a register"),
        }
    }

    /// The operands of a vector, or the one operand itself. A vector register gives its parts.
    pub(super) fn parts(&mut self, operand: &Operand) -> Vec<Operand> {
        match operand {
            Operand::Vector(parts) => parts.clone(),
            Operand::Name(name) => match self.find(name) {
                Some(Entity::Vector(registers)) => ["x", "y", "z", "w"]
                    .iter()
                    .take(registers.len())
                    .map(|part| Operand::Member(name.clone(), (*part).into()))
                    .collect(),
                _ => vec![operand.clone()],
            },
            _ => vec![operand.clone()],
        }
    }

    /// A predicate register by name.
    pub(super) fn predicate_register(&mut self, name: &str) -> Outcome<Reg> {
        match self.find(name) {
            Some(Entity::Register(register)) if self.class(register) == Class::Pred => Ok(register),
            Some(_) => refuse(format!("{name} is not a predicate")),
            None if name == "%pt" => {
                let dst = self.temporary(Class::Pred);
                self.emit_free(Inst::PredSet { dst, value: true });
                Ok(dst)
            }
            None => refuse(format!("{name} is not declared")),
        }
    }

    /// A predicate that is read, perhaps negated, perhaps constant.
    pub(super) fn predicate(&mut self, operand: &Operand) -> Outcome<Guard> {
        let (name, negated) = match operand {
            Operand::Name(name) => (name, false),
            Operand::Not(name) => (name, true),
            Operand::Constant(constant) => {
                let dst = self.temporary(Class::Pred);
                let value = constant_bits(*constant, Ty::Pred) != 0;
                self.emit_free(Inst::PredSet { dst, value });
                return Ok(Guard { predicate: dst, negated: false });
            }
            _ => return refuse("an operand is not a predicate"),
        };
        Ok(Guard { predicate: self.predicate_register(name)?, negated })
    }

    /// A predicate that is written; `None` for a sink.
    pub(super) fn write_predicate(&mut self, operand: &Operand) -> Outcome<Option<Reg>> {
        match self.destination(operand)? {
            Some(register) if self.class(register) != Class::Pred => {
                refuse("a result is not a predicate")
            }
            other => Ok(other),
        }
    }
}
