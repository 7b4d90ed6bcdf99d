//! Executable graphs by their handles: a number each, and how many nodes they have.

use crate::state::handles::Handles;
use crate::state::lock::{Lock, locked};
use apex_cuda::types::{CUgraphExec, CUgraphNode};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Slots of executable graphs. A program that holds more than there are slots has some share theirs.
static GRAPHS: Handles = Handles::new();
/// Number of the graph in each slot.
static NUMBERS: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];
/// Its kernel nodes (high half) and all its nodes (low half).
static COUNTS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
const SLOTS: usize = 1 << 15;
static SEEN: AtomicU64 = AtomicU64::new(0);
/// Kernel nodes that the program has switched off, as (executable graph, node).
static DISABLED: Lock<Option<HashSet<(u64, u64)>>> = Lock::new(None);

/// Number, kernel nodes and all nodes of an executable graph; zeros if it was made unseen.
#[inline(always)]
pub(crate) fn counts(graph: CUgraphExec) -> (u32, u64, u64) {
    let Some(slot) = GRAPHS.get(graph as u64) else { return (0, 0, 0) };
    let slot = slot as usize % SLOTS;
    let counts = COUNTS[slot].load(Ordering::Relaxed);
    (NUMBERS[slot].load(Ordering::Relaxed), counts >> 32, counts & 0xffff_ffff)
}

/// The next number, for a graph that was made ready.
pub(crate) fn number(graph: CUgraphExec, kernel_nodes: u64, nodes: u64) -> u64 {
    let number = SEEN.fetch_add(1, Ordering::Relaxed) + 1;
    let slot = number as usize % SLOTS;
    COUNTS[slot].store(kernel_nodes << 32 | nodes & 0xffff_ffff, Ordering::Relaxed);
    NUMBERS[slot].store(number as u32, Ordering::Relaxed);
    GRAPHS.insert(graph as u64, slot as u32);
    number
}

/// A graph has ended: its handle may come back as another's.
pub(crate) fn forget(graph: CUgraphExec) {
    if let Some(mut disabled) = locked(&DISABLED) {
        disabled.get_or_insert_default().retain(|&(of, _)| of != graph as u64);
    }
    GRAPHS.remove(graph as u64);
}

/// The program switches a kernel node on or off.
pub(crate) fn switch_kernel_node(graph: CUgraphExec, node: CUgraphNode, on: bool) {
    let changed = locked(&DISABLED).is_some_and(|mut disabled| {
        let disabled = disabled.get_or_insert_default();
        let node = (graph as u64, node as u64);
        if on { disabled.remove(&node) } else { disabled.insert(node) }
    });
    if let (true, Some(slot)) = (changed, GRAPHS.get(graph as u64)) {
        let one = 1 << 32;
        let step = if on { one } else { 0_u64.wrapping_sub(one) };
        COUNTS[slot as usize % SLOTS].fetch_add(step, Ordering::Relaxed);
    }
}
