//! Variables of functions that live in registers.
//!
//! Parameters between functions are variables in PTX, though most are one number. A variable
//! whose address serves only loads and stores, always of the same parts, becomes one register
//! for each part; every other one stays in local memory.

use super::draft::{RegisterFacts, Slot};
use super::graph::Graph;
use super::{Lowering, Outcome};
use crate::code::{Class, Inst, Mode, Order, Reg, Space, Src, Step, Ty};
use crate::operands::{Operand, look};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Does so in all functions.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    for function in &mut it.functions {
        let slots = &function.slots;
        function.slots = promote(&mut function.graph, slots, &mut it.draft.registers);
    }
    Ok(())
}

/// Puts what it can into registers; gives back the variables that stay in memory.
fn promote(graph: &mut Graph, slots: &[Slot], registers: &mut Vec<RegisterFacts>) -> Vec<Slot> {
    let bases: HashMap<Reg, usize> =
        slots.iter().enumerate().map(|(index, slot)| (slot.base, index)).collect();
    // Parts of each variable: offset to bytes.
    let mut parts: Vec<BTreeMap<i64, u32>> = vec![BTreeMap::new(); slots.len()];
    let mut stays: HashSet<usize> = HashSet::new();
    let mut used: HashSet<usize> = HashSet::new();
    for step in graph.nodes.iter().flat_map(|node| &node.steps) {
        let access = access(&step.inst);
        look(&step.inst, &mut |place| {
            let base = match place {
                Operand::Read(Src::Reg(register)) => *register,
                Operand::ReadRegister(register) => *register,
                Operand::Address(address) => match address.base {
                    Src::Reg(register) => register,
                    Src::Imm(_) => return,
                },
                _ => return,
            };
            let Some(index) = bases.get(&base) else {
                return;
            };
            used.insert(*index);
            let (true, Some((ty, count))) = (matches!(place, Operand::Address(_)), access) else {
                stays.insert(*index);
                return;
            };
            let Operand::Address(address) = place else {
                return;
            };
            let bytes = ty.bits() / 8;
            for number in 0..count {
                let offset = address.offset + i64::from(bytes) * number as i64;
                if *parts[*index].entry(offset).or_insert(bytes) != bytes {
                    stays.insert(*index);
                }
            }
        });
    }
    for (index, parts) in parts.iter().enumerate() {
        let mut end = 0;
        for (offset, bytes) in parts {
            if *offset < end {
                stays.insert(index);
            }
            end = offset + i64::from(*bytes);
        }
        if end > i64::from(slots[index].bytes) {
            stays.insert(index);
        }
    }
    let mut homes: HashMap<(Reg, i64), Reg> = HashMap::new();
    for (index, parts) in parts.iter().enumerate().filter(|(index, _)| !stays.contains(index)) {
        for (offset, bytes) in parts {
            let class = match bytes {
                1 | 2 => Class::B16,
                4 => Class::B32,
                8 => Class::B64,
                _ => Class::B128,
            };
            registers.push(RegisterFacts { class, temporary: false });
            homes.insert((slots[index].base, *offset), Reg(registers.len() as u32 - 1));
        }
    }
    if !homes.is_empty() {
        for node in &mut graph.nodes {
            let mut steps = Vec::with_capacity(node.steps.len());
            for step in std::mem::take(&mut node.steps) {
                replace(step, &homes, registers, &mut steps);
            }
            node.steps = steps;
        }
    }
    (0..slots.len())
        .filter(|index| stays.contains(index) && used.contains(index))
        .map(|index| slots[index])
        .collect()
}

/// Type and number of the values of a plain load or store in local memory.
fn access(inst: &Inst) -> Option<(Ty, usize)> {
    match inst {
        Inst::Load { space: Space::Local, ty, order: Order::Weak, dsts, .. } => {
            Some((*ty, dsts.len()))
        }
        Inst::Store { space: Space::Local, ty, order: Order::Weak, srcs, .. } => {
            Some((*ty, srcs.len()))
        }
        _ => None,
    }
}

fn replace(
    step: Step,
    homes: &HashMap<(Reg, i64), Reg>,
    registers: &[RegisterFacts],
    out: &mut Vec<Step>,
) {
    let (base, offset) = match &step.inst {
        Inst::Load { address, .. } | Inst::Store { address, .. } => match address.base {
            Src::Reg(register) => (register, address.offset),
            Src::Imm(_) => return out.push(step),
        },
        _ => return out.push(step),
    };
    if !homes.contains_key(&(base, offset)) {
        return out.push(step);
    }
    let class = |register: Reg| registers[register.0 as usize].class;
    let Step { guard, inst, line } = step;
    let mut push = |inst| out.push(Step { guard, inst, line });
    let home = |ty: Ty, number: usize| {
        homes.get(&(base, offset + i64::from(ty.bits() / 8) * number as i64)).copied()
    };
    match inst {
        Inst::Load { ty, dsts, .. } => {
            for (number, dst) in dsts.into_iter().enumerate() {
                if let (Some(dst), Some(from)) = (dst, home(ty, number)) {
                    push(copy_out(ty, dst, class(dst), from));
                }
            }
        }
        Inst::Store { ty, srcs, .. } => {
            for (number, src) in srcs.into_iter().enumerate() {
                if let Some(to) = home(ty, number) {
                    let from = match src {
                        Src::Reg(register) => Some(class(register)),
                        Src::Imm(_) => None,
                    };
                    push(copy_in(ty, to, src, from));
                }
            }
        }
        _ => {}
    }
}

/// What a load does: the register is filled by the type's sign.
fn copy_out(ty: Ty, dst: Reg, class: Class, from: Reg) -> Inst {
    let a = Src::Reg(from);
    if ty.class() == class && ty.bits() != 8 {
        return Inst::Mov { ty, dst, src: a };
    }
    let to = match (class, ty.signed()) {
        (Class::B16, false) => Ty::U16,
        (Class::B16, true) => Ty::S16,
        (Class::B32, false) => Ty::U32,
        (Class::B32, true) => Ty::S32,
        (_, false) => Ty::U64,
        (_, true) => Ty::S64,
    };
    let from = if ty.signed() { ty } else { plain(ty) };
    Inst::Cvt { to, from, mode: Mode::default(), dst, a }
}

/// What a store does: only the type's bits are kept.
fn copy_in(ty: Ty, dst: Reg, src: Src, class: Option<Class>) -> Inst {
    match (src, class) {
        (Src::Imm(value), _) => {
            let mask = if ty.bits() >= 64 { u64::MAX } else { (1 << ty.bits()) - 1 };
            Inst::Mov { ty, dst, src: Src::Imm(value & mask) }
        }
        (_, Some(class)) if class != ty.class() || ty.bits() == 8 => {
            let from = match class {
                Class::B64 => Ty::U64,
                Class::B32 => Ty::U32,
                _ => Ty::U16,
            };
            Inst::Cvt { to: plain(ty), from, mode: Mode::default(), dst, a: src }
        }
        _ => Inst::Mov { ty, dst, src },
    }
}

/// The unsigned integer of the type's width.
fn plain(ty: Ty) -> Ty {
    match ty.bits() {
        8 => Ty::U8,
        16 => Ty::U16,
        32 => Ty::U32,
        _ => Ty::U64,
    }
}
