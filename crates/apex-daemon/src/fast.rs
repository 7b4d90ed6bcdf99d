//! What `apex run --fast` did for a session: the counts of all its processes, and what they have saved.
//!
//! Counts are exact. What was saved is reckoned by `apex-policy` from what the driver is believed to take, because what
//! the program would have taken otherwise did not happen.

mod sequences;

use crate::known::Known;
use crate::summary::{
    DirectLaunches, FastSummary, LaunchCostsSummary, OverlapSummary, PoolSummary, RewrittenSummary,
    SpecialisedSummary,
};
use apex_core::facts::LaunchCosts;
use apex_core::queue_counts::{Counts, Found, Reason};
use apex_policy::submit::{Costs, Sent};
use std::cmp::Reverse;

/// A lag is told of so many measured launches or more.
const LEAST_MEASURED: u64 = 30;

/// The summary; nothing where no process was to be made faster.
#[must_use]
pub(crate) fn summary(known: &Known, queue: &Found, nanos_per_tick: f64) -> Option<FastSummary> {
    let told = known.processes.iter().filter_map(|process| process.fast.as_ref());
    let words = told.clone().next()?.words.clone();
    // The processes of a session stand on one machine, so the first that has measured costs speaks for all.
    let mut costs = known.processes.iter().filter_map(|process| process.launch_costs.as_ref());
    let costs = costs.clone().find(|costs| costs.measured_here).or_else(|| costs.next());
    let counts = queue.counts;
    let sent = Sent {
        launches: counts.in_graphs,
        graphs: counts.graphs,
        changed: counts.changed,
        built: counts.built,
    };
    let is_on = |wanted: &str| words.split(',').any(|word| word == wanted);
    let (has_pool, overlaps, specialises) =
        (is_on("memory"), is_on("overlap"), is_on("specialise"));
    Some(FastSummary {
        words,
        has_queue: told.clone().any(|fast| fast.has_queue),
        queued: counts.queued,
        in_graphs: counts.in_graphs,
        graph_launches: counts.graphs,
        changed_nodes: counts.changed,
        graphs: counts.made,
        graph_nodes: counts.built,
        other_queued: counts.joined,
        drained: counts.drained,
        direct: direct(&counts.direct),
        failed: counts.failed,
        lag_ns: queue.lag.median(LEAST_MEASURED).map(|ticks| ticks * nanos_per_tick),
        saved_ns: costs.map(|costs| believed(costs).saved_by(sent)),
        costs: costs.map(shown),
        pool: has_pool.then_some(PoolSummary {
            served: counts.pool_served,
            asked: counts.pool_asked,
            given_back: counts.pool_given_back,
            stream_waits: counts.pool_waits,
            peak_bytes: counts.pool_peak_bytes,
            held_bytes: counts.pool_held_bytes,
            kept_pools: counts.pool_raised,
        }),
        overlap: overlaps.then(|| overlap(&counts, known)),
        specialised: specialises.then(|| SpecialisedSummary {
            launches: counts.rewritten_launches,
            tried: counts.rewritten_tried,
            won: counts.rewritten_won,
            lost: counts.rewritten_lost,
            left: counts.rewritten_left,
            saved_ns: counts.rewritten_saved_ns,
            kernels: rewritten(known),
        }),
    })
}

fn overlap(counts: &Counts, known: &Known) -> OverlapSummary {
    let sequences = sequences::told(known);
    let reasons = [
        ("text", counts.unproven_text),
        ("large", counts.unproven_large),
        ("call", counts.unproven_call),
        ("texture", counts.unproven_texture),
        ("pointer", counts.unproven_pointer),
        ("spin", counts.unproven_spin),
        ("launch", counts.unproven_launch),
        ("copy", counts.unproven_copy),
        ("unknown", counts.unproven_unknown),
        ("loop", counts.unproven_loop),
        ("memory", counts.unproven_memory),
    ];
    let some = reasons.into_iter().filter(|(_, launches)| *launches > 0);
    let mut unproven: Vec<DirectLaunches> =
        some.map(|(reason, launches)| DirectLaunches { reason: reason.into(), launches }).collect();
    unproven.sort_by_key(|one| Reverse(one.launches));
    OverlapSummary {
        looked: counts.overlap_looked,
        proven: counts.overlap_proven,
        unproven,
        read_after_write: counts.overlap_read_after_write,
        write_after_read: counts.overlap_write_after_read,
        write_after_write: counts.overlap_write_after_write,
        branched: counts.overlap_branched,
        beside: counts.overlap_beside,
        fell_back: counts.overlap_fell_back,
        kept: counts.overlap_kept,
        saved_ns: counts.overlap_saved_ns,
        kernels: sequences::unproven(&sequences),
        sequences,
    }
}

