//! Which kernels might give other bits when they are compiled again.
//!
//! The driver's compiler may fuse an unmarked `mul` with an `add` that takes its result, and whether it does depends on
//! the code around. An approximate function of a number that it knows it may compute itself, otherwise than the
//! hardware does. Kernels with either are named: they need a proof by running both. A kernel without has the same
//! operations with the same roundings in every form.

use super::refuse;
use crate::code::{Code, RegisterId};
use crate::roles::{Role, results, visit_names};
use crate::tree::{Instruction, Module, Operand};

/// Why a kernel's bits must be compared before it is taken; `None` where nothing can change them.
#[must_use]
pub fn needs_check(module: &Module, kernel: &str) -> Option<String> {
    let family = match refuse::flat(module, kernel) {
        Ok(family) => family,
        Err(reason) => return Some(reason),
    };
    let calls = family.len() > 1;
    let products: Vec<u32> = family.iter().flat_map(products).collect();
    let sums: Vec<u32> = family.iter().flat_map(sums).collect();
    if let (true, Some(product), Some(sum)) = (calls, products.first(), sums.first()) {
        return Some(format!(
            "a product (line {product}) and a sum (line {sum}) may be fused across a call"
        ));
    }
    family.iter().find_map(fused).or_else(|| family.iter().find_map(approximated))
}

/// Whether blocks of a kernel may wait for each other: then as many must be on the GPU at a time as before.
#[must_use]
pub fn may_wait(module: &Module, kernel: &str) -> bool {
    let talks = |instruction: &Instruction| match &*instruction.opcode {
        "atom" | "membar" | "fence" => true,
        "ld" => ["volatile", "relaxed", "acquire", "mmio"].iter().any(|word| instruction.has(word)),
        _ => false,
    };
    let Ok(family) = refuse::flat(module, kernel) else { return true };
    family.iter().any(|code| code.instructions.iter().any(talks))
}

fn is_float(instruction: &Instruction) -> bool {
    ["f32", "f64", "f16", "f16x2", "bf16", "bf16x2", "f32x2"]
        .iter()
        .any(|word| instruction.has(word))
}

fn may_fuse(instruction: &Instruction) -> bool {
    is_float(instruction) && !["rn", "rz", "rm", "rp"].iter().any(|word| instruction.has(word))
}

fn is_product(instruction: &Instruction) -> bool {
    &*instruction.opcode == "mul" && may_fuse(instruction)
}

fn is_sum(instruction: &Instruction) -> bool {
    matches!(&*instruction.opcode, "add" | "sub") && may_fuse(instruction)
}

fn products(code: &Code) -> impl Iterator<Item = u32> {
    code.instructions.iter().filter(|it| is_product(it)).map(|it| it.line)
}

fn sums(code: &Code) -> impl Iterator<Item = u32> {
    code.instructions.iter().filter(|it| is_sum(it)).map(|it| it.line)
}

/// Calls `visit` for the registers among some operands.
fn registers(
    code: &Code,
    instruction: &Instruction,
    wanted: Role,
    visit: &mut impl FnMut(RegisterId),
) {
    visit_names(instruction, &mut |name, role| {
        let is_wanted = (role == Role::Read) == (wanted == Role::Read);
        if let Some(register) = code.register(name).filter(|_| is_wanted) {
            visit(register);
        }
    });
}

/// A product that comes to a sum, also by copies and by memory that the compiler may see through.
fn fused(code: &Code) -> Option<String> {
    let mut is_product_in = vec![false; code.registers.len()];
    let (mut in_local, mut in_shared) = (false, false);
    loop {
        let mut changed = false;
        for instruction in &code.instructions {
            let reads = || {
                let mut any = false;
                registers(code, instruction, Role::Read, &mut |register| {
                    any |= is_product_in[register.0 as usize];
                });
                any
            };
            let (local, shared) = (instruction.has("local"), instruction.has("shared"));
            let carries = match &*instruction.opcode {
                "mul" => is_product(instruction),
                "mov" | "neg" | "selp" | "cvt" => reads(),
                "ld" => local && in_local || shared && in_shared,
                "st" if (local || shared) && reads() => {
                    changed |= local && !in_local || shared && !in_shared;
                    in_local |= local;
                    in_shared |= shared;
                    false
                }
                _ => false,
            };
            if carries {
                registers(code, instruction, Role::Write, &mut |register| {
                    changed |= !core::mem::replace(&mut is_product_in[register.0 as usize], true);
                });
            }
        }
        if !changed {
            break;
        }
    }
    let sum = code.instructions.iter().filter(|it| is_sum(it)).find(|sum| {
        let mut any = false;
        registers(code, sum, Role::Read, &mut |register| any |= is_product_in[register.0 as usize]);
        any
    })?;
    Some(format!("a product may be fused with the sum in line {}", sum.line))
}

/// An approximate function of what the compiler may know: constants, parameters, turns of loops.
fn approximated(code: &Code) -> Option<String> {
    let mut is_known = vec![true; code.registers.len()];
    loop {
        let mut changed = false;
        for instruction in &code.instructions {
            if !knows(code, instruction, &is_known) {
                registers(code, instruction, Role::Write, &mut |register| {
                    changed |= core::mem::replace(&mut is_known[register.0 as usize], false);
                });
            }
        }
        if !changed {
            break;
        }
    }
    let known = |operand: &Operand| match operand {
        Operand::Name(name) => code.register(name).is_some_and(|it| is_known[it.0 as usize]),
        other => matches!(other, Operand::Constant(_)),
    };
    let approximate = code.instructions.iter().filter(|it| is_approximate(it));
    let found = approximate.into_iter().find(|it| it.operands.iter().skip(1).any(known))?;
    Some(format!("{} of a known number (line {})", found.full_opcode(), found.line))
}

fn is_approximate(instruction: &Instruction) -> bool {
    match &*instruction.opcode {
        "sin" | "cos" | "lg2" | "ex2" | "tanh" => true,
        "rcp" | "sqrt" | "rsqrt" | "div" => instruction.has("approx") || instruction.has("full"),
        _ => false,
    }
}

/// Whether a compiler may know the result of an instruction whose operands it may know.
fn knows(code: &Code, instruction: &Instruction, is_known: &[bool]) -> bool {
    const MEMORY: &[&str] = &["ld", "ldu", "atom", "tex", "tld4", "suld", "call", "ldmatrix"];
    if MEMORY.contains(&&*instruction.opcode) {
        return &*instruction.opcode == "ld" && instruction.has("param");
    }
    let mut all = true;
    visit_names(instruction, &mut |name, role| match code.register(name) {
        Some(register) if role == Role::Read => all &= is_known[register.0 as usize],
        Some(_) => {}
        // Of special registers a compiler may know the sides.
        None => all &= !name.starts_with('%') || matches!(&**name, "%ntid" | "%nctaid"),
    });
    all && results(instruction) == 1
}
