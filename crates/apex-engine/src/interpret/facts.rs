//! What all blocks of a launch share.

use crate::check::Findings;
use crate::code::{Code, Inst, Order, Pc, Space};
use crate::device::Device;
use crate::frame::{Compiled, FastTier, Later};
use crate::kernel::Kernel;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Not an entry of the compiled code.
pub(crate) const NO_ENTRY: u32 = u32::MAX;

/// What cooperative groups expect at the address in `%envreg1` (high) and `%envreg2` (low):
/// the size of the workspace, then the grid's barrier.
#[repr(C, align(64))]
pub(crate) struct Workspace {
    bytes: u32,
    barrier: u32,
    rest: [u32; 62],
}

impl Workspace {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Workspace { bytes: size_of::<Self>() as u32, barrier: 0, rest: [0; 62] })
    }
}

/// The compiled code of a launch.
pub(crate) struct Tier {
    pub(crate) fast: Arc<dyn FastTier>,
    /// Its entry for each step, or [`NO_ENTRY`].
    pub(crate) entries: Vec<u32>,
    /// For whole warps, and how many of these a block has.
    pub(crate) whole: Option<Compiled>,
    pub(crate) whole_warps: usize,
    /// For the last warp where that is not whole.
    pub(crate) last: Option<Compiled>,
    /// Every warp can run compiled code.
    pub(crate) runs_all: bool,
}

impl Tier {
    fn new(fast: Arc<dyn FastTier>, code: &Code, threads: u32) -> Tier {
        let mut entries = vec![NO_ENTRY; code.steps.len()];
        // Compiled code is entered at the start of a block.
        for start in code.blocks.iter().map(|block| block.steps.start) {
            if let (Some(entry), Some(place)) = (fast.entry(start), entries.get_mut(start as usize))
            {
                *place = entry;
            }
        }
        let width = code.width.max(1);
        let (whole_warps, rest) = ((threads / width) as usize, threads % width);
        let whole = fast.function(width);
        let last = fast.function(rest);
        let runs_all = (whole.is_some() || whole_warps == 0) && (last.is_some() || rest == 0);
        Tier { fast, entries, whole, whole_warps, last, runs_all }
    }

    /// Blocks can begin with all warps in compiled code.
    pub(crate) fn starts(&self) -> bool {
        self.runs_all && self.entry(0).is_some()
    }

    /// The entry at a step.
    pub(crate) fn entry(&self, pc: Pc) -> Option<u32> {
        self.entries.get(pc as usize).copied().filter(|&entry| entry != NO_ENTRY)
    }
}

/// The launch, as every block sees it.
pub(crate) struct Facts {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) device: Arc<Device>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) dynamic_shared: u32,
    /// Parameters, aligned for every type.
    params: Vec<u128>,
    pub(crate) workspace: Option<Box<Workspace>>,
    pub(crate) grid_id: u64,
    /// The compiled code, from the start or once it pays.
    tier: OnceLock<Tier>,
    /// Where it comes from.
    later: Option<Box<dyn Later>>,
    /// Steps of warps that a worker interprets before it asks for compiled code.
    patience: AtomicU64,
    /// See [`Self::polls`]; most launches never ask.
    polls: OnceLock<bool>,
    pub(crate) stop: AtomicBool,
    pub(crate) findings: Findings,
    pub(crate) started: Instant,
}

