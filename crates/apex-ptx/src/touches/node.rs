//! What registers hold, as expressions over what a launch is told.
//!
//! Equal expressions are one node, and one node is one value wherever a thread stands: so a comparison that a branch has
//! made of it holds in all that was computed from it. What may differ from time to time has a number of its own.

use super::interval::{Interval, View};
use std::collections::HashMap;

/// The number of a node within its [`Nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id(pub(super) u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    UpperHalf,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Least,
    Most,
    Divide,
    Rest,
}

/// How two numbers compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(super) fn opposite(self) -> Comparison {
        match self {
            Comparison::Equal => Comparison::Unequal,
            Comparison::Unequal => Comparison::Equal,
            Comparison::Less => Comparison::GreaterOrEqual,
            Comparison::LessOrEqual => Comparison::Greater,
            Comparison::Greater => Comparison::LessOrEqual,
            Comparison::GreaterOrEqual => Comparison::Less,
        }
    }

    /// The same with its sides exchanged.
    pub(super) fn turned(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Node {
    Constant(i64),
    /// Bytes of the launch's parameters.
    Parameter {
        offset: u32,
        bytes: u32,
        signed: bool,
    },
    /// The address of a variable of the module, by its place in the list of those.
    Symbol(u32),
    /// An address in memory that other launches do not see.
    Private,
    /// A thread's place in its block, a block's in its grid, and the sides of both.
    Thread(u8),
    Block(u8),
    Threads(u8),
    Blocks(u8),
    Lane,
    /// Anything that a register of this view may hold; the number tells it from others.
    Unknown(u32, View),
    /// What a register holds when a turn of a loop begins, while it is not known.
    Phi(u32),
    Binary(Operation, Id, Id, View),
    /// A number as an instruction of this view reads it.
    Seen(Id, View),
    /// One of both, which of them is told by the number.
    Either(u32, Id, Id),
    /// The first, known to compare so with the second.
    Known(Id, Comparison, Id, View),
    /// What a register holds in any turn of a loop: at first, added in each turn, turns at most.
    Counted {
        first: Id,
        step: Id,
        turns: Option<Id>,
        bound: Option<Bound>,
        view: View,
    },
    /// What begins as the first and wanders by steps that nobody knows.
    Wandering(Id, View),
    /// How often a loop is begun again at most, if each time `first + turns * step + ahead` compares so with `limit`.
    Turns {
        first: Id,
        step: Id,
        ahead: Id,
        by: Comparison,
        limit: Id,
        view: View,
    },
}

/// What the comparison that ends a loop says of the register it compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Bound {
    /// The turns that the comparison was found to allow.
    pub(super) turns: Id,
    pub(super) ahead: Id,
    pub(super) by: Comparison,
    pub(super) limit: Id,
}

impl Node {
    /// The nodes that this one is made of.
    pub(super) fn parts(&self, visit: &mut impl FnMut(Id)) {
        match *self {
            Node::Binary(_, a, b, _) | Node::Either(_, a, b) | Node::Known(a, _, b, _) => {
                visit(a);
                visit(b);
            }
            Node::Seen(a, _) | Node::Wandering(a, _) => visit(a),
            Node::Counted { first, step, turns, bound, .. } => {
                visit(first);
                visit(step);
                turns.into_iter().for_each(&mut *visit);
                if let Some(bound) = bound {
                    [bound.turns, bound.ahead, bound.limit].into_iter().for_each(visit);
                }
            }
            Node::Turns { first, step, ahead, limit, .. } => {
                [first, step, ahead, limit].into_iter().for_each(visit);
            }
            _ => {}
        }
    }

    /// The same node of other parts.
    pub(super) fn with(&self, mut of: impl FnMut(Id) -> Id) -> Node {
        match *self {
            Node::Binary(operation, a, b, view) => Node::Binary(operation, of(a), of(b), view),
            Node::Either(at, a, b) => Node::Either(at, of(a), of(b)),
            Node::Known(a, by, b, view) => Node::Known(of(a), by, of(b), view),
            Node::Seen(a, view) => Node::Seen(of(a), view),
            Node::Wandering(a, view) => Node::Wandering(of(a), view),
            Node::Counted { first, step, turns, bound, view } => Node::Counted {
                first: of(first),
                step: of(step),
                turns: turns.map(&mut of),
                bound: bound.map(|bound| Bound {
                    turns: of(bound.turns),
                    ahead: of(bound.ahead),
                    limit: of(bound.limit),
                    ..bound
                }),
                view,
            },
            Node::Turns { first, step, ahead, by, limit, view } => Node::Turns {
                first: of(first),
                step: of(step),
                ahead: of(ahead),
                by,
                limit: of(limit),
                view,
            },
            other => other,
        }
    }
}

/// Nodes of a kernel at most.
const MOST: usize = 60_000;
/// Nodes looked at while expressions are changed, at most.
const MOST_WORK: usize = 3_000_000;

