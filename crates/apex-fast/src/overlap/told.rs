//! What is told of launches that became a graph, to whoever listens.

use apex_policy::hazards::Found as Kinds;
use apex_ptx::touches::Barrier;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is told.
#[derive(Clone, Debug)]
pub enum Found {
    /// Launches became a graph, and it is known which of them depend on which.
    Sequence(Sequence),
    /// The chain and the branches of a sequence were timed until the faster one was known.
    Tried {
        /// Its number.
        sequence: u64,
        /// Branches stay.
        has_won: bool,
        /// Median of the chain in nanoseconds.
        chain_ns: u64,
        /// Median with branches.
        branches_ns: u64,
    },
}

/// Launches of one graph.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// A number in this process.
    pub number: u64,
    /// The function of each, and why it is not known what it touches.
    pub launches: Vec<(u64, Option<Barrier>)>,
    /// The later launch, the earlier one, and why they keep their order; those that others imply are left out.
    pub edges: Vec<Edge>,
}

/// Two launches that keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The later one.
    pub later: usize,
    /// The earlier one.
    pub earlier: usize,
    /// Reads what the earlier one writes, writes what it reads, writes what it writes; none of it where all is thought.
    pub kinds: [bool; 3],
}

/// Sequences that are told at most.
const MOST_TOLD: u64 = 64;

static LISTENER: OnceLock<fn(&Found)> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(1);

/// From now on `listener` hears of sequences, on the thread that sends.
pub fn hear(listener: fn(&Found)) {
    LISTENER.set(listener).ok();
}

/// A number for another sequence, if anybody listens and not too many were told.
pub(super) fn number() -> Option<u64> {
    LISTENER.get()?;
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    (next <= MOST_TOLD).then_some(next)
}

pub(super) fn tell(told: &Found) {
    if let Some(listener) = LISTENER.get() {
        listener(told);
    }
}

/// The edges of a graph with their kinds.
pub(super) fn edges(reduced: &[u128], found: &[Kinds]) -> Vec<Edge> {
    let of = |(later, (&edge, found)): (usize, (&u128, &Kinds))| {
        let (edge, found) = (edge, *found);
        (0..later).filter(move |at| edge >> at & 1 != 0).map(move |earlier| {
            let is_in = |all: u128| all >> earlier & 1 != 0;
            let kinds = [found.read_after_write, found.write_after_read, found.write_after_write];
            Edge { later, earlier, kinds: kinds.map(is_in) }
        })
    };
    reduced.iter().zip(found).enumerate().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_bear_the_kinds_of_what_was_found() {
        let none = Kinds::default();
        let third = Kinds { read_after_write: 0b11, write_after_write: 0b10, ..none };
        let found = edges(&[0, 0, 0b10, 0b100], &[none, none, third, none]);
        let edge = |later, earlier, kinds| Edge { later, earlier, kinds };
        assert_eq!(found, [edge(2, 1, [true, false, true]), edge(3, 2, [false; 3])]);
    }
}
