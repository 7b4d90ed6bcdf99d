//! Changes single instructions of a body and leaves everything around them as it stands.
//!
//! Analysis reads the flat [`Code`](crate::code::Code); its instructions have the order of the text. So a place there is
//! a place here, and labels, scopes, declarations and directives need no thought.

use crate::tree::{Function, Instruction, Statement};

/// Puts what `change` gives in the place of each instruction; the number is its place in the flat code.
pub(super) fn edit(
    function: &mut Function,
    change: &mut impl FnMut(usize, Instruction) -> Vec<Instruction>,
) {
    if let Some(body) = &mut function.body {
        let mut place = 0;
        block(body, &mut place, change);
    }
}

fn block(
    statements: &mut Vec<Statement>,
    place: &mut usize,
    change: &mut impl FnMut(usize, Instruction) -> Vec<Instruction>,
) {
    let old = core::mem::take(statements);
    for statement in old {
        match statement {
            Statement::Instruction(instruction) => {
                let changed = change(*place, instruction);
                *place += 1;
                statements.extend(changed.into_iter().map(Statement::Instruction));
            }
            Statement::Block(mut inner) => {
                block(&mut inner, place, change);
                statements.push(Statement::Block(inner));
            }
            other => statements.push(other),
        }
    }
}
