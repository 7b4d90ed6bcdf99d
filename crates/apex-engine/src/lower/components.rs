//! Groups of nodes that all reach each other: loops of blocks, functions that call each other.
//!
//! Tarjan's way, in linear time and without recursion: kernels and chains of calls are long.

/// The number of the group that each node is in.
pub(super) fn components(edges: &[Vec<usize>]) -> Vec<usize> {
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
