//! Addresses: of variables, of elements, and between brackets.

use super::Translator;
use super::scope::Entity;
use crate::code::{Address, BinaryOp, Class, FUNCTION_BASE, Inst, Mode, Reg, Space, Src, Ty};
use crate::lower::program::Home;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{self, AddressBase, Operand};

impl<'t> Translator<'_, 't> {
    /// An address, with the space it is in: a variable knows its own.
    pub(super) fn address(&mut self, operand: &Operand, space: Space) -> Outcome<(Space, Address)> {
        match operand {
            Operand::Address { base: AddressBase::Name(name), offset } => {
                self.named_address(name, *offset, space)
            }
            Operand::Address { base: AddressBase::Absolute, offset } => {
                let base = Src::Imm(offset.cast_unsigned());
                Ok((self.space_by_register(space), Address { base, offset: 0 }))
            }
            Operand::Unified(inner) => self.address(inner, space),
            Operand::Name(name) => self.named_address(name, 0, space),
            Operand::Element { .. } => {
                let base = self.read_any(operand, Class::B64)?;
                Ok((space, Address { base, offset: 0 }))
            }
            _ => refuse("an operand is not an address"),
        }
    }

    fn named_address(
        &mut self,
        name: &str,
        offset: i64,
        space: Space,
    ) -> Outcome<(Space, Address)> {
        let Some(mut entity) = self.find(name) else {
            return refuse(format!("{name} is not declared"));
        };
        // A predicate can be named like a parameter; only one of the two has an address.
        if let Entity::Register(register) = entity
            && self.class(register) == Class::Pred
            && let Some(variable) = self.find_variable(name)
        {
            entity = variable;
        }
        if let Entity::Register(register) = entity {
            if !matches!(self.class(register), Class::B32 | Class::B64) {
                return refuse(format!("{name} cannot hold an address"));
            }
            let space = self.space_by_register(space);
            return Ok((space, Address { base: Src::Reg(register), offset }));
        }
        match self.symbol_address(&entity, name)? {
            Some((space, Src::Imm(value))) => {
                let base = Src::Imm(value.wrapping_add_signed(offset));
                Ok((space, Address { base, offset: 0 }))
            }
            Some((space, base)) => Ok((space, Address { base, offset })),
            None => refuse(format!("{name} has no address")),
        }
    }

    /// Parameters of functions lie in local memory; only the kernel's own have a space.
    fn space_by_register(&mut self, space: Space) -> Space {
        let kernel = self.draft.bodies.is_empty() && self.instances.len() == 1;
        if space == Space::Param && !kernel { Space::Local } else { space }
    }

    /// A symbol's address.
    pub(super) fn symbol_value(
        &mut self,
        entity: &Entity<'t>,
        name: &str,
        offset: i64,
    ) -> Outcome<Src> {
        if let Entity::Function(index) = entity {
            return Ok(Src::Imm(FUNCTION_BASE + *index as u64));
        }
        let Some((_, address)) = self.symbol_address(entity, name)? else {
            return refuse(format!("{name} is not a value"));
        };
        match address {
            Src::Imm(value) => Ok(Src::Imm(value.wrapping_add_signed(offset))),
            Src::Reg(_) if offset == 0 => Ok(address),
            Src::Reg(_) => {
                let dst = self.temporary(Class::B64);
                self.emit_free(Inst::Binary {
                    op: BinaryOp::Add,
                    ty: Ty::S64,
                    mode: Mode::default(),
                    dst,
                    a: address,
                    b: Src::Imm(offset.cast_unsigned()),
                });
                Ok(Src::Reg(dst))
            }
        }
    }

    /// Where a variable lies; `None` for what is no variable.
    fn symbol_address(&mut self, entity: &Entity<'t>, name: &str) -> Outcome<Option<(Space, Src)>> {
        Ok(Some(match entity {
            Entity::Slot(slot) => (Space::Local, Src::Reg(slot.base)),
            Entity::KernelParam(offset) => (Space::Param, Src::Imm(u64::from(*offset))),
            Entity::Variable(variable) => match self.program.home(variable) {
                Home::Memory(address) => (Space::Global, Src::Imm(address)),
                Home::Shared => {
                    let offset = self.shared_offset(variable)?;
                    (Space::Shared, Src::Imm(u64::from(offset)))
                }
                Home::DynamicShared => {
                    let align = u32::try_from(variable.alignment()).unwrap_or(16).max(16);
                    (Space::Shared, Src::Reg(self.dynamic_shared(align)))
                }
                Home::Nowhere => return refuse(format!("{name} is not defined")),
            },
            _ => return Ok(None),
        }))
    }

    fn shared_offset(&mut self, variable: &tree::Variable) -> Outcome<u32> {
        let key = std::ptr::from_ref(variable).addr();
        if let Some(offset) = self.shared.get(&key) {
            return Ok(*offset);
        }
        let place = u64::from(self.shared_bytes).next_multiple_of(variable.alignment().max(1));
        let end = variable.bytes().and_then(|bytes| place.checked_add(bytes));
        let Some(end) = end.and_then(|end| u32::try_from(end).ok()) else {
            return refuse(format!("shared variable {} is too large", variable.name));
        };
        self.shared_bytes = end;
        self.shared.insert(key, place as u32);
        Ok(place as u32)
    }

    fn dynamic_shared(&mut self, align: u32) -> Reg {
        self.dynamic_align = self.dynamic_align.max(align);
        if let Some(register) = self.draft.dynamic_shared {
            return register;
        }
        let register = self.register(Class::B64);
        self.draft.dynamic_shared = Some(register);
        register
    }

    /// The address of an element: a start, and a register that counts elements.
    pub(super) fn element(&mut self, start: Src, index: &Operand, size: u64) -> Outcome<Src> {
        let index = self.read_any(index, Class::B64)?;
        let index = self.fit(index, Ty::U64)?;
        let (dst, mode, ty) = (self.temporary(Class::B64), Mode::default(), Ty::U64);
        let (a, b) = (index, Src::Imm(size));
        self.emit_free(Inst::Binary { op: BinaryOp::Mul, ty, mode, dst, a, b });
        let (a, b) = (Src::Reg(dst), start);
        let dst = self.temporary(Class::B64);
        self.emit_free(Inst::Binary { op: BinaryOp::Add, ty, mode, dst, a, b });
        Ok(Src::Reg(dst))
    }
}
