//! The GPU waits for the program to launch.
//!
//! Where most launches find an idle GPU, the program's time is the host's. A graph replaces a round of launches by
//! one call, so of the time that the GPU is idle the part spent in launch calls goes away: that is expected. At
//! most all idle time goes (everything between the launches was their preparation), at least none of it (the
//! program computes on the host meanwhile).

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, nanos, percent};

pub(super) const RULE: Rule = Rule {
    name: "launch-bound",
    sees: "most launches found the GPU idle, and it was idle for much of the GPU phase",
    says: "capture the launches in a graph, give each launch more work, or run with --fast; gains up to the idle time",
    find,
};

/// Timed launches from which on a share means something.
const TIMED: u64 = 16;
const BOUND: f64 = 0.5;

fn find(evidence: &Evidence) -> Vec<Finding> {
    let (Some(busy), Some(idle_ns)) = (evidence.busy, evidence.idle_ns()) else { return vec![] };
    let idle = idle_ns / evidence.phase_ns.max(1.0);
    let launches = evidence.launches;
    if busy.timed < TIMED || busy.idle_launches < BOUND || idle < BOUND || launches.count < 100 {
        return vec![];
    }
    let expected = launches.host_ns.min(idle_ns) / idle_ns;
    // Launches that repeat can be captured; the others stay.
    let repeated: u64 = evidence.sequences.iter().map(|all| all.period * all.rounds).sum();
    let part = (repeated as f64 / launches.count as f64).min(1.0);
    let gain = Gain::about(expected * part, 0.0, 1.0, Basis::Measured);
    vec![Finding::of(RULE.name, evidence.share(idle_ns), gain).saying(
        format!(
            "the GPU was idle for {} of the GPU phase; {} of the launches found it so",
            percent(idle),
            percent(busy.idle_launches)
        ),
        format!(
            "{} launches of {} each took {} on the host; {} of them repeat in a fixed order",
            count(launches.count),
            nanos(launches.mean_ns()),
            nanos(launches.host_ns),
            percent(part)
        ),
        "capture the repeated launches in a CUDA graph (torch.cuda.graphs, torch.compile mode=reduce-overhead), \
         or use larger batches; without a change to the program, try apex run --fast"
            .into(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Busy, Calls, Sequence};

    fn evidence(idle_launches: f64) -> Evidence {
        Evidence {
            program_ns: 1e9,
            phase_ns: 8e8,
            busy: Some(Busy { ns: 2e8, idle_launches, timed: 100 }),
            launches: Calls { count: 1000, host_ns: 3e8 },
            sequences: vec![Sequence { period: 10, rounds: 50, ..Sequence::default() }],
            ..Evidence::default()
        }
    }

    #[test]
    fn idle_time_in_launch_calls_is_what_a_graph_saves() {
        let found = find(&evidence(0.9));
        // 0.6 s idle, half of it in launches, half of which repeat.
        assert!((found[0].saving() - 0.15).abs() < 1e-9, "{found:?}");
        assert!(find(&evidence(0.1)).is_empty());
        assert!(find(&Evidence::default()).is_empty());
    }
}
