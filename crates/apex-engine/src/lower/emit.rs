//! Blocks become one list of steps, and targets of branches the steps at which they begin.

use super::graph::{ends_block, targets_mut};
use super::order::meeting_points;
use super::{GraphedFunction, Lowering, Outcome};
use crate::code::{Block, Code, Inst, Step};

/// Puts the blocks of all functions into the code, the kernel's first.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    for function in &mut it.functions {
        emit(&mut it.code, function);
    }
    Ok(())
}

/// Appends a function's blocks. Jumps are made where the next block is not where lanes go on.
fn emit(code: &mut Code, function: &mut GraphedFunction) {
    let alive = std::mem::take(&mut function.live_in);
    let meets = meeting_points(&function.graph);
    let count = function.graph.nodes.len();
    let first = code.blocks.len();
    // Blocks of the code by node; where a jump has to follow a barrier it gets a block of its own.
    let mut block_of = vec![usize::MAX; count];
    let mut pending = Vec::new();
    let order = &function.order;
    for (position, &node) in order.iter().enumerate() {
        let next = order.get(position + 1).copied();
        let start = code.steps.len() as u32;
        block_of[node] = code.blocks.len();
        let successors = function.graph.successors(node);
        let fall = function.graph.nodes[node].fall;
        let mut steps = std::mem::take(&mut function.graph.nodes[node].steps);
        let mut bridge = None;
        if let Some(fall) = fall
            && Some(fall) != next
        {
            let jump = Step { guard: None, inst: Inst::Branch { target: fall as u32 }, line: 0 };
            match steps.last_mut() {
                // The other way is next: jump where lanes would go on, under the opposite guard.
                Some(Step { guard: Some(guard), inst: Inst::Branch { target }, .. })
                    if Some(*target as usize) == next =>
                {
                    guard.negated = !guard.negated;
                    *target = fall as u32;
                }
                Some(last) if ends_block(last) => bridge = Some((fall, jump)),
                _ => steps.push(jump),
            }
        }
        if steps.is_empty() {
            steps.push(Step { guard: None, inst: Inst::Nop, line: 0 });
        }
        code.steps.append(&mut steps);
        let live_in = alive[node].clone();
        let end = code.steps.len() as u32;
        let meeting = meets[node];
        let mut successors = successors;
        if let Some(next) = next
            && let Some(index) = successors.iter().position(|node| *node == next)
        {
            successors.swap(0, index);
        }
        code.blocks.push(Block { steps: start..end, successors: Vec::new(), meets: None, live_in });
        let bridged = bridge.as_ref().map(|(fall, _)| *fall);
        pending.push((successors, bridged, meeting));
        if let Some((fall, jump)) = bridge {
            code.steps.push(jump);
            let live_in = alive[fall].clone();
            let steps = end..end + 1;
            code.blocks.push(Block { steps, successors: Vec::new(), meets: None, live_in });
            pending.push((vec![fall], None, Some(fall)));
        }
    }
    function.blocks = first..code.blocks.len();
    for (offset, (successors, bridged, meeting)) in pending.into_iter().enumerate() {
        let index = first + offset;
        let block = |node: usize| block_of[node] as u32;
        let mut blocks: Vec<u32> = successors
            .iter()
            .map(|node| if Some(*node) == bridged { index as u32 + 1 } else { block(*node) })
            .collect();
        // Where lanes go on without jumping comes first.
        if let Some(place) = blocks.iter().position(|block| *block == index as u32 + 1) {
            blocks.swap(0, place);
        }
        code.blocks[index].successors = blocks;
        code.blocks[index].meets = meeting.map(block);
        let last = code.blocks[index].steps.end as usize - 1;
        for target in targets_mut(&mut code.steps[last].inst) {
            *target = code.blocks[block_of[*target as usize]].steps.start;
        }
    }
}
