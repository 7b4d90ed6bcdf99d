//! The state of a block and of its warps, as data.
//!
//! Both tiers work on these; compiled code reads the fields at fixed offsets, so the
//! structures are `repr(C)` and hold plain numbers. A warp that stops (at a barrier, out
//! of fuel, on divergence) is nothing but its [`WarpFrame`] and its register file: no
//! thread stack belongs to it, and any worker may go on with it.

use crate::code::Pc;

/// What all threads of a block share.
#[derive(Debug)]
#[repr(C)]
pub struct BlockFrame {
    /// The launch's parameters.
    pub params: *const u8,
    /// Start of the block's shared memory.
    pub shared: *mut u8,
    /// Its bytes: static, then dynamic.
    pub shared_bytes: u32,
    /// Of these, dynamic.
    pub dynamic_shared_bytes: u32,
    /// `%ctaid`.
    pub block: [u32; 3],
    /// `%nctaid`.
    pub grid: [u32; 3],
    /// `%ntid`.
    pub threads: [u32; 3],
    /// `%cluster_nctaid`.
    pub cluster: [u32; 3],
    /// `%smid`: the worker.
    pub sm: u32,
    /// `%nsmid`.
    pub sms: u32,
    /// Back edges that may still be taken before the warp yields; compiled code counts down.
    pub fuel: i64,
    /// The rest of the engine's view of this block; compiled code hands it on to helpers and never looks inside.
    pub runner: *mut core::ffi::c_void,
}

/// One warp.
#[derive(Debug)]
#[repr(C)]
pub struct WarpFrame {
    /// The register file, laid out by `Code::registers`, 64-byte aligned.
    pub registers: *mut u8,
    /// Local memory of lane 0; lane `n` is `n * local_stride` further.
    pub local: *mut u8,
    /// Bytes between lanes.
    pub local_stride: u64,
    /// Linear number in the block of lane 0: a multiple of the code's width.
    pub first_thread: u32,
    /// Number of the warp in the block.
    pub index: u32,
    /// Lanes that exist.
    pub lanes: u32,
    /// Where the warp goes on, when all its lanes are together.
    pub pc: Pc,
}

/// Why compiled code came back; in the upper half of its result, the [`Pc`] in the lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Stop {
    /// All lanes are done.
    Exit = 0,
    /// At a barrier step: the scheduler executes it; the warp enters again at the next block.
    Barrier = 1,
    /// Lanes part here, or the step is one the compiler leaves to the interpreter: it goes on at this step
    /// with all lanes, until they are together at an entry of the compiled code.
    HandOver = 2,
    /// Out of fuel, at an entry.
    Yield = 3,
    /// A helper reported a fault.
    Fault = 4,
}

/// A compiled kernel: takes a warp whose lanes are all there and together, at one of its entries.
pub type Compiled =
    unsafe extern "C" fn(block: *mut BlockFrame, warp: *mut WarpFrame, entry: u32) -> u64;
