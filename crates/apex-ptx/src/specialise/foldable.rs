//! Which bytes of a kernel's parameters are worth to be written into it.
//!
//! A program calls a kernel with other buffers and the same sizes: pointers are never folded. The text does not say what is a
//! pointer. So a wide number counts as one where it comes to be an address, or goes where nobody looks after
//! it, by sums and copies alone. A factor is no pointer: an index is multiplied by the size of what it counts.

use super::parameters::{Load, Place, load, places};
use crate::code::Code;
use crate::roles::{Role, results, visit_names};
use crate::tree::{AddressBase, Function, Instruction, Name, Operand};
use std::collections::HashSet;

/// Bytes of the parameters that the kernel reads one by one and that are no pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Foldable {
    /// The first byte.
    pub offset: u32,
    /// How many.
    pub bytes: u32,
}

/// What can be folded of a kernel's parameters, in their order; nothing where the text cannot be read.
#[must_use]
pub fn foldable(kernel: &Function) -> Vec<Foldable> {
    let (Some(places), Ok(code)) = (places(kernel), Code::new(kernel)) else { return Vec::new() };
    let pointers = pointers(&code);
    let mut found = Vec::new();
    let mut odd = Vec::new();
    for instruction in &code.instructions {
        let Some(Load { offset, ty, parts }) = load(instruction, &places) else { continue };
        let bytes = ty.bytes();
        let to: Vec<&Operand> = match &instruction.operands[0] {
            Operand::Vector(parts) => parts.iter().collect(),
            one => vec![one],
        };
        for (nth, to) in (0..parts).zip(to) {
            let one = Foldable { offset: offset + nth * bytes, bytes };
            match to {
                Operand::Name(name) if bytes == 8 && pointers.contains(name) => odd.push(one),
                _ => found.push(one),
            }
        }
    }
    let meets =
        |a: &Foldable, b: &Foldable| a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
    found.retain(|one| !odd.iter().any(|pointer| meets(one, pointer)));
    joined(found, &places)
}

/// Each parameter's bytes once: a number read as a whole and in parts is one.
fn joined(mut found: Vec<Foldable>, places: &[Place]) -> Vec<Foldable> {
    found.sort_unstable();
    let mut joined: Vec<Foldable> = Vec::new();
    let parameter = |at: u32| places.iter().position(|place| at < place.offset + place.bytes);
    for one in found {
        match joined.last_mut() {
            Some(last)
                if one.offset < last.offset + last.bytes
                    && parameter(one.offset) == parameter(last.offset) =>
            {
                let end = (last.offset + last.bytes).max(one.offset + one.bytes);
                last.bytes = end - last.offset;
            }
            _ => joined.push(one),
        }
    }
    joined
}

/// Registers whose number may be a pointer.
fn pointers(code: &Code) -> HashSet<&Name> {
    let mut found = HashSet::new();
    for instruction in &code.instructions {
        for operand in &instruction.operands {
            addresses(operand, &mut |name| {
                found.insert(name);
            });
        }
        if matches!(&*instruction.opcode, "cvta" | "st" | "call" | "isspacep" | "mov") {
            let sources = instruction.operands.iter().skip(results(instruction));
            for operand in sources.filter(|_| !is_copy(instruction)) {
                names(operand, &mut |name| {
                    found.insert(name);
                });
            }
        }
    }
    let mut size = 0;
    while found.len() != size {
        size = found.len();
        for instruction in code.instructions.iter().rev() {
            let mut leads_on = false;
            visit_names(instruction, &mut |name, role| {
                leads_on |= role != Role::Read && found.contains(name);
            });
            if leads_on {
                let sources = instruction.operands.iter().skip(results(instruction));
                let keeps = |nth: usize| match &*instruction.opcode {
                    "mad" => nth == 2,
                    "add" | "sub" | "mov" | "cvta" | "cvt" | "min" | "max" | "and" | "or" => true,
                    "selp" => nth < 2,
                    _ => false,
                };
                for (_, operand) in sources.enumerate().filter(|(nth, _)| keeps(*nth)) {
                    names(operand, &mut |name| {
                        found.insert(name);
                    });
                }
            }
        }
    }
    found
}

/// A `mov` from register to register; one from or to a vector takes numbers apart, and its parts are not followed.
fn is_copy(instruction: &Instruction) -> bool {
    &*instruction.opcode == "mov"
        && !instruction.operands.iter().any(|operand| matches!(operand, Operand::Vector(_)))
}

fn addresses<'a>(operand: &'a Operand, visit: &mut impl FnMut(&'a Name)) {
    match operand {
        Operand::Address { base: AddressBase::Name(name), .. } => visit(name),
        Operand::AddressList(parts) => parts.iter().for_each(|part| addresses(part, visit)),
        Operand::Unified(inner) => addresses(inner, visit),
        _ => {}
    }
}

fn names<'a>(operand: &'a Operand, visit: &mut impl FnMut(&'a Name)) {
    match operand {
        Operand::Name(name) => visit(name),
        Operand::Vector(parts) | Operand::List(parts) => {
            parts.iter().for_each(|part| names(part, visit));
        }
        _ => {}
    }
}
