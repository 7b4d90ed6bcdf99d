//! Boosted trees, flattened: the daemon's model for kernels it has seen and for new ones.
//!
//! Every tree is complete to the same depth and lies in one array: from node `n` the way goes to `2 n` or
//! `2 n + 1`, so a step is one comparison and no pointer. A way that ended earlier goes on through nodes that
//! always send it left to the same value. Eight trees are walked at once: each step waits for memory, and eight
//! waits overlap. The trees correct what the
//! kernel's past says, or what its parts cost on the device where it has none. How alike launches are comes in the
//! same file, because the trees were grown on what that says.

use super::features::{COUNT, HISTORY_COUNT, base, doubt, list_hash};
use super::likeness::Likeness;
use super::neighbours::{MANY, TELLING};
use super::network::{NARROWEST, check_golden};
use super::tensor_file::{Refusal, TensorFile, TensorWriter};

/// Comparisons from the root of a tree to a value.
pub const DEPTH: usize = 6;
/// Values of a tree; also one more than its inner nodes.
pub const LEAVES: usize = 1 << DEPTH;
/// The word that a file of this model carries as its kind.
pub const KIND: &str = "boosted-trees";

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

    fn read(file: &TensorFile<'_>, name: &str) -> Result<Forest, Refusal> {
        let count = file.shape(&format!("{name}.leaves"))?.first().copied().unwrap_or(0);
        let features = file.bytes(&format!("{name}.features"), &[count, LEAVES])?;
        let thresholds = file.floats(&format!("{name}.thresholds"), &[count, LEAVES])?;
        let leaves = file.floats(&format!("{name}.leaves"), &[count, LEAVES])?;
        if let Some(&feature) = features.iter().find(|&&feature| usize::from(feature) >= COUNT) {
            return Err(Refusal::NoSuchFeature(usize::from(feature)));
        }
        let mut forest = Forest::new(file.floats(&format!("{name}.base"), &[1])?[0]);
        let rows = |flat: &[f32]| flat.as_chunks::<LEAVES>().0.to_vec();
        let bytes = features.as_chunks::<LEAVES>().0;
        for ((features, thresholds), leaves) in
            bytes.iter().zip(rows(&thresholds)).zip(rows(&leaves))
        {
            forest.push(&GrownTree { features: *features, thresholds, leaves });
        }
        Ok(forest)
    }

    fn write(&self, file: TensorWriter, name: &str) -> TensorWriter {
        let nodes = || self.trees.iter().flat_map(|tree| tree.nodes);
        let features: Vec<u8> = nodes().map(|node| node.feature as u8).collect();
        let thresholds: Vec<f32> = nodes().map(|node| node.threshold).collect();
        let leaves: Vec<f32> = self.trees.iter().flat_map(|tree| tree.leaves).collect();
        let shape = [self.trees.len(), LEAVES];
        file.bytes(&format!("{name}.features"), &shape, &features)
            .floats(&format!("{name}.thresholds"), &shape, &thresholds)
            .floats(&format!("{name}.leaves"), &shape, &leaves)
            .floats(&format!("{name}.base"), &[1], &[self.base])
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

/// How much is known of a kernel: intervals are widened by different factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquaintance {
    /// Never measured.
    Unseen,
    /// Measured once or twice: too little for the kernel to learn from.
    First,
    /// Measured three times or more, but too few for its costs to be believed closely.
    Few,
    /// Measured six times or more, but fewer than [`MANY`].
    Several,
    /// Measured so many times or more.
    Some,
    /// Measured thirty times or more.
    Known,
}

impl Acquaintance {
    /// All, in the order of the factors in a file.
    pub const ALL: [Acquaintance; 6] = [
        Acquaintance::Unseen,
        Acquaintance::First,
        Acquaintance::Few,
        Acquaintance::Several,
        Acquaintance::Some,
        Acquaintance::Known,
    ];

    /// By the number of measured times.
    #[must_use]
    pub fn of(measured: u32) -> Acquaintance {
        const FEW: u32 = TELLING as u32;
        const SEVERAL: u32 = 2 * FEW;
        const SOME: u32 = MANY as u32;
        match measured {
            0 => Acquaintance::Unseen,
            1..FEW => Acquaintance::First,
            FEW..SEVERAL => Acquaintance::Few,
            SEVERAL..SOME => Acquaintance::Several,
            SOME..30 => Acquaintance::Some,
            _ => Acquaintance::Known,
        }
    }

