//! One block: its warps, its barriers, its memory.
//!
//! A block is run by one worker at a time and can stop after any warp's turn; all of it
//! lies in this structure. Barriers count threads one by one, so divergent arrival works;
//! threads that ended count as arrived.

use super::blame::Blame;
use super::checked::checker;
use super::context::{Context, Stopped};
use super::facts::{Facts, Tier};
use super::file::File;
use super::memory::RANK_SHIFT;
use super::special::thread_of;
use super::warp::{Pause, State, Warp};
use crate::check::Checker;
use crate::code::{BarrierMode, LANES, Pc, Space};
use crate::fault::Fault;
use crate::fault::guard::{self, MemoryFault};
use crate::frame::{BlockFrame, NOT_STOPPED, TURN_FUEL, WarpFrame};
use crate::interpret::arena::Arena;
use crate::site::Site;
use std::ffi::c_void;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a poll costs in back edges: a loop made of polls is waiting, and should yield soon.
const POLL_COST: i64 = 1024;

/// Named barriers of a block.
const BARRIERS: usize = 16;

/// Where the blocks of a cluster meet, and where their shared memory lies.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    /// Completed barriers.
    pub(crate) phase: u32,
    pub(crate) arrived: u32,
    /// Threads that have not ended.
    pub(crate) live: u32,
    /// Shared memory by rank: base and bytes.
    pub(crate) shared: Vec<(u64, u32)>,
}

impl Cluster {
    /// Before its blocks start.
    pub(crate) fn begin(&mut self, threads: u32) {
        self.live = threads;
        self.arrived = 0;
        self.phase = 0;
    }

    fn settle(&mut self) {
        if self.arrived >= self.live && self.arrived > 0 {
            self.phase += 1;
            self.arrived = 0;
        }
    }
}

/// One named barrier.
#[derive(Debug, Default)]
struct Barrier {
    /// Threads that complete it; `None` means all of the block.
    threads: Option<u32>,
    /// Lanes that arrived, by warp.
    arrived: Vec<u32>,
    count: u32,
    yes: u32,
    all: bool,
}

/// Why a block stopped running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    /// All threads ended.
    Done,
    /// Its time is over; it goes on later.
    Suspended,
    /// Waits for other blocks of its cluster.
    Waiting,
    /// It failed; see [`BlockRun::fault`].
    Failed,
}

/// A block under way.
#[repr(C)]
pub(crate) struct BlockRun {
    /// What compiled code sees; first, so that its address is the block's.
    pub(crate) frame: BlockFrame,
    facts: Arc<Facts>,
    pub(crate) warps: Vec<Warp>,
    barriers: Vec<Barrier>,
    live: u32,
    pub(crate) cluster: *mut Cluster,
    pub(crate) fault: Option<Fault>,
    pub(crate) checker: Option<Box<Checker>>,
    pub(crate) instructions: u64,
    /// Fuel burnt in this turn that does not count for the block's slice.
    free_fuel: i64,
    /// Where all warps stand whole in compiled code; their groups say nothing then.
    pub(super) round: Option<Pc>,
    /// No round is over yet: frames of warps that have not begun hold what the last block left.
    pub(super) fresh: bool,
    /// Warps ran one by one: the next block cannot rely on their frames.
    pub(super) single: bool,
    arena: Arena,
}

// SAFETY: the raw pointers lead into the block's own arena and to its cluster, which are
// handed from worker to worker together with it.
unsafe impl Send for BlockRun {}

