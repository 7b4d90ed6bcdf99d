//! What an instruction is to the walk: what it does with integers, and where it leads.
//!
//! These are plain words that all of the walk shares; they know nothing of how a text is read.

use crate::mix::Category;

/// A register by its place among those of the function.
pub(super) type RegisterIndex = usize;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Source {
    Register(RegisterIndex),
    Value(u64),
    Special(Special),
    Unknown,
}

/// What only the launch and the thread's place tell; the number is the axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Special {
    Thread(usize),
    Threads(usize),
    Block(usize),
    Blocks(usize),
    Lane,
}

/// What integers become.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operation {
    Move,
    Add,
    Subtract,
    Multiply,
    MultiplyHigh,
    MultiplyAdd,
    And,
    Or,
    Xor,
    Not,
    Negative,
    ShiftLeft,
    ShiftRight,
    Least,
    Most,
    Quotient,
    Remainder,
    Select,
    Extract,
    Insert,
    Funnel,
    Ones,
}

/// How two integers are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How operands and results are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Form {
    /// Bits of the operands; 1 for a predicate.
    pub(super) bits: u32,
    /// Bits of the result.
    pub(super) to_bits: u32,
    pub(super) signed: bool,
}

/// Memory that an instruction reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Memory {
    Global,
    Shared,
    Constant,
    Local,
}

/// What an instruction does, as far as the walk follows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act {
    Integer(Operation, Form),
    Compare(Comparison, Form),
    /// A parameter's value, by its number.
    Parameter(usize),
    Branch(usize),
    End,
    Load(Memory, u64),
    Store(Memory, u64),
    /// Whether lanes that meet are added up on the way, which only integers are.
    Atomic(Memory, bool),
    Barrier,
    Other,
}

/// One instruction.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The predicate it needs, and whether that must be false.
    pub(super) guard: Option<(RegisterIndex, bool)>,
    pub(super) act: Act,
    pub(super) to: Vec<RegisterIndex>,
    pub(super) from: Vec<Source>,
    /// Bytes added to an address.
    pub(super) offset: i64,
    pub(super) category: Category,
    /// Instructions of the hardware that it takes, about.
    pub(super) weight: f32,
    /// Floating-point operations of a lane.
    pub(super) flops: f32,
    /// Whether it is a branch past a loop that only odd numbers need: what a routine does where an argument is too
    /// large for the short way.
    pub(super) past_odd: bool,
    /// Cycles until its result can be used; of a global load nothing, because it counts apart.
    pub(super) latency: f32,
}

/// A loop by its text: from where a branch leads back to, to that branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loop {
    pub(super) first: usize,
    pub(super) last: usize,
}