/// What became of each kernel, those that gained most first.
fn rewritten(known: &Known) -> Vec<RewrittenSummary> {
    let told = known.processes.iter().flat_map(|process| process.rewritten.values());
    let mut kernels: Vec<RewrittenSummary> = told
        .map(|told| RewrittenSummary {
            kernel: told.kernel.clone(),
            outcome: told.outcome.clone(),
            what: told.what.clone(),
            original_ns: told.original_ns,
            rewritten_ns: told.rewritten_ns,
        })
        .collect();
    let gain = |kernel: &RewrittenSummary| match kernel.outcome.as_str() {
        "won" => kernel.original_ns.saturating_sub(kernel.rewritten_ns),
        _ => 0,
    };
    kernels.sort_by_key(|kernel| Reverse(gain(kernel)));
    kernels
}

/// The reasons that there were, the most frequent first.
fn direct(counts: &[u64; Reason::COUNT]) -> Vec<DirectLaunches> {
    let reasons = Reason::ALL.iter().zip(counts).filter(|(_, launches)| **launches > 0);
    let mut direct: Vec<DirectLaunches> = reasons
        .map(|(reason, &launches)| DirectLaunches { reason: reason.word().into(), launches })
        .collect();
    direct.sort_by_key(|direct| Reverse(direct.launches));
    direct
}

fn believed(costs: &LaunchCosts) -> Costs {
    Costs {
        launch: costs.launch_ns,
        graph: costs.graph_ns,
        node: costs.node_ns,
        changed: costs.changed_ns,
        build: costs.build_ns,
    }
}

fn shown(costs: &LaunchCosts) -> LaunchCostsSummary {
    LaunchCostsSummary {
        launch_ns: costs.launch_ns,
        graph_ns: costs.graph_ns,
        node_ns: costs.node_ns,
        changed_ns: costs.changed_ns,
        build_ns: costs.build_ns,
        measured_here: costs.measured_here,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::KnownProcess;
    use apex_core::facts::Fast;

    fn known(has_queue: bool) -> Known {
        let fast = Some(Fast { words: "launch".into(), has_queue });
        let launch_costs = Some(LaunchCosts {
            launch_ns: 3_600,
            graph_ns: 1_900,
            node_ns: 730,
            ..LaunchCosts::default()
        });
        let plain = KnownProcess::default();
        Known {
            processes: vec![plain, KnownProcess { fast, launch_costs, ..KnownProcess::default() }],
        }
    }

    #[test]
    fn a_session_without_it_says_nothing() {
        assert_eq!(summary(&Known::default(), &Found::default(), 1.0), None);
        let nothing = summary(&known(false), &Found::default(), 1.0).unwrap();
        assert_eq!((nothing.has_queue, nothing.direct, nothing.lag_ns), (false, Vec::new(), None));
    }

    #[test]
    fn kernels_that_were_compiled_again_are_told() {
        let mut known = known(true);
        let process = &mut known.processes[1];
        process.fast = Some(Fast { words: "launch,specialise".into(), has_queue: true });
        let told = |kernel: &str, outcome: &str, original_ns, rewritten_ns| {
            apex_core::facts::Fact::Rewritten(apex_core::facts::Rewritten {
                kernel: kernel.into(),
                outcome: outcome.into(),
                what: "block 256x1x1".into(),
                original_ns,
                rewritten_ns,
            })
        };
        process.learn(told("slow", "lost", 90_000, 95_000));
        process.learn(told("fast", "tried", 0, 0));
        process.learn(told("fast", "won", 100_000, 60_000));
        let mut queue = Found::default();
        queue.counts.rewritten_tried = 2;
        queue.counts.rewritten_saved_ns = 7;
        let found = summary(&known, &queue, 1.0).unwrap().specialised.unwrap();
        assert_eq!((found.tried, found.saved_ns), (2, 7));
        let kernels: Vec<_> =
            found.kernels.iter().map(|it| (it.kernel.as_str(), it.outcome.as_str())).collect();
        assert_eq!(kernels, [("fast", "won"), ("slow", "lost")]);
    }

    #[test]
    fn counts_are_told_with_what_they_saved() {
        let mut queue = Found::default();
        queue.counts.queued = 1_000;
        queue.counts.in_graphs = 100;
        queue.counts.graphs = 1;
        queue.counts.direct[Reason::Idle as usize] = 3;
        queue.counts.direct[Reason::First as usize] = 7;
        (0..30).for_each(|_| queue.lag.add(apex_core::histogram::bucket(2_000), 1));
        let fast = summary(&known(true), &queue, 0.5).unwrap();
        assert_eq!((fast.queued, fast.in_graphs, fast.has_queue), (1_000, 100, true));
        let reasons: Vec<_> =
            fast.direct.iter().map(|direct| (direct.reason.as_str(), direct.launches)).collect();
        assert_eq!(reasons, [("first", 7), ("idle", 3)]);
        assert_eq!(fast.saved_ns, Some(100 * (3_600 - 730) - 1_900));
        assert!((fast.lag_ns.unwrap() - 1_000.0).abs() < 60.0);
    }
}
