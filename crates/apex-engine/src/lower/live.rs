//! Which registers are alive where.

use super::draft::RegisterFacts;
use super::graph::Graph;
use super::{Lowering, Outcome, refuse};
use crate::code::{Class, Reg, Step};
use crate::operands::{reads, writes};
use std::collections::HashMap;

/// The most registers alive, counted at the start of every block. A large kernel has a million.
const MOST_ALIVE: u64 = 1 << 24;

/// Finds what is alive at the start of each block, and the most that is alive at one time.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    let registers = &it.draft.registers;
    for function in &mut it.functions {
        function.live_in = live_in(&function.graph, registers)?;
        let most = pressure(&function.graph, registers, &function.live_in);
        it.pressure = it.pressure.max(most);
    }
    Ok(())
}

/// Registers alive at the start of every node, in rising order.
///
/// Most registers live within one block; only those that some block reads before it writes them
/// take part.
fn live_in(graph: &Graph, registers: &[RegisterFacts]) -> Outcome<Vec<Vec<Reg>>> {
    let mut numbers: HashMap<Reg, usize> = HashMap::new();
    let mut names = Vec::new();
    let mut exposed = Vec::new();
    let mut killed = Vec::new();
    for node in &graph.nodes {
        let (mut read, mut written) = (Vec::new(), Vec::new());
        let mut seen = std::collections::HashSet::new();
        for step in &node.steps {
            reads(step, &mut |register| {
                if !seen.contains(&register) {
                    read.push(register);
                }
            });
            kills(step, registers, &mut |register| {
                if seen.insert(register) {
                    written.push(register);
                }
            });
        }
        for register in &read {
            numbers.entry(*register).or_insert_with(|| {
                names.push(*register);
                names.len() - 1
            });
        }
        exposed.push(read);
        killed.push(written);
    }
    let words = names.len().div_ceil(64);
    let set = |list: &[Reg]| {
        let mut bits = vec![0_u64; words];
        for number in list.iter().filter_map(|register| numbers.get(register)) {
            bits[number / 64] |= 1 << (number % 64);
        }
        bits
    };
    let mut alive: Vec<Vec<u64>> = exposed.iter().map(|list| set(list)).collect();
    let killed: Vec<Vec<u64>> = killed.iter().map(|list| set(list)).collect();
    let successors: Vec<_> = (0..graph.nodes.len()).map(|node| graph.successors(node)).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for node in (0..graph.nodes.len()).rev() {
            for word in 0..words {
                let out = successors[node].iter().fold(0, |bits, next| bits | alive[*next][word]);
                let all = alive[node][word] | (out & !killed[node][word]);
                changed |= all != alive[node][word];
                alive[node][word] = all;
            }
        }
    }
    let all: u64 = alive.iter().flatten().map(|word| u64::from(word.count_ones())).sum();
    if all > MOST_ALIVE {
        return refuse("the kernel is too large: too many registers are alive in too many blocks");
    }
    let mut lists = Vec::with_capacity(alive.len());
    for bits in alive {
        let mut list: Vec<Reg> = (0..names.len())
            .filter(|number| bits[number / 64] >> (number % 64) & 1 == 1)
            .map(|number| names[number])
            .collect();
        list.sort_unstable();
        lists.push(list);
    }
    Ok(lists)
}

/// Registers that hold nothing of what they held before the step.
///
/// A guard leaves the other lanes' values; a temporary is only ever read under the guard it was
/// written under.
pub(super) fn kills(step: &Step, registers: &[RegisterFacts], visit: &mut dyn FnMut(Reg)) {
    writes(step, &mut |register| {
        if step.guard.is_none() || registers[register.0 as usize].temporary {
            visit(register);
        }
    });
}

/// Most 32-bit registers alive at one time.
fn pressure(graph: &Graph, registers: &[RegisterFacts], live_in: &[Vec<Reg>]) -> u32 {
    let units = |register: Reg| match registers[register.0 as usize].class {
        Class::Pred => 0,
        Class::B16 | Class::B32 => 1,
        Class::B64 => 2,
        Class::B128 => 4,
    };
    let mut most = 0;
    for (index, node) in graph.nodes.iter().enumerate() {
        let mut alive: std::collections::HashSet<Reg> = std::collections::HashSet::new();
        for next in graph.successors(index) {
            alive.extend(&live_in[next]);
        }
        let mut sum: u32 = alive.iter().map(|register| units(*register)).sum();
        for step in node.steps.iter().rev() {
            most = most.max(sum);
            kills(step, registers, &mut |register| {
                if alive.remove(&register) {
                    sum -= units(register);
                }
            });
            reads(step, &mut |register| {
                if alive.insert(register) {
                    sum += units(register);
                }
            });
        }
        most = most.max(sum);
    }
    most
}
