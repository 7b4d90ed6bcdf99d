//! The last part of lowering: everything gets its place.
//!
//! Variables that stay in memory get their offsets, blocks their order, branches their targets,
//! and registers their places in the file ([`super::file`]).

use super::file::number_registers;
use super::graph::{Graph, ends_block, targets_mut};
use super::live::{live_in, pressure};
use super::operands::{Place, change};
use super::order::{meeting_points, order};
use super::promote::promote;
use super::translate::{Draft, Slot};
use super::width::width;
use super::{Lowered, Outcome, clean, refuse, turns};
use crate::code::{Address, Step};
use crate::code::{Block, Callee, Code, Inst, Reg, Src};
use std::collections::HashMap;
use std::ops::Range;

/// What hardware gives a thread of local memory, and a block of static shared memory.
const MOST_LOCAL: u32 = 512 << 10;
const MOST_SHARED: u32 = 48 << 10;
/// Registers that the convention of calls takes at least.
const CALLING_REGISTERS: u32 = 24;
/// How deep recursive functions may call each other before local memory ends, and how much of it
/// they get at most. A device gives a thread 1 KiB unless it is asked for more.
const DEPTH: u32 = 256;
const LARGE_STACK: u32 = 64 << 10;

/// A function's blocks with what is known of them.
struct Ordered {
    function: usize,
    graph: Graph,
    order: Vec<usize>,
    recursive: bool,
    frame: u32,
    /// Its blocks in the code.
    blocks: Range<usize>,
}

/// Makes a draft into code.
pub(super) fn finish(mut draft: Draft) -> Outcome<Lowered> {
    let mut functions = Vec::new();
    let mut constants: HashMap<Reg, u64> = HashMap::new();
    if let Some(register) = draft.dynamic_shared {
        constants.insert(register, u64::from(draft.static_shared));
    }
    let bodies = std::mem::take(&mut draft.bodies);
    let mut local = 0;
    for (index, mut body) in bodies.into_iter().enumerate() {
        let mut graph = Graph::new(&mut body)?;
        let slots = promote(&mut graph, &body.slots, &mut draft.registers);
        let frame = lay_out(&slots, |slot, offset| {
            if index == 0 {
                constants.insert(slot.base, u64::from(offset));
            } else {
                let inst = Inst::FrameAddress { dst: slot.base, offset };
                graph.nodes[0].steps.insert(0, Step { guard: None, inst, line: 0 });
            }
        });
        if index == 0 {
            local = frame;
        }
        let (function, recursive) = (body.function, body.recursive);
        functions.push(Ordered {
            function,
            graph,
            order: Vec::new(),
            recursive,
            frame,
            blocks: 0..0,
        });
    }
    if let Some((register, bytes)) = draft.arguments {
        constants.insert(register, u64::from(local));
        local = local.saturating_add(bytes).saturating_add(15) & !15;
    }
    if local > MOST_LOCAL {
        return refuse(format!("uses too much local memory ({local} bytes, {MOST_LOCAL} at most)"));
    }
    if draft.static_shared > MOST_SHARED {
        let bytes = draft.static_shared;
        return refuse(format!(
            "uses too much shared data ({bytes:#x} bytes, {MOST_SHARED:#x} max)"
        ));
    }
    functions[0].frame = local;
    let mut code = Code { local_bytes: local, ..Code::default() };
    code.functions = vec![None; draft.functions];
    let called: u32 = functions.iter().skip(1).map(|function| function.frame.max(16)).sum();
    let recursive = functions.iter().any(|function| function.recursive);
    let deep = called.saturating_mul(DEPTH).min(LARGE_STACK).max(called.saturating_mul(4));
    code.stack_bytes = if recursive { deep } else { called };
    let mut registers = 0;
    for function in &mut functions {
        set_constants(&mut function.graph, &constants);
        clean::clean(&mut function.graph, &draft.registers);
        function.graph.simplify();
        turns::insert(&mut function.graph);
        function.order = order(&function.graph);
        let alive = live_in(&function.graph, &draft.registers)?;
        registers = registers.max(pressure(&function.graph, &draft.registers, &alive));
        emit(&mut code, function, &alive);
    }
    settle_calls(&mut code, &functions);
    code.width = width(&code);
    number_registers(&mut code, &draft.registers);
    let static_shared = draft.static_shared;
    let calls = |step: &Step| matches!(step.inst, Inst::Call { .. } | Inst::System { .. });
    let least = if code.steps.iter().any(calls) { CALLING_REGISTERS } else { 8 };
    // Addresses and the like: ptxas needs some more than are alive, in pairs.
    let registers = (registers + 4).next_multiple_of(2).clamp(least, 255);
    Ok(Lowered { code, static_shared, registers })
}

/// Offsets of variables in a frame; gives the bytes of all.
fn lay_out(slots: &[Slot], mut put: impl FnMut(&Slot, u32)) -> u32 {
    let mut bytes = 0_u32;
    for slot in slots {
        let offset = bytes.next_multiple_of(slot.align.max(1));
        put(slot, offset);
        bytes = offset.saturating_add(slot.bytes);
    }
    bytes.saturating_add(15) & !15
}

/// Puts constants where registers stood for what is known only now.
fn set_constants(graph: &mut Graph, constants: &HashMap<Reg, u64>) {
    for step in graph.nodes.iter_mut().flat_map(|node| &mut node.steps) {
        change(&mut step.inst, &mut |place| match place {
            Place::Read(src) => {
                if let Src::Reg(register) = src
                    && let Some(value) = constants.get(register)
                {
                    *src = Src::Imm(*value);
                }
            }
            Place::Address(address) => {
                if let Src::Reg(register) = address.base
                    && let Some(value) = constants.get(&register)
                {
                    let base = Src::Imm(value.wrapping_add_signed(address.offset));
                    *address = Address { base, offset: 0 };
                }
            }
            Place::ReadRegister(_) | Place::Guard(_) | Place::Write(_) => {}
        });
    }
}

/// Appends a function's blocks. Jumps are made where the next block is not where lanes go on.
fn emit(code: &mut Code, function: &mut Ordered, alive: &[Vec<Reg>]) {
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

/// Entries of called functions, and what each call has to keep.
fn settle_calls(code: &mut Code, functions: &[Ordered]) {
    let entries: HashMap<usize, u32> = functions
        .iter()
        .map(|function| (function.function, code.blocks[function.blocks.start].steps.start))
        .collect();
    for (number, function) in functions.iter().enumerate() {
        if number > 0 {
            code.functions[function.function] = entries.get(&function.function).copied();
        }
        for index in function.blocks.clone() {
            let last = code.blocks[index].steps.end as usize - 1;
            let kept = match code.blocks[index].successors.first() {
                Some(next) if function.recursive => code.blocks[*next as usize].live_in.clone(),
                _ => Vec::new(),
            };
            if let Inst::Call { callee, save, frame } = &mut code.steps[last].inst {
                if let Callee::Direct(target) = callee {
                    *target = entries.get(&(*target as usize)).copied().unwrap_or(0);
                }
                *save = kept;
                *frame = function.frame;
            }
        }
    }
}
