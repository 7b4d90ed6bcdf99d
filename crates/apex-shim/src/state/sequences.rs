//! What `--fast=overlap` finds of launches that became a graph, told to the report and to `apex graph`.

use crate::state::{
    kernels,
    process::{guard, tell},
};
use apex_core::facts::{Fact, Sequence, Tried};
use apex_cuda::types::CUfunction;
use apex_fast::{Edge, Found};
use apex_ptx::touches::Barrier;

/// From now on what is found is told.
pub(crate) fn listen() {
    if apex_fast::is_raised() {
        apex_fast::hear_of_sequences(|found| _ = guard(|| tell(&described(found))));
    }
}

fn described(found: &Found) -> Fact {
    match found {
        Found::Sequence(sequence) => Fact::Sequence(Sequence {
            id: sequence.number,
            kernels: sequence.launches.iter().map(|&(function, _)| number(function)).collect(),
            reasons: sequence.launches.iter().map(|&(_, reason)| word(reason)).collect(),
            edges: sequence.edges.iter().flat_map(numbers).collect(),
        }),
        &Found::Tried { sequence, has_won, chain_ns, branches_ns } => {
            let outcome = if has_won { "won" } else { "lost" }.to_owned();
            Fact::Tried(Tried { sequence, outcome, chain_ns, branches_ns })
        }
    }
}

/// The kernel's number; one that no kernel has where the function is none of the program's.
fn number(function: u64) -> u64 {
    kernels::known(function as CUfunction).map_or(u64::MAX, |known| known.0.into())
}

fn word(reason: Option<Barrier>) -> String {
    reason.map_or("proven", Barrier::word).to_owned()
}

fn numbers(edge: &Edge) -> [u64; 3] {
    let sum = edge.kinds.iter().rev().fold(0, |sum, &kind| 2 * sum + u64::from(kind));
    [edge.later as u64, edge.earlier as u64, sum]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_as_a_sum() {
        let edge = |kinds| numbers(&Edge { later: 7, earlier: 3, kinds });
        assert_eq!(edge([true, false, false]), [7, 3, 1]);
        assert_eq!(edge([false, true, true]), [7, 3, 6]);
        assert_eq!(word(None), "proven");
        assert_eq!(word(Some(Barrier::Pointer)), "pointer");
    }
}
