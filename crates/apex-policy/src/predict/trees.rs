//! Boosted trees, flattened: the daemon's model for kernels it has seen and for new ones.
//!
//! Every tree is complete to the same depth and lies in one array: from node `n` the way goes to `2 n` or
//! `2 n + 1`, so a step is one comparison and no pointer. A way that ended earlier goes on through nodes that
//! always send it left to the same value. Eight trees are walked at once: each step waits for memory, and eight
//! waits overlap. The trees correct what the
//! kernel's past says, or what its parts cost on the device where it has none. How alike launches are comes in the
//! same file, because the trees were grown on what that says.

use super::acquaintance::Acquaintance;
use super::features::{COUNT, base, doubt};
use super::likeness::Likeness;
use super::network::NARROWEST;

/// Comparisons from the root of a tree to a value.
pub const DEPTH: usize = 6;
/// Values of a tree; also one more than its inner nodes.
pub const LEAVES: usize = 1 << DEPTH;

const TOGETHER: usize = 8;
/// Features padded to a power of two, so that a masked place is always inside.
const PADDED: usize = COUNT.next_power_of_two();

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Node {
    threshold: f32,
    feature: u32,
}

/// One tree: nodes 1 to 63 by their number, and the values.
#[derive(Clone, Debug, PartialEq)]
struct Tree {
    nodes: [Node; LEAVES],
    leaves: [f32; LEAVES],
}

/// The sum of many trees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forest {
    base: f32,
    trees: Vec<Tree>,
}

/// A tree as a trainer makes it: node 0 is not used; a node that does not split has an infinite threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct GrownTree {
    /// The feature that a node compares.
    pub features: [u8; LEAVES],
    /// What it is compared with: greater goes right.
    pub thresholds: [f32; LEAVES],
    /// The values.
    pub leaves: [f32; LEAVES],
}

/// Thresholds that send everything left, kept finite so that files hold finite numbers only.
pub const ALWAYS_LEFT: f32 = f32::MAX;

impl Forest {
    /// A forest that starts from `base`.
    #[must_use]
    pub fn new(base: f32) -> Forest {
        Forest { base, trees: Vec::new() }
    }

    /// Adds a tree.
    ///
    /// # Panics
    /// If a feature is not in the list.
    pub fn push(&mut self, grown: &GrownTree) {
        assert!(grown.features.iter().all(|&feature| usize::from(feature) < COUNT));
        let mut tree = Tree { nodes: [Node::default(); LEAVES], leaves: grown.leaves };
        for (node, (&feature, &threshold)) in
            tree.nodes.iter_mut().zip(grown.features.iter().zip(&grown.thresholds))
        {
            *node = Node { threshold, feature: u32::from(feature) };
        }
        self.trees.push(tree);
    }

    /// Trees of the forest.
    #[must_use]
    pub fn len(&self) -> usize {
        self.trees.len()
    }

    /// Whether there are no trees.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    fn run(&self, padded: &[f32; PADDED]) -> f32 {
        let mut sum = self.base;
        let mut groups = self.trees.chunks_exact(TOGETHER);
        for group in &mut groups {
            let mut at = [1_usize; TOGETHER];
            for _ in 0..DEPTH {
                for (tree, at) in group.iter().zip(&mut at) {
                    *at = step(tree, *at, padded);
                }
            }
            for (tree, at) in group.iter().zip(at) {
                sum += tree.leaves[at % LEAVES];
            }
        }
        for tree in groups.remainder() {
            let end = (0..DEPTH).fold(1, |at, _| step(tree, at, padded));
            sum += tree.leaves[end % LEAVES];
        }
        sum
    }

    /// What the forest says of one launch.
    #[must_use]
    pub fn predict(&self, features: &[f32; COUNT]) -> f32 {
        self.run(&padded(features))
    }

    /// What the sum starts from.
    #[must_use]
    pub fn base(&self) -> f32 {
        self.base
    }

    /// The trees in their order, as they were pushed.
    pub fn grown(&self) -> impl Iterator<Item = GrownTree> {
        self.trees.iter().map(|tree| GrownTree {
            features: tree.nodes.map(|node| node.feature as u8),
            thresholds: tree.nodes.map(|node| node.threshold),
            leaves: tree.leaves,
        })
    }
}

#[inline(always)]
fn step(tree: &Tree, at: usize, padded: &[f32; PADDED]) -> usize {
    let node = tree.nodes[at % LEAVES];
    2 * at + usize::from(padded[node.feature as usize % PADDED] > node.threshold)
}

fn padded(features: &[f32; COUNT]) -> [f32; PADDED] {
    let mut padded = [0.0; PADDED];
    padded[..COUNT].copy_from_slice(features);
    padded
}

/// What the trees say of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreesAnswer {
    /// log2 of time over the expected time.
    pub over_expected: f32,
    /// Half of an 80 % interval, in log2.
    pub half_width: f32,
    /// Warps active on average, as a share of the warp slots.
    pub achieved_occupancy: f32,
    /// Throughput of the multiprocessors as a share of their peak.
    pub sm_throughput: f32,
    /// Throughput of device memory as a share of its peak.
    pub dram_throughput: f32,
}

