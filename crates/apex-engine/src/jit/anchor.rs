//! What the address of an access is near to.
//!
//! An address is most often a parameter plus an index of 32 bits times a constant: however wild the index, it
//! cannot leave the window of device memory when the parameter lies in it. So code can be made that trusts the parameters
//! it is given, and the launch looks at those once. Else a regular register serves, to which the same block adds a number
//! with a bound.

use super::Compilation;
use super::emit::Emit;
use crate::code::{BinaryOp, Class, Code, Inst, Pc, Reg, Space, Src, TernaryOp};
use crate::operands;
use crate::window::Window;

/// Sums that are followed back from an address.
const DEPTH: u32 = 8;

/// Finds the writers, which only code that is held to a window asks for.
pub(crate) fn run(it: &mut Compilation<'_>) -> Option<()> {
    it.writers = it.job.window.map_or_else(Vec::new, |_| single_writers(it.job.code));
    Some(())
}

/// The one step that writes each register, where there is one and it has no guard.
fn single_writers(code: &Code) -> Vec<Option<Pc>> {
    let mut writers = vec![None; code.registers.len()];
    let mut seen = vec![false; code.registers.len()];
    for (pc, step) in code.steps.iter().enumerate() {
        operands::writes(step, &mut |Reg(number)| {
            let again = std::mem::replace(&mut seen[number as usize], true);
            let alone = !again && step.guard.is_none();
            writers[number as usize] = alone.then_some(pc as Pc);
        });
    }
    writers
}

impl Emit<'_, '_> {
    /// The parameter that an address is near to: its offset. `reach` is what the access itself adds.
    pub(super) fn trusted(&self, register: Reg, reach: i64, window: Window) -> Option<u32> {
        if !self.helpers.trusting {
            return None;
        }
        let (offset, bound) = self.root(Src::Reg(register), DEPTH)?;
        (bound.checked_add(reach)? as u64 <= window.margin()).then_some(offset)
    }

    /// The parameter that a number of 64 bits is the sum of, and the most that is added.
    fn root(&self, src: Src, depth: u32) -> Option<(u32, i64)> {
        let Src::Reg(register) = src else { return None };
        let depth = depth.checked_sub(1)?;
        let further = |(offset, bound): (u32, i64), by: i64| Some((offset, bound.checked_add(by)?));
        match self.written_by(register)? {
            Inst::Load { space: Space::Param, ty, dsts, address, .. } if ty.bits() == 64 => {
                let Src::Imm(base) = address.base else { return None };
                let index = dsts.iter().position(|&dst| dst == Some(register))?;
                let offset = base.wrapping_add(address.offset as u64) + 8 * index as u64;
                Some((u32::try_from(offset).ok()?, 0))
            }
            Inst::Mov { ty, src, .. } if ty.bits() == 64 => self.root(*src, depth),
            Inst::ToGeneric { space: Space::Global, a, .. }
            | Inst::FromGeneric { space: Space::Global, a, .. } => self.root(*a, depth),
            Inst::Binary { op: BinaryOp::Add, ty, a, b, .. } if ty.bits() == 64 => {
                let sum = |base, by| further(self.root(base, depth)?, self.bound(by)?);
                sum(*a, *b).or_else(|| sum(*b, *a))
            }
            Inst::Ternary { op: TernaryOp::MadWide, ty, a, b, c, .. } if ty.bits() == 32 => {
                further(self.root(*c, depth)?, product(*a, *b)?)
            }
            _ => None,
        }
    }

    /// The register to look at for an address: what this block adds a bounded number to, or itself. `None` where
    /// neither keeps all lanes within the window's margin.
    pub(super) fn anchor(&self, pc: Pc, register: Reg, reach: i64, window: Window) -> Option<Reg> {
        self.summand(pc, register, reach, window).or_else(|| self.near(register, reach, window))
    }

    fn summand(&self, pc: Pc, register: Reg, reach: i64, window: Window) -> Option<Reg> {
        let at = self.writers[register.0 as usize]?;
        let block = self.code.blocks.iter().find(|block| block.steps.contains(&pc))?;
        // Elsewhere what it was computed from may be gone.
        if !block.steps.contains(&at) || at >= pc {
            return None;
        }
        let base = |src: Src, bound: Option<i64>| match src {
            Src::Reg(base) if self.class(base) == Class::B64 => {
                self.writers[base.0 as usize]?;
                self.near(base, bound?.checked_add(reach)?, window)
            }
            _ => None,
        };
        match &self.code.steps[at as usize].inst {
            Inst::Binary { op: BinaryOp::Add, ty, a, b, .. } if ty.bits() == 64 => {
                base(*a, self.bound(*b)).or_else(|| base(*b, self.bound(*a)))
            }
            Inst::Ternary { op: TernaryOp::MadWide, ty, a, b, c, .. } if ty.bits() == 32 => {
                base(*c, product(*a, *b))
            }
            _ => None,
        }
    }

    /// A regular register, when no lane is further from lane 0 than the margin allows.
    fn near(&self, register: Reg, reach: i64, window: Window) -> Option<Reg> {
        let span = self.shapes.of(register).stride()?.checked_mul(self.code.width.into())?;
        let all = span.checked_abs()?.checked_add(reach)?;
        (all as u64 <= window.margin()).then_some(register)
    }

    /// The most that a number of 64 bits can be, above or below zero.
    fn bound(&self, src: Src) -> Option<i64> {
        let register = match src {
            Src::Imm(bits) => return (bits as i64).checked_abs(),
            Src::Reg(register) => register,
        };
        match self.written_by(register)? {
            Inst::Binary { op: BinaryOp::MulWide, ty, a, b, .. } if ty.bits() == 32 => {
                product(*a, *b)
            }
            Inst::Binary { op: BinaryOp::Shl, a, b: Src::Imm(by @ 0..16), .. } => {
                self.bound(*a)?.checked_mul(1 << by)
            }
            Inst::Cvt { to, from, .. } if !from.float() && !to.float() && from.bits() <= 32 => {
                Some(1 << 32)
            }
            _ => None,
        }
    }

    fn written_by(&self, register: Reg) -> Option<&Inst> {
        let pc = self.writers[register.0 as usize]?;
        Some(&self.code.steps[pc as usize].inst)
    }
}

/// The most that the product of a number of 32 bits and a constant can be.
fn product(a: Src, b: Src) -> Option<i64> {
    match (a, b) {
        (Src::Imm(factor @ 0..0x1_0000), _) | (_, Src::Imm(factor @ 0..0x1_0000)) => {
            Some((factor << 32) as i64)
        }
        _ => None,
    }
}
