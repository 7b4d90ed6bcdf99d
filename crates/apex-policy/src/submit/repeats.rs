//! Which pieces of launches are kept as graphs.
//!
//! A graph is built once a piece has come as often as building it costs launches, on the thought that what came so often
//! will come as often again. All graphs together may cost no more than [`CREDIT`] and what the others have brought in:
//! a program that never repeats loses a few milliseconds and no more.

use std::collections::HashMap;

/// What the driver takes, in nanoseconds. The defaults were measured on an H200 with driver 580.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A launch.
    pub launch: u64,
    /// A launch of a graph, without its nodes.
    pub graph: u64,
    /// A node of a graph that is launched: the GPU's part, which is longer than the processor's.
    pub node: u64,
    /// Giving a node other parameters: the processor's part.
    pub changed: u64,
    /// Building a graph, a node.
    pub build: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { launch: 3_600, graph: 1_900, node: 730, changed: 370, build: 4_700 }
    }
}

impl Costs {
    /// What a piece saves each time that it goes down as a graph.
    fn saved(self, launches: usize) -> u64 {
        let launches = launches as u64;
        (launches * self.launch).saturating_sub(self.graph + launches * self.node)
    }
}

/// What a piece must save to be a graph: below that, what surrounds the two calls decides.
const LEAST_SAVED_NS: u64 = 5_000;
/// Building that is done before any graph has brought anything in.
const CREDIT_NS: u64 = 50_000_000;
/// Nodes of all kept graphs together: about 10 kB of the device's memory each.
const MOST_NODES: usize = 8_192;
/// Pieces that are counted at most.
const MOST_PIECES: usize = 8_192;

/// What to do with a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send its launches one by one.
    OneByOne,
    /// Send them one by one and build a graph of them, or build it first.
    Build,
    /// Launch the graph that is kept under this number.
    Replay(u32),
}

#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    came: u64,
    /// When it came last, in pieces.
    last: u64,
    graph: Option<u32>,
    nodes: usize,
    /// The driver has refused to make a graph of it.
    is_refused: bool,
}

/// The pieces that have come, and what is kept of them.
#[derive(Debug, Default)]
pub struct Repeats {
    costs: Costs,
    pieces: HashMap<u64, Piece>,
    now: u64,
    nodes: usize,
    spent_ns: u64,
    saved_ns: u64,
}

impl Repeats {
    /// Nothing has come.
    #[must_use]
    pub fn new(costs: Costs) -> Repeats {
        Repeats { costs, ..Repeats::default() }
    }

    /// A piece of so many launches has come, `key` tells it from all others.
    pub fn came(&mut self, key: u64, launches: usize) -> Step {
        let saved = self.costs.saved(launches);
        if saved < LEAST_SAVED_NS {
            return Step::OneByOne;
        }
        self.now += 1;
        if self.pieces.len() >= MOST_PIECES {
            self.pieces.retain(|_, piece| piece.graph.is_some());
        }
        let piece = self.pieces.entry(key).or_default();
        piece.last = self.now;
        if let Some(graph) = piece.graph {
            self.saved_ns += saved;
            return Step::Replay(graph);
        }
        let cost = launches as u64 * self.costs.build;
        let is_worth_it = piece.came * saved >= cost && !piece.is_refused;
        piece.came += 1;
        if is_worth_it && self.spent_ns + cost <= CREDIT_NS + self.saved_ns {
            self.spent_ns += cost;
            return Step::Build;
        }
        Step::OneByOne
    }

    /// A graph was built of a piece and is kept under this number.
    pub fn built(&mut self, key: u64, graph: u32, launches: usize) {
        let piece = self.pieces.entry(key).or_default();
        (piece.graph, piece.nodes) = (Some(graph), launches);
        self.nodes += launches;
    }

    /// No graph can be made of a piece.
    pub fn refused(&mut self, key: u64) {
        self.pieces.entry(key).or_default().is_refused = true;
    }

    /// The graph to be given up because there are too many: the one that was asked for longest ago.
    pub fn give_up(&mut self) -> Option<u32> {
        if self.nodes <= MOST_NODES {
            return None;
        }
        let kept = self.pieces.iter().filter(|(_, piece)| piece.graph.is_some());
        let (&key, _) = kept.min_by_key(|(_, piece)| piece.last)?;
        self.nodes -= self.pieces[&key].nodes;
        self.pieces.remove(&key)?.graph
    }

    /// No graph is kept any more.
    pub fn forget(&mut self) {
        self.pieces.clear();
        self.nodes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_becomes_a_graph_when_it_has_come_often_enough() {
        let mut repeats = Repeats::new(Costs::default());
        assert_eq!(repeats.came(1, 20), Step::OneByOne);
        assert_eq!(repeats.came(1, 20), Step::OneByOne);
        assert_eq!(repeats.came(1, 20), Step::Build);
        repeats.built(1, 7, 20);
        assert_eq!(repeats.came(1, 20), Step::Replay(7));
        assert_eq!(repeats.came(2, 2), Step::OneByOne);
    }

    #[test]
    fn what_is_refused_is_not_tried_again() {
        let mut repeats = Repeats::new(Costs::default());
        (0..3).for_each(|_| _ = repeats.came(1, 20));
        repeats.refused(1);
        assert!((0..100).all(|_| repeats.came(1, 20) == Step::OneByOne));
    }

    #[test]
    fn building_is_bounded_by_what_it_brings_in() {
        let mut repeats = Repeats::new(Costs::default());
        let mut built = 0;
        for key in 0..10_000 {
            for _ in 0..4 {
                if repeats.came(key, 100) == Step::Build {
                    repeats.built(key, built, 100);
                    built += 1;
                }
            }
        }
        assert!(u64::from(built) * 100 * 4_700 <= 3 * CREDIT_NS, "{built}");
    }

    #[test]
    fn the_graph_that_was_not_asked_for_longest_is_given_up() {
        let mut repeats = Repeats::new(Costs::default());
        for key in 0..=MOST_NODES as u64 / 128 {
            (0..3).for_each(|_| _ = repeats.came(key, 128));
            repeats.built(key, key as u32, 128);
        }
        repeats.came(0, 128);
        assert_eq!(repeats.give_up(), Some(1));
        assert_eq!(repeats.give_up(), None);
    }
}
