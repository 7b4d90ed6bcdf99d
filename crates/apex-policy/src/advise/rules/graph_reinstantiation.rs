//! Graphs with the same kernels are made ready again and again.
//!
//! A graph that was made ready once can be launched for ever, and updated where only its parameters change. All
//! but the first making are saved; an update costs something, so at least half of that is expected to remain saved.

use super::Rule;
use crate::advise::{Basis, Evidence, Finding, Gain};
use crate::amounts::{count, counted, nanos};

pub(super) const RULE: Rule = Rule {
    name: "graph-reinstantiation",
    sees: "graphs with equal kernels made ready at least 3 times, and launched fewer than 4 times each",
    says: "make it ready once and update it (`cuGraphExecUpdate`); gains the time of the repeated makings",
    find,
};

fn find(evidence: &Evidence) -> Vec<Finding> {
    let again = evidence.graphs.iter().filter(|graph| {
        graph.made.count >= 3 && graph.kernels > 0 && graph.launches < 4 * graph.made.count
    });
    again
        .map(|graph| {
            let repeated = 1.0 - 1.0 / graph.made.count as f64;
            let gain = Gain::about(repeated, repeated / 2.0, repeated, Basis::Measured);
            Finding::of(RULE.name, evidence.share(graph.made.host_ns), gain).saying(
                format!(
                    "a graph of {} was made ready {} times for {}",
                    counted(graph.kernels, "kernel", "kernels"),
                    count(graph.made.count),
                    counted(graph.launches, "launch", "launches")
                ),
                format!(
                    "each making takes {}, {} in all",
                    nanos(graph.made.mean_ns()),
                    nanos(graph.made.host_ns)
                ),
                "keep the executable graph, and update it where parameters change".into(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Calls, GraphMade};

    #[test]
    fn making_again_is_seen_and_launching_again_is_not() {
        let with = |made, launches| {
            let made = Calls { count: made, host_ns: 5e5 };
            let graphs = vec![GraphMade { kernels: 3, made, launches }];
            find(&Evidence { program_ns: 1e6, graphs, ..Evidence::default() })
        };
        assert!((with(10, 10)[0].saving() - 0.45).abs() < 1e-9);
        assert!(with(1, 100).is_empty() && with(10, 100).is_empty());
    }
}
