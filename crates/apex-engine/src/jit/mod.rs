//! The fast tier: kernels as machine code.
//!
//! One function is made for a kernel and one size of its blocks, because then most of
//! `%tid` is known to be even over a warp ([`shape`]). It runs a whole warp on vectors, with
//! the lanes together; where they part, or for what is not translated, it stops and the
//! interpreter goes on, on the same register file ([`flow`] says where). Cranelift is used
//! without its optimiser, which moves loads away from where they are wanted; what pays
//! (addresses computed once for a warp, values kept over barriers) is decided here.
//!
//! Whatever goes wrong while compiling, the answer is `None` and the kernel is interpreted.

mod access;
mod address;
pub(crate) mod anchor;
pub(crate) mod assemble;
mod bound;
mod codemem;
mod compare;
mod compute;
mod control;
mod convert;
pub(crate) mod emit;
mod exchange;
mod float;
pub(crate) mod flow;
mod integer;
mod masked;
mod mbarrier;
mod native;
mod parted;
mod permute;
mod predicate;
mod print;
mod raw;
mod reach;
mod region;
mod result;
mod settle;
pub(crate) mod shape;
mod shift;
pub(crate) mod source;
mod stop;
mod store;
mod ternary;
mod toucher;
mod value;
mod write;

use crate::code::{Code, Pc};
use crate::frame::{BlockFrame, Compiled, FastTier, Reach, Toucher, WarpFrame};
use crate::window::Window;
use assemble::{isa, straight};
use codemem::CodeMemory;
use cranelift_codegen::Context;
use cranelift_codegen::isa::OwnedTargetIsa;
use emit::Tables;
use flow::Flow;
use shape::Shapes;
use std::collections::HashMap;
use std::rc::Rc;

/// Larger kernels are interpreted: compiling them would take longer than most launches.
const MOST_STEPS: usize = 20_000;
/// Largest product of steps and vectors per step worth the time.
const MOST_WORK: usize = 200_000;

/// Executes one step for all lanes of a warp; not 0 after a fault.
pub(crate) type StepFunction =
    unsafe extern "C" fn(block: *mut BlockFrame, warp: *mut WarpFrame, pc: Pc) -> u32;

/// Takes lanes that wait at different steps.
pub(crate) type PartFunction = unsafe extern "C" fn(
    warp: *mut WarpFrame,
    places: *const Pc,
    masks: *const u32,
    count: u32,
) -> u32;

/// Asks whether the lanes of a mask may touch what lies outside of the window; keeps every register, and comes back
/// only when they may.
pub(crate) type AskFunction = unsafe extern "C" fn(
    block: *mut BlockFrame,
    warp: *mut WarpFrame,
    at: u64,
    mask: u32,
    access: *const Reach,
);

/// What compiled code calls.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    pub(crate) step: StepFunction,
    pub(crate) part: PartFunction,
    pub(crate) ask: AskFunction,
}

/// What is to be compiled, and for what.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) code: &'a Code,
    /// The size of blocks.
    pub(crate) threads: [u32; 3],
    /// Lanes of the warps it is for: all, or those of a block's last warp where that is not whole.
    pub(crate) lanes: u32,
    /// Where device memory lies.
    pub(crate) window: Option<Window>,
    /// Parameters that addresses are near to are taken to lie in the window.
    pub(crate) trusting: bool,
    pub(crate) steps: Steps,
    /// How far the frames of warps lie apart.
    pub(crate) warp_bytes: usize,
}

/// A kernel on its way to machine code. Passes fill it from above to below.
pub(crate) struct Compilation<'a> {
    job: Job<'a>,
    isa: &'static OwnedTargetIsa,
    shapes: Option<Rc<Shapes<'a>>>,
    flow: Option<Flow<'a>>,
    /// The one step that writes a register, see [`anchor`].
    writers: Vec<Option<Pc>>,
    /// The function in Cranelift's terms, then its machine code.
    context: Context,
    tables: Tables,
    memory: Option<CodeMemory>,
    /// Offset of the first instruction of a run, and whose it is, see [`toucher`].
    sources: Vec<(u32, u32)>,
}

