//! Launches that became a graph, as their processes told of them. What does not fit together is left out.

use crate::known::{Known, KnownProcess};
use crate::names::demangle;
use crate::summary::{SequenceSummary, UnprovenKernel};
use apex_core::facts::Sequence;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// All of them, in the order in which they were found.
pub(super) fn told(known: &Known) -> Vec<SequenceSummary> {
    let of = |process| -> Vec<SequenceSummary> {
        let process: &KnownProcess = process;
        process.sequences.values().filter_map(|sequence| read(process, sequence)).collect()
    };
    known.processes.iter().flat_map(of).collect()
}

fn read(process: &KnownProcess, sequence: &Sequence) -> Option<SequenceSummary> {
    let count = sequence.kernels.len();
    let number = |value: u64| u32::try_from(value).ok();
    if count == 0 || sequence.reasons.len() != count || !sequence.edges.len().is_multiple_of(3) {
        return None;
    }
    let mut places: BTreeMap<u64, u32> = BTreeMap::new();
    let mut kernels = Vec::new();
    let mut launches = Vec::with_capacity(count);
    for &kernel in &sequence.kernels {
        let place = *places.entry(kernel).or_insert_with(|| {
            let found = number(kernel).and_then(|number| process.kernels.get(&number));
            kernels.push(found.map_or("a kernel of apex's own".into(), |it| demangle(&it.name)));
            kernels.len() as u32 - 1
        });
        launches.push(place);
    }
    let reasons = sequence.reasons.iter().enumerate();
    let unproven = reasons.filter(|(_, reason)| *reason != "proven");
    let edges: Option<Vec<[u32; 3]>> = sequence
        .edges
        .chunks_exact(3)
        .map(|edge| {
            let fits = edge[1] < edge[0] && edge[0] < count as u64 && edge[2] < 8;
            fits.then(|| [edge[0] as u32, edge[1] as u32, edge[2] as u32])
        })
        .collect();
    let tried = process.tried.get(&sequence.id).cloned().unwrap_or_default();
    Some(SequenceSummary {
        pid: process.pid,
        kernels,
        launches,
        unproven: unproven.map(|(nth, reason)| (nth as u32, reason.clone())).collect(),
        edges: edges?,
        outcome: tried.outcome,
        chain_ns: tried.chain_ns,
        branches_ns: tried.branches_ns,
    })
}

/// The kernels of which nothing is proven, those with the most launches first.
pub(super) fn unproven(sequences: &[SequenceSummary]) -> Vec<UnprovenKernel> {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for sequence in sequences {
        for (launch, reason) in &sequence.unproven {
            let kernel = sequence.launches[*launch as usize] as usize;
            *counts.entry((sequence.kernels[kernel].as_str(), reason)).or_default() += 1;
        }
    }
    let kernel = |((kernel, reason), launches): ((&str, &str), u64)| UnprovenKernel {
        kernel: kernel.to_owned(),
        reason: reason.to_owned(),
        launches,
    };
    let mut kernels: Vec<UnprovenKernel> = counts.into_iter().map(kernel).collect();
    kernels.sort_by_key(|kernel| Reverse(kernel.launches));
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;
    use apex_core::facts::{Fact, Kernel, Tried};

    fn sequence(edges: Vec<u64>) -> Sequence {
        let reasons = ["proven", "pointer", "proven"].map(str::to_owned).to_vec();
        Sequence { id: 3, kernels: vec![5, 6, 5], reasons, edges }
    }

    fn learned(sequence: Sequence) -> Vec<SequenceSummary> {
        let mut process = KnownProcess { pid: 9, ..KnownProcess::default() };
        let kernel =
            |id, name: &str| Fact::Kernel(Kernel { id, name: name.into(), ..Kernel::default() });
        process.learn(kernel(5, "_Z4blurPf"));
        process.learn(kernel(6, "edges"));
        process.learn(Fact::Sequence(sequence));
        let outcome = "won".into();
        process.learn(Fact::Tried(Tried { sequence: 3, outcome, chain_ns: 90, branches_ns: 50 }));
        told(&Known { processes: vec![process] })
    }

    #[test]
    fn a_sequence_has_its_kernels_by_name() {
        let found = learned(sequence(vec![2, 0, 5, 2, 1, 0]));
        let expected = SequenceSummary {
            pid: 9,
            kernels: vec!["blur(float*)".into(), "edges".into()],
            launches: vec![0, 1, 0],
            unproven: vec![(1, "pointer".into())],
            edges: vec![[2, 0, 5], [2, 1, 0]],
            outcome: "won".into(),
            chain_ns: 90,
            branches_ns: 50,
        };
        assert_eq!(found, [expected]);
        let kernels = unproven(&found);
        assert_eq!((kernels[0].kernel.as_str(), kernels[0].launches), ("edges", 1));
    }

    #[test]
    fn what_does_not_fit_together_is_left_out() {
        assert_eq!(learned(sequence(vec![0, 2, 1])), []);
        assert_eq!(learned(sequence(vec![3, 0, 1])), []);
        assert_eq!(learned(sequence(vec![2, 0, 8])), []);
        assert_eq!(learned(sequence(vec![2, 0])), []);
        assert_eq!(learned(Sequence::default()), []);
    }
}
