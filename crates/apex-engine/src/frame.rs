//! The state of a block and of its warps, as data.
//!
//! Both tiers work on these; compiled code reads the fields at fixed offsets, so the
//! structures are `repr(C)` and hold plain numbers. A warp that stops (at a barrier, out
//! of fuel, on divergence) is nothing but its [`WarpFrame`] and its register file: no
//! thread stack belongs to it, and any worker may go on with it.

use crate::code::Pc;
use crate::window::Window;
use std::sync::Arc;

/// Back edges a warp may take in one turn.
pub const TURN_FUEL: i64 = 1 << 13;

/// What asking an mbarrier in vain costs in back edges: others should have their turn soon.
pub const WAIT_COST: i64 = 512;

/// In [`BlockFrame::stopped`]: no warp has stopped yet.
pub const NOT_STOPPED: u64 = u64::MAX;

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
    /// What the warps before the current one burnt in this call of compiled code.
    pub burnt: i64,
    /// The warp whose turn it is; compiled code moves it on.
    pub warp: *mut WarpFrame,
    /// The last warp that this call of compiled code is for.
    pub last_warp: *mut WarpFrame,
    /// How the first warp of this call stopped.
    pub stopped: u64,
    /// The rest of the engine's view of this block; compiled code hands it on to helpers and never looks inside.
    pub runner: *mut core::ffi::c_void,
    /// Start of the memory that belongs to this block alone: shared, registers, local.
    pub own: *const u8,
    /// Its bytes.
    pub own_bytes: u64,
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
    /// Lanes that exist and have not ended, as a mask.
    pub lanes: u32,
    /// Where the warp goes on, when all its lanes are together.
    pub pc: Pc,
    /// Not 0 while compiled code alone may go on: it left registers that are even over the
    /// lanes with only lane 0 written. It ends this itself before it hands over.
    pub compact: u32,
    /// The lane whose turn it is where compiled code goes through them one by one.
    pub lane: u32,
}

/// For which lane a machine instruction touches memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toucher {
    /// Not known.
    Unknown,
    /// This lane, and those after it that lie beside it.
    Lane(u32),
    /// That of [`WarpFrame::lane`].
    InFrame,
}

/// An access of a warp about which compiled code asks before it is made: the lowest lane's address lies
/// outside of the window of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Reach {
    /// The step.
    pub pc: Pc,
    /// Bytes that each lane touches.
    pub bytes: u32,
    /// Added to every address.
    pub offset: i64,
    /// From lane to lane; `None` where each lane has its own address.
    pub stride: Option<i64>,
}

/// Why compiled code came back; in the upper half of its result, the [`Pc`] in the lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Stop {
    /// All lanes are done; the [`Pc`] is 0.
    Exit = 0,
    /// At a barrier step: the scheduler executes it; the warp enters again at the next block.
    Barrier = 1,
    /// Lanes part here, or the step is one the compiler leaves to the interpreter: it goes on at this step
    /// with all lanes, until they are together at an entry of the compiled code.
    HandOver = 2,
    /// Out of fuel, or for the other warps; at an entry.
    Yield = 3,
    /// A helper reported a fault.
    Fault = 4,
    /// Lanes stand at different steps, which [`crate::interpret::part`] was told.
    Parted = 5,
}

/// A compiled kernel: takes warps whose lanes, as many as it was made for, are all there and together, at one of its entries.
///
/// It begins with `warp` and goes on with the next, up to [`BlockFrame::last_warp`], while they
/// stop as the first did: at their end, at the same barrier, or for want of fuel at the same step.
/// The result is the stop of [`BlockFrame::warp`], the first to stop in another way or the last.
/// So a block whose warps keep together costs one call.
pub type Compiled =
    unsafe extern "C" fn(block: *mut BlockFrame, warp: *mut WarpFrame, entry: u32) -> u64;

/// Where the compiled form of a launch comes from that began without one.
pub(crate) trait Later: Send + Sync {
    /// Steps of warps that may be interpreted before it is worth it.
    fn patience(&self) -> u64;

    /// So many steps of warps were interpreted.
    fn add(&self, steps: u64);

    /// Makes it, or finds it.
    fn form(&self) -> Option<Arc<dyn FastTier>>;
}

/// The compiled form of a kernel, as the grid uses it.
///
/// Whenever the lanes of a warp that have not ended are all together at a step for which
/// [`entry`](Self::entry) answers, the scheduler writes these lanes to [`WarpFrame::lanes`]
/// and calls [`function`](Self::function); everything else is interpreted. A step the
/// compiler does not translate is executed for all of [`WarpFrame::lanes`] by
/// [`crate::interpret::step`].
pub trait FastTier: Send + Sync {
    /// The number to enter with at this step, when it is an entry.
    fn entry(&self, pc: Pc) -> Option<u32>;

    /// The compiled code for warps of so many lanes, where there is some.
    fn function(&self, lanes: u32) -> Option<Compiled>;

    /// Whether it may be used for a launch: it was made for this window of device memory, and the parameters
    /// that it trusts lie there.
    fn suits(&self, window: Option<Window>, params: &[u8]) -> bool;

    /// The step to which the machine instruction at a host address belongs, and for whom it touches memory: a memory
    /// fault in compiled code is reported with them.
    fn step_at(&self, host: usize) -> Option<(Pc, Toucher)>;
}
