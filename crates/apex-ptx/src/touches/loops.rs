//! What a register holds in any turn of a loop.
//!
//! A register to which each turn adds the same goes from what it was first, step by step, for as many turns as there
//! are. How many follows from a register that is counted so and compared where the loop ends. Of a pointer that wanders
//! by unknown steps only the root is known; of everything else nothing.

use super::follow::Follower;
use super::interval::View;
use super::node::{Bound, Comparison, Id, Node, Nodes, Operation};
use std::collections::HashMap;

/// What a turn adds to a register.
struct Chain {
    /// The sum; `None` where the steps are not known before the loop.
    step: Option<Id>,
    /// Comparisons that hold whenever the loop is begun again: what was added before each, and with what it compares.
    tests: Vec<(Option<Id>, Comparison, Id, View)>,
}

/// Gives every phi what it stands for. Loops are bound from the inside out.
pub(super) fn bind(follower: &mut Follower<'_>) -> HashMap<u32, Id> {
    let mut bound: HashMap<u32, Id> = HashMap::new();
    for at_loop in 0..follower.loops.len() {
        let phis: Vec<u32> = (0..follower.phis.len() as u32)
            .filter(|&number| follower.phis[number as usize].at_loop == at_loop)
            .collect();
        let chains: Vec<Option<Chain>> =
            phis.iter().map(|&number| chain_of(follower, number, &phis, &bound)).collect();
        let mut turns = Vec::new();
        for (&number, chain) in phis.iter().zip(&chains) {
            let found = chain.as_ref().map(|chain| turns_of(follower, number, chain, &phis));
            turns.push(found.unwrap_or_default());
        }
        let all = turns.iter().flatten().map(|bound| bound.turns);
        let least = all.reduce(|one, other| {
            follower.nodes.make(Node::Binary(Operation::Least, one, other, View::WIDE))
        });
        for (nth, &number) in phis.iter().enumerate() {
            let phi = follower.phis[number as usize];
            let view = View { bits: phi.bits.clamp(8, 64), signed: true };
            let node = match (phi.before, &chains[nth]) {
                (None, _) => follower.nodes.unknown(view),
                (Some(first), Some(Chain { step: Some(step), .. })) => {
                    let own = turns[nth].first().copied();
                    let step = *step;
                    let node = Node::Counted { first, step, turns: least, bound: own, view };
                    follower.nodes.make(node)
                }
                (Some(first), Some(Chain { step: None, .. })) => {
                    follower.nodes.make(Node::Wandering(first, view))
                }
                (Some(_), None) => follower.nodes.unknown(view),
            };
            bound.insert(number, node);
        }
    }
    bound
}

/// An expression in which every phi that is bound is what it stands for.
pub(super) fn resolved(
    nodes: &mut Nodes,
    id: Id,
    bound: &HashMap<u32, Id>,
    done: &mut HashMap<Id, Id>,
) -> Id {
    let mut id = id;
    // Each round goes one loop further out.
    for _ in 0..64 {
        done.clear();
        let instead = |_: Id, node: Node| match node {
            Node::Phi(number) => bound.get(&number).copied(),
            _ => None,
        };
        let next = nodes.replaced(id, &instead, done);
        if next == id {
            break;
        }
        id = next;
    }
    id
}

