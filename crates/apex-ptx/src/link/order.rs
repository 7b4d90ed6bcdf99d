//! What the linker has taken, in the order ptxas wants it.
//!
//! Pragmas, then functions declared, then variables, each after those its initial value refers
//! to, then bodies and aliases.

use std::collections::HashMap;

use crate::rename::initializer_symbols;
use crate::tree::{Function, FunctionKind, Item, Linkage, Name, Statement, Variable};

/// The merged items, sorted by what must stand before what.
#[derive(Default)]
pub(super) struct Parts {
    pragmas: Vec<Item>,
    declarations: Vec<Item>,
    variables: Vec<Variable>,
    bodies: Vec<Item>,
    aliases: Vec<Item>,
    /// Unresolved and dynamic shared declarations already taken.
    declared: HashMap<Name, usize>,
}

impl Parts {
    pub(super) fn take(&mut self, item: Item) {
        match item {
            Item::Verbatim(verbatim) => {
                let known = self.pragmas.iter().any(
                    |known| matches!(known, Item::Verbatim(known) if known.text == verbatim.text),
                );
                let debug = matches!(verbatim.directive(), ".file" | ".section")
                    || verbatim.text.starts_with('@');
                if !known && !debug {
                    self.pragmas.push(Item::Verbatim(verbatim));
                }
            }
            Item::Variable(variable) => self.take_variable(variable),
            Item::Function(function) => self.take_function(function),
            Item::Alias { .. } => self.aliases.push(item),
        }
    }

    fn take_variable(&mut self, variable: Variable) {
        if variable.linkage == Linkage::Extern {
            if let Some(place) = self.declared.get(&variable.name) {
                let known = &mut self.variables[*place];
                known.align = known.align.max(variable.align);
                return;
            }
            self.declared.insert(variable.name.clone(), self.variables.len());
        }
        self.variables.push(variable);
    }

    fn take_function(&mut self, mut function: Function) {
        if function.body.is_none() {
            if self.declared.insert(function.name.clone(), usize::MAX).is_none() {
                self.declarations.push(Item::Function(function));
            }
            return;
        }
        if function.kind == FunctionKind::Func {
            let declaration = Function {
                kind: function.kind,
                linkage: function.linkage,
                attributes: function.attributes.clone(),
                name: function.name.clone(),
                returns: function.returns.clone(),
                params: function.params.clone(),
                directives: Vec::new(),
                body: None,
                line: function.line,
            };
            self.declarations.push(Item::Function(declaration));
        }
        if let Some(body) = &mut function.body {
            leave_out_locations(body);
        }
        self.bodies.push(Item::Function(function));
    }

    pub(super) fn in_order(self) -> Vec<Item> {
        let mut items = self.pragmas;
        items.extend(self.declarations);
        items.extend(by_reference(self.variables).into_iter().map(Item::Variable));
        items.extend(self.bodies);
        items.extend(self.aliases);
        items
    }
}

fn leave_out_locations(statements: &mut Vec<Statement>) {
    statements.retain_mut(|statement| match statement {
        Statement::Block(inner) => {
            leave_out_locations(inner);
            true
        }
        Statement::Verbatim(verbatim) => {
            verbatim.directive() != ".loc" && !verbatim.text.starts_with('@')
        }
        _ => true,
    });
}

/// The variables, each behind those its initial value refers to; else in the order they came.
/// Where two refer to each other one of them stands first, as it did in its text.
fn by_reference(variables: Vec<Variable>) -> Vec<Variable> {
    let places: HashMap<Name, usize> = variables
        .iter()
        .enumerate()
        .map(|(place, variable)| (variable.name.clone(), place))
        .collect();
    let mut begun = vec![false; variables.len()];
    let mut order = Vec::with_capacity(variables.len());
    for first in 0..variables.len() {
        // Each entry comes twice: first to put what it needs above it, then to be placed.
        let mut waiting = vec![(first, false)];
        while let Some((place, ready)) = waiting.pop() {
            if ready {
                order.push(place);
                continue;
            }
            if core::mem::replace(&mut begun[place], true) {
                continue;
            }
            waiting.push((place, true));
            if let Some(init) = &variables[place].init {
                initializer_symbols(init, &mut |name| {
                    if let Some(needed) = places.get(name).filter(|needed| !begun[**needed]) {
                        waiting.push((*needed, false));
                    }
                });
            }
        }
    }
    let mut variables: Vec<Option<Variable>> = variables.into_iter().map(Some).collect();
    order.into_iter().filter_map(|place| variables[place].take()).collect()
}
