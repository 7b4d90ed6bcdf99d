//! What is never reached goes, and what computes a number that nobody reads.
//!
//! Returns stay where they stand, for a text must not run out of its end. Loads of memory stay: what they do beside
//! their result is the driver's compiler's to judge.

use super::{Call, edit};
use crate::cfg::Graph;
use crate::code::Code;
use crate::roles::{Role, results, visit_names};
use crate::tree::{Function, Instruction};

pub(super) fn drop_dead(kernel: &mut Function, _: &Call) -> bool {
    let Ok(code) = Code::new(kernel) else { return false };
    let mut stays = reached(&code);
    drop_unread(&code, &mut stays);
    let mut changed = false;
    edit::edit(kernel, &mut |at, instruction| {
        if stays[at] {
            vec![instruction]
        } else {
            changed = true;
            Vec::new()
        }
    });
    changed
}

/// Which instructions some way leads to.
fn reached(code: &Code) -> Vec<bool> {
    let graph = Graph::new(code);
    let mut is_reached = vec![false; graph.blocks.len()];
    let mut next = vec![0];
    while let Some(block) = next.pop() {
        if block < is_reached.len() && !core::mem::replace(&mut is_reached[block], true) {
            next.extend(graph.blocks[block].successors.iter().map(|block| block.index()));
        }
    }
    let mut stays: Vec<bool> = code.instructions.iter().map(is_end).collect();
    for (block, reached) in graph.blocks.iter().zip(is_reached) {
        block.instructions.clone().for_each(|at| stays[at] |= reached);
    }
    stays
}

fn is_end(instruction: &Instruction) -> bool {
    matches!(&*instruction.opcode, "ret" | "exit" | "trap")
}

/// Calls `visit` for every register whose value an instruction needs.
fn uses(code: &Code, instruction: &Instruction, visit: &mut impl FnMut(usize)) {
    let is_plain = is_plain(instruction);
    visit_names(instruction, &mut |name, role| {
        // A number under a guard keeps the old one elsewhere: that alone is no use of it.
        let is_use = role == Role::Read || role == Role::Update && !is_plain;
        if let Some(register) = code.register(name).filter(|_| is_use) {
            visit(register.0 as usize);
        }
    });
}

/// Takes out what nobody reads, from the end: what only that read is then read by nobody.
fn drop_unread(code: &Code, stays: &mut [bool]) {
    let mut readers = vec![0_u32; code.registers.len()];
    for (instruction, _) in code.instructions.iter().zip(&*stays).filter(|(_, stays)| **stays) {
        uses(code, instruction, &mut |register| readers[register] += 1);
    }
    let mut is_any = true;
    while core::mem::take(&mut is_any) {
        for (at, instruction) in code.instructions.iter().enumerate().rev() {
            if !stays[at] || !is_plain(instruction) {
                continue;
            }
            let mut is_needed = false;
            visit_names(instruction, &mut |name, role| {
                if role != Role::Read {
                    let register = code.register(name);
                    is_needed |= register.is_none_or(|it| readers[it.0 as usize] > 0);
                }
            });
            if !is_needed {
                stays[at] = false;
                is_any = true;
                uses(code, instruction, &mut |register| readers[register] -= 1);
            }
        }
    }
}

/// Whether an instruction does nothing but give its result.
fn is_plain(instruction: &Instruction) -> bool {
    const PLAIN: &[&str] = &[
        "abs", "add", "and", "bfe", "bfi", "brev", "clz", "cvt", "cvta", "div", "fma", "lop3",
        "mad", "max", "min", "mov", "mul", "neg", "not", "or", "popc", "prmt", "rem", "selp",
        "setp", "shf", "shl", "shr", "sub", "xor",
    ];
    // The carry flag is a result that no register shows.
    let is_arithmetic = PLAIN.contains(&&*instruction.opcode) && !instruction.has("cc");
    let is_parameter =
        &*instruction.opcode == "ld" && instruction.has("param") && !instruction.has("volatile");
    results(instruction) == 1 && (is_arithmetic || is_parameter)
}
