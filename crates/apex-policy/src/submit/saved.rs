//! What graphs have saved, by the costs that a driver is believed to have.
//!
//! It is reckoned and not measured: what the program would have taken without graphs did not happen. What their building
//! took is counted against them, so the number may be below zero.

use super::Costs;

/// What was sent as graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Launches that went down as nodes.
    pub launches: u64,
    /// Launches of graphs.
    pub graphs: u64,
    /// Nodes that were given other parameters.
    pub changed: u64,
    /// Nodes of the graphs that were built.
    pub built: u64,
}

impl Costs {
    /// Nanoseconds that this took less than the same launches one by one.
    #[must_use]
    pub fn saved_by(self, sent: Sent) -> i64 {
        let taken = |count: u64, each: u64| i128::from(count) * i128::from(each);
        let one_by_one = taken(sent.launches, self.launch);
        let as_graphs = taken(sent.graphs, self.graph)
            + taken(sent.launches, self.node)
            + taken(sent.changed, self.changed)
            + taken(sent.built, self.build);
        i64::try_from(one_by_one - as_graphs).unwrap_or(if one_by_one > as_graphs {
            i64::MAX
        } else {
            i64::MIN
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_save_what_their_launches_cost_less_what_they_cost() {
        let costs = Costs { launch: 3_600, graph: 1_900, node: 730, changed: 370, build: 4_700 };
        let sent = Sent { launches: 100, graphs: 1, ..Sent::default() };
        assert_eq!(costs.saved_by(sent), 100 * (3_600 - 730) - 1_900);
        let built = Sent { changed: 100, built: 100, ..sent };
        assert_eq!(costs.saved_by(built), costs.saved_by(sent) - 37_000 - 470_000);
        assert!(costs.saved_by(built) < 0);
        assert_eq!(costs.saved_by(Sent { launches: u64::MAX, ..sent }), i64::MAX);
    }
}
