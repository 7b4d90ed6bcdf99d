//! Forgets where things stood, so that two texts can be compared by what they say.

use crate::tree::{
    CallPrototype, Directive, Function, Item, Module, Statement, Variable, Verbatim,
};

impl Module {
    /// The same module with every line number 0.
    #[must_use]
    pub fn without_lines(mut self) -> Module {
        for item in &mut self.items {
            match item {
                Item::Variable(variable) => forget_variable(variable),
                Item::Function(function) => forget_function(function),
                Item::Alias { line, .. } | Item::Verbatim(Verbatim { line, .. }) => *line = 0,
            }
        }
        self
    }
}

fn forget_variable(variable: &mut Variable) {
    variable.line = 0;
}

fn forget_function(function: &mut Function) {
    function.line = 0;
    function.returns.iter_mut().chain(&mut function.params).for_each(forget_variable);
    function.directives.iter_mut().for_each(forget_directive);
    function.body.iter_mut().flatten().for_each(forget_statement);
}

fn forget_directive(directive: &mut Directive) {
    if let Directive::Verbatim(verbatim) = directive {
        verbatim.line = 0;
    }
}

fn forget_statement(statement: &mut Statement) {
    match statement {
        Statement::Label { line, .. }
        | Statement::BranchTargets { line, .. }
        | Statement::CallTargets { line, .. }
        | Statement::Verbatim(Verbatim { line, .. }) => *line = 0,
        Statement::Registers(registers) => registers.line = 0,
        Statement::Variable(variable) => forget_variable(variable),
        Statement::Instruction(instruction) => instruction.line = 0,
        Statement::Block(inner) => inner.iter_mut().for_each(forget_statement),
        Statement::CallPrototype(CallPrototype { returns, params, directives, line, .. }) => {
            *line = 0;
            returns.iter_mut().chain(params).for_each(forget_variable);
            directives.iter_mut().for_each(forget_directive);
        }
    }
}
