//! Cleaning: copies, constants, addresses and dead steps.
//!
//! Compilers write PTX nearly in single assignment. Where a register has one definition, that
//! definition may stand in for it wherever it dominates the use and the registers it reads have
//! one definition too. Copies disappear that way, `cvta` of global memory among them, and an
//! addition of a constant moves into the loads and stores behind it. Nothing here changes what a
//! lane sees: a register that is read before it was written holds anything.

mod definitions;
mod fold;

use super::draft::RegisterFacts;
use super::graph::Graph;
use super::{Lowering, Outcome};
use crate::code::{Address, Inst, Reg, Space, Src, Step, Ty};
use crate::operands::{Operand, change, reads, writes};
use std::collections::{HashMap, HashSet};

/// Cleans all functions.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    for function in &mut it.functions {
        clean(&mut function.graph, &it.draft.registers);
    }
    Ok(())
}

/// Cleans one function's blocks.
fn clean(graph: &mut Graph, registers: &[RegisterFacts]) {
    // Each round opens the way for the next; two are nearly always enough.
    for _ in 0..3 {
        let mut changed = copies_within_blocks(graph, registers);
        changed |= fold::fold(graph);
        changed |= definitions::definitions(graph, registers);
        changed |= dead(graph, registers);
        if !changed {
            break;
        }
    }
}

/// Within a block a copy holds until one of the two is written again.
fn copies_within_blocks(graph: &mut Graph, registers: &[RegisterFacts]) -> bool {
    let mut changed = false;
    for node in &mut graph.nodes {
        let mut copies: HashMap<Reg, Src> = HashMap::new();
        let mut sources: HashSet<Reg> = HashSet::new();
        for step in &mut node.steps {
            change(&mut step.inst, &mut |place| match place {
                Operand::Read(src) => {
                    if let Src::Reg(register) = *src
                        && let Some(value) = copies.get(&register)
                    {
                        *src = *value;
                        changed = true;
                    }
                }
                Operand::ReadRegister(register) => {
                    if let Some(Src::Reg(from)) = copies.get(register) {
                        *register = *from;
                        changed = true;
                    }
                }
                Operand::Address(address) => {
                    if let Src::Reg(register) = address.base
                        && let Some(value) = copies.get(&register)
                    {
                        address.base = *value;
                        if let Src::Imm(value) = *value {
                            let base = Src::Imm(value.wrapping_add_signed(address.offset));
                            *address = Address { base, offset: 0 };
                        }
                        changed = true;
                    }
                }
                Operand::Guard(_) | Operand::Write(_) => {}
            });
            writes(step, &mut |register| {
                copies.remove(&register);
                if sources.remove(&register) {
                    copies.retain(|_, value| *value != Src::Reg(register));
                }
            });
            if let Inst::Mov { dst, src, ty } = step.inst
                && step.guard.is_none()
                && ty != Ty::Pred
            {
                let class = |register: Reg| registers[register.0 as usize].class;
                match src {
                    Src::Reg(from) if from == dst || class(from) != class(dst) => {}
                    _ => {
                        copies.insert(dst, src);
                        if let Src::Reg(from) = src {
                            sources.insert(from);
                        }
                    }
                }
            }
        }
    }
    changed
}

/// Takes away steps whose results nobody reads and which do nothing else.
fn dead(graph: &mut Graph, registers: &[RegisterFacts]) -> bool {
    let mut uses = vec![0_u32; registers.len()];
    for step in graph.nodes.iter().flat_map(|node| &node.steps) {
        reads(step, &mut |register| uses[register.0 as usize] += 1);
    }
    let mut changed = false;
    // Going backward, a chain within one block goes away at once.
    for node in graph.nodes.iter_mut().rev() {
        let mut kept: Vec<Step> = Vec::with_capacity(node.steps.len());
        for step in std::mem::take(&mut node.steps).into_iter().rev() {
            let mut wanted = !pure(&step.inst);
            writes(&step, &mut |register| wanted |= uses[register.0 as usize] > 0);
            let itself =
                matches!(step.inst, Inst::Mov { dst, src: Src::Reg(src), .. } if dst == src);
            if wanted && !itself && step.inst != Inst::Nop {
                kept.push(step);
            } else {
                changed = true;
                reads(&step, &mut |register| uses[register.0 as usize] -= 1);
            }
        }
        kept.reverse();
        node.steps = kept;
    }
    changed
}

/// Whether a step does nothing but write its results.
fn pure(inst: &Inst) -> bool {
    matches!(
        inst,
        Inst::Mov { .. }
            | Inst::Special { .. }
            | Inst::FrameAddress { .. }
            | Inst::Unary { .. }
            | Inst::Binary { .. }
            | Inst::Ternary { .. }
            | Inst::Bfi { .. }
            | Inst::Carry { .. }
            | Inst::MadCarry { .. }
            | Inst::Setp { .. }
            | Inst::Set { .. }
            | Inst::Select { .. }
            | Inst::Slct { .. }
            | Inst::Testp { .. }
            | Inst::PredLogic { .. }
            | Inst::PredCopy { .. }
            | Inst::PredSet { .. }
            | Inst::Cvt { .. }
            | Inst::CvtPack { .. }
            | Inst::CvtPackInt { .. }
            | Inst::CvtFour { .. }
            | Inst::Pack { .. }
            | Inst::Unpack { .. }
            | Inst::ToGeneric { .. }
            | Inst::FromGeneric { .. }
            | Inst::IsSpace { .. }
            | Inst::Video(_)
            | Inst::Load { space: Space::Param, .. }
    )
}
