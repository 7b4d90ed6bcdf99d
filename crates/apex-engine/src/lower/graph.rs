//! Steps as a graph of blocks.
//!
//! A node's last step may jump; where it may also go on, `fall` says whereto. Targets of
//! branches are indices of nodes. Node 0 is the entry. Nodes that nothing reaches stay in the
//! list, empty, so that indices hold.

use super::draft::Body;
use super::{GraphedFunction, Lowering, Outcome, refuse};
use crate::code::{Inst, Step};

/// Cuts the bodies of the draft into blocks.
pub(crate) fn cut(it: &mut Lowering<'_, '_>) -> Outcome {
    for mut body in std::mem::take(&mut it.draft.bodies) {
        let graph = Graph::new(&mut body)?;
        it.functions.push(GraphedFunction {
            function: body.function,
            graph,
            slots: body.slots,
            recursive: body.recursive,
            frame: 0,
            order: Vec::new(),
            live_in: Vec::new(),
            blocks: 0..0,
        });
    }
    Ok(())
}

/// Takes away what cleaning has left of jumps and blocks.
pub(crate) fn simplify(it: &mut Lowering<'_, '_>) -> Outcome {
    it.functions.iter_mut().for_each(|function| function.graph.simplify());
    Ok(())
}

/// A block.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Its steps.
    pub(super) steps: Vec<Step>,
    /// Where lanes go that do not jump.
    pub(super) fall: Option<usize>,
}

/// A function's blocks.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The entry first.
    pub(super) nodes: Vec<Node>,
}

impl Graph {
    /// Cuts a body at its labels and at what ends a block.
    pub(super) fn new(body: &mut Body) -> Outcome<Graph> {
        let count = body.steps.len();
        let mut starts = vec![false; count + 1];
        starts[0] = true;
        for (index, step) in body.steps.iter().enumerate() {
            for label in targets(&step.inst) {
                match body.labels.get(*label as usize) {
                    Some(position) if (*position as usize) < count => {
                        starts[*position as usize] = true;
                    }
                    _ => return refuse(format!("line {}: a label does not stand", step.line)),
                }
            }
            if ends_block(step) {
                starts[index + 1] = true;
            }
        }
        let mut node_at = vec![0; count + 1];
        let mut nodes = Vec::new();
        for (index, step) in std::mem::take(&mut body.steps).into_iter().enumerate() {
            if starts[index] {
                nodes.push(Node::default());
            }
            node_at[index] = nodes.len() - 1;
            nodes[node_at[index]].steps.push(step);
        }
        let last = nodes.len();
        for (index, node) in nodes.iter_mut().enumerate() {
            let goes_on = node.steps.last().is_none_or(falls);
            node.fall = (goes_on && index + 1 < last).then_some(index + 1);
            if let Some(step) = node.steps.last_mut() {
                for target in targets_mut(&mut step.inst) {
                    *target = node_at[body.labels[*target as usize] as usize] as u32;
                }
            }
        }
        let mut graph = Graph { nodes };
        graph.simplify();
        Ok(graph)
    }

    /// Blocks that may follow, where lanes go that do not jump first.
    pub(super) fn successors(&self, node: usize) -> Vec<usize> {
        let node = &self.nodes[node];
        let mut all: Vec<usize> = node.fall.into_iter().collect();
        for target in node.steps.last().map_or(&[][..], |step| targets(&step.inst)) {
            if !all.contains(&(*target as usize)) {
                all.push(*target as usize);
            }
        }
        all
    }

