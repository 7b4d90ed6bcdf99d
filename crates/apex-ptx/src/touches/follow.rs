//! Goes once through a kernel's blocks and knows at each place what the registers hold.
//!
//! Blocks are taken in an order in which everything comes before what it leads to, but for the ways back of loops. Where
//! a loop begins, what it writes is a [`Node::Phi`] until [`super::loops`] has seen what the turn makes of it. Where a
//! branch has compared, what it compared is known on both ways, in everything that was computed from it.

use super::interval::View;
use super::node::{Comparison, Id, Node, Nodes};
use super::{Barrier, Kind};
use crate::cfg::{BlockId, Graph};
use crate::code::{Code, RegisterId};
use crate::roles::{Role, visit_names};
use crate::tree::{Function, Module, Name, Space, Type, Variable};
use std::collections::{HashMap, HashSet};

/// What a register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Nothing was written.
    Unset,
    Number(Id),
    /// By its place in the list of truths.
    Truth(u32),
}

/// A truth that a predicate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Truth {
    Unknown,
    Compare(Id, Comparison, Id, View),
    Not(u32),
    And(u32, u32),
    Or(u32, u32),
}

pub(super) type State = Vec<Held>;

/// An instruction that reaches memory which other launches see.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    pub(super) address: Id,
    pub(super) offset: i64,
    pub(super) bytes: i64,
    pub(super) kind: Kind,
}

/// A register that a loop writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phi {
    pub(super) at_loop: usize,
    pub(super) before: Option<Id>,
    pub(super) behind: Option<Id>,
    pub(super) bits: u32,
}

/// A loop: where it begins, and its blocks.
pub(super) struct Loop {
    header: usize,
    pub(super) blocks: Vec<bool>,
    pub(super) size: usize,
    /// Registers that it writes, each with the number of its phi.
    registers: Vec<(usize, u32)>,
}

/// Held registers of all ways between blocks at most.
const MOST_HELD: usize = 16 << 20;

pub(super) struct Follower<'a> {
    pub(super) code: &'a Code,
    pub(super) module: &'a Module,
    graph: Graph,
    pub(super) nodes: Nodes,
    pub(super) truths: Vec<Truth>,
    /// Offset of each parameter.
    pub(super) parameters: HashMap<Name, u32>,
    /// Offset and size of each.
    pub(super) layout: Vec<(u32, u32)>,
    /// Global variables of the module by their number, with their bytes where those are known.
    pub(super) symbols: Vec<(Name, Option<u64>)>,
    pub(super) reaches: Vec<Reach>,
    pub(super) phis: Vec<Phi>,
    pub(super) loops: Vec<Loop>,
    /// Registers that some instruction reads.
    pub(super) read: HashSet<&'a Name>,
    /// Whether the instruction that is followed stands in a loop.
    pub(super) is_in_loop: bool,
    pub(super) at: u32,
}

