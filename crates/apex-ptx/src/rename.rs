//! Gives symbols of a module other names, everywhere they are used.
//!
//! A name declared inside a function hides the module's symbol of that name until its block
//! ends, so the walk keeps the names declared so far and leaves hidden ones alone.

use std::collections::{HashMap, HashSet};

use crate::roles::rename_names;
use crate::tree::{CallPrototype, Function, Initializer, Item, Name, Statement, Variable};

/// New names by old.
pub(crate) type Renaming = HashMap<Name, Name>;

/// Renames what the item declares and uses.
pub(crate) fn rename_item(item: &mut Item, renaming: &Renaming) {
    match item {
        Item::Variable(variable) => {
            rename(&mut variable.name, renaming);
            if let Some(init) = &mut variable.init {
                rename_initializer(init, &mut |name| rename(name, renaming));
            }
        }
        Item::Function(function) => rename_function(function, renaming),
        Item::Alias { alias, target, .. } => {
            rename(alias, renaming);
            rename(target, renaming);
        }
        Item::Verbatim(_) => {}
    }
}

fn rename(name: &mut Name, renaming: &Renaming) {
    if let Some(new) = renaming.get(name) {
        *name = new.clone();
    }
}

fn rename_initializer(init: &mut Initializer, each: &mut impl FnMut(&mut Name)) {
    match init {
        Initializer::Symbol { name, .. } => each(name),
        Initializer::List(list) => {
            list.iter_mut().for_each(|value| rename_initializer(value, each));
        }
        // A field's value is a word of its own, such as `linear`.
        Initializer::Field(..) | Initializer::Constant(_) => {}
    }
}

/// Calls `each` for every symbol an initial value refers to.
pub(crate) fn initializer_symbols(init: &Initializer, each: &mut impl FnMut(&Name)) {
    match init {
        Initializer::Symbol { name, .. } => each(name),
        Initializer::List(list) => list.iter().for_each(|value| initializer_symbols(value, each)),
        Initializer::Field(..) | Initializer::Constant(_) => {}
    }
}

fn rename_function(function: &mut Function, renaming: &Renaming) {
    rename(&mut function.name, renaming);
    let mut hidden = Hidden::default();
    hidden.scopes.push(HashSet::new());
    for parameter in function.returns.iter().chain(&function.params) {
        hidden.hide(&parameter.name);
    }
    if let Some(body) = &mut function.body {
        rename_block(body, renaming, &mut hidden);
    }
}

/// The names declared in the blocks around the current place.
#[derive(Default)]
struct Hidden {
    scopes: Vec<HashSet<Name>>,
}

impl Hidden {
    fn hide(&mut self, name: &Name) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone());
        }
    }

    fn rename(&self, name: &mut Name, renaming: &Renaming) {
        if let Some(new) = renaming.get(name)
            && !self.scopes.iter().any(|scope| scope.contains(name))
        {
            *name = new.clone();
        }
    }
}

fn rename_block(statements: &mut [Statement], renaming: &Renaming, hidden: &mut Hidden) {
    for statement in statements.iter() {
        match statement {
            Statement::Label { name, .. }
            | Statement::BranchTargets { name, .. }
            | Statement::CallTargets { name, .. }
            | Statement::CallPrototype(CallPrototype { name, .. }) => hidden.hide(name),
            _ => {}
        }
    }
    for statement in statements {
        match statement {
            Statement::Instruction(instruction) => {
                rename_names(instruction, &mut |name| hidden.rename(name, renaming));
            }
            Statement::Registers(registers) => {
                for (name, count) in &registers.names {
                    match count {
                        None => hidden.hide(name),
                        // Of `%r<5>` only those that a symbol is named like matter.
                        Some(count) => renaming
                            .keys()
                            .filter(|symbol| is_in_range(symbol, name, *count))
                            .for_each(|symbol| hidden.hide(symbol)),
                    }
                }
            }
            Statement::Variable(Variable { name, init, .. }) => {
                if let Some(init) = init {
                    rename_initializer(init, &mut |name| hidden.rename(name, renaming));
                }
                hidden.hide(name);
            }
            Statement::Block(inner) => {
                hidden.scopes.push(HashSet::new());
                rename_block(inner, renaming, hidden);
                hidden.scopes.pop();
            }
            Statement::CallTargets { targets, .. } => {
                targets.iter_mut().for_each(|name| rename(name, renaming));
            }
            Statement::Label { .. }
            | Statement::BranchTargets { .. }
            | Statement::CallPrototype(_)
            | Statement::Verbatim(_) => {}
        }
    }
}

fn is_in_range(symbol: &str, prefix: &str, count: u32) -> bool {
    let number = symbol.strip_prefix(prefix).and_then(|number| number.parse::<u32>().ok());
    number.is_some_and(|number| number < count)
}
