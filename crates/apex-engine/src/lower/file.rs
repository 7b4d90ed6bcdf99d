//! The register file: which registers there are, and where each lies.
//!
//! Registers get a place of their own each while the file is small; in a large one, those that
//! are never alive together share.

use super::draft::RegisterFacts;
use super::{Lowering, Outcome};
use crate::code::{Address, Class, Code, Inst, Reg, Register, Src};
use crate::operands::{Operand, change, reads, writes};
use std::collections::HashMap;

/// Register files above this many bytes are packed.
const LARGE_FILE: u32 = 64 << 10;

/// Numbers the registers that are left, and gives them their places in the file.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    number_registers(&mut it.code, &it.draft.registers);
    Ok(())
}

fn number_registers(code: &mut Code, facts: &[RegisterFacts]) {
    let mut numbers: Vec<Option<u32>> = vec![None; facts.len()];
    let mut classes = Vec::new();
    let mut number = |register: Reg| {
        let place = &mut numbers[register.0 as usize];
        Reg(*place.get_or_insert_with(|| {
            classes.push(facts[register.0 as usize].class);
            classes.len() as u32 - 1
        }))
    };
    for step in &mut code.steps {
        if let Some(guard) = &mut step.guard {
            guard.predicate = number(guard.predicate);
        }
        if let Inst::Call { save, .. } = &mut step.inst {
            save.iter_mut().for_each(|register| *register = number(*register));
        }
        change(&mut step.inst, &mut |place| match place {
            Operand::Read(Src::Reg(register)) => *register = number(*register),
            Operand::Address(Address { base: Src::Reg(register), .. }) => {
                *register = number(*register);
            }
            Operand::ReadRegister(register) | Operand::Write(register) => {
                *register = number(*register);
            }
            Operand::Guard(guard) => guard.predicate = number(guard.predicate),
            Operand::Read(_) | Operand::Address(_) => {}
        });
    }
    for block in &mut code.blocks {
        block.live_in.iter_mut().for_each(|register| *register = number(*register));
        block.live_in.sort_unstable();
    }
    let mut offsets = Offsets::default();
    code.registers = classes
        .iter()
        .map(|class| Register { class: *class, offset: offsets.fresh(*class) })
        .collect();
    if offsets.bytes() > LARGE_FILE {
        offsets = share(code);
    }
    // Predicates stand in front, and all others begin behind them at a multiple of 64.
    let front = (offsets.predicates * 4).next_multiple_of(64);
    for register in code.registers.iter_mut().filter(|register| register.class != Class::Pred) {
        register.offset += front;
    }
    code.file_bytes = offsets.bytes();
}

/// How much of the file is given out: predicates by number, the rest in bytes.
#[derive(Default)]
struct Offsets {
    predicates: u32,
    others: u32,
    free: HashMap<Class, Vec<u32>>,
}

impl Offsets {
    fn fresh(&mut self, class: Class) -> u32 {
        if let Some(offset) = self.free.get_mut(&class).and_then(Vec::pop) {
            return offset;
        }
        if class == Class::Pred {
            self.predicates += 1;
            return (self.predicates - 1) * 4;
        }
        let offset = self.others;
        self.others += class.file_bytes() as u32;
        offset
    }

    fn bytes(&self) -> u32 {
        (self.predicates * 4).next_multiple_of(64) + self.others
    }
}

/// Gives registers that are never alive together the same place.
///
/// A register is alive from its first step to its last, and through every block at whose start
/// it is alive; that is more than needed, and cheap to find. Registers of different functions
/// never share: a caller's are alive while the callee runs.
fn share(code: &mut Code) -> Offsets {
    let mut spans = vec![(u32::MAX, 0_u32); code.registers.len()];
    let mut extend = |register: Reg, at: u32| {
        let span = &mut spans[register.0 as usize];
        *span = (span.0.min(at), span.1.max(at));
    };
    for block in &code.blocks {
        for register in &block.live_in {
            extend(*register, block.steps.start);
        }
        for next in &block.successors {
            for register in &code.blocks[*next as usize].live_in {
                extend(*register, block.steps.end - 1);
            }
        }
    }
    for (at, step) in code.steps.iter().enumerate() {
        reads(step, &mut |register| extend(register, at as u32));
        writes(step, &mut |register| extend(register, at as u32));
    }
    let mut by_start: Vec<usize> = (0..spans.len()).collect();
    by_start.sort_unstable_by_key(|register| spans[*register].0);
    let mut ends = std::collections::BinaryHeap::new();
    let mut offsets = Offsets::default();
    for register in by_start {
        let (start, end) = spans[register];
        while let Some(std::cmp::Reverse((ended, other))) = ends.peek().copied() {
            if ended >= start {
                break;
            }
            ends.pop();
            let Register { class, offset } = code.registers[other];
            offsets.free.entry(class).or_default().push(offset);
        }
        let class = code.registers[register].class;
        code.registers[register].offset = offsets.fresh(class);
        ends.push(std::cmp::Reverse((end, register)));
    }
    offsets
}
