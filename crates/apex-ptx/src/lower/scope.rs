//! Which registers are declared around an instruction, and how wide they are.

use crate::tree::{Name, Space, Statement, Type, Variable};

/// The declarations of the blocks around an instruction, the innermost last.
#[derive(Default)]
pub(super) struct Scopes(Vec<Vec<(Name, Option<u32>, Type)>>);

impl Scopes {
    /// A function begins, with parameters that may be registers.
    pub(super) fn open_with<'a>(&mut self, parameters: impl Iterator<Item = &'a Variable>) {
        let registers = parameters.filter(|it| it.space == Space::Register);
        self.0.push(registers.map(|it| (it.name.clone(), None, it.ty)).collect());
    }

    /// A block begins.
    pub(super) fn open(&mut self, statements: &[Statement]) {
        let registers = statements.iter().filter_map(|statement| match statement {
            Statement::Registers(registers) => Some(registers),
            _ => None,
        });
        let names = registers
            .flat_map(|it| it.names.iter().map(|(name, count)| (name.clone(), *count, it.ty)));
        self.0.push(names.collect());
    }

    /// A block ends.
    pub(super) fn close(&mut self) {
        self.0.pop();
    }

    /// The declared type of a register; nothing for any other name.
    pub(super) fn register(&self, wanted: &str) -> Option<Type> {
        let declares = |name: &str, count: &Option<u32>| match count {
            None => name == wanted,
            Some(count) => {
                let number = wanted.strip_prefix(name).and_then(|rest| rest.parse::<u32>().ok());
                number.is_some_and(|number| number < *count)
            }
        };
        let all = self.0.iter().rev().flatten();
        all.into_iter().find(|(name, count, _)| declares(name, count)).map(|(_, _, ty)| *ty)
    }
}
