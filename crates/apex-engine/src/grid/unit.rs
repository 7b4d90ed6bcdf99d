//! What is scheduled as one: the blocks of a cluster, or a single block.

use crate::fault::Fault;
use crate::interpret::block::{BlockRun, BlockState, Cluster};
use crate::interpret::facts::Facts;
use std::ops::Range;
use std::sync::Arc;

/// Back edges of a block before others get their turn. A block that never polls waits for
/// nobody, and to suspend it would only cost memory: it goes on.
const SLICE_FUEL: i64 = 1 << 17;

/// As above where blocks are known to wait for each other.
const SHORT_FUEL: i64 = 1 << 14;

/// How a slice ended.
pub(super) enum UnitState {
    Done,
    Suspended,
    Failed(Fault),
}

/// Blocks that are alive together and run by one worker at a time.
pub(super) struct Unit {
    facts: Arc<Facts>,
    #[allow(clippy::vec_box, reason = "a block points to itself and must not move")]
    blocks: Vec<Box<BlockRun>>,
    done: Vec<bool>,
    cluster: Box<Cluster>,
}

// SAFETY: the cluster that the blocks point to is owned here and moves with them.
unsafe impl Send for Unit {}

impl Unit {
    pub(super) fn new(facts: &Arc<Facts>) -> Option<Box<Unit>> {
        let blocks = (0..facts.cluster_blocks())
            .map(|_| BlockRun::new(facts))
            .collect::<Option<Vec<_>>>()?;
        let shared = blocks
            .iter()
            .map(|block| (block.frame.shared as u64, block.frame.shared_bytes))
            .collect();
        let done = vec![false; blocks.len()];
        let mut unit = Box::new(Unit {
            facts: Arc::clone(facts),
            blocks,
            done,
            cluster: Box::new(Cluster { shared, ..Cluster::default() }),
        });
        let cluster = &raw mut *unit.cluster;
        for block in &mut unit.blocks {
            block.cluster = cluster;
        }
        Some(unit)
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.arena_bytes()).sum()
    }

    /// Puts all blocks of unit `number` at their start.
    pub(super) fn start(&mut self, number: u64, sm: u32) {
        let facts = Arc::clone(&self.facts);
        let [width, height, _] =
            std::array::from_fn(|n| u64::from(facts.grid[n] / facts.cluster[n]));
        let corner = [number % width, number / width % height, number / (width * height)];
        let [across, down, _] = facts.cluster;
        self.cluster.begin(facts.threads() * facts.cluster_blocks());
        for (rank, block) in self.blocks.iter_mut().enumerate() {
            let rank = rank as u32;
            let inside = [rank % across, rank / across % down, rank / (across * down)];
            let place = std::array::from_fn(|n| corner[n] as u32 * facts.cluster[n] + inside[n]);
            block.reset(place, sm);
            self.done[rank as usize] = false;
        }
    }

    /// Runs a row of units, each from its start. Gives how many came to their end; when not all
    /// did, this is the one after these, in the state that is given too.
    pub(super) fn run_row(&mut self, numbers: Range<u64>, sm: u32) -> (u64, UnitState) {
        let fuel = self.fuel();
        if let ([block], [done]) = (self.blocks.as_mut_slice(), self.done.as_mut_slice()) {
            // Most launches have no clusters, and small blocks are soon done.
            let (ended, state) = block.run_row(numbers, sm, fuel);
            *done = state == BlockState::Done;
            let state = match state {
                BlockState::Done => UnitState::Done,
                BlockState::Suspended | BlockState::Waiting => UnitState::Suspended,
                BlockState::Failed => failed(block),
            };
            return (ended, state);
        }
        let mut ended = 0;
        for number in numbers {
            self.start(number, sm);
            match self.run() {
                UnitState::Done => ended += 1,
                other => return (ended, other),
            }
        }
        (ended, UnitState::Done)
    }

    fn fuel(&self) -> i64 {
        let short = self.facts.workspace.is_some() || self.blocks.len() > 1;
        if short { SHORT_FUEL } else { SLICE_FUEL }
    }

    /// Runs its blocks in turn for a slice.
    pub(super) fn run(&mut self) -> UnitState {
        let alone = self.blocks.len() == 1;
        let fuel = self.fuel();
        // A cluster waits for itself, so its blocks take many turns within one slice.
        for _ in 0..if alone { 1 } else { 64 } {
            let mut all = true;
            for (block, done) in self.blocks.iter_mut().zip(&mut self.done) {
                if *done {
                    continue;
                }
                match block.run(fuel) {
                    BlockState::Done => *done = true,
                    BlockState::Suspended | BlockState::Waiting => all = false,
                    BlockState::Failed => return failed(block),
                }
            }
            if all {
                return UnitState::Done;
            }
        }
        UnitState::Suspended
    }

    pub(super) fn take_instructions(&mut self) -> u64 {
        self.blocks.iter_mut().map(|block| std::mem::take(&mut block.instructions)).sum()
    }
}

fn failed(block: &mut BlockRun) -> UnitState {
    let place = block.place(0, None);
    UnitState::Failed(block.fault.take().unwrap_or(Fault::Deadlock(place)))
}
