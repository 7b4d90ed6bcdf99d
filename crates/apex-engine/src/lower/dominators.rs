//! Which node every way to a node goes through last.
//!
//! Semidominators with compressed paths (Lengauer and Tarjan), then the nearest common ancestors of
//! what they are for (Georgiadis): a text of many thousand jumps back costs little more than one
//! without. Nodes are numbered as a walk from the root meets them, so above means smaller.

const NONE: usize = usize::MAX;

/// The immediate dominator of every node that `root` reaches; the root is its own.
pub(super) fn dominators(edges: &[Vec<usize>], root: usize) -> Vec<Option<usize>> {
    let Walk { order, number, parent } = walk(edges, root);
    let mut before = vec![Vec::new(); order.len()];
    for (from, node) in order.iter().enumerate() {
        for to in &edges[*node] {
            before[number[*to]].push(from);
        }
    }
    let mut forest = Forest {
        above: vec![NONE; order.len()],
        least: (0..order.len()).collect(),
        semi: (0..order.len()).collect(),
        way: Vec::new(),
    };
    for node in (1..order.len()).rev() {
        for from in &before[node] {
            let least = forest.least(*from);
            forest.semi[node] = forest.semi[node].min(forest.semi[least]);
        }
        forest.above[node] = parent[node];
    }
    let mut dominator = parent;
    for node in 1..order.len() {
        while dominator[node] > forest.semi[node] {
            dominator[node] = dominator[dominator[node]];
        }
    }
    let mut out = vec![None; edges.len()];
    for (node, above) in order.iter().zip(dominator) {
        out[*node] = Some(order[above]);
    }
    out
}

/// A walk in depth: nodes as they are met, the number of each, and from which number it was met.
struct Walk {
    order: Vec<usize>,
    number: Vec<usize>,
    parent: Vec<usize>,
}

fn walk(edges: &[Vec<usize>], root: usize) -> Walk {
    let mut it = Walk { order: Vec::new(), number: vec![NONE; edges.len()], parent: Vec::new() };
    let mut open = vec![(root, 0)];
    while let Some((node, parent)) = open.pop() {
        if it.number[node] != NONE {
            continue;
        }
        let number = it.order.len();
        it.number[node] = number;
        it.order.push(node);
        it.parent.push(parent);
        open.extend(edges[node].iter().rev().map(|next| (*next, number)));
    }
    it
}

/// Nodes already looked at, hanging below those from which they were met.
struct Forest {
    above: Vec<usize>,
    /// On the way up from a node, short of the top: the node with the least semidominator.
    least: Vec<usize>,
    semi: Vec<usize>,
    way: Vec<usize>,
}

impl Forest {
    fn least(&mut self, node: usize) -> usize {
        let mut top = node;
        while self.above[top] != NONE {
            self.way.push(top);
            top = self.above[top];
        }
        // The uppermost of the way stays; those below it hang under the top from here on.
        let mut upper = self.way.pop();
        while let (Some(over), Some(under)) = (upper, self.way.pop()) {
            if self.semi[self.least[over]] < self.semi[self.least[under]] {
                self.least[under] = self.least[over];
            }
            self.above[under] = top;
            upper = Some(under);
        }
        self.least[node]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the root reaches without passing `hole`.
    fn reached(edges: &[Vec<usize>], hole: usize) -> Vec<bool> {
        let mut seen = vec![false; edges.len()];
        let mut open = vec![0];
        while let Some(node) = open.pop() {
            if node != hole && !std::mem::replace(&mut seen[node], true) {
                open.extend(&edges[node]);
            }
        }
        seen
    }

    /// By what the words say: those without which a node cannot be reached, and of them the one that
    /// all the others dominate.
    fn by_definition(edges: &[Vec<usize>]) -> Vec<Option<usize>> {
        let count = edges.len();
        let all = reached(edges, NONE);
        let without: Vec<Vec<bool>> = (0..count).map(|hole| reached(edges, hole)).collect();
        let over = |above: usize, node: usize| above != node && all[node] && !without[above][node];
        let nearest = |node: usize| {
            (0..count)
                .filter(|above| all[*above] && over(*above, node))
                .max_by_key(|above| (0..count).filter(|other| over(*other, *above)).count())
        };
        let one = |node: usize| match node {
            0 => Some(0),
            _ if all[node] => nearest(node),
            _ => None,
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn random_graphs_have_the_dominators_of_the_definition() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..2000 {
            let count = 1 + random(12);
            let most = 1 + random(3);
            let edges: Vec<Vec<usize>> = (0..count)
                .map(|_| (0..random(most + 1)).map(|_| random(count)).collect())
                .collect();
            assert_eq!(dominators(&edges, 0), by_definition(&edges), "{edges:?}");
        }
    }
}
