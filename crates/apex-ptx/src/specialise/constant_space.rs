//! Loads of constant variables as loads of the memory that they lie in.
//!
//! A variable of the constant space lies in ordinary memory of the GPU; the driver tells its address, and programs may
//! read it there. A kernel does not write a constant that it reads, and what the host wrote stands there when a launch
//! begins. So `ld.const` of a name becomes `ld.global.nc` of the number: the same bytes, by another cache.

use crate::tree::{Instruction, Name};

/// What `ld` may bear here beside its space: anything else is not known to mean the same elsewhere.
const PLAIN: &[&str] = &[
    "const", "v2", "v4", "b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64",
    "u64", "s64", "f64", "b128",
];

/// Whether an instruction speaks of the constant space.
pub(super) fn is_named(instruction: &Instruction) -> bool {
    instruction.modifiers.iter().any(|word| word.starts_with("const"))
}

/// The same of the GPU's memory; `None` where it is not known.
pub(super) fn as_global(mut instruction: Instruction) -> Option<Instruction> {
    match &*instruction.opcode {
        "ld" if instruction.modifiers.iter().all(|word| PLAIN.contains(&&**word)) => {
            let others = instruction.modifiers.iter().filter(|word| &***word != "const").cloned();
            let space = [Name::from("global"), Name::from("nc")];
            instruction.modifiers = space.into_iter().chain(others).collect();
            Some(instruction)
        }
        // From the constant space to the generic one: the number is a generic address already.
        "cvta" if !instruction.has("to") && instruction.has("u64") => {
            instruction.opcode = Name::from("mov");
            instruction.modifiers = vec![Name::from("b64")];
            Some(instruction)
        }
        _ => None,
    }
}