/// The expressions of a kernel. A node's parts stand before it.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    pub(super) all: Vec<Node>,
    numbers: HashMap<Node, Id>,
    unknown: u32,
    work: usize,
}

impl Nodes {
    pub(super) fn get(&self, id: Id) -> Node {
        self.all[id.0 as usize]
    }

    pub(super) fn constant(&mut self, value: i64) -> Id {
        self.make(Node::Constant(value))
    }

    pub(super) fn as_constant(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn unknown(&mut self, view: View) -> Id {
        self.unknown += 1;
        self.make(Node::Unknown(self.unknown, view))
    }

    /// The node, simplified where that is plain.
    pub(super) fn make(&mut self, node: Node) -> Id {
        if let Some(simple) = self.simple(&node) {
            return simple;
        }
        if let Some(&id) = self.numbers.get(&node) {
            return id;
        }
        let id = Id(self.all.len() as u32);
        self.all.push(node);
        self.numbers.insert(node, id);
        id
    }

    /// The kernel is too large to be followed.
    pub(super) fn is_too_much(&self) -> bool {
        self.all.len() > MOST || self.work > MOST_WORK
    }

    fn simple(&mut self, node: &Node) -> Option<Id> {
        match *node {
            Node::Binary(operation, a, b, view) => self.simple_binary(operation, a, b, view),
            Node::Either(_, a, b) if a == b => Some(a),
            Node::Either(_, a, b) => self.common(a, b),
            Node::Seen(a, view) if view.bits >= 64 => Some(a),
            Node::Seen(a, view) => {
                let value = self.as_constant(a)?;
                let seen = Interval::exact(value).seen(view)?;
                seen.is_exact().then(|| self.constant(seen.low))
            }
            _ => None,
        }
    }

    fn simple_binary(&mut self, operation: Operation, a: Id, b: Id, view: View) -> Option<Id> {
        let (left, right) = (self.as_constant(a), self.as_constant(b));
        match (operation, left, right) {
            (Operation::Add, Some(a), Some(b)) => Some(self.constant(a.checked_add(b)?)),
            (Operation::Add, Some(0), _) => Some(b),
            // Constants stand last and together.
            (Operation::Add, Some(_), None) => {
                Some(self.make(Node::Binary(Operation::Add, b, a, view)))
            }
            (Operation::Add | Operation::Subtract, _, Some(0)) => Some(a),
            (Operation::Subtract, _, Some(value)) => {
                let negative = self.constant(value.checked_neg()?);
                Some(self.make(Node::Binary(Operation::Add, a, negative, view)))
            }
            (Operation::Add, None, Some(more)) => match self.get(a) {
                Node::Binary(Operation::Add, inner, last, _) => {
                    let sum = self.as_constant(last)?.checked_add(more)?;
                    let sum = self.constant(sum);
                    Some(self.make(Node::Binary(Operation::Add, inner, sum, view)))
                }
                _ => None,
            },
            (Operation::Multiply, Some(a), Some(b)) => Some(self.constant(a.checked_mul(b)?)),
            (Operation::Multiply, _, Some(1)) => Some(a),
            (Operation::Multiply, Some(1), _) => Some(b),
            _ => None,
        }
    }

    /// Two ways on which the same value was compared differently: what holds on both.
    fn common(&self, a: Id, b: Id) -> Option<Id> {
        let chain = |mut id: Id| {
            let mut chain = vec![id];
            while let Node::Known(inner, ..) = self.get(id) {
                chain.push(inner);
                id = inner;
            }
            chain
        };
        let others = chain(b);
        chain(a).into_iter().find(|id| others.contains(id))
    }

    /// Whether `wanted` is met in an expression. Phis are not entered.
    pub(super) fn contains(&mut self, id: Id, wanted: &mut impl FnMut(Node) -> bool) -> bool {
        let mut seen = std::collections::HashSet::new();
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            self.work += 1;
            let node = self.get(id);
            if wanted(node) {
                return true;
            }
            node.parts(&mut |part| {
                if seen.insert(part) {
                    waiting.push(part);
                }
            });
        }
        false
    }

    /// The expression with other nodes in the place of some: what `instead` names is replaced and not entered.
    pub(super) fn replaced(
        &mut self,
        id: Id,
        instead: &impl Fn(Id, Node) -> Option<Id>,
        done: &mut HashMap<Id, Id>,
    ) -> Id {
        // Without recursion: a kernel may add a thousand numbers in a row.
        let mut waiting = vec![(id, false)];
        while let Some((id, are_parts_done)) = waiting.pop() {
            if done.contains_key(&id) {
                continue;
            }
            self.work += 1;
            let node = self.get(id);
            if let Some(other) = instead(id, node) {
                done.insert(id, other);
            } else if are_parts_done {
                let other = node.with(|part| done.get(&part).copied().unwrap_or(part));
                let new = if other == node { id } else { self.make(other) };
                done.insert(id, new);
            } else {
                waiting.push((id, true));
                node.parts(&mut |part| waiting.push((part, false)));
            }
        }
        done.get(&id).copied().unwrap_or(id)
    }
}
