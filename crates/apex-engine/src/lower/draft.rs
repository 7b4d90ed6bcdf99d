//! A kernel as translating leaves it: steps in a row, with labels.
//!
//! In a body, targets of branches are labels. A variable of the function (`.local`, `.param`) is a [`Slot`]: it
//! has a register of its own that stands for its address, so that later passes see whether the address is ever
//! used for anything but loads and stores ([`super::promote`]).

use crate::code::{Class, Reg, Step};

/// A kernel with its functions, as steps with labels.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// The kernel first, then the functions it calls.
    pub(super) bodies: Vec<Body>,
    /// All registers.
    pub(super) registers: Vec<RegisterFacts>,
    /// Bytes of static shared memory.
    pub(super) static_shared: u32,
    /// Register that stands for the start of dynamic shared memory, when it is used.
    pub(super) dynamic_shared: Option<Reg>,
    /// Register that stands for the area by which arguments are handed over, and its bytes.
    pub(super) arguments: Option<(Reg, u32)>,
}

/// One function's steps.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Which function of the program.
    pub(super) function: usize,
    /// Steps; targets of branches are labels.
    pub(super) steps: Vec<Step>,
    /// Index of the step before which each label stands.
    pub(super) labels: Vec<u32>,
    /// Its variables.
    pub(super) slots: Vec<Slot>,
    /// Whether a call in it can come back to it.
    pub(super) recursive: bool,
}

/// A variable of a function, in local memory unless it can live in registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Stands for its address.
    pub(super) base: Reg,
    /// Its size.
    pub(super) bytes: u32,
    /// Its alignment.
    pub(super) align: u32,
}

/// What is known of a register.
#[derive(Debug, Clone, Copy)]
pub(super) struct RegisterFacts {
    /// How it is stored.
    pub(super) class: Class,
    /// Made by lowering for one instruction: written before it is read, under the same guard.
    pub(super) temporary: bool,
}

/// What hardware gives a thread of local memory.
pub(super) const MOST_LOCAL: u32 = 512 << 10;