    /// By the history among the features.
    #[must_use]
    pub fn seen_in(features: &[f32; COUNT]) -> Acquaintance {
        Acquaintance::of((features[HISTORY_COUNT].exp2() - 1.0).round() as u32)
    }
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

    /// Reads a model file and checks that it reproduces its own examples.
    pub fn read(bytes: &[u8]) -> Result<Trees, Refusal> {
        let file = TensorFile::parse(bytes)?;
        file.check_words(KIND, list_hash())?;
        let mut trees = Trees::default();
        for (forest, name) in trees.forests.iter_mut().zip(FORESTS) {
            *forest = Forest::read(&file, name)?;
        }
        trees.widening.copy_from_slice(&file.floats("widening", &[Acquaintance::ALL.len()])?);
        trees.trust.copy_from_slice(&file.floats("trust", &[Acquaintance::ALL.len()])?);
        trees.caution.copy_from_slice(&file.floats("caution", &[Acquaintance::ALL.len()])?);
        trees.likeness = Likeness::read(&file)?;
        let inputs = file.floats("golden.inputs", &[0, COUNT])?;
        let outputs = file.floats("golden.outputs", &[inputs.len() / COUNT, FORESTS.len()])?;
        if inputs.is_empty() {
            return Err(Refusal::Missing("golden.inputs".into()));
        }
        let (rows, expected) =
            (inputs.as_chunks::<COUNT>().0, outputs.as_chunks::<{ FORESTS.len() }>().0);
        for (example, (row, expected)) in rows.iter().zip(expected).enumerate() {
            check_golden(example, expected, &trees.outputs(row))?;
        }
        Ok(trees)
    }

    /// The model as a file, with examples made from `golden` features; `words` are added to its header.
    #[must_use]
    pub fn write(&self, golden: &[[f32; COUNT]], words: &[(&str, &str)]) -> Vec<u8> {
        let mut file = TensorWriter::new(KIND, list_hash());
        for (key, word) in words {
            file = file.word(key, word);
        }
        for (forest, name) in self.forests.iter().zip(FORESTS) {
            file = forest.write(file, name);
        }
        let outputs: Vec<f32> = golden.iter().flat_map(|row| self.outputs(row)).collect();
        self.likeness
            .write(file)
            .floats("widening", &[Acquaintance::ALL.len()], &self.widening)
            .floats("trust", &[Acquaintance::ALL.len()], &self.trust)
            .floats("caution", &[Acquaintance::ALL.len()], &self.caution)
            .floats("golden.inputs", &[golden.len(), COUNT], golden.as_flattened())
            .floats("golden.outputs", &[golden.len(), FORESTS.len()], &outputs)
            .finish()
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

    #[test]
    fn it_survives_its_file() {
        let trees = sample(9);
        let bytes = trees.write(&[features(1), features(2)], &[("data", "none")]);
        assert_eq!(Trees::read(&bytes), Ok(trees));
    }

    #[test]
    fn a_feature_beyond_the_list_is_refused() {
        let trees = sample(9);
        let bytes = trees.write(&[features(1)], &[]);
        let file = TensorFile::parse(&bytes).unwrap();
        let features = file.bytes("over_base.features", &[0, LEAVES]).unwrap();
        let begin = features.as_ptr() as usize - bytes.as_ptr() as usize;
        let mut broken = bytes.clone();
        broken[begin] = 250;
        let length = u64::from_le_bytes(broken[..8].try_into().unwrap()) as usize;
        let digest = crate::predict::features::fnv(
            crate::predict::features::FNV_START,
            &broken[8 + length..],
        );
        let header = String::from_utf8(broken[8..8 + length].to_vec()).unwrap();
        let old = file.word("digest").unwrap();
        let header = header.replace(old, &format!("{digest:016x}"));
        broken[8..8 + length].copy_from_slice(header.as_bytes());
        assert_eq!(Trees::read(&broken), Err(Refusal::NoSuchFeature(250)));
    }

    #[test]
    fn acquaintance_grows_with_measurements() {
        assert_eq!(Acquaintance::of(0), Acquaintance::Unseen);
        assert_eq!(Acquaintance::of(2), Acquaintance::First);
        assert_eq!(Acquaintance::of(3), Acquaintance::Few);
        assert_eq!(Acquaintance::of(5), Acquaintance::Few);
        assert_eq!(Acquaintance::of(6), Acquaintance::Several);
        assert_eq!(Acquaintance::of(11), Acquaintance::Several);
        assert_eq!(Acquaintance::of(12), Acquaintance::Some);
        assert_eq!(Acquaintance::of(30), Acquaintance::Known);
    }
}
