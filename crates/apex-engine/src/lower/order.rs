//! The order of blocks, and where ways part and meet.
//!
//! Lanes that are ahead wait for the others at the higher block, so a block stands after all
//! blocks that lead to it, loops apart; a loop's blocks stand together, before what follows the
//! loop. Where the ways through a loop enter it at several places, one of them counts as its
//! head.

use super::graph::Graph;
use crate::code::Inst;

/// All reachable nodes in the order of execution; the entry first.
pub(super) fn order(graph: &Graph) -> Vec<usize> {
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

/// Strongly connected components (Tarjan), without recursion: kernels have long chains.
fn components(edges: &[Vec<usize>]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let count = edges.len();
    let (mut number, mut low) = (vec![NONE; count], vec![0; count]);
    let (mut component, mut groups, mut counter) = (vec![NONE; count], 0, 0);
    let mut stack = Vec::new();
    for root in 0..count {
        if number[root] != NONE {
            continue;
        }
        let mut work = vec![(root, 0)];
        while let Some((node, next)) = work.pop() {
            if next == 0 {
                number[node] = counter;
                low[node] = counter;
                counter += 1;
                stack.push(node);
            }
            if let Some(to) = edges[node].get(next).copied() {
                work.push((node, next + 1));
                if number[to] == NONE {
                    work.push((to, 0));
                } else if component[to] == NONE {
                    low[node] = low[node].min(number[to]);
                }
                continue;
            }
            if low[node] == number[node] {
                while let Some(member) = stack.pop() {
                    component[member] = groups;
                    if member == node {
                        break;
                    }
                }
                groups += 1;
            }
            if let Some((parent, _)) = work.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
        }
    }
    component
}

/// The immediate dominator of every node that `root` reaches; the root is its own.
pub(super) fn dominators(edges: &[Vec<usize>], root: usize) -> Vec<Option<usize>> {
    let count = edges.len();
    let mut postorder = Vec::with_capacity(count);
    let mut seen = vec![false; count];
    let mut work = vec![(root, 0)];
    seen[root] = true;
    while let Some((node, next)) = work.pop() {
        match edges[node].get(next) {
            Some(to) => {
                work.push((node, next + 1));
                if !std::mem::replace(&mut seen[*to], true) {
                    work.push((*to, 0));
                }
            }
            None => postorder.push(node),
        }
    }
    let mut rank = vec![0; count];
    for (index, node) in postorder.iter().enumerate() {
        rank[*node] = index;
    }
    let mut before = vec![Vec::new(); count];
    for node in &postorder {
        for to in &edges[*node] {
            before[*to].push(*node);
        }
    }
    let mut dominator = vec![None; count];
    dominator[root] = Some(root);
    let mut changed = true;
    while changed {
        changed = false;
        for node in postorder.iter().rev().filter(|node| **node != root) {
            let mut best: Option<usize> = None;
            for from in before[*node].iter().filter(|from| dominator[**from].is_some()) {
                best = Some(match best {
                    None => *from,
                    Some(other) => common(&dominator, &rank, *from, other),
                });
            }
            if best != dominator[*node] {
                dominator[*node] = best;
                changed = true;
            }
        }
    }
    dominator
}

fn common(dominator: &[Option<usize>], rank: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        if rank[a] > rank[b] {
            std::mem::swap(&mut a, &mut b);
        }
        // The lower one of the two goes up; the root is above all.
        match dominator[a] {
            Some(up) if up != a => a = up,
            _ => return b,
        }
    }
    a
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
