//! How many lanes go together: 16 where no lane can tell, else 32.
//!
//! With 16 lanes addresses are more regular and values fit into registers. But programs rely on the 32
//! lanes of a warp going together, not only through shuffles and votes: many write a value for their
//! neighbours and read theirs without a barrier, which hardware happens to keep in step. So a kernel is
//! narrow only if no load of shared or global memory can follow a store to it without a block-wide
//! barrier between them.

use super::{Lowering, Outcome};
use crate::code::{Code, Inst, Order, Space, Special, Step};

/// Memory that may hold what another lane has just written.
#[derive(Clone, Copy, Default, PartialEq)]
struct Fresh {
    shared: bool,
    global: bool,
}

/// Decides it.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    it.code.width = width(&it.code);
    Ok(())
}

/// Lanes per warp for this code.
fn width(code: &Code) -> u32 {
    if code.steps.iter().any(tells) || hands_over(code) { 32 } else { 16 }
}

/// Whether the step's result, or its meaning, depends on the lanes that go together.
fn tells(step: &Step) -> bool {
    match &step.inst {
        Inst::Shuffle { .. }
        | Inst::Vote { .. }
        | Inst::Match { .. }
        | Inst::ActiveMask { .. }
        | Inst::Redux { .. }
        | Inst::Elect { .. }
        | Inst::WarpBarrier { .. }
        | Inst::Mma(_)
        | Inst::Wgmma(_)
        | Inst::WmmaMemory(_)
        | Inst::MatrixMemory { .. }
        | Inst::MatrixTranspose { .. }
        | Inst::Call { .. } => true,
        Inst::Special { which, .. } => matches!(
            which,
            Special::Laneid
                | Special::Warpid
                | Special::Nwarpid
                | Special::LanemaskEq
                | Special::LanemaskLe
                | Special::LanemaskLt
                | Special::LanemaskGe
                | Special::LanemaskGt
        ),
        Inst::Load { space: Space::Shared | Space::Generic, order, .. } => *order != Order::Weak,
        _ => false,
    }
}

/// Whether a lane may read what another one wrote, with no barrier between.
fn hands_over(code: &Code) -> bool {
    let mut entry = vec![Fresh::default(); code.blocks.len()];
    let mut open: Vec<usize> = (0..code.blocks.len()).rev().collect();
    while let Some(number) = open.pop() {
        let block = &code.blocks[number];
        let mut fresh = entry[number];
        for step in &code.steps[block.steps.start as usize..block.steps.end as usize] {
            if reads_fresh(&step.inst, fresh) {
                return true;
            }
            fresh.note(&step.inst);
        }
        for &next in &block.successors {
            let next = next as usize;
            let joined = Fresh {
                shared: entry[next].shared || fresh.shared,
                global: entry[next].global || fresh.global,
            };
            if joined != entry[next] {
                entry[next] = joined;
                open.push(next);
            }
        }
    }
    false
}

fn reads_fresh(inst: &Inst, fresh: Fresh) -> bool {
    match inst {
        Inst::Load { space: Space::Shared, .. } => fresh.shared,
        Inst::Load { space: Space::Global, .. } => fresh.global,
        Inst::Load { space: Space::Generic, .. } => fresh.shared || fresh.global,
        _ => false,
    }
}

impl Fresh {
    fn note(&mut self, inst: &Inst) {
        match inst {
            Inst::Barrier { .. } | Inst::ClusterWait => *self = Fresh::default(),
            // Behind it is what the threads have written that arrived.
            Inst::Mbarrier(it) if it.op.waits() => *self = Fresh::default(),
            Inst::Store { space, .. } | Inst::Atom { space, .. } => {
                self.shared |= matches!(space, Space::Shared | Space::Generic);
                self.global |= matches!(space, Space::Global | Space::Generic);
            }
            _ => {}
        }
    }
}