impl<'a> Follower<'a> {
    pub(super) fn new(
        code: &'a Code,
        module: &'a Module,
        kernel: &Function,
    ) -> Result<Follower<'a>, Barrier> {
        let graph = Graph::new(code);
        let ways: usize = graph.blocks.iter().map(|block| block.successors.len() + 1).sum();
        if code.registers.len() * ways > MOST_HELD {
            return Err(Barrier::Large);
        }
        let (mut parameters, mut layout, mut offset) = (HashMap::new(), Vec::new(), 0_u64);
        for parameter in &kernel.params {
            offset = offset.next_multiple_of(parameter.alignment().max(1));
            parameters.insert(parameter.name.clone(), offset as u32);
            let bytes = parameter.bytes().filter(|bytes| *bytes < 1 << 16).ok_or(Barrier::Text)?;
            layout.push((offset as u32, bytes as u32));
            offset += bytes;
        }
        let mut read = HashSet::new();
        for instruction in &code.instructions {
            visit_names(instruction, &mut |name, role| {
                if role == Role::Read {
                    read.insert(name);
                }
            });
        }
        Ok(Follower {
            code,
            module,
            graph,
            nodes: Nodes::default(),
            truths: vec![Truth::Unknown],
            parameters,
            layout,
            symbols: Vec::new(),
            reaches: Vec::new(),
            phis: Vec::new(),
            loops: Vec::new(),
            read,
            is_in_loop: false,
            at: 0,
        })
    }

    /// Follows all blocks.
    pub(super) fn follow(&mut self) -> Result<(), Barrier> {
        if self.graph.blocks.is_empty() {
            return Ok(());
        }
        let order = self.order();
        self.find_loops(&order)?;
        // What is held on each way: from a block to a block.
        let mut ways: HashMap<(usize, usize), State> = HashMap::new();
        for &block in &order {
            let mut state = self.begin(block, &order, &ways);
            self.is_in_loop = self.loops.iter().any(|found| found.blocks[block]);
            let instructions = self.graph.blocks[block].instructions.clone();
            for place in instructions.clone() {
                self.at = place as u32;
                let instruction = &self.code.instructions[place];
                self.step(instruction, &mut state)?;
                if self.nodes.is_too_much() {
                    return Err(Barrier::Large);
                }
            }
            let successors = self.graph.blocks[block].successors.clone();
            for successor in successors {
                let state = self.leave(block, successor.index(), &state);
                ways.insert((block, successor.index()), state);
            }
        }
        self.close_loops(&ways);
        Ok(())
    }

    /// Every block that can be reached, each before those that it leads to but for ways back.
    fn order(&self) -> Vec<usize> {
        let blocks = &self.graph.blocks;
        let (mut seen, mut order) = (vec![false; blocks.len()], Vec::new());
        let mut path = vec![(0, 0)];
        seen[0] = true;
        while let Some((block, next)) = path.last_mut() {
            match blocks[*block].successors.get(*next).map(|block| block.index()) {
                Some(target) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[target], true) {
                        path.push((target, 0));
                    }
                }
                None => {
                    order.push(*block);
                    path.pop();
                }
            }
        }
        order.reverse();
        order
    }

    fn find_loops(&mut self, order: &[usize]) -> Result<(), Barrier> {
        let blocks = &self.graph.blocks;
        let mut place = vec![usize::MAX; blocks.len()];
        order.iter().enumerate().for_each(|(nth, &block)| place[block] = nth);
        let dominators = self.graph.dominators();
        let dominates = |header: usize, mut block: usize| loop {
            if block == header {
                return true;
            }
            match dominators[block] {
                Some(BlockId(above)) => block = above as usize,
                None => return false,
            }
        };
        let mut loops: Vec<Loop> = Vec::new();
        for &block in order {
            for header in blocks[block].successors.iter().map(|block| block.index()) {
                if place[header] > place[block] {
                    continue;
                }
                if !dominates(header, block) {
                    return Err(Barrier::Loop);
                }
                let known = loops.iter().position(|found| found.header == header);
                let known = known.unwrap_or_else(|| {
                    loops.push(Loop {
                        header,
                        blocks: vec![false; blocks.len()],
                        size: 0,
                        registers: Vec::new(),
                    });
                    loops.len() - 1
                });
                let inside = &mut loops[known].blocks;
                inside[header] = true;
                let mut waiting = vec![block];
                while let Some(block) = waiting.pop() {
                    if !std::mem::replace(&mut inside[block], true) {
                        let from = blocks[block].predecessors.iter().map(|block| block.index());
                        waiting.extend(from.filter(|&from| place[from] != usize::MAX));
                    }
                }
                loops[known].size = inside.iter().filter(|is_inside| **is_inside).count();
            }
        }
        // Inner ones first.
        loops.sort_by_key(|found| found.size);
        self.loops = loops;
        Ok(())
    }

    /// What is held where a block begins.
    fn begin(
        &mut self,
        block: usize,
        order: &[usize],
        ways: &HashMap<(usize, usize), State>,
    ) -> State {
        let nothing = vec![Held::Unset; self.code.registers.len()];
        let from = self.graph.blocks[block].predecessors.clone();
        let mut state: Option<State> = (block == order[0]).then(|| nothing.clone());
        for predecessor in from {
            if let Some(way) = ways.get(&(predecessor.index(), block)) {
                state = Some(match state {
                    None => way.clone(),
                    Some(state) => self.join(block, &state, way),
                });
            }
        }
        let mut state = state.unwrap_or(nothing);
        if let Some(nth) = self.loops.iter().position(|found| found.header == block) {
            self.open_loop(nth, &mut state);
        }
        state
    }

    /// What a loop writes is not known where it begins.
    fn open_loop(&mut self, nth: usize, state: &mut State) {
        let mut written = vec![false; state.len()];
        for (block, _) in self.loops[nth].blocks.iter().enumerate().filter(|(_, inside)| **inside) {
            for instruction in
                &self.code.instructions[self.graph.blocks[block].instructions.clone()]
            {
                visit_names(instruction, &mut |name, role| {
                    if role != Role::Read
                        && let Some(RegisterId(number)) = self.code.register(name)
                    {
                        written[number as usize] = true;
                    }
                });
            }
        }
        for (register, held) in state.iter_mut().enumerate().filter(|(nth, _)| written[*nth]) {
            let before = match *held {
                Held::Unset => continue,
                Held::Truth(_) => {
                    *held = Held::Truth(0);
                    continue;
                }
                Held::Number(id) => Some(id),
            };
            let bits = 8 * self.code.registers[register].declared.bytes();
            let number = self.phis.len() as u32;
            self.phis.push(Phi { at_loop: nth, before, behind: None, bits });
            *held = Held::Number(self.nodes.make(Node::Phi(number)));
            // The register by the phi's number is found again where the loop closes.
            self.loops[nth].registers.push((register, number));
        }
    }

    fn join(&mut self, block: usize, one: &State, other: &State) -> State {
        let pairs = one.iter().zip(other);
        let joined = pairs.map(|(&one, &other)| match (one, other) {
            (one, other) if one == other => one,
            (Held::Unset, held) | (held, Held::Unset) => held,
            (Held::Number(a), Held::Number(b)) => {
                // The same pair at the same block is the same value.
                let at = u32::MAX - block as u32;
                Held::Number(self.nodes.make(Node::Either(at, a, b)))
            }
            _ => Held::Truth(0),
        });
        joined.collect()
    }

    /// What is held on the way to a successor.
    fn leave(&mut self, block: usize, to: usize, state: &State) -> State {
        let mut state = state.clone();
        let last = &self.code.instructions[self.graph.blocks[block].instructions.end - 1];
        let Some(guard) = &last.guard else { return state };
        if !matches!(&*last.opcode, "bra" | "ret" | "exit" | "trap") {
            return state;
        }
        let targets = self.code.targets(last);
        let target = targets.first().and_then(|label| self.code.labels.get(label)).copied();
        let is_target = target.is_some_and(|at| self.graph.blocks[to].instructions.start == at);
        let is_next =
            self.graph.blocks[block].instructions.end == self.graph.blocks[to].instructions.start;
        if is_target == is_next {
            return state;
        }
        if let Held::Truth(truth) = self.held_by(&guard.register, &state) {
            self.believe(&mut state, truth, is_target != guard.negated);
        }
        state
    }

    pub(super) fn held_by(&self, name: &Name, state: &State) -> Held {
        self.code.register(name).map_or(Held::Unset, |RegisterId(number)| state[number as usize])
    }

    /// A truth holds, or does not: what that says is known in all that was computed from it.
    fn believe(&mut self, state: &mut State, truth: u32, holds: bool) {
        let mut facts = Vec::new();
        self.facts(truth, holds, &mut facts);
        while let Some((value, by, than, view)) = facts.pop() {
            let known = self.nodes.make(Node::Known(value, by, than, view));
            let mut done = HashMap::new();
            let instead = |id: Id, _: Node| (id == value).then_some(known);
            for held in state.iter_mut() {
                if let Held::Number(id) = held {
                    *id = self.nodes.replaced(*id, &instead, &mut done);
                }
            }
            for (other, ..) in &mut facts {
                *other = self.nodes.replaced(*other, &instead, &mut done);
            }
        }
    }

    /// An expression where a truth holds.
    pub(super) fn under(&mut self, id: Id, truth: u32, holds: bool) -> Id {
        let mut state = vec![Held::Number(id)];
        self.believe(&mut state, truth, holds);
        match state[0] {
            Held::Number(id) => id,
            _ => id,
        }
    }

    /// What a truth says of single expressions.
    fn facts(&mut self, truth: u32, holds: bool, facts: &mut Vec<(Id, Comparison, Id, View)>) {
        let mut waiting = vec![(truth, holds)];
        while let Some((truth, holds)) = waiting.pop() {
            if facts.len() > 16 {
                return;
            }
            match self.truths[truth as usize] {
                Truth::Not(other) => waiting.push((other, !holds)),
                Truth::And(a, b) if holds => waiting.extend([(a, true), (b, true)]),
                Truth::Or(a, b) if !holds => waiting.extend([(a, false), (b, false)]),
                Truth::Compare(a, by, b, view) => {
                    let by = if holds { by } else { by.opposite() };
                    self.fact(a, by, b, view, facts);
                    self.fact(b, by.turned(), a, view, facts);
                }
                _ => {}
            }
        }
    }

    fn fact(
        &mut self,
        value: Id,
        by: Comparison,
        than: Id,
        view: View,
        facts: &mut Vec<(Id, Comparison, Id, View)>,
    ) {
        let varies = |node: Node| {
            matches!(
                node,
                Node::Thread(_) | Node::Block(_) | Node::Lane | Node::Unknown(..) | Node::Phi(_)
            )
        };
        if !self.nodes.contains(value, &mut { varies }) {
            return;
        }
        let than = self.nodes.make(Node::Seen(than, view));
        facts.push((value, by, than, view));
        // What was made wider compares as what it was made from.
        if let Node::Seen(inner, narrow) = self.nodes.get(value)
            && narrow.bits < view.bits
            && view.signed
        {
            facts.push((inner, by, than, narrow));
        }
    }

    pub(super) fn truth(&mut self, truth: Truth) -> u32 {
        if truth == Truth::Unknown {
            return 0;
        }
        self.truths.push(truth);
        self.truths.len() as u32 - 1
    }

    /// Every way back is known: what each loop's registers hold behind a turn.
    fn close_loops(&mut self, ways: &HashMap<(usize, usize), State>) {
        for nth in 0..self.loops.len() {
            let header = self.loops[nth].header;
            let from = self.graph.blocks[header].predecessors.clone();
            let back: Vec<&State> = from
                .iter()
                .filter(|block| self.loops[nth].blocks[block.index()])
                .filter_map(|block| ways.get(&(block.index(), header)))
                .collect();
            for (register, number) in self.loops[nth].registers.clone() {
                let mut behind = None;
                for state in &back {
                    behind =
                        match (behind, state[register]) {
                            (None, Held::Number(id)) => Some(id),
                            (Some(one), Held::Number(other)) => Some(
                                self.nodes.make(Node::Either(u32::MAX - header as u32, one, other)),
                            ),
                            // It holds no number there: nothing is known.
                            _ => Some(self.nodes.unknown(View::WIDE)),
                        };
                }
                self.phis[number as usize].behind = behind;
            }
        }
    }

    /// The number of a global variable of the module; `None` for every other name.
    pub(super) fn symbol(&mut self, name: &Name) -> Option<(u32, Space)> {
        let variable = self
            .module
            .variables()
            .chain(&self.code.variables)
            .find(|variable| variable.name == *name)?;
        if variable.space != Space::Global {
            return Some((0, variable.space));
        }
        let known = self.symbols.iter().position(|(known, _)| known == name);
        let number = known.unwrap_or_else(|| {
            self.symbols.push((name.clone(), bytes_here(variable)));
            self.symbols.len() - 1
        });
        Some((number as u32, Space::Global))
    }

    pub(super) fn declared(&self, name: &Name) -> View {
        let ty = self
            .code
            .register(name)
            .map_or(Type::B64, |RegisterId(number)| self.code.registers[number as usize].declared);
        View { bits: 8 * ty.bytes().min(8), signed: true }
    }
}

/// Bytes of a variable that this module alone has.
fn bytes_here(variable: &Variable) -> Option<u64> {
    use crate::tree::Linkage;
    let is_own = matches!(variable.linkage, Linkage::Internal | Linkage::Visible);
    (is_own && !variable.is_managed()).then(|| variable.bytes()).flatten()
}