impl<'a> Compilation<'a> {
    /// Before the first pass; `None` for what is not compiled.
    pub(crate) fn new(job: Job<'a>) -> Option<Self> {
        let code = job.code;
        let width = code.width as usize;
        let work = code.steps.len() * width / 4;
        if code.steps.is_empty() || code.steps.len() > MOST_STEPS || work > MOST_WORK {
            return None;
        }
        let lanes = 1..=code.width;
        if !matches!(width, 16 | 32) || job.threads.contains(&0) || !lanes.contains(&job.lanes) {
            return None;
        }
        Some(Compilation {
            isa: isa(straight(code))?,
            job,
            shapes: None,
            flow: None,
            writers: Vec::new(),
            context: Context::new(),
            tables: Tables::default(),
            memory: None,
            sources: Vec::new(),
        })
    }

    /// Has Cranelift keep the text of the machine code, for a dump.
    pub(crate) fn keep_text(&mut self) {
        self.context.set_disasm(true);
    }

    /// What came out, after the last pass.
    pub(crate) fn finish(self) -> Option<FastCode> {
        let code = self.job.code;
        let entries = self.flow?.entries;
        let entries = entries
            .iter()
            .enumerate()
            .map(|(number, &block)| (code.blocks[block as usize].steps.start, number as u32))
            .collect();
        Some(FastCode {
            memory: self.memory?,
            entries,
            steps: self.sources,
            window: self.job.window,
            tables: self.tables,
        })
    }
}

/// A kernel's machine code for one size of blocks.
pub(crate) struct FastCode {
    memory: CodeMemory,
    entries: HashMap<Pc, u32>,
    /// Offset of the first instruction of a run, and whose it is, see [`toucher`].
    steps: Vec<(u32, u32)>,
    window: Option<Window>,
    /// The code holds addresses of these.
    tables: Tables,
}

impl FastCode {
    fn function(&self) -> Compiled {
        // SAFETY: the memory holds a function of this signature, made by `compile`; whoever
        // calls it keeps `self`.
        unsafe { std::mem::transmute::<*const u8, Compiled>(self.memory.start()) }
    }

    fn suits(&self, window: Option<Window>, params: &[u8]) -> bool {
        let inside = |window: Window| {
            self.tables.trusted.iter().all(|&offset| {
                let word = params.get(offset as usize..).and_then(|rest| rest.first_chunk());
                word.is_some_and(|word| window.holds(u64::from_le_bytes(*word)))
            })
        };
        window == self.window && window.is_none_or(inside)
    }

    fn step_at(&self, host: usize) -> Option<(Pc, Toucher)> {
        let offset = self.memory.offset(host)?;
        let after = self.steps.partition_point(|&(start, _)| start <= offset);
        after.checked_sub(1).map(|index| toucher::read(self.steps[index].1))
    }
}

/// The machine code of a kernel: for whole warps, and for the last one where that is not whole. Both have the same
/// entries, because these do not depend on how many lanes there are.
pub(crate) struct FastCodes {
    /// By the number of lanes.
    codes: Vec<(u32, FastCode)>,
}

impl FastCodes {
    /// Of what was made by number of lanes, at least one.
    pub(crate) fn new(codes: Vec<(u32, FastCode)>) -> Option<Self> {
        (!codes.is_empty()).then_some(FastCodes { codes })
    }
}

impl FastTier for FastCodes {
    fn entry(&self, pc: Pc) -> Option<u32> {
        self.codes.first()?.1.entries.get(&pc).copied()
    }

    fn function(&self, lanes: u32) -> Option<Compiled> {
        let code = self.codes.iter().find(|(count, _)| *count == lanes);
        code.map(|(_, code)| code.function())
    }

    fn suits(&self, window: Option<Window>, params: &[u8]) -> bool {
        self.codes.iter().all(|(_, code)| code.suits(window, params))
    }

    fn step_at(&self, host: usize) -> Option<(Pc, Toucher)> {
        self.codes.iter().find_map(|(_, code)| code.step_at(host))
    }
}
