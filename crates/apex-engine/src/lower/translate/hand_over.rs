//! Handing arguments over: in `.param` variables, and through the area that calls share.

use super::Translator;
use super::scope::{Entity, Scope};
use crate::code::{Address, Callee, Class, Guard, Inst, Order, Reg, Space, Src, Ty};
use crate::kernel::{Param, bounded_bytes, layout};
use crate::lower::draft::{MOST_LOCAL, Slot};
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{self, Function, Operand, Type, Variable};

impl<'t> Translator<'_, 't> {
    /// A call that stays one: with these arguments, its results into these operands.
    pub(super) fn go(
        &mut self,
        callee: Callee,
        (arguments, results): (&'t [Operand], &'t [Operand]),
        params: &[Variable],
        returns: &[Variable],
    ) -> Outcome {
        if params.len() != arguments.len() {
            return refuse("the callee takes other operands");
        }
        if params.iter().chain(returns).any(in_odd_registers) {
            return refuse("predicates and vectors are not handed to a function that is called");
        }
        let (places, bytes) = handed_over(params)?;
        let (return_places, return_bytes) = handed_over(returns)?;
        let area = self.argument_area(bytes.max(return_bytes));
        for ((formal, actual), place) in params.iter().zip(arguments).zip(&places) {
            match self.slot_of(actual) {
                Some(slot) => self.copy_local(formal, slot.base, 0, area, place.offset),
                None => {
                    let ty = type_of(formal);
                    let src = self.read(actual, ty)?;
                    self.store_local(area, place.offset, ty, src);
                }
            }
        }
        self.emit(Inst::Call { callee, save: Vec::new(), frame: 0 });
        for ((formal, actual), place) in returns.iter().zip(results).zip(&return_places) {
            match self.slot_of(actual) {
                Some(slot) => self.copy_local(formal, area, place.offset, slot.base, 0),
                None => {
                    let ty = type_of(formal);
                    let value = self.load_local(area, place.offset, ty);
                    self.put(actual, ty, Src::Reg(value))?;
                }
            }
        }
        Ok(())
    }

    /// The start of a called function: its parameters come out of the shared area.
    pub(super) fn enter_called(
        &mut self,
        scope: &mut Scope<'t>,
        function: &'t Function,
    ) -> Outcome<Vec<Slot>> {
        let (places, bytes) = handed_over(&function.params)?;
        let (_, return_bytes) = handed_over(&function.returns)?;
        let area = self.argument_area(bytes.max(return_bytes));
        for (formal, place) in function.params.iter().zip(places) {
            let entity = if formal.space == tree::Space::Register {
                let ty = type_of(formal);
                let value = self.load_local(area, place.offset, ty);
                let register = self.register(ty.class());
                self.emit(Inst::Mov { ty, dst: register, src: Src::Reg(value) });
                Entity::Register(register)
            } else {
                let slot = self.slot_for(formal);
                self.copy_local(formal, area, place.offset, slot.base, 0);
                Entity::Slot(slot)
            };
            scope.names.insert(&formal.name, entity);
        }
        let mut slots = Vec::new();
        for formal in &function.returns {
            let slot = self.slot_for(formal);
            let entity = if formal.space == tree::Space::Register {
                Entity::Register(self.register(type_of(formal).class()))
            } else {
                Entity::Slot(slot)
            };
            scope.names.insert(&formal.name, entity);
            slots.push(slot);
        }
        Ok(slots)
    }

    /// The value of an argument: of a `.param` variable, a register or a constant.
    pub(super) fn argument(&mut self, actual: &Operand, ty: Ty) -> Outcome<Src> {
        match self.slot_of(actual) {
            Some(slot) => Ok(Src::Reg(self.load_local(slot.base, 0, ty))),
            None => self.read(actual, ty),
        }
    }

    /// Hands a result to a `.param` variable or a register.
    pub(super) fn put(&mut self, actual: &Operand, ty: Ty, value: Src) -> Outcome {
        match self.slot_of(actual) {
            Some(slot) => self.store_local(slot.base, 0, ty, value),
            None => {
                let dst = self.write(actual, ty)?;
                self.emit(match value {
                    Src::Reg(predicate) if ty == Ty::Pred => {
                        Inst::PredCopy { dst, a: Guard { predicate, negated: false } }
                    }
                    _ => Inst::Mov { ty, dst, src: value },
                });
            }
        }
        Ok(())
    }

    pub(super) fn slot_of(&mut self, operand: &Operand) -> Option<Slot> {
        let Operand::Name(name) = operand else {
            return None;
        };
        match self.find(name) {
            Some(Entity::Slot(slot)) => Some(slot),
            _ => None,
        }
    }

    pub(super) fn slot_for(&mut self, variable: &Variable) -> Slot {
        self.slot(bounded_bytes(variable), variable.alignment() as u32)
    }

    pub(super) fn argument_area(&mut self, bytes: u32) -> Reg {
        let (register, most) = match self.draft.arguments {
            Some(known) => known,
            None => (self.register(Class::B64), 0),
        };
        self.draft.arguments = Some((register, most.max(bytes)));
        register
    }

    pub(super) fn load_local(&mut self, base: Reg, offset: u32, ty: Ty) -> Reg {
        let dst = self.temporary(ty.class());
        let address = Address { base: Src::Reg(base), offset: i64::from(offset) };
        let (space, order) = (Space::Local, Order::Weak);
        self.emit(Inst::Load { space, ty, order, dsts: vec![Some(dst)], address });
        dst
    }

    pub(super) fn store_local(&mut self, base: Reg, offset: u32, ty: Ty, src: Src) {
        let address = Address { base: Src::Reg(base), offset: i64::from(offset) };
        let (space, order) = (Space::Local, Order::Weak);
        self.emit(Inst::Store { space, ty, order, srcs: vec![src], address });
    }

    /// Copies one parameter between two places of local memory.
    pub(super) fn copy_local(
        &mut self,
        variable: &Variable,
        from: Reg,
        from_at: u32,
        to: Reg,
        to_at: u32,
    ) {
        let bytes = bounded_bytes(variable);
        let align = variable.alignment() as u32;
        let unit = if variable.dims.is_empty() { variable.ty.bytes() } else { align };
        let mut done = 0;
        while done < bytes {
            let mut ty = match unit {
                0 | 1 => Ty::B8,
                2 => Ty::B16,
                4 => Ty::B32,
                _ => Ty::B64,
            };
            while ty.bits() / 8 > bytes - done {
                ty = match ty {
                    Ty::B64 => Ty::B32,
                    Ty::B32 => Ty::B16,
                    _ => Ty::B8,
                };
            }
            let value = self.load_local(from, from_at + done, ty);
            self.store_local(to, to_at + done, ty, Src::Reg(value));
            done += ty.bits() / 8;
        }
    }
}

/// Where arguments or results lie in the area that calls share, and the bytes of all. They are
/// copied piece by piece, so what no thread has room for is refused first.
fn handed_over(variables: &[Variable]) -> Outcome<(Vec<Param>, u32)> {
    let (places, bytes) = layout(variables);
    if bytes > MOST_LOCAL {
        return refuse(format!("hands over {bytes} bytes, {MOST_LOCAL} at most"));
    }
    Ok((places, bytes))
}

/// The untyped value of a variable's element.
pub(super) fn type_of(variable: &Variable) -> Ty {
    match variable.ty {
        Type::Pred => Ty::Pred,
        ty => match ty.bytes() {
            1 => Ty::B8,
            2 => Ty::B16,
            4 => Ty::B32,
            16 => Ty::B128,
            _ => Ty::B64,
        },
    }
}

fn in_odd_registers(variable: &Variable) -> bool {
    variable.space == tree::Space::Register
        && (variable.ty == Type::Pred || variable.vector.is_some())
}
