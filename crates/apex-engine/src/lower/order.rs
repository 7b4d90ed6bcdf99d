//! The order of blocks, and where ways part and meet.
//!
//! Lanes that are ahead wait for the others at the higher block, so a block stands after all
//! blocks that lead to it, loops apart; a loop's blocks stand together, before what follows the
//! loop. Where the ways through a loop enter it at several places, one of them counts as its
//! head.

use super::components::components;
use super::dominators::dominators;
use super::graph::Graph;
use super::{Lowering, Outcome};
use crate::code::Inst;

/// Finds the order of each function's blocks.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    for function in &mut it.functions {
        function.order = order(&function.graph);
    }
    Ok(())
}

/// All reachable nodes in the order of execution; the entry first.
fn order(graph: &Graph) -> Vec<usize> {
    let reachable = graph.reachable();
    let nodes: Vec<usize> = (0..graph.nodes.len()).filter(|node| reachable[*node]).collect();
    let mut arranger = Arranger {
        graph,
        position: vec![usize::MAX; graph.nodes.len()],
        out: Vec::with_capacity(nodes.len()),
    };
    arranger.arrange(&nodes, 0, 0);
    arranger.out
}

/// Loops nested deeper than this are not taken apart: no program has them, and a text made to
/// have them must not use up the stack.
const DEEPEST: u32 = 64;

struct Arranger<'g> {
    graph: &'g Graph,
    /// Positions of nodes in the list at hand.
    position: Vec<usize>,
    out: Vec<usize>,
}

impl Arranger<'_> {
    fn arrange(&mut self, nodes: &[usize], head: usize, depth: u32) {
        if depth == DEEPEST {
            self.out.push(head);
            self.out.extend(nodes.iter().filter(|node| **node != head));
            return;
        }
        let Arranger { graph, position, .. } = self;
        // Edges back to the head are left out, which opens the loop.
        for (index, node) in nodes.iter().enumerate() {
            position[*node] = index;
        }
        let edges: Vec<Vec<usize>> = nodes
            .iter()
            .map(|node| {
                let inside = graph.successors(*node).into_iter().filter(|next| *next != head);
                inside.map(|next| position[next]).filter(|next| *next != usize::MAX).collect()
            })
            .collect();
        for node in nodes {
            position[*node] = usize::MAX;
        }
        let component = components(&edges);
        let count = component.iter().max().map_or(0, |most| most + 1);
        let mut members = vec![Vec::new(); count];
        for (index, group) in component.iter().enumerate() {
            members[*group].push(index);
        }
        let mut waiting = vec![0_usize; count];
        for (from, nexts) in edges.iter().enumerate() {
            for to in nexts.iter().filter(|to| component[**to] != component[from]) {
                waiting[component[*to]] += 1;
            }
        }
        // Of the groups that nothing leads to any more, the one that stands first in the text.
        let first = |group: usize| members[group].iter().map(|index| nodes[*index]).min();
        let mut ready: std::collections::BTreeSet<(Option<usize>, usize)> = (0..count)
            .filter(|group| waiting[*group] == 0)
            .map(|group| (first(group), group))
            .collect();
        let mut entered = vec![false; nodes.len()];
        if let Some(index) = nodes.iter().position(|node| *node == head) {
            entered[index] = true;
        }
        while let Some((_, group)) = ready.pop_first() {
            if let [index] = members[group][..] {
                self.out.push(nodes[index]);
            } else {
                let inner: Vec<usize> = members[group].iter().map(|index| nodes[*index]).collect();
                let inner_head = members[group].iter().find(|index| entered[**index]);
                let inner_head = inner_head.map_or(inner[0], |index| nodes[*index]);
                self.arrange(&inner, inner_head, depth + 1);
            }
            for from in &members[group] {
                for to in &edges[*from] {
                    entered[*to] = true;
                    if component[*to] != group {
                        waiting[component[*to]] -= 1;
                        if waiting[component[*to]] == 0 {
                            ready.insert((first(component[*to]), component[*to]));
                        }
                    }
                }
            }
        }
    }
}

/// Where all ways from each node meet again. Ways into a trap do not count: nobody comes back.
pub(super) fn meeting_points(graph: &Graph) -> Vec<Option<usize>> {
    let count = graph.nodes.len();
    let mut back = vec![Vec::new(); count + 1];
    let reachable = graph.reachable();
    for node in (0..count).filter(|node| reachable[*node]) {
        let nexts = graph.successors(node);
        let last = graph.nodes[node].steps.last().map(|step| &step.inst);
        if nexts.is_empty() && !matches!(last, Some(Inst::Trap | Inst::Breakpoint)) {
            back[count].push(node);
        }
        for next in nexts {
            back[next].push(node);
        }
    }
    let dominator = dominators(&back, count);
    (0..count).map(|node| dominator[node].filter(|meeting| *meeting != count)).collect()
}
