//! The part of a kernel that lanes walk on different ways: from a branch at which they part to
//! where the ways meet.
//!
//! It is compiled a second time, with a mask ([`super::parted`]). There a register that one
//! block writes and another reads differs between lanes, whatever its shape was with all
//! lanes together; one that never leaves its block does not care who else there is.

use super::flow::{self, Bits, Control};
use super::shape::Shapes;
use crate::code::{Code, Inst, Pc};
use std::rc::Rc;

/// Steps of a region worth compiling again.
const MOST_STEPS: usize = 600;

/// Blocks between a branch and where its ways meet.
pub(super) struct Region<'a> {
    /// In order.
    pub(super) blocks: Vec<u32>,
    /// Where the ways meet.
    pub(super) meets: u32,
    /// Registers written inside.
    pub(super) written: Bits,
    /// Of these, those that live from one block to another.
    pub(super) crossing: Bits,
    /// Shapes with lanes on different ways.
    pub(super) shapes: Rc<Shapes<'a>>,
}

/// The blocks of the region of a branch, where it is small enough.
pub(super) fn blocks(code: &Code, branch: usize) -> Option<(Vec<u32>, u32)> {
    let block = &code.blocks[branch];
    let meets = block.meets?;
    let mut seen = vec![false; code.blocks.len()];
    let mut work = block.successors.clone();
    let mut steps = 0;
    while let Some(next) = work.pop() {
        if next == meets || std::mem::replace(&mut seen[next as usize], true) {
            continue;
        }
        let it = &code.blocks[next as usize];
        steps += it.steps.len();
        if steps > MOST_STEPS {
            return None;
        }
        work.extend(&it.successors);
    }
    let blocks: Vec<u32> = (0..code.blocks.len() as u32).filter(|&b| seen[b as usize]).collect();
    (!blocks.is_empty()).then_some((blocks, meets))
}

/// Registers written or read in blocks.
pub(super) fn touched(code: &Code, blocks: &[u32]) -> Bits {
    let mut touched = Bits::new(code.registers.len());
    for step in steps(code, blocks) {
        flow::written(&mut touched, step);
        crate::operands::reads(step, &mut |register| touched.set(register));
    }
    touched
}

fn steps<'a>(code: &'a Code, blocks: &'a [u32]) -> impl Iterator<Item = &'a crate::code::Step> {
    blocks
        .iter()
        .flat_map(|&block| code.blocks[block as usize].steps.clone())
        .map(|pc| &code.steps[pc as usize])
}

impl<'a> Region<'a> {
    /// The region of the branch at the end of a block.
    pub(super) fn find(code: &'a Code, shapes: &Shapes<'a>, branch: usize) -> Option<Self> {
        let (blocks, meets) = blocks(code, branch)?;
        // Nothing is won where the first step inside is left to the interpreter.
        if blocks.iter().all(|&block| stops(code, shapes, block)) {
            return None;
        }
        let count = code.registers.len();
        let mut written = Bits::new(count);
        for step in steps(code, &blocks) {
            flow::written(&mut written, step);
        }
        let mut crossing = Bits::new(count);
        for &block in blocks.iter().chain([&meets]) {
            for &register in &code.blocks[block as usize].live_in {
                if written.has(register) {
                    crossing.set(register);
                }
            }
        }
        let inside: Vec<Pc> =
            blocks.iter().flat_map(|&block| code.blocks[block as usize].steps.clone()).collect();
        let shapes = Rc::new(shapes.parted(&inside, &written, &crossing));
        Some(Region { blocks, meets, written, crossing, shapes })
    }
}

/// True for a block the masked code does not contain: lanes that come there are left to
/// the interpreter.
pub(super) fn stops(code: &Code, shapes: &Shapes<'_>, block: u32) -> bool {
    code.blocks[block as usize].steps.clone().any(|pc| {
        let step = &code.steps[pc as usize];
        let alone = matches!(
            step.inst,
            Inst::Shuffle { .. }
                | Inst::Vote { .. }
                | Inst::Match { .. }
                | Inst::Redux { .. }
                | Inst::Elect { .. }
                | Inst::ActiveMask { .. }
                | Inst::WarpBarrier { .. }
                | Inst::Mma(_)
                | Inst::Wgmma(_)
                | Inst::WmmaMemory(_)
                | Inst::MatrixMemory { .. }
                | Inst::MatrixTranspose { .. }
                | Inst::BranchIndexed { .. }
        );
        alone || !matches!(flow::control(shapes, step), Control::Plain | Control::Jump)
    })
}
