//! Names and what they mean where they stand.
//!
//! A scope is filled when it is entered: labels may be used before they stand, and everything
//! else is declared before it is used. Registers are made when first named, because a
//! declaration like `%r<4000>` says little about how many are used.

use super::Translator;
use crate::code::{Class, Reg};
use crate::lower::draft::Slot;
use apex_ptx::tree::{self, CallPrototype, Space, Statement, Type, Variable};
use std::collections::HashMap;
use std::rc::Rc;

/// What a name means.
#[derive(Debug, Clone)]
pub(super) enum Entity<'t> {
    Register(Reg),
    /// A vector of registers.
    Vector(Rc<[Reg]>),
    /// A variable of the function.
    Slot(Slot),
    /// A kernel's parameter at this offset.
    KernelParam(u32),
    /// A variable of the module, perhaps declared in the function.
    Variable(&'t Variable),
    Function(usize),
    Label(u32),
    /// The labels of a `.branchtargets` list.
    Targets(Rc<[u32]>),
    Prototype(&'t CallPrototype),
    CallTargets(&'t [tree::Name]),
}

/// Names declared between two braces.
#[derive(Debug, Default)]
pub(super) struct Scope<'t> {
    pub(super) names: HashMap<&'t str, Entity<'t>>,
    /// Register ranges `%r<5>`: prefix, length, class, vector length.
    ranges: Vec<(&'t str, u32, Class, Option<u8>)>,
    /// Registers of ranges met so far.
    met: HashMap<String, Entity<'t>>,
}

impl<'t> Translator<'_, 't> {
    /// The scope of these statements.
    pub(super) fn open_scope(&mut self, statements: &'t [Statement]) -> Scope<'t> {
        let mut scope = Scope::default();
        for statement in statements {
            match statement {
                Statement::Label { name, .. } => {
                    let label = self.new_label();
                    scope.names.insert(name, Entity::Label(label));
                }
                Statement::Registers(registers) => {
                    let class = class_of_type(registers.ty);
                    for (name, count) in &registers.names {
                        if let Some(count) = count {
                            scope.ranges.push((name, *count, class, registers.vector));
                        } else {
                            let entity = self.declare_register(class, registers.vector);
                            scope.names.insert(name, entity);
                        }
                    }
                }
                Statement::Variable(variable) => {
                    let entity = match variable.space {
                        Space::Local | Space::Param => Entity::Slot(self.slot_for(variable)),
                        _ => Entity::Variable(variable),
                    };
                    scope.names.insert(&variable.name, entity);
                }
                Statement::CallPrototype(prototype) => {
                    scope.names.insert(&prototype.name, Entity::Prototype(prototype));
                }
                Statement::CallTargets { name, targets, .. } => {
                    scope.names.insert(name, Entity::CallTargets(targets));
                }
                Statement::BranchTargets { .. }
                | Statement::Instruction(_)
                | Statement::Block(_)
                | Statement::Verbatim(_) => {}
            }
        }
        self.scopes.push(scope);
        let mut lists = Vec::new();
        for statement in statements {
            if let Statement::BranchTargets { name, targets, .. } = statement {
                let labels = targets.iter().map(|target| match self.find(target) {
                    Some(Entity::Label(label)) => label,
                    _ => self.new_label(),
                });
                lists.push((name, labels.collect::<Rc<[u32]>>()));
            }
        }
        let mut scope = self.scopes.pop().unwrap_or_default();
        for (name, labels) in lists {
            scope.names.insert(name, Entity::Targets(labels));
        }
        scope
    }

    /// A register, or a vector of them.
    pub(super) fn declare_register(&mut self, class: Class, vector: Option<u8>) -> Entity<'t> {
        match vector {
            None => Entity::Register(self.register(class)),
            Some(length) => Entity::Vector((0..length).map(|_| self.register(class)).collect()),
        }
    }

    /// The innermost variable of this name that the function itself declares.
    pub(super) fn find_variable(&self, name: &str) -> Option<Entity<'t>> {
        let floor = self.instances.last().map_or(0, |instance| instance.scopes);
        let named = self.scopes[floor..].iter().rev().filter_map(|scope| scope.names.get(name));
        named
            .filter(|entity| matches!(entity, Entity::Slot(_) | Entity::KernelParam(_)))
            .map(Entity::clone)
            .next()
    }

    /// What the name means here, module names last.
    pub(super) fn find(&mut self, name: &str) -> Option<Entity<'t>> {
        let floor = self.instances.last().map_or(0, |instance| instance.scopes);
        for index in (floor..self.scopes.len()).rev() {
            let scope = &self.scopes[index];
            if let Some(entity) = scope.names.get(name).or_else(|| scope.met.get(name)) {
                return Some(entity.clone());
            }
            if let Some((class, vector)) = in_ranges(&scope.ranges, name) {
                let entity = self.declare_register(class, vector);
                self.scopes[index].met.insert(name.to_owned(), entity.clone());
                return Some(entity);
            }
        }
        match self.program.symbol(name)? {
            super::super::program::Symbol::Variable(variable) => Some(Entity::Variable(variable)),
            super::super::program::Symbol::Function(index) => Some(Entity::Function(index)),
        }
    }
}

/// Whether a range declares the name: `%r<5>` declares `%r0` to `%r4`.
fn in_ranges(ranges: &[(&str, u32, Class, Option<u8>)], name: &str) -> Option<(Class, Option<u8>)> {
    ranges.iter().find_map(|(prefix, count, class, vector)| {
        let digits = name.strip_prefix(prefix)?;
        let plain = digits == "0" || !digits.starts_with('0');
        let number: u32 = digits.parse().ok()?;
        (plain && number < *count).then_some((*class, *vector))
    })
}

/// How a register of this declared type is stored: only the width counts.
pub(super) fn class_of_type(ty: Type) -> Class {
    match ty {
        Type::Pred => Class::Pred,
        Type::B8 | Type::U8 | Type::S8 => Class::B16,
        Type::B16 | Type::U16 | Type::S16 | Type::F16 | Type::BF16 => Class::B16,
        Type::B32 | Type::U32 | Type::S32 | Type::F32 | Type::F16x2 | Type::BF16x2 => Class::B32,
        Type::B64 | Type::U64 | Type::S64 | Type::F64 => Class::B64,
        Type::TexRef | Type::SamplerRef | Type::SurfRef => Class::B64,
        Type::B128 => Class::B128,
    }
}