impl BlockRun {
    /// Memory for a block of this launch; `None` when there is none left.
    pub(crate) fn new(facts: &Arc<Facts>) -> Option<Box<BlockRun>> {
        let code = facts.code();
        let width = code.width.clamp(1, LANES as u32);
        let count = facts.threads().div_ceil(width) as usize;
        let file_bytes = (code.file_bytes as usize).next_multiple_of(64);
        let stride = code.local_stride();
        // Registers end at a multiple of 64, which is enough for nearly all.
        let align = code.local_align.max(64) as usize;
        let room = if align > 64 { align } else { 0 };
        let shared_bytes = facts.shared_bytes() as usize;
        let shared_room = shared_bytes.next_multiple_of(1024);
        let local_bytes = stride * LANES;
        let total =
            (file_bytes + local_bytes).checked_mul(count)?.checked_add(shared_room + room)?;
        let arena = Arena::take(total.max(64))?;
        let base = arena.base();
        let shared = base;
        let identity = &facts.device.identity;
        let frame = BlockFrame {
            params: facts.params(),
            shared,
            shared_bytes: shared_bytes as u32,
            dynamic_shared_bytes: facts.dynamic_shared,
            block: [0; 3],
            grid: facts.grid,
            threads: facts.block,
            cluster: facts.cluster,
            own: base,
            own_bytes: arena.bytes() as u64,
            sm: 0,
            sms: identity.multiprocessors,
            fuel: 0,
            burnt: 0,
            warp: std::ptr::null_mut(),
            last_warp: std::ptr::null_mut(),
            stopped: NOT_STOPPED,
            runner: std::ptr::null_mut(),
        };
        let warps = (0..count)
            .map(|index| {
                let first_thread = index as u32 * width;
                let lanes = (facts.threads() - first_thread).min(width);
                // SAFETY: the arena holds all files, then all local memory, after shared.
                let (registers, local) = unsafe {
                    let files = base.add(shared_room);
                    let locals = files.add(file_bytes * count);
                    let locals = locals.add(locals.addr().next_multiple_of(align) - locals.addr());
                    (files.add(file_bytes * index), locals.add(local_bytes * index))
                };
                Warp::new(WarpFrame {
                    registers,
                    local,
                    local_stride: stride as u64,
                    first_thread,
                    index: index as u32,
                    lanes: u32::MAX >> (32 - lanes),
                    pc: 0,
                    compact: 0,
                    lane: 0,
                })
            })
            .collect::<Vec<_>>();
        let mut block = Box::new(BlockRun {
            frame,
            facts: Arc::clone(facts),
            warps,
            barriers: Vec::new(),
            live: 0,
            cluster: std::ptr::null_mut(),
            fault: None,
            checker: checker(facts),
            instructions: 0,
            free_fuel: 0,
            round: None,
            fresh: false,
            single: true,
            arena,
        });
        let runner: *mut BlockRun = &raw mut *block;
        block.frame.runner = runner.cast::<c_void>();
        block.frame.warp = block.warps.as_mut_ptr().cast();
        Some(block)
    }

    /// Makes it the block of this number, at its start.
    pub(crate) fn reset(&mut self, number: [u32; 3], sm: u32) {
        self.frame.block = number;
        self.frame.sm = sm;
        self.barriers.clear();
        self.live = self.facts.threads();
        self.fault = None;
        self.facts.warms(self.instructions);
        self.round = self.facts.tier().is_some_and(Tier::starts).then_some(0);
        self.fresh = true;
        if self.round.is_none() || std::mem::take(&mut self.single) {
            for warp in &mut self.warps {
                warp.reset();
            }
        }
        if let Some(checker) = &mut self.checker {
            checker.reset();
        }
    }

