//! The control-flow graph of a function, and where its branches meet again.
//!
//! A block ends with a branch, a return, or before a label that some branch goes to: labels for
//! debuggers cut nothing. Where a branch on a
//! predicate splits the threads, they meet again at the branch's immediate post-dominator, the
//! first block every way to the end passes through. `exit`, `ret`, `trap` and the
//! end of the text all lead to one common end that is no block. A block from which the end
//! cannot be reached, such as one of an endless loop, has no post-dominator.

use core::ops::Range;

use crate::code::Code;
use crate::tree::Instruction;

/// The number of a block; 0 is where the function begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The place in [`Graph::blocks`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Instructions that are executed one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Which instructions of the code.
    pub instructions: Range<usize>,
    /// Where control may go: the targets of a branch first, then the next block. No block
    /// stands here twice.
    pub successors: Vec<BlockId>,
    /// From where control may come.
    pub predecessors: Vec<BlockId>,
    /// Whether the function may end here.
    pub ends: bool,
}

/// The blocks of a function, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// The blocks; a function without instructions has none.
    pub blocks: Vec<Block>,
}

impl Graph {
    /// Cuts the code into blocks and joins them.
    pub fn new(code: &Code) -> Graph {
        let count = code.instructions.len();
        let mut begins = vec![false; count + 1];
        if count > 0 {
            begins[0] = true;
        }
        for (place, instruction) in code.instructions.iter().enumerate() {
            begins[place + 1] |= leaves(instruction);
            for label in code.targets(instruction) {
                begins[code.labels.get(&label).map_or(0, |place| *place)] = true;
            }
        }
        begins[count] = true;
        let starts: Vec<usize> = (0..=count).filter(|place| begins[*place]).collect();
        let mut graph = Graph {
            blocks: starts
                .windows(2)
                .map(|pair| Block {
                    instructions: pair[0]..pair[1],
                    successors: Vec::new(),
                    predecessors: Vec::new(),
                    ends: false,
                })
                .collect(),
        };
        graph.join(code, &starts);
        graph
    }

    fn join(&mut self, code: &Code, starts: &[usize]) {
        // The last block that led to each: lists of targets are long and name few blocks.
        let mut led_from = vec![usize::MAX; self.blocks.len()];
        for place in 0..self.blocks.len() {
            let last = &code.instructions[self.blocks[place].instructions.end - 1];
            let mut leads_to: Vec<usize> = code
                .targets(last)
                .iter()
                .filter_map(|label| starts.binary_search(code.labels.get(label)?).ok())
                .collect();
            if last.guard.is_some() || !leaves(last) {
                leads_to.push(place + 1);
            }
            let ends = matches!(&*last.opcode, "ret" | "exit" | "trap");
            self.blocks[place].ends = ends;
            for target in leads_to {
                if target == self.blocks.len() {
                    self.blocks[place].ends = true;
                    continue;
                }
                if led_from[target] != place {
                    led_from[target] = place;
                    self.blocks[place].successors.push(BlockId(target as u32));
                    self.blocks[target].predecessors.push(BlockId(place as u32));
                }
            }
        }
    }

    /// The block an instruction stands in.
    pub fn block_of(&self, instruction: usize) -> Option<BlockId> {
        let place = self.blocks.partition_point(|block| block.instructions.end <= instruction);
        (place < self.blocks.len()).then_some(BlockId(place as u32))
    }

    /// For each block its immediate dominator: the last block every way to it passes through.
    /// `None` for the first block and for blocks that are never reached.
    pub fn dominators(&self) -> Vec<Option<BlockId>> {
        let count = self.blocks.len();
        immediate(
            count,
            count,
            &|node| if node == count { vec![0] } else { indices(&self.blocks[node].successors) },
            &|node| {
                let mut from = indices(&self.blocks[node].predecessors);
                if node == 0 {
                    from.push(count);
                }
                from
            },
        )
    }

    /// For each block its immediate post-dominator; `None` where that is the function's end, or
    /// where the end cannot be reached.
    pub fn post_dominators(&self) -> Vec<Option<BlockId>> {
        let count = self.blocks.len();
        let ends: Vec<usize> = (0..count).filter(|place| self.blocks[*place].ends).collect();
        immediate(
            count,
            count,
            &|node| {
                if node == count { ends.clone() } else { indices(&self.blocks[node].predecessors) }
            },
            &|node| {
                let mut to = indices(&self.blocks[node].successors);
                if self.blocks[node].ends {
                    to.push(count);
                }
                to
            },
        )
    }
}

fn indices(blocks: &[BlockId]) -> Vec<usize> {
    blocks.iter().map(|block| block.index()).collect()
}

/// Whether control never goes on behind the instruction, guards apart.
fn leaves(instruction: &Instruction) -> bool {
    matches!(&*instruction.opcode, "bra" | "brx" | "ret" | "exit" | "trap")
}

/// Immediate dominators by Cooper, Harvey and Kennedy's iteration. `root` is a node of its own
/// behind the `count` blocks; who is dominated by it alone gets `None`.
fn immediate(
    count: usize,
    root: usize,
    forward: &dyn Fn(usize) -> Vec<usize>,
    backward: &dyn Fn(usize) -> Vec<usize>,
) -> Vec<Option<BlockId>> {
    const UNKNOWN: usize = usize::MAX;
    let order = postorder(count + 1, root, forward);
    let mut rank = vec![UNKNOWN; count + 1];
    for (place, node) in order.iter().enumerate() {
        rank[*node] = place;
    }
    let mut above = vec![UNKNOWN; count + 1];
    above[root] = root;
    let mut changed = true;
    while changed {
        changed = false;
        for node in order.iter().rev().copied().filter(|node| *node != root) {
            let mut best = UNKNOWN;
            for from in backward(node) {
                if above[from] == UNKNOWN {
                    continue;
                }
                best = if best == UNKNOWN { from } else { meet(&above, &rank, best, from) };
            }
            if above[node] != best {
                above[node] = best;
                changed = true;
            }
        }
    }
    above[..count]
        .iter()
        .map(|node| (*node != UNKNOWN && *node != root).then_some(BlockId(*node as u32)))
        .collect()
}

fn meet(above: &[usize], rank: &[usize], mut one: usize, mut other: usize) -> usize {
    while one != other {
        while rank[one] < rank[other] {
            one = above[one];
        }
        while rank[other] < rank[one] {
            other = above[other];
        }
    }
    one
}

/// The nodes reached from `root`, each after all it leads to. Without recursion: a function may
/// have a hundred thousand blocks in a row.
fn postorder(count: usize, root: usize, forward: &dyn Fn(usize) -> Vec<usize>) -> Vec<usize> {
    let mut seen = vec![false; count];
    let mut order = Vec::with_capacity(count);
    let mut path = vec![(root, forward(root), 0)];
    seen[root] = true;
    while let Some((node, leads_to, next)) = path.last_mut() {
        match leads_to.get(*next).copied() {
            Some(target) => {
                *next += 1;
                if !seen[target] {
                    seen[target] = true;
                    path.push((target, forward(target), 0));
                }
            }
            None => {
                order.push(*node);
                path.pop();
            }
        }
    }
    order
}