/// Names of the forests, in the order of the outputs: the correction in log2, what the kernel's own doubt is
/// multiplied with, and shares of peaks.
pub const FORESTS: [&str; 5] =
    ["over_base", "half_width", "achieved_occupancy", "sm_throughput", "dram_throughput"];

/// All forests of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trees {
    /// One forest for each name in [`FORESTS`].
    pub forests: [Forest; FORESTS.len()],
    /// What half widths are multiplied with, for each [`Acquaintance`].
    pub widening: [f32; Acquaintance::ALL.len()],
    /// The share of the first forest's correction that is taken, for each [`Acquaintance`]: what was learned of
    /// some kernels need not hold for others.
    pub trust: [f32; Acquaintance::ALL.len()],
    /// What is taken off for doubt, for each [`Acquaintance`]: a time that is guessed too long errs by more, as a
    /// share of the true one, than one guessed as much too short.
    pub caution: [f32; Acquaintance::ALL.len()],
    /// How alike launches of a kernel are.
    pub likeness: Likeness,
}

impl Trees {
    /// The bare outputs.
    #[must_use]
    pub fn outputs(&self, features: &[f32; COUNT]) -> [f32; FORESTS.len()] {
        let padded = padded(features);
        self.forests.each_ref().map(|forest| forest.run(&padded))
    }

    /// Whether shares of peaks were learned: without counters they cannot be.
    #[must_use]
    pub fn knows_shares(&self) -> bool {
        self.forests[2..].iter().any(|forest| !forest.is_empty())
    }

    /// log2 of time over the expected time, without the other outputs.
    #[must_use]
    pub fn over_expected(&self, features: &[f32; COUNT]) -> f32 {
        let class = Acquaintance::seen_in(features);
        // Most classes take nothing of the trees: then they need not be walked.
        let corrected = match self.trust[class as usize] {
            0.0 => 0.0,
            trust => trust * self.forests[0].run(&padded(features)),
        };
        self.by_the_past(features, class) + corrected
    }

    /// What the kernel's past says, with the caution that its doubt asks for.
    #[inline]
    fn by_the_past(&self, features: &[f32; COUNT], class: Acquaintance) -> f32 {
        base(features) - self.caution[class as usize] * doubt(features)
    }

    /// The outputs with their meaning.
    #[must_use]
    pub fn answer(&self, features: &[f32; COUNT], acquaintance: Acquaintance) -> TreesAnswer {
        let [over_base, half_width, achieved, sm, dram] = self.outputs(features);
        TreesAnswer {
            over_expected: self.by_the_past(features, acquaintance)
                + self.trust[acquaintance as usize] * over_base,
            half_width: (half_width * doubt(features).sqrt()).max(NARROWEST)
                * self.widening[acquaintance as usize],
            achieved_occupancy: achieved.clamp(0.0, 1.0),
            sm_throughput: sm.clamp(0.0, 1.0),
            dram_throughput: dram.clamp(0.0, 1.0),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Some forest, the same every time.
    fn forest(trees: usize, mut seed: u64) -> Forest {
        let mut next = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut forest = Forest::new(0.25);
        for _ in 0..trees {
            forest.push(&GrownTree {
                features: std::array::from_fn(|_| next(COUNT as u64) as u8),
                thresholds: std::array::from_fn(|_| next(20) as f32),
                leaves: std::array::from_fn(|_| next(1000) as f32 / 1000.0 - 0.5),
            });
        }
        forest
    }

    pub(in crate::predict) fn sample(seed: u64) -> Trees {
        Trees {
            forests: std::array::from_fn(|nth| forest(11 + nth, seed + nth as u64)),
            widening: [3.0, 2.5, 2.0, 1.75, 1.5, 1.0],
            trust: [0.5, 0.6, 0.7, 0.75, 0.8, 0.9],
            caution: [0.3, 0.25, 0.2, 0.15, 0.1, 0.0],
            likeness: Likeness::default(),
        }
    }

    fn features(seed: u32) -> [f32; COUNT] {
        std::array::from_fn(|at| {
            ((at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) % 20) as f32
        })
    }

    #[test]
    fn walking_eight_at_once_gives_what_one_by_one_gives() {
        let forest = forest(300, 5);
        for seed in 0..50 {
            let features = features(seed);
            let mut expected = 0.25_f64;
            for tree in &forest.trees {
                let mut at = 1;
                while at < LEAVES {
                    let Node { feature, threshold } = tree.nodes[at];
                    at = 2 * at + usize::from(features[feature as usize] > threshold);
                }
                expected += f64::from(tree.leaves[at - LEAVES]);
            }
            assert!((f64::from(forest.predict(&features)) - expected).abs() < 1e-3);
        }
    }
}
