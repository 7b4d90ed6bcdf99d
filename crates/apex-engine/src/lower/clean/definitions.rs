//! Registers of one definition, replaced by what they were defined as.

use super::super::dominators::dominators;
use super::super::draft::RegisterFacts;
use super::super::graph::Graph;
use crate::code::{Address, BinaryOp, Inst, Reg, Src, Step, Ty};
use crate::operands::{Operand, change, writes};
use std::collections::HashMap;

/// Where a register gets its only value.
#[derive(Clone, Copy)]
struct Definition {
    node: usize,
    index: usize,
}

/// What stands in for a register.
#[derive(Clone, Copy)]
enum Value {
    /// The same value.
    Same(Src),
    /// A 64-bit register plus a constant.
    Sum(Reg, i64),
}

/// Replaces registers of one definition by what they were defined as.
pub(super) fn definitions(graph: &mut Graph, registers: &[RegisterFacts]) -> bool {
    let mut sites: Vec<Option<Definition>> = vec![None; registers.len()];
    let mut counts = vec![0_u32; registers.len()];
    for (node, block) in graph.nodes.iter().enumerate() {
        for (index, step) in block.steps.iter().enumerate() {
            writes(step, &mut |register| {
                let number = register.0 as usize;
                counts[number] += 1;
                // A guarded definition leaves other lanes without a value.
                let whole = step.guard.is_none() || registers[number].temporary;
                sites[number] =
                    (whole && counts[number] == 1).then_some(Definition { node, index });
            });
        }
    }
    let single =
        |register: Reg| sites[register.0 as usize].filter(|_| counts[register.0 as usize] == 1);
    let mut values: HashMap<Reg, Value> = HashMap::new();
    for (number, count) in counts.iter().enumerate() {
        let register = Reg(number as u32);
        let (1, Some(site)) = (*count, sites[number]) else {
            continue;
        };
        let step = &graph.nodes[site.node].steps[site.index];
        if let Some(value) = value_of(step, registers, register) {
            values.insert(register, value);
        }
    }
    if values.is_empty() {
        return false;
    }
    let edges: Vec<_> = (0..graph.nodes.len()).map(|node| graph.successors(node)).collect();
    let tree = Tree::new(&dominators(&edges, 0));
    let before = |a: Definition, b: Definition| {
        if a.node == b.node { a.index < b.index } else { tree.dominates(a.node, b.node) }
    };
    let mut changed = false;
    for node in 0..graph.nodes.len() {
        for index in 0..graph.nodes[node].steps.len() {
            let here = Definition { node, index };
            // Whether the value that `from` had when `register` was defined is what it has here.
            let holds = |register: Reg, from: Reg| match (single(register), single(from)) {
                (Some(defined), Some(source)) => before(source, defined) && before(defined, here),
                _ => false,
            };
            let class = |register: Reg| registers[register.0 as usize].class;
            let step = &mut graph.nodes[node].steps[index];
            change(&mut step.inst, &mut |place| match place {
                Operand::Read(src) => {
                    while let Src::Reg(register) = *src
                        && let Some(Value::Same(value)) = values.get(&register)
                    {
                        match value {
                            Src::Reg(from) if !holds(register, *from) => break,
                            _ => *src = *value,
                        }
                        changed = true;
                    }
                }
                Operand::ReadRegister(register) => {
                    while let Some(Value::Same(Src::Reg(from))) = values.get(register)
                        && holds(*register, *from)
                        && class(*register) == class(*from)
                    {
                        *register = *from;
                        changed = true;
                    }
                }
                Operand::Address(address) => {
                    changed |= simplify_address(address, &values, &holds);
                }
                Operand::Guard(_) | Operand::Write(_) => {}
            });
        }
    }
    changed
}

fn simplify_address(
    address: &mut Address,
    values: &HashMap<Reg, Value>,
    holds: &dyn Fn(Reg, Reg) -> bool,
) -> bool {
    let mut changed = false;
    while let Src::Reg(register) = address.base
        && let Some(value) = values.get(&register)
    {
        match value {
            Value::Same(Src::Imm(value)) => {
                let base = Src::Imm(value.wrapping_add_signed(address.offset));
                *address = Address { base, offset: 0 };
            }
            Value::Same(Src::Reg(from)) if holds(register, *from) => {
                address.base = Src::Reg(*from);
            }
            Value::Sum(from, offset) if holds(register, *from) => {
                let offset = address.offset.wrapping_add(*offset);
                // Further apart they are two addresses, not one and a distance.
                if i32::try_from(offset).is_err() {
                    break;
                }
                *address = Address { base: Src::Reg(*from), offset };
            }
            _ => break,
        }
        changed = true;
    }
    changed
}

/// What a definition says of its register.
fn value_of(step: &Step, registers: &[RegisterFacts], register: Reg) -> Option<Value> {
    let class = |register: Reg| registers[register.0 as usize].class;
    match &step.inst {
        Inst::Mov { dst, src, .. } if *dst == register => match src {
            Src::Imm(_) => Some(Value::Same(*src)),
            Src::Reg(from) => (class(*from) == class(register)).then_some(Value::Same(*src)),
        },
        Inst::Binary { op, ty: Ty::S64 | Ty::U64 | Ty::B64, mode, a, b, .. }
            if matches!(op, BinaryOp::Add | BinaryOp::Sub) && !mode.sat =>
        {
            match (op, a, b) {
                (BinaryOp::Add, Src::Reg(from), Src::Imm(value))
                | (BinaryOp::Add, Src::Imm(value), Src::Reg(from)) => {
                    Some(Value::Sum(*from, value.cast_signed()))
                }
                (BinaryOp::Sub, Src::Reg(from), Src::Imm(value)) => {
                    Some(Value::Sum(*from, value.cast_signed().wrapping_neg()))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Dominance in constant time: each node's span in a walk of the tree.
struct Tree {
    spans: Vec<(u32, u32)>,
}

impl Tree {
    fn new(dominator: &[Option<usize>]) -> Tree {
        let mut children = vec![Vec::new(); dominator.len()];
        for (node, above) in dominator.iter().enumerate() {
            if let Some(above) = above
                && *above != node
            {
                children[*above].push(node);
            }
        }
        let mut spans = vec![(u32::MAX, 0); dominator.len()];
        let mut clock = 0;
        let mut work = vec![(0, 0)];
        while let Some((node, next)) = work.pop() {
            if next == 0 {
                spans[node].0 = clock;
                clock += 1;
            }
            match children[node].get(next) {
                Some(child) => {
                    work.push((node, next + 1));
                    work.push((*child, 0));
                }
                None => spans[node].1 = clock,
            }
        }
        Tree { spans }
    }

    fn dominates(&self, a: usize, b: usize) -> bool {
        self.spans[a].0 <= self.spans[b].0 && self.spans[b].0 < self.spans[a].1
    }
}