impl Facts {
    pub(crate) fn new(
        launch: crate::kernel::Launch,
        device: Arc<Device>,
        fast: Option<Arc<dyn FastTier>>,
        later: Option<Box<dyn Later>>,
    ) -> Facts {
        static GRIDS: AtomicU64 = AtomicU64::new(1);
        let mut params = vec![0u128; launch.params.len().div_ceil(16)];
        for (word, bytes) in params.iter_mut().zip(launch.params.chunks(16)) {
            let mut full = [0u8; 16];
            full[..bytes.len()].copy_from_slice(bytes);
            *word = u128::from_le_bytes(full);
        }
        let threads: u32 = launch.block.iter().product();
        let code = &launch.kernel.code;
        let tier = fast.map_or_else(OnceLock::new, |fast| Tier::new(fast, code, threads).into());
        let patience = later.as_ref().map_or(u64::MAX, |later| later.patience());
        Facts {
            polls: OnceLock::new(),
            workspace: launch.cooperative.then(Workspace::new),
            kernel: launch.kernel,
            device,
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            dynamic_shared: launch.dynamic_shared,
            params,
            grid_id: GRIDS.fetch_add(1, Ordering::Relaxed),
            tier,
            later,
            patience: patience.into(),
            stop: AtomicBool::new(false),
            findings: Findings::default(),
            started: Instant::now(),
        }
    }

    /// The compiled code, once there is some.
    #[inline]
    pub(crate) fn tier(&self) -> Option<&Tier> {
        self.tier.get()
    }

    /// A worker has interpreted so many steps of warps since it last told. True when there is compiled code now, which
    /// there was not before.
    #[inline]
    pub(crate) fn warms(&self, steps: u64) -> bool {
        steps >= self.patience.load(Ordering::Relaxed) && self.compile()
    }

    #[cold]
    fn compile(&self) -> bool {
        // One worker compiles; the others go on meanwhile.
        if self.patience.swap(u64::MAX, Ordering::Relaxed) == u64::MAX {
            return false;
        }
        let fast = self.later.as_ref().and_then(|later| later.form());
        let tier = fast.map(|fast| Tier::new(fast, self.code(), self.threads()));
        tier.is_some_and(|tier| self.tier.set(tier).is_ok())
    }

    /// A worker tells how many steps of warps it has interpreted.
    pub(crate) fn interpreted(&self, steps: u64) {
        let Some(later) = self.later.as_ref().filter(|_| steps > 0) else { return };
        later.add(steps);
        let less = |patience: u64| (patience != u64::MAX).then(|| patience.saturating_sub(steps));
        // Nothing is wrong where compiling has begun meanwhile.
        let _ = self.patience.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    pub(crate) fn code(&self) -> &Code {
        &self.kernel.code
    }

    pub(crate) fn params(&self) -> *const u8 {
        self.params.as_ptr().cast()
    }

    /// Whether the kernel looks at memory that other blocks may change while it runs.
    pub(crate) fn polls(&self) -> bool {
        *self.polls.get_or_init(|| {
            self.code().steps.iter().any(|step| match &step.inst {
                Inst::Load { order, space, .. } => *order != Order::Weak && *space != Space::Shared,
                Inst::Atom { dsts, space, .. } => !dsts.is_empty() && *space != Space::Shared,
                Inst::Yield => true,
                // Another block of the cluster may be who arrives.
                Inst::Mbarrier(_) => self.cluster_blocks() > 1,
                _ => false,
            })
        })
    }

    /// Whether an address lies in the workspace of a cooperative launch.
    pub(crate) fn workspace_holds(&self, address: u64) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| {
            address.wrapping_sub(&raw const **workspace as u64) < size_of::<Workspace>() as u64
        })
    }

    /// `%ctaid` of the block of a number.
    pub(crate) fn place(&self, number: u64) -> [u32; 3] {
        let [width, height, _] = self.grid.map(u64::from);
        let row = number / width;
        [number % width, row % height, row / height].map(|n| n as u32)
    }

    /// `%ctaid` of the block after another.
    pub(crate) fn place_after(&self, [x, y, z]: [u32; 3]) -> [u32; 3] {
        let [width, height, _] = self.grid;
        match () {
            () if x + 1 < width => [x + 1, y, z],
            () if y + 1 < height => [0, y + 1, z],
            () => [0, 0, z + 1],
        }
    }

    pub(crate) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    pub(crate) fn cluster_blocks(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Bytes of shared memory of a block: static, then dynamic, which begins aligned.
    pub(crate) fn shared_bytes(&self) -> u32 {
        self.kernel.static_shared + self.dynamic_shared
    }
}
