//! Sides of block and grid become numbers, and the kernel demands its block.

use super::{Call, constants, edit};
use crate::code::Code;
use crate::tree::{Directive, Function, Instruction, Operand};

/// A kernel may be compiled for one block, or for at most so many threads.
pub(super) fn check(kernel: &Function, call: &Call) -> Result<(), String> {
    let Some(block) = call.block else { return Ok(()) };
    let threads = |sides: [u32; 3]| sides.iter().map(|side| u64::from(*side)).product::<u64>();
    if block.contains(&0) || threads(block) > 1024 {
        return Err(format!("a block of {block:?} threads cannot be launched"));
    }
    for directive in &kernel.directives {
        match directive {
            Directive::ReqNtid(sides) if *sides != block => {
                return Err(format!("the kernel demands blocks of {sides:?} threads (.reqntid)"));
            }
            Directive::MaxNtid(sides) if threads(block) > threads(*sides) => {
                return Err(format!("the kernel takes at most {sides:?} threads (.maxntid)"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The side that an operand names, if it is known.
pub(super) fn side(operand: &Operand, call: &Call) -> Option<u32> {
    let Operand::Member(name, axis) = operand else { return None };
    let axis = ["x", "y", "z"].iter().position(|known| *known == &**axis)?;
    match &**name {
        "%ntid" => Some(call.block?[axis]),
        "%nctaid" => Some(call.grid?[axis]),
        _ => None,
    }
}

pub(super) fn fold(kernel: &mut Function, call: &Call) -> bool {
    let Ok(code) = Code::new(kernel) else { return false };
    let mut changed = false;
    edit::edit(kernel, &mut |at, instruction| match folded(
        &instruction,
        &code.instructions[at],
        &code,
        call,
    ) {
        Some(number) => {
            changed = true;
            vec![number]
        }
        None => vec![instruction],
    });
    changed
}

fn folded(
    instruction: &Instruction,
    unique: &Instruction,
    code: &Code,
    call: &Call,
) -> Option<Instruction> {
    let [Operand::Name(register), source] = unique.operands.as_slice() else { return None };
    if &*unique.opcode != "mov" {
        return None;
    }
    let number = side(source, call)?;
    let declared = code.registers[code.register(register)?.0 as usize].declared;
    let (guard, to) = (instruction.guard.clone(), instruction.operands[0].clone());
    constants::moved(guard, to, declared, u64::from(number), instruction.line)
}

/// `.reqntid` says more than `.maxntid`, and the two may not stand together.
pub(super) fn demand(kernel: &mut Function, call: &Call) -> bool {
    let Some(block) = call.block else { return false };
    if kernel.directives.iter().any(|directive| matches!(directive, Directive::ReqNtid(_))) {
        return false;
    }
    kernel.directives.retain(|directive| !matches!(directive, Directive::MaxNtid(_)));
    kernel.directives.insert(0, Directive::ReqNtid(block));
    true
}
