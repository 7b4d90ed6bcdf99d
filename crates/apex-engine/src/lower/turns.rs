//! Where a warp lets the others have their turn, beyond what barriers ask.
//!
//! A warp runs from barrier to barrier before the next one does. Programs are written on hardware where
//! warps go on side by side: many read a result at one place in shared memory after a barrier, and put the
//! next one there long after, with no barrier between. By the rules of CUDA that is a race; on hardware
//! all have read long before the first one writes. So after such a read the others have their turn. Only
//! reads of a fixed place are taken for this, right behind a barrier and with a store ahead of the next:
//! kernels that follow the rules seldom have them, and pay for no turn.

use super::graph::{Graph, Node};
use super::{Lowering, Outcome};
use crate::code::{Address, Inst, Space, Src, Step};

/// Puts [`Inst::Pass`] where it is wanted.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    it.functions.iter_mut().for_each(|function| insert(&mut function.graph));
    Ok(())
}

fn insert(graph: &mut Graph) {
    let writes = writes_ahead(graph);
    let mut behind: Vec<usize> = (0..graph.nodes.len())
        .filter(|&node| graph.nodes[node].steps.last().is_some_and(is_barrier))
        .filter_map(|node| graph.nodes[node].fall)
        .collect();
    behind.sort_unstable();
    behind.dedup();
    for node in behind {
        let steps = &graph.nodes[node].steps;
        let before_store = steps.iter().take_while(|step| !is_store(step) && !is_barrier(step));
        let Some(last) = before_store
            .enumerate()
            .filter(|(_, step)| reads_fixed_place(step))
            .map(|(index, _)| index)
            .last()
        else {
            continue;
        };
        let rest = &steps[last + 1..];
        let stores = match rest.iter().find(|step| is_store(step) || is_barrier(step)) {
            Some(step) => is_store(step),
            None => graph.successors(node).into_iter().any(|next| writes[next]),
        };
        if !stores {
            continue;
        }
        let line = steps[last].line;
        let index = graph.nodes.len();
        let node = &mut graph.nodes[node];
        let rest = node.steps.split_off(last + 1);
        node.steps.push(Step { guard: None, inst: Inst::Pass, line });
        let fall = node.fall.replace(index);
        graph.nodes.push(Node { steps: rest, fall });
    }
}

/// For each block: whether a store to shared memory may come from its start on, ahead of a barrier.
fn writes_ahead(graph: &Graph) -> Vec<bool> {
    let mut writes = vec![false; graph.nodes.len()];
    loop {
        let mut changed = false;
        for node in (0..graph.nodes.len()).rev() {
            let first =
                graph.nodes[node].steps.iter().find(|step| is_store(step) || is_barrier(step));
            let found = match first {
                Some(step) => is_store(step),
                None => graph.successors(node).into_iter().any(|next| writes[next]),
            };
            changed |= found != writes[node];
            writes[node] = found;
        }
        if !changed {
            return writes;
        }
    }
}

fn is_barrier(step: &Step) -> bool {
    matches!(step.inst, Inst::Barrier { .. }) && step.guard.is_none()
}

fn is_store(step: &Step) -> bool {
    matches!(
        step.inst,
        Inst::Store { space: Space::Shared, .. } | Inst::Atom { space: Space::Shared, .. }
    )
}

fn reads_fixed_place(step: &Step) -> bool {
    matches!(
        step.inst,
        Inst::Load { space: Space::Shared, address: Address { base: Src::Imm(_), .. }, .. }
    )
}
