//! Which names an instruction reads and which it writes.
//!
//! PTX writes its first operand, with few exceptions: what begins with an address writes
//! memory, and a handful of opcodes have no result. Names inside brackets are always read. An
//! instruction nobody has heard of is taken to follow the rule.

use crate::tree::{AddressBase, Instruction, Name, Operand};

/// What an instruction does with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Its value is needed.
    Read,
    /// All of it gets a new value.
    Write,
    /// A part gets a new value, or the new value depends on the old.
    Update,
}

/// Calls `visit` for every name among the operands, the guard included: registers, special
/// registers, variables, functions and labels alike. A guarded write is an update, because
/// where the guard fails the old value stays.
pub fn visit_names<'tree>(
    instruction: &'tree Instruction,
    visit: &mut impl FnMut(&'tree Name, Role),
) {
    if let Some(guard) = &instruction.guard {
        visit(&guard.register, Role::Read);
    }
    let written = results(instruction);
    for (place, operand) in instruction.operands.iter().enumerate() {
        let role = match place < written {
            false => Role::Read,
            true if instruction.guard.is_some() || accumulates(instruction) => Role::Update,
            true => Role::Write,
        };
        operand_names(operand, role, visit);
    }
}

/// How many of the first operands are results: 0 or 1.
pub fn results(instruction: &Instruction) -> usize {
    let no_result = match &*instruction.opcode {
        "st" | "red" | "bra" | "brx" | "ret" | "exit" | "trap" | "brkpt" | "membar" | "fence"
        | "nanosleep" | "pmevent" | "setmaxnreg" | "griddepcontrol" | "stackrestore"
        | "prefetch" | "prefetchu" | "discard" | "applypriority" | "cp" | "sust" | "sured"
        | "stmatrix" | "tensormap" => true,
        "bar" | "barrier" => !instruction.has("red"),
        "wmma" => instruction.has("store"),
        "wgmma" => !instruction.has("mma_async"),
        "multimem" => !instruction.has("ld_reduce"),
        "tcgen05" => !instruction.has("ld"),
        _ => false,
    };
    match instruction.operands.first() {
        None | Some(Operand::Address { .. } | Operand::AddressList(_)) => 0,
        // `call f, (..)` without a result begins with the function.
        Some(Operand::Name(_)) if &*instruction.opcode == "call" => 0,
        Some(_) => usize::from(!no_result),
    }
}

fn accumulates(instruction: &Instruction) -> bool {
    &*instruction.opcode == "wgmma"
}

fn operand_names<'tree>(
    operand: &'tree Operand,
    role: Role,
    visit: &mut impl FnMut(&'tree Name, Role),
) {
    match operand {
        Operand::Name(name) => visit(name, role),
        Operand::Not(name) | Operand::SymbolOffset { name, .. } => visit(name, Role::Read),
        Operand::Member(name, _) => {
            visit(name, if role == Role::Read { Role::Read } else { Role::Update });
        }
        Operand::Address { base: AddressBase::Name(name), .. } => visit(name, Role::Read),
        Operand::Address { base: AddressBase::Absolute, .. } => {}
        Operand::Element { name, index, .. } => {
            visit(name, Role::Read);
            if let Some(index) = index {
                visit(index, Role::Read);
            }
        }
        Operand::AddressList(parts) => {
            for part in parts {
                operand_names(part, Role::Read, visit);
            }
        }
        Operand::Vector(parts) | Operand::List(parts) => {
            for part in parts {
                operand_names(part, role, visit);
            }
        }
        Operand::Unified(inner) | Operand::Negative(inner) => {
            operand_names(inner, Role::Read, visit);
        }
        Operand::Pair(first, second) => {
            operand_names(first, role, visit);
            operand_names(second, role, visit);
        }
        Operand::Sink | Operand::Constant(_) => {}
    }
}

/// Calls `rename` for every name among the operands, the guard included.
pub(crate) fn rename_names(instruction: &mut Instruction, rename: &mut impl FnMut(&mut Name)) {
    if let Some(guard) = &mut instruction.guard {
        rename(&mut guard.register);
    }
    for operand in &mut instruction.operands {
        rename_operand(operand, rename);
    }
}

fn rename_operand(operand: &mut Operand, rename: &mut impl FnMut(&mut Name)) {
    match operand {
        Operand::Name(name)
        | Operand::Not(name)
        | Operand::SymbolOffset { name, .. }
        | Operand::Member(name, _)
        | Operand::Address { base: AddressBase::Name(name), .. } => rename(name),
        Operand::Element { name, index, .. } => {
            rename(name);
            if let Some(index) = index {
                rename(index);
            }
        }
        Operand::AddressList(parts) | Operand::Vector(parts) | Operand::List(parts) => {
            for part in parts {
                rename_operand(part, rename);
            }
        }
        Operand::Unified(inner) | Operand::Negative(inner) => rename_operand(inner, rename),
        Operand::Pair(first, second) => {
            rename_operand(first, rename);
            rename_operand(second, rename);
        }
        Operand::Sink
        | Operand::Constant(_)
        | Operand::Address { base: AddressBase::Absolute, .. } => {}
    }
}