    /// True when there is compiled code from now on.
    #[inline]
    pub(super) fn warms(&self) -> bool {
        self.facts.warms(self.instructions)
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The facts, for as long as the block lives.
    pub(super) fn facts_pointer(&self) -> *const Facts {
        Arc::as_ptr(&self.facts)
    }

    /// The warp whose turn it is.
    pub(super) fn current(&self) -> usize {
        // SAFETY: points to one of the block's warps from its beginning on.
        unsafe { (*self.frame.warp).index as usize }
    }

    /// Threads that have not ended.
    pub(super) fn live_threads(&self) -> u32 {
        self.live
    }

    pub(crate) fn param_bytes(&self) -> u64 {
        self.facts.kernel.param_bytes.into()
    }

    pub(crate) fn arena_bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Whether memory belongs to the block itself or is shared in its cluster: what its threads share, what each has,
    /// parameters.
    pub(crate) fn owns(&self, address: u64, bytes: u64) -> bool {
        let within = |base: u64, length: u64| {
            let offset = address.wrapping_sub(base);
            offset < length && length - offset >= bytes
        };
        within(self.frame.own as u64, self.frame.own_bytes)
            || within(self.frame.params as u64, self.param_bytes())
            || self.peer_of(address).is_some()
            || self.facts.workspace_holds(address)
    }

    /// Rank in the cluster.
    pub(crate) fn rank(&self) -> u32 {
        let [x, y, z] = std::array::from_fn(|n| self.frame.block[n] % self.frame.cluster[n]);
        let [width, height, _] = self.frame.cluster;
        x + width * (y + height * z)
    }

    /// Memory that others change was looked at, and nothing was changed. Shared memory is
    /// changed by this block alone, so looking at it is no reason to let other blocks run.
    pub(crate) fn poll(&mut self, space: Space) {
        self.frame.fuel -= POLL_COST;
        let current = self.current();
        self.warps[current].quantum -= POLL_COST;
        if space == Space::Shared {
            self.free_fuel += POLL_COST;
        }
    }

    /// Where a step of a thread stands.
    pub(crate) fn place(&self, pc: Pc, thread: Option<u32>) -> Site {
        Site {
            kernel: self.facts.kernel.name.clone(),
            line: self.facts.code().steps.get(pc as usize).map_or(0, |step| step.line),
            block: self.frame.block,
            thread: thread.map(|linear| thread_of(self.frame.threads, linear)),
        }
    }

    /// The context of a step of a warp.
    pub(crate) fn context(&mut self, warp: *mut Warp, mask: u32, pc: Pc) -> Context {
        // SAFETY: the warp belongs to this block; its file is laid out by the kernel's code.
        let file = unsafe { File::new((*warp).frame.registers, &self.facts.code().registers) };
        Context { span: super::file::Span { file, mask }, pc, warp, block: self }
    }

    /// Runs warps in turn until all end, all wait, or `fuel` back edges are burnt. A block that
    /// waits for nobody goes on to its end.
    pub(crate) fn run(&mut self, fuel: i64) -> BlockState {
        self.guarded(|block| block.slices(fuel))
    }

    /// Runs a row of blocks of a grid without clusters, each from its start. Gives how many came to their end;
    /// when not all did, this block is the one after these, in the state that is given too.
    pub(crate) fn run_row(&mut self, numbers: Range<u64>, sm: u32, fuel: i64) -> (u64, BlockState) {
        let mut ended = 0u64;
        // Read after a fault has dropped the frames that write it.
        let ended_place = &raw mut ended;
        let state = self.guarded(|block| {
            let mut place = block.facts.place(numbers.start);
            for count in 1..=numbers.end - numbers.start {
                // SAFETY: as in `stuck`; the reference ends here.
                if let Some(cluster) = unsafe { block.cluster.as_mut() } {
                    cluster.begin(block.facts.threads());
                }
                block.reset(place, sm);
                let state = block.slices(fuel);
                if state != BlockState::Done {
                    return state;
                }
                // SAFETY: lives until the end of this function.
                unsafe { ended_place.write_volatile(count) };
                place = block.facts.place_after(place);
            }
            BlockState::Done
        });
        // SAFETY: as above.
        (unsafe { ended_place.read_volatile() }, state)
    }

    /// Calls `body`; a memory fault inside, or a panic, becomes the block's fault.
    fn guarded(&mut self, body: impl FnOnce(&mut Self) -> BlockState) -> BlockState {
        let mut state = Ok(BlockState::Failed);
        let result = guard::protect(|| {
            // The guard's frame cannot be unwound through.
            state = catch_unwind(AssertUnwindSafe(|| body(self)));
        });
        if let Err(fault) = result {
            self.memory_fault(&fault);
            return BlockState::Failed;
        }
        state.unwrap_or_else(|_| {
            let (pc, _) = self.warps[self.current()].now;
            let place = self.place(pc, None);
            let reason = "the software GPU failed at this instruction".into();
            self.fault.get_or_insert(Fault::IllegalInstruction { place, reason });
            BlockState::Failed
        })
    }

    fn slices(&mut self, fuel: i64) -> BlockState {
        loop {
            match self.turns(fuel) {
                BlockState::Suspended if !self.facts.polls() => {}
                state => return state,
            }
        }
    }

    fn turns(&mut self, mut fuel: i64) -> BlockState {
        let block: *mut BlockRun = self;
        loop {
            if let Some(state) = self.rounds(&mut fuel) {
                return state;
            }
            let mut ran = false;
            for index in 0..self.warps.len() {
                if !self.warps[index].runnable {
                    continue;
                }
                if self.facts.stop.load(Ordering::Relaxed) {
                    self.fault.get_or_insert(Fault::Cancelled);
                    return BlockState::Failed;
                }
                ran = true;
                self.frame.fuel = TURN_FUEL;
                self.free_fuel = 0;
                // SAFETY: the block owns its warps and is not resized while it runs.
                let pause = unsafe {
                    let warp = self.warps.as_mut_ptr().add(index);
                    self.frame.warp = &raw mut (*warp).frame;
                    Warp::run(block, warp)
                };
                fuel -= (TURN_FUEL - self.frame.fuel - self.free_fuel).max(0);
                match pause {
                    Ok(Pause::Done | Pause::Waiting) => self.warps[index].runnable = false,
                    Ok(Pause::Yield) => {}
                    Err(Stopped) => return BlockState::Failed,
                }
            }
            if self.live == 0 {
                return BlockState::Done;
            }
            if !ran {
                if self.wake_from_cluster() {
                    continue;
                }
                return self.stuck();
            }
            if fuel <= 0 {
                return BlockState::Suspended;
            }
        }
    }

    /// No warp can run: they wait for the cluster, or for each other without end.
    fn stuck(&mut self) -> BlockState {
        let waits =
            |warp: &Warp| warp.groups.iter().any(|group| matches!(group.state, State::Cluster));
        // SAFETY: set by the unit for as long as its blocks run.
        let peers = unsafe { self.cluster.as_ref() }.map_or(0, |cluster| cluster.live);
        if self.warps.iter().any(waits) && peers > self.live {
            return BlockState::Waiting;
        }
        let first = self.warps.iter().find_map(|warp| Some((warp, warp.groups.first()?)));
        let (pc, thread) = first.map_or((0, None), |(warp, group)| {
            (group.pc, Some(warp.frame.first_thread + group.mask.trailing_zeros()))
        });
        let place = self.place(pc, thread);
        self.fault.get_or_insert(Fault::Deadlock(place));
        BlockState::Failed
    }

    fn wake_from_cluster(&mut self) -> bool {
        let phase = self.cluster_phase();
        let mut woken = false;
        for warp in &mut self.warps {
            woken |= warp.wake_from_cluster(phase);
        }
        woken
    }

    pub(crate) fn cluster_phase(&self) -> u32 {
        // SAFETY: as in `stuck`.
        unsafe { self.cluster.as_ref() }.map_or(0, |cluster| cluster.phase)
    }

    /// Lanes arrive at the cluster's barrier.
    pub(crate) fn cluster_arrive(&mut self, threads: u32) {
        // SAFETY: as in `stuck`; the reference ends here.
        if let Some(cluster) = unsafe { self.cluster.as_mut() } {
            cluster.arrived += threads;
            cluster.settle();
        }
    }

    /// The host address of a shared address of another block of the cluster.
    pub(crate) fn peer_address(&self, address: u32, bytes: u32) -> Option<u64> {
        let rank = (address >> RANK_SHIFT).checked_sub(1)?;
        // SAFETY: as in `stuck`.
        let cluster = unsafe { self.cluster.as_ref() }?;
        let &(base, size) = cluster.shared.get(rank as usize)?;
        let offset = address & ((1 << RANK_SHIFT) - 1);
        (offset.checked_add(bytes)? <= size).then_some(base + u64::from(offset))
    }

    /// The shared address of a host address: of this block, or of another of the cluster.
    pub(crate) fn shared_offset(&self, address: u64) -> u64 {
        let offset = address.wrapping_sub(self.frame.shared as u64);
        if offset <= self.frame.shared_bytes.into() {
            return offset;
        }
        match self.peer_of(address) {
            Some((rank, base)) => (address - base) | (u64::from(rank + 1) << RANK_SHIFT),
            None => offset,
        }
    }

    /// Rank and base of the block of the cluster in whose shared memory an address lies.
    pub(crate) fn peer_of(&self, address: u64) -> Option<(u32, u64)> {
        // SAFETY: as in `stuck`.
        let cluster = unsafe { self.cluster.as_ref() }?;
        let found = |&(_, &(base, bytes)): &(usize, &(u64, u32))| {
            address.wrapping_sub(base) < u64::from(bytes)
        };
        cluster.shared.iter().enumerate().find(found).map(|(rank, &(base, _))| (rank as u32, base))
    }

    /// Lanes of a warp end.
    pub(crate) fn ended(&mut self, threads: u32) {
        self.live -= threads;
        // SAFETY: as in `stuck`; the reference ends here.
        if let Some(cluster) = unsafe { self.cluster.as_mut() } {
            cluster.live -= threads;
            cluster.settle();
        }
        for id in 0..self.barriers.len() {
            if self.barriers[id].count > 0 {
                self.settle(id);
            }
        }
    }

    /// Lanes of a warp arrive at a barrier; true when they must wait.
    pub(crate) fn arrive(
        &mut self,
        x: &Context,
        mode: BarrierMode,
        id: u64,
        threads: Option<u64>,
    ) -> Result<bool, Stopped> {
        if id >= BARRIERS as u64 {
            return x.illegal(format!("barrier {id} does not exist")).map(|()| false);
        }
        let id = id as usize;
        if self.barriers.len() <= id {
            self.barriers.resize_with(id + 1, Barrier::default);
        }
        let warps = self.warps.len();
        let total = self.facts.threads();
        let barrier = &mut self.barriers[id];
        if barrier.count == 0 {
            barrier.arrived.clear();
            barrier.arrived.resize(warps, 0);
            // A count above the block's threads means warps that are partly empty.
            barrier.threads = threads.map(|count| (count as u32).min(total));
            barrier.yes = 0;
            barrier.all = true;
        }
        let index = x.warp().frame.index as usize;
        barrier.arrived[index] |= x.mask();
        barrier.count += x.mask().count_ones();
        if let BarrierMode::RedPopc(_, guard)
        | BarrierMode::RedAnd(_, guard)
        | BarrierMode::RedOr(_, guard) = mode
        {
            let yes = x.file().guard(guard) & x.mask();
            barrier.yes += yes.count_ones();
            barrier.all &= yes == x.mask();
        }
        if mode == BarrierMode::Arrive {
            self.settle(id);
            return Ok(false);
        }
        Ok(true)
    }

    /// Completes a barrier when enough threads are there, and wakes those that wait.
    pub(crate) fn settle(&mut self, id: usize) {
        let barrier = &self.barriers[id];
        let complete = match barrier.threads {
            None => self
                .warps
                .iter()
                .zip(&barrier.arrived)
                .all(|(warp, &arrived)| warp.live & !arrived == 0),
            Some(count) => {
                // A warp whose living lanes are all there counts whole, as the hardware does.
                let ended: u32 = self
                    .warps
                    .iter()
                    .zip(&barrier.arrived)
                    .filter(|(warp, arrived)| **arrived != 0 && warp.live & !**arrived == 0)
                    .map(|(warp, &arrived)| (warp.frame_lanes() & !arrived).count_ones())
                    .sum();
                barrier.count + ended >= count
            }
        };
        if !complete {
            return;
        }
        let (yes, all) = (barrier.yes, barrier.all);
        self.barriers[id].count = 0;
        if let Some(checker) = &mut self.checker {
            checker.barrier();
        }
        let block: *mut BlockRun = self;
        for index in 0..self.warps.len() {
            // SAFETY: no other reference to this warp is alive.
            unsafe {
                Warp::wake_from_barrier(block, (*block).warps.as_mut_ptr().add(index), id, yes, all)
            };
        }
    }

    /// Turns a fault of the host into one of the kernel.
    fn memory_fault(&mut self, fault: &MemoryFault) {
        let current = self.current();
        let warp = &mut self.warps[current];
        let compiled = self.facts.tier().and_then(|tier| tier.fast.step_at(fault.instruction));
        // Compiled code does not note its steps.
        let (pc, mask) = compiled.map_or(warp.now, |(step, _)| (step, warp.frame.lanes));
        let warp: *mut Warp = warp;
        let x = self.context(warp, mask, pc);
        let blamed = match compiled {
            // SAFETY: the instruction was found there, and the launch holds the code.
            Some((_, toucher)) => unsafe { super::blame::compiled(&x, fault, toucher) },
            None => super::blame::interpreted(&x, fault.address),
        };
        let place = x.place(blamed.lane);
        let Blame { address, bytes, access, .. } = blamed;
        self.fault.get_or_insert(Fault::IllegalAddress { place, address, bytes, access });
    }
}
