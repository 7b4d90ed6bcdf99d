//! The same launches in the same order, round after round, each by a call of its own.
//!
//! One graph launch takes about as long as one launch, so of a round's calls all but one are saved. That is host
//! time: it becomes program time at most in full (the GPU waits for the host), at least not at all (the host is
//! ahead); how often launches found the GPU idle says which is nearer.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, nanos};

pub(super) const RULE: Rule = Rule {
    name: "repeated-sequence",
    sees: "at least 3 launches that repeat in the same order and shape for 10 rounds or more, without a graph",
    says: "capture one round in a graph; gains the time of all launch calls but one of each round",
    find,
};

const ROUND: u64 = 3;
const ROUNDS: u64 = 10;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let all = evidence.sequences.iter();
    all.filter(|all| all.period >= ROUND && all.rounds >= ROUNDS)
        .map(|all| {
            let saved = 1.0 - 1.0 / all.period as f64;
            let idle = evidence.busy.map_or(0.5, |busy| busy.idle_launches);
            let gain = Gain::about(saved * idle, 0.0, saved, Basis::Measured);
            let waits = if all.waits_per_round < 0.5 {
                String::new()
            } else {
                format!("; {:.1} waits in a round divide it into parts", all.waits_per_round)
            };
            let names = all.kernels.join(", ");
            Finding::of(RULE.name, evidence.share(all.host_ns), gain).saying(
                format!("{} launches repeat {} times in the same order", all.period, count(all.rounds)),
                format!("their calls take {} on the host ({names}{waits})", nanos(all.host_ns)),
                "capture one round in a CUDA graph and launch that".into(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Busy, Sequence};

    #[test]
    fn a_long_repetition_is_seen_and_a_single_kernel_is_not() {
        let with = |period, rounds| {
            let all = Sequence { period, rounds, host_ns: 5e5, ..Sequence::default() };
            let busy = Some(Busy { ns: 1e5, idle_launches: 1.0, timed: 50 });
            find(&Evidence { program_ns: 1e6, sequences: vec![all], busy, ..Evidence::default() })
        };
        assert!((with(5, 100)[0].saving() - 0.5 * 0.8).abs() < 1e-9);
        assert!(with(1, 100).is_empty() && with(5, 4).is_empty());
    }
}