fn chain_of(
    follower: &mut Follower<'_>,
    number: u32,
    own: &[u32],
    bound: &HashMap<u32, Id>,
) -> Option<Chain> {
    let behind = follower.phis[number as usize].behind;
    let Some(behind) = behind else {
        let zero = follower.nodes.constant(0);
        return Some(Chain { step: Some(zero), tests: Vec::new() });
    };
    let behind = resolved(&mut follower.nodes, behind, bound, &mut HashMap::new());
    let nodes = &mut follower.nodes;
    let (mut at, mut steps, mut tests) = (behind, Vec::new(), Vec::new());
    let mut is_known = true;
    loop {
        match nodes.get(at) {
            Node::Phi(found) if found == number => break,
            Node::Known(inner, by, than, view) => {
                // What is added behind the comparison is not yet known: remembered by how many steps were seen.
                tests.push((steps.len(), by, than, view));
                at = inner;
            }
            Node::Binary(Operation::Add, a, b, _) => {
                let (inner, step) = if leads_to(nodes, a, number) { (a, b) } else { (b, a) };
                is_known &= is_fixed(nodes, step, own);
                steps.push(step);
                at = inner;
            }
            Node::Binary(Operation::Subtract, a, b, view) if leads_to(nodes, a, number) => {
                is_known &= is_fixed(nodes, b, own);
                let zero = nodes.constant(0);
                steps.push(nodes.make(Node::Binary(Operation::Subtract, zero, b, view)));
                at = a;
            }
            // An inner loop goes on with the same register.
            Node::Counted { first, step, turns, view, .. } => {
                let zero = nodes.constant(0);
                let more = Node::Counted { first: zero, step, turns, bound: None, view };
                let more = nodes.make(more);
                is_known &= is_fixed(nodes, more, own);
                steps.push(more);
                at = first;
            }
            Node::Wandering(first, _) => {
                is_known = false;
                at = first;
            }
            // Either way it is the same register, perhaps.
            Node::Either(_, a, b) => {
                let both = leads_to(nodes, a, number) && leads_to(nodes, b, number);
                if !both {
                    return None;
                }
                is_known = false;
                at = a;
                tests.clear();
                let keeps = only_wanders(nodes, b, number);
                if !keeps {
                    return None;
                }
            }
            _ => return None,
        }
    }
    let unknown = Chain { step: None, tests: Vec::new() };
    Some(if is_known { summed(nodes, &steps, tests) } else { unknown })
}

/// A chain whose steps, the last first, are all known; a test tells how many steps came behind it.
fn summed(nodes: &mut Nodes, steps: &[Id], tests: Vec<(usize, Comparison, Id, View)>) -> Chain {
    let sum = |nodes: &mut Nodes, parts: &[Id]| {
        parts
            .iter()
            .rev()
            .copied()
            .reduce(|sum, step| nodes.make(Node::Binary(Operation::Add, sum, step, View::WIDE)))
    };
    let tests: Vec<_> = tests
        .into_iter()
        .map(|(behind, by, than, view)| (sum(nodes, &steps[behind..]), by, than, view))
        .collect();
    let step = match sum(nodes, steps) {
        Some(step) => step,
        None => nodes.constant(0),
    };
    Chain { step: Some(step), tests }
}

/// Whether an expression is known before the loop of these phis begins.
fn is_fixed(nodes: &mut Nodes, id: Id, own: &[u32]) -> bool {
    !nodes.contains(id, &mut |node| matches!(node, Node::Phi(number) if own.contains(&number)))
}

fn leads_to(nodes: &mut Nodes, id: Id, number: u32) -> bool {
    nodes.contains(id, &mut |node| node == Node::Phi(number))
}

/// Whether an expression is the phi with something added.
fn only_wanders(nodes: &mut Nodes, id: Id, number: u32) -> bool {
    let mut waiting = vec![id];
    let mut left = 1_000;
    while let Some(id) = waiting.pop() {
        left -= 1;
        if left == 0 {
            return false;
        }
        match nodes.get(id) {
            Node::Phi(found) if found == number => {}
            Node::Known(inner, ..) | Node::Wandering(inner, _) => waiting.push(inner),
            Node::Counted { first, .. } => waiting.push(first),
            Node::Binary(Operation::Add, a, b, _) => {
                waiting.push(if leads_to(nodes, a, number) { a } else { b });
            }
            Node::Binary(Operation::Subtract, a, _, _) => waiting.push(a),
            Node::Either(_, a, b) => waiting.extend([a, b]),
            _ => return false,
        }
    }
    true
}

/// The turns that each comparison of a counted register allows.
fn turns_of(follower: &mut Follower<'_>, number: u32, chain: &Chain, own: &[u32]) -> Vec<Bound> {
    let (Some(first), Some(step)) = (follower.phis[number as usize].before, chain.step) else {
        return Vec::new();
    };
    let nodes = &mut follower.nodes;
    let mut found = Vec::new();
    for &(ahead, by, limit, view) in &chain.tests {
        if !is_fixed(nodes, limit, own) {
            continue;
        }
        let ahead = match ahead {
            Some(ahead) => ahead,
            None => nodes.constant(0),
        };
        let turns = nodes.make(Node::Turns { first, step, ahead, by, limit, view });
        found.push(Bound { turns, ahead, by, limit });
    }
    found
}
