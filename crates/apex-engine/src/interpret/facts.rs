//! What all blocks of a launch share.

use crate::check::Findings;
use crate::code::{Code, Inst, Order, Space};
use crate::device::Device;
use crate::frame::FastTier;
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
    pub(crate) fast: Option<Arc<dyn FastTier>>,
    /// Entry of the compiled code for each step, or [`NO_ENTRY`]; empty without it.
    pub(crate) entries: Vec<u32>,
    /// Every warp has all its lanes and can begin in compiled code.
    pub(crate) whole_warps: bool,
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
    ) -> Facts {
        static GRIDS: AtomicU64 = AtomicU64::new(1);
        let mut params = vec![0u128; launch.params.len().div_ceil(16)];
        for (word, bytes) in params.iter_mut().zip(launch.params.chunks(16)) {
            let mut full = [0u8; 16];
            full[..bytes.len()].copy_from_slice(bytes);
            *word = u128::from_le_bytes(full);
        }
        let entries = fast.as_ref().map_or_else(Vec::new, |fast| {
            let code = &launch.kernel.code;
            let mut entries = vec![NO_ENTRY; code.steps.len()];
            // Compiled code is entered at the start of a block.
            for start in code.blocks.iter().map(|block| block.steps.start) {
                if let (Some(entry), Some(place)) =
                    (fast.entry(start), entries.get_mut(start as usize))
                {
                    *place = entry;
                }
            }
            entries
        });
        let threads: u32 = launch.block.iter().product();
        let width = launch.kernel.code.width.max(1);
        let starts = entries.first().is_some_and(|&entry| entry != NO_ENTRY);
        Facts {
            whole_warps: starts && threads.is_multiple_of(width),
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
            fast,
            entries,
            stop: AtomicBool::new(false),
            findings: Findings::default(),
            started: Instant::now(),
        }
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
