//! From the tree of a PTX module to [`Code`], one kernel at a time.
//!
//! A kernel on its way is a [`Lowering`]; each pass has a file here and changes it. Which pass comes when, and what
//! it needs, stands in one list: [`crate::passes`]. Names are settled and functions taken in while the instructions
//! are translated; what comes out is a list of steps with labels, then a graph of blocks, then code. An
//! instruction that is not understood is a [`Refusal`]: its kernel cannot run, and everything else of the module can.

pub(crate) mod calls;
pub(crate) mod clean;
mod components;
pub(crate) mod constants;
mod dominators;
mod draft;
pub(crate) mod emit;
pub(crate) mod file;
pub(crate) mod frames;
pub(crate) mod graph;
pub(crate) mod live;
pub(crate) mod order;
mod print;
mod program;
pub(crate) mod promote;
pub(crate) mod translate;
pub(crate) mod turns;
pub(crate) mod width;
mod words;

pub(crate) use program::{Home, Program, Symbol, each_variable, is_defined, is_kernel};

use crate::code::{Code, Inst, Reg, Step};
use draft::{Draft, Slot};
use graph::Graph;
use std::collections::HashMap;
use std::ops::Range;

/// Why an instruction cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "refused: {}", self.0)
    }
}

/// What a pass gives.
pub(crate) type Outcome<T = ()> = Result<T, Refusal>;

/// Refuses with a reason.
fn refuse<T>(reason: impl Into<String>) -> Outcome<T> {
    Err(Refusal(reason.into()))
}

/// A kernel on its way from the tree to code. Passes fill it from above to below.
pub(crate) struct Lowering<'p, 't> {
    program: &'p Program<'t>,
    /// Which function of the program is the kernel.
    kernel: usize,
    /// Steps with labels, until they are cut into blocks; registers and shared memory for all passes.
    draft: Draft,
    /// The kernel first, then the functions it calls.
    functions: Vec<GraphedFunction>,
    /// What registers stand for that are known only when frames are laid out.
    constants: HashMap<Reg, u64>,
    /// Most 32-bit registers alive at one time.
    pressure: u32,
    code: Code,
}

/// A function's blocks with what is known of them.
struct GraphedFunction {
    /// Which function of the program.
    function: usize,
    graph: Graph,
    /// Its variables that are in memory.
    slots: Vec<Slot>,
    /// Whether a call in it can come back to it.
    recursive: bool,
    /// Bytes of its frame.
    frame: u32,
    /// Its nodes in the order of execution.
    order: Vec<usize>,
    /// Registers alive at the start of each node.
    live_in: Vec<Vec<Reg>>,
    /// Its blocks in the code.
    blocks: Range<usize>,
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

impl<'p, 't> Lowering<'p, 't> {
    /// The kernel of this index in the program, before the first pass.
    pub(crate) fn new(program: &'p Program<'t>, kernel: usize) -> Self {
        Lowering {
            program,
            kernel,
            draft: Draft::default(),
            functions: Vec::new(),
            constants: HashMap::new(),
            pressure: 0,
            code: Code::default(),
        }
    }

    /// The kernel's name.
    pub(crate) fn name(&self) -> &'t str {
        &self.program.functions[self.kernel].name
    }

    /// What came out, after the last pass.
    pub(crate) fn finish(self) -> Lowered {
        /// Registers that the convention of calls takes at least.
        const CALLING_REGISTERS: u32 = 24;
        let calls = |step: &Step| matches!(step.inst, Inst::Call { .. } | Inst::System { .. });
        let least = if self.code.steps.iter().any(calls) { CALLING_REGISTERS } else { 8 };
        // Addresses and the like: ptxas needs some more than are alive, in pairs.
        let registers = (self.pressure + 4).next_multiple_of(2).clamp(least, 255);
        Lowered { code: self.code, static_shared: self.draft.static_shared, registers }
    }
}