    /// Which nodes can be reached.
    pub(super) fn reachable(&self) -> Vec<bool> {
        let mut seen = vec![false; self.nodes.len()];
        let mut open = vec![0];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                open.extend(self.successors(node));
            }
        }
        seen
    }

    /// How many edges lead to each node that can be reached; the entry has one more.
    pub(super) fn entries(&self) -> Vec<u32> {
        let reachable = self.reachable();
        let mut entries = vec![0; self.nodes.len()];
        entries[0] = 1;
        for node in (0..self.nodes.len()).filter(|node| reachable[*node]) {
            for next in self.successors(node) {
                entries[next] += 1;
            }
        }
        entries
    }

    /// Takes away jumps to jumps, joins blocks that always follow each other, and empties what
    /// nothing reaches.
    pub(super) fn simplify(&mut self) {
        let ends = self.ends();
        for node in &mut self.nodes {
            if let Some(fall) = &mut node.fall {
                *fall = ends[*fall];
            }
            if let Some(step) = node.steps.last_mut() {
                for target in targets_mut(&mut step.inst) {
                    *target = ends[*target as usize] as u32;
                }
                // A jump to where lanes go anyway.
                if let Inst::Branch { target } = step.inst {
                    if step.guard.is_none() {
                        node.fall = Some(target as usize);
                        node.steps.pop();
                    } else if node.fall == Some(target as usize) {
                        node.steps.pop();
                    }
                }
            }
        }
        let entries = self.entries();
        for node in 0..self.nodes.len() {
            if entries[node] == 0 {
                self.nodes[node] = Node::default();
                continue;
            }
            while let Some(next) = self.nodes[node].fall {
                let ended = self.nodes[node].steps.last().is_some_and(ends_block);
                if ended || next == node || next == 0 || entries[next] != 1 {
                    break;
                }
                let joined = std::mem::take(&mut self.nodes[next]);
                self.nodes[node].steps.extend(joined.steps);
                self.nodes[node].fall = joined.fall;
            }
        }
    }

    /// Where a jump to each node ends, when all the node does is jump on. Each node is walked over
    /// once: there are long rows of such. One that leads around in a circle ends where it is.
    fn ends(&self) -> Vec<usize> {
        let mut ends: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut walked = vec![false; self.nodes.len()];
        for start in 0..self.nodes.len() {
            let (mut way, mut at) = (Vec::new(), start);
            let end = loop {
                if let Some(end) = ends[at] {
                    break Some(end).filter(|end| *end != at || self.passes_on(at).is_none());
                }
                let Some(next) = self.passes_on(at) else {
                    ends[at] = Some(at);
                    break Some(at);
                };
                if std::mem::replace(&mut walked[at], true) {
                    break None;
                }
                way.push(at);
                at = next;
            };
            for node in way {
                ends[node] = Some(end.unwrap_or(node));
            }
        }
        ends.into_iter().enumerate().map(|(node, end)| end.unwrap_or(node)).collect()
    }

    /// Where the node jumps to, when that is all it does.
    fn passes_on(&self, node: usize) -> Option<usize> {
        let node = &self.nodes[node];
        match node.steps.as_slice() {
            [] => node.fall,
            [Step { guard: None, inst: Inst::Branch { target }, .. }] => Some(*target as usize),
            _ => None,
        }
    }
}

/// Whether a block ends after this step.
pub(super) fn ends_block(step: &Step) -> bool {
    match &step.inst {
        Inst::Branch { .. }
        | Inst::BranchIndexed { .. }
        | Inst::Call { .. }
        | Inst::Return
        | Inst::Exit
        | Inst::Trap
        | Inst::Breakpoint
        | Inst::Barrier { .. }
        | Inst::ClusterArrive
        | Inst::ClusterWait
        | Inst::Pass
        | Inst::Yield => true,
        Inst::Mbarrier(it) => it.op.waits(),
        _ => false,
    }
}

/// Whether lanes can go on behind this step.
fn falls(step: &Step) -> bool {
    step.guard.is_some()
        || !matches!(
            step.inst,
            Inst::Branch { .. }
                | Inst::BranchIndexed { .. }
                | Inst::Return
                | Inst::Exit
                | Inst::Trap
                | Inst::Breakpoint
        )
}

/// Where a step may jump.
pub(super) fn targets(inst: &Inst) -> &[u32] {
    match inst {
        Inst::Branch { target } => std::slice::from_ref(target),
        Inst::BranchIndexed { targets, .. } => targets,
        _ => &[],
    }
}

/// The same, to be changed.
pub(super) fn targets_mut(inst: &mut Inst) -> &mut [u32] {
    match inst {
        Inst::Branch { target } => std::slice::from_mut(target),
        Inst::BranchIndexed { targets, .. } => targets,
        _ => &mut [],
    }
}
