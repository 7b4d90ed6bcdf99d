//! What is always the same in the given call becomes a number, and what never runs goes.
//!
//! Branches that always go one way lose their predicate or vanish; what is then never reached is left to the next pass.

use super::ranges::{Fact, facts};
use super::{Call, constants, edit};
use crate::cfg::Graph;
use crate::code::Code;
use crate::tree::{Function, Instruction, Operand};

pub(super) fn decide(kernel: &mut Function, call: &Call) -> bool {
    let Ok(code) = Code::new(kernel) else { return false };
    let Some(facts) = facts(&code, &Graph::new(&code), call) else { return false };
    let mut changed = false;
    edit::edit(kernel, &mut |at, mut instruction| {
        let Some(fact) = facts[at] else { return vec![instruction] };
        match fact.runs {
            Some(false) => {
                changed = true;
                return Vec::new();
            }
            Some(true) if instruction.guard.is_some() => {
                changed = true;
                instruction.guard = None;
            }
            _ => {}
        }
        match number(&instruction, fact, &code) {
            Some(number) => {
                changed = true;
                vec![number]
            }
            None => vec![instruction],
        }
    });
    changed
}

/// The `mov` of a number that does the same.
fn number(instruction: &Instruction, fact: Fact, code: &Code) -> Option<Instruction> {
    if let ("mov", [_, Operand::Constant(_)]) =
        (&*instruction.opcode, instruction.operands.as_slice())
    {
        return None;
    }
    let (register, number) = fact.number?;
    let declared = code.registers[register.0 as usize].declared;
    let (guard, to) = (instruction.guard.clone(), instruction.operands[0].clone());
    // The low bits are the number's, whatever its sign.
    constants::moved(guard, to, declared, number as u64, instruction.line)
}
