//! How many allocations freed memory could have served: the pool of `--fast` itself, on a session's allocations.
//!
//! The pool knows blocks by addresses of its own here, because without it the driver gave others.

use crate::row::Row;
use apex_core::event::{AllocKind, What};
use apex_policy::advise::Reuse as Found;
use apex_policy::pool::{Ask, Blocks, Freed, Order};
use std::collections::HashMap;

/// Blocks that are followed at once; what exceeds them is left out.
const MOST: usize = 1 << 16;

/// The pools of all processes.
#[derive(Default)]
pub(super) struct Reuse {
    processes: HashMap<u32, Replay>,
    found: Found,
}

#[derive(Default)]
struct Replay {
    blocks: Blocks,
    order: Order,
    /// What the pool calls a block of the program.
    names: HashMap<u64, u64>,
    named: u64,
}

impl Reuse {
    pub(super) fn add(&mut self, row: &Row) {
        match row.what {
            What::Alloc { kind: AllocKind::Plain, address, bytes } => {
                let replay = self.processes.entry(row.process).or_default();
                if replay.names.len() < MOST {
                    self.found.asked += 1;
                    if replay.allocated(address, bytes) {
                        self.found.served.add(row.host_ns);
                    }
                }
            }
            What::Free { kind: AllocKind::Plain, address, .. } => {
                let replay = self.processes.entry(row.process).or_default();
                if replay.is_kept(address) {
                    self.found.kept.add(row.host_ns);
                }
            }
            _ => {}
        }
    }

    pub(super) fn finish(self) -> Found {
        self.found
    }
}

impl Replay {
    /// Whether freed memory would have served it.
    fn allocated(&mut self, address: u64, bytes: u64) -> bool {
        let ask = Ask { bytes, rows: 0, element: 0 };
        let taken = self.blocks.take(ask, &mut self.order);
        let name = match taken {
            Some(taken) => taken.address,
            None => {
                while self.blocks.must_go(bytes).is_some() {}
                self.named += bytes.max(1);
                let name = self.named;
                self.blocks.allocated(ask, name, 0);
                name
            }
        };
        self.names.insert(address, name);
        taken.is_some()
    }

    /// Whether the pool would have kept it.
    fn is_kept(&mut self, address: u64) -> bool {
        let name = self.names.remove(&address);
        name.is_some_and(|name| self.blocks.freed(name, &self.order) == Freed::Kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_comes_again_is_served() {
        let mut replay = Replay::default();
        assert!(!replay.allocated(0x1000, 64));
        assert!(!replay.allocated(0x2000, 64));
        assert!(replay.is_kept(0x1000));
        assert!(!replay.is_kept(0x1000));
        // The driver may give the same place again, or another.
        assert!(!replay.allocated(0x1000, 65));
        assert!(replay.allocated(0x3000, 64));
        assert!(!replay.allocated(0x4000, 64));
    }
}
