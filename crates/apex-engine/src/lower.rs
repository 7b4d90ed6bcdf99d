//! From the tree of a PTX module to [`Code`], one kernel at a time.
//!
//! Names are settled and functions taken in while the instructions are translated
//! ([`translate`]); what comes out is a list of steps with labels. That list becomes a graph of
//! blocks ([`graph`]), is cleaned ([`clean`]), put in the order execution wants ([`order`]) and
//! given its places in the register file ([`place`]). An instruction that is not understood is a
//! [`Refusal`]: its kernel cannot run, and everything else of the module can.

mod clean;
mod file;
mod graph;
mod live;
pub(crate) mod operands;
mod order;
mod place;
mod print;
mod program;
mod promote;
mod translate;
mod turns;
mod width;
mod words;

pub(crate) use operands::{reads, writes};
pub(crate) use program::{Home, Program, Symbol, each_variable, is_defined, is_kernel};

use crate::code::Code;

/// Why an instruction cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

/// What translating gives.
pub(crate) type Outcome<T = ()> = Result<T, Refusal>;

/// Refuses with a reason.
fn refuse<T>(reason: impl Into<String>) -> Outcome<T> {
    Err(Refusal(reason.into()))
}

/// A kernel's code and what is known of it.
#[derive(Debug, Default)]
pub(crate) struct Lowered {
    /// What is executed.
    pub(crate) code: Code,
    /// Bytes of static shared memory.
    pub(crate) static_shared: u32,
    /// Registers per thread that ptxas might give it.
    pub(crate) registers: u32,
}

/// Lowers the kernel of this index in the program.
pub(crate) fn kernel(program: &Program<'_>, index: usize) -> Outcome<Lowered> {
    let draft = translate::kernel(program, index)?;
    place::finish(draft)
}
