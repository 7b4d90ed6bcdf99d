//! Calls: functions taken in, functions called, and the device's own library.
//!
//! A function that is taken in uses the caller's `.param` variables as its own. One that is
//! called finds its arguments in an area of local memory that all calls of the kernel share:
//! the caller fills it, the callee empties it before anything else, and what it returns goes
//! back the same way. So an indirect call needs to know nothing but the shape.

use super::hand_over::type_of;
use super::scope::{Entity, Scope};
use super::{INLINE_CALLS, INLINE_SCOPES, INLINE_STEPS, Instance, Translator};
use crate::code::{Callee, Guard, Inst, Reg, Src, SystemCall, Ty};
use crate::kernel::layout;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{self, Function, FunctionKind, Instruction, Operand, Variable};

/// The operands of a call, sorted.
struct Shape<'t> {
    returns: &'t [Operand],
    arguments: &'t [Operand],
    callee: &'t str,
    /// The prototype or list of targets of an indirect call.
    shape: Option<&'t str>,
}

impl<'t> Shape<'t> {
    /// What is handed over, and where the results go.
    fn operands(&self) -> (&'t [Operand], &'t [Operand]) {
        (self.arguments, self.returns)
    }
}

impl<'t> Translator<'_, 't> {
    /// `call`.
    pub(super) fn call(&mut self, it: &'t Instruction) -> Outcome {
        let shape = sort(it)?;
        match self.find(shape.callee) {
            Some(Entity::Function(index)) => {
                let function = self.program.functions[index];
                if function.body.is_none() {
                    return self.system(&shape, function);
                }
                self.around(|this| {
                    this.taken_in += 1;
                    let large = this.body.steps.len() > INLINE_STEPS
                        || this.taken_in > INLINE_CALLS
                        || this.scopes.len() > INLINE_SCOPES;
                    if large || this.program.is_recursive(index) {
                        this.want(index);
                        let callee = Callee::Direct(index as u32);
                        this.go(callee, shape.operands(), &function.params, &function.returns)
                    } else {
                        this.take_in(&shape, index, function)
                    }
                })
            }
            Some(Entity::Register(register)) => {
                let (params, returns) = self.indirect_shape(&shape)?;
                for index in self.program.taken.clone() {
                    let function = self.program.functions[index];
                    if function.body.is_some() && function.kind == FunctionKind::Func {
                        self.want(index);
                    }
                }
                let Src::Reg(register) = self.fit(Src::Reg(register), Ty::U64)? else {
                    return refuse("the address is not in a register");
                };
                let callee = Callee::Indirect(register);
                self.around(|this| this.go(callee, shape.operands(), params, returns))
            }
            Some(_) => refuse(format!("{} is not a function", shape.callee)),
            None => refuse(format!("unresolved extern function '{}'", shape.callee)),
        }
    }

    /// Steps for the lanes under the guard only: the others jump over them.
    fn around(&mut self, steps: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let Some(guard) = self.guard.take() else {
            return steps(self);
        };
        let end = self.new_label();
        self.guard = Some(Guard { negated: !guard.negated, ..guard });
        self.emit(Inst::Branch { target: end });
        self.guard = None;
        steps(self)?;
        self.guard = None;
        self.set_label(end);
        Ok(())
    }

    fn want(&mut self, function: usize) {
        if self.ever_wanted.insert(function) {
            self.wanted.push(function);
        }
    }

    /// Parameters and results of an indirect call.
    fn indirect_shape(&mut self, shape: &Shape<'t>) -> Outcome<(&'t [Variable], &'t [Variable])> {
        let name = shape.shape.unwrap_or_default();
        match self.find(name) {
            Some(Entity::Prototype(prototype)) => Ok((&prototype.params, &prototype.returns)),
            Some(Entity::CallTargets(targets)) => {
                let function = targets.iter().find_map(|name| match self.find(name) {
                    Some(Entity::Function(index)) => Some(self.program.functions[index]),
                    _ => None,
                });
                match function {
                    Some(function) => Ok((&function.params, &function.returns)),
                    None => refuse(format!("{name} names no function")),
                }
            }
            _ => refuse("an indirect call needs a prototype or a list of targets"),
        }
    }

    /// Takes the function in: its body stands here.
    fn take_in(&mut self, shape: &Shape<'t>, index: usize, function: &'t Function) -> Outcome {
        if function.params.len() != shape.arguments.len() {
            return refuse(format!("{} takes other operands", function.name));
        }
        let mut scope = Scope::default();
        for (formal, actual) in function.params.iter().zip(shape.arguments) {
            let entity = self.bind(formal, Some(actual))?;
            scope.names.insert(&formal.name, entity);
        }
        let mut results = Vec::new();
        // The caller may have been told of another result than there is: a result that nobody
        // gives holds anything, and one that nobody takes goes nowhere.
        for (place, formal) in function.returns.iter().enumerate() {
            let actual = shape.returns.get(place);
            let entity = match actual.and_then(|actual| self.slot_of(actual)) {
                Some(slot) if formal.space != tree::Space::Register => Entity::Slot(slot),
                _ => {
                    let entity = self.bind(formal, None)?;
                    results.extend(actual.map(|actual| (formal, actual, entity.clone())));
                    entity
                }
            };
            scope.names.insert(&formal.name, entity);
        }
        let line = self.line;
        let end = self.new_label();
        let scopes = self.scopes.len();
        self.scopes.push(scope);
        self.instances.push(Instance {
            function: index,
            scopes,
            end: Some(end),
            carry: None,
            returns: Vec::new(),
        });
        self.statements(function.body.as_deref().unwrap_or_default())?;
        self.instances.pop();
        self.scopes.pop();
        self.guard = None;
        self.line = line;
        self.set_label(end);
        for (formal, actual, entity) in results {
            let ty = type_of(formal);
            if let Entity::Slot(slot) = entity {
                let value = self.load_local(slot.base, 0, ty);
                self.put(actual, ty, Src::Reg(value))?;
                continue;
            }
            for (register, part) in registers_of(&entity).into_iter().zip(self.parts(actual)) {
                self.put(&part, ty, Src::Reg(register))?;
            }
        }
        Ok(())
    }

    /// The value of an argument, in a register of the function that takes it.
    fn argument_into(&mut self, dst: Reg, actual: &Operand, ty: Ty) -> Outcome {
        let inst = if ty == Ty::Pred {
            Inst::PredCopy { dst, a: self.predicate(actual)? }
        } else {
            Inst::Mov { ty, dst, src: self.argument(actual, ty)? }
        };
        self.emit(inst);
        Ok(())
    }

    /// What a parameter means in a function taken in: the caller's variable, or a new one with
    /// the caller's value.
    fn bind(&mut self, formal: &Variable, actual: Option<&Operand>) -> Outcome<Entity<'t>> {
        let slot = actual.and_then(|actual| self.slot_of(actual));
        if formal.space == tree::Space::Register {
            let ty = type_of(formal);
            let entity = self.declare_register(ty.class(), formal.vector);
            if let Some(actual) = actual {
                let parts = self.parts(actual);
                let registers = registers_of(&entity);
                if parts.len() != registers.len() {
                    return refuse("an argument has another length than its parameter");
                }
                for (dst, part) in registers.into_iter().zip(&parts) {
                    self.argument_into(dst, part, ty)?;
                }
            }
            return Ok(entity);
        }
        if let Some(slot) = slot {
            return Ok(Entity::Slot(slot));
        }
        let slot = self.slot_for(formal);
        if let Some(actual) = actual {
            let ty = type_of(formal);
            let src = self.argument(actual, ty)?;
            self.store_local(slot.base, 0, ty, src);
        }
        Ok(Entity::Slot(slot))
    }

    /// `ret`, and the end of a body.
    pub(super) fn leave(&mut self) {
        let Instance { end, function, .. } = *self.instance();
        if let Some(target) = end {
            return self.emit(Inst::Branch { target });
        }
        if self.draft.bodies.is_empty() {
            return self.emit(Inst::Exit);
        }
        let tree = self.program.functions[function];
        let (places, bytes) = layout(&tree.returns);
        let area = self.argument_area(bytes);
        let slots = self.instance().returns.clone();
        for ((formal, slot), place) in tree.returns.iter().zip(slots).zip(places) {
            match self.find(&formal.name) {
                Some(Entity::Register(register)) => {
                    self.store_local(area, place.offset, type_of(formal), Src::Reg(register));
                }
                _ => self.copy_local(formal, slot.base, 0, area, place.offset),
            }
        }
        self.emit(Inst::Return);
    }

    /// A function that the device brings along.
    fn system(&mut self, shape: &Shape<'t>, function: &Function) -> Outcome {
        let call = match &*function.name {
            "vprintf" => SystemCall::Vprintf,
            "malloc" => SystemCall::Malloc,
            "free" => SystemCall::Free,
            "__assertfail" => SystemCall::AssertFail,
            name => return refuse(format!("unresolved extern function '{name}'")),
        };
        let mut arguments = Vec::new();
        for (index, actual) in shape.arguments.iter().enumerate() {
            let ty = function.params.get(index).map_or(Ty::B64, type_of);
            arguments.push(self.argument(actual, ty)?);
        }
        let (wanted, result) = match call {
            SystemCall::Vprintf => (2, Some(Ty::B32)),
            SystemCall::Malloc => (1, Some(Ty::B64)),
            SystemCall::Free => (1, None),
            SystemCall::AssertFail => (5, None),
        };
        if arguments.len() != wanted {
            return refuse(format!("{} takes {wanted} arguments", function.name));
        }
        match (result, shape.returns.first()) {
            (Some(ty), Some(actual)) => {
                let dst = self.temporary(ty.class());
                self.emit(Inst::System { call, dst: Some(dst), arguments });
                self.put(actual, ty, Src::Reg(dst))
            }
            _ => {
                self.emit(Inst::System { call, dst: None, arguments });
                Ok(())
            }
        }
    }
}

/// The registers of a parameter that is no variable.
fn registers_of(entity: &Entity<'_>) -> Vec<Reg> {
    match entity {
        Entity::Register(register) => vec![*register],
        Entity::Vector(registers) => registers.to_vec(),
        _ => Vec::new(),
    }
}

fn sort(it: &Instruction) -> Outcome<Shape<'_>> {
    let mut shape = Shape { returns: &[], arguments: &[], callee: "", shape: None };
    for operand in &it.operands {
        match operand {
            Operand::Name(name) if shape.callee.is_empty() => shape.callee = name,
            Operand::Name(name) => shape.shape = Some(name),
            Operand::List(list) if shape.callee.is_empty() => shape.returns = list,
            Operand::List(list) => shape.arguments = list,
            _ => return refuse("has an operand that is not known here"),
        }
    }
    if shape.callee.is_empty() { refuse("names no function") } else { Ok(shape) }
}
