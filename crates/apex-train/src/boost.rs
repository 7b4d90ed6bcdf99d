//! Boosted trees over histograms: each tree corrects what the ones before it left.
//!
//! Values of every feature are sorted into at most 255 bins once; a node's best split is then found by adding up
//! its rows by bin. Trees grow level by level to the depth that inference walks, and a node that finds no good
//! split sends everything left. Rows and features of each tree are drawn from the seed.

use crate::random::Random;
use apex_policy::predict::features::COUNT;
use apex_policy::predict::trees::{ALWAYS_LEFT, DEPTH, Forest, GrownTree, LEAVES};

/// How a forest is grown.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Trees.
    pub trees: usize,
    /// The share of each tree's correction that is taken.
    pub rate: f32,
    /// Rows that a side of a split must have at least.
    pub least_rows: usize,
    /// Added to the rows of a node when its correction is computed: holds small nodes back.
    pub calm: f32,
    /// The share of rows a tree sees.
    pub row_share: f32,
    /// The share of features a tree sees.
    pub feature_share: f32,
    /// Errors beyond this count less than their square.
    pub large_error: f32,
    /// Where everything random comes from.
    pub seed: u64,
}

impl Plan {
    /// What does well on tables like ours.
    #[must_use]
    pub fn usual(trees: usize, seed: u64) -> Plan {
        Plan {
            trees,
            rate: 0.08,
            least_rows: 8,
            calm: 1.0,
            row_share: 0.8,
            feature_share: 0.7,
            large_error: f32::INFINITY,
            seed,
        }
    }
}

const BINS: usize = 255;

/// The features of all rows as bins, by feature.
#[derive(Debug)]
pub struct Binned {
    rows: usize,
    bins: Vec<Vec<u8>>,
    /// The value above which the next bin begins.
    edges: Vec<Vec<f32>>,
}

impl Binned {
    /// Sorts the values of every feature into bins of about equally many rows.
    #[must_use]
    pub fn new(rows: &[&[f32; COUNT]]) -> Binned {
        let mut binned = Binned { rows: rows.len(), bins: Vec::new(), edges: Vec::new() };
        for feature in 0..COUNT {
            let mut values: Vec<f32> = rows.iter().map(|row| row[feature]).collect();
            values.sort_by(f32::total_cmp);
            values.dedup();
            let edges: Vec<f32> = if values.len() <= BINS {
                values.windows(2).map(|pair| pair[0] + 0.5 * (pair[1] - pair[0])).collect()
            } else {
                let cut = |nth: usize| {
                    let at = nth * values.len() / BINS;
                    values[at - 1] + 0.5 * (values[at] - values[at - 1])
                };
                let mut edges: Vec<f32> = (1..BINS).map(cut).collect();
                edges.dedup();
                edges
            };
            let bin =
                |row: &&[f32; COUNT]| edges.partition_point(|edge| row[feature] > *edge) as u8;
            binned.bins.push(rows.iter().map(bin).collect());
            binned.edges.push(edges);
        }
        binned
    }
}

#[derive(Clone, Copy, Default)]
struct Sum {
    gradient: f32,
    rows: f32,
}

#[derive(Clone, Copy)]
struct Split {
    gain: f32,
    feature: usize,
    bin: u8,
}

/// Grows a forest that predicts targets. After every tree `progress` learns its number and the mean square
/// that is left.
#[must_use]
pub fn grow(
    plan: &Plan,
    binned: &Binned,
    targets: &[f32],
    mut progress: impl FnMut(usize, f32),
) -> Forest {
    if targets.is_empty() {
        return Forest::new(0.0);
    }
    let base = targets.iter().sum::<f32>() / targets.len() as f32;
    let mut forest = Forest::new(base);
    let mut left: Vec<f32> = targets.iter().map(|target| target - base).collect();
    let mut random = Random::new(plan.seed);
    let varied: Vec<usize> = (0..COUNT).filter(|at| !binned.edges[*at].is_empty()).collect();
    for tree in 0..plan.trees {
        let rows: Vec<u32> = (0..binned.rows as u32)
            .filter(|_| plan.row_share >= 1.0 || random.unit() < plan.row_share)
            .collect();
        let mut features = varied.clone();
        random.shuffle(&mut features);
        let kept = (features.len() as f32 * plan.feature_share).ceil() as usize;
        features.truncate(kept);
        let (grown, walk) = one_tree(plan, binned, &left, rows, &features);
        for (row, left) in left.iter_mut().enumerate() {
            let mut at = 1;
            for _ in 0..DEPTH {
                let (feature, bin) = walk[at];
                at = 2 * at + usize::from(binned.bins[feature][row] > bin);
            }
            *left -= grown.leaves[at - LEAVES];
        }
        forest.push(&grown);
        let square = left.iter().map(|left| left * left).sum::<f32>() / left.len().max(1) as f32;
        progress(tree + 1, square);
    }
    forest
}

/// A node's feature and the last bin that goes left.
type Walk = [(usize, u8); LEAVES];

fn one_tree(
    plan: &Plan,
    binned: &Binned,
    left: &[f32],
    rows: Vec<u32>,
    features: &[usize],
) -> (GrownTree, Walk) {
    let mut grown = GrownTree {
        features: [0; LEAVES],
        thresholds: [ALWAYS_LEFT; LEAVES],
        leaves: [0.0; LEAVES],
    };
    let mut walk: Walk = [(0, u8::MAX); LEAVES];
    let mut nodes: Vec<Vec<u32>> = vec![Vec::new(); 2 * LEAVES];
    nodes[1] = rows;
    for node in 1..LEAVES {
        let rows = std::mem::take(&mut nodes[node]);
        let Some(split) = best_split(plan, binned, left, &rows, features) else {
            nodes[2 * node] = rows;
            continue;
        };
        let bins = &binned.bins[split.feature];
        let (low, high): (Vec<u32>, Vec<u32>) =
            rows.into_iter().partition(|row| bins[*row as usize] <= split.bin);
        grown.features[node] = split.feature as u8;
        grown.thresholds[node] = binned.edges[split.feature][usize::from(split.bin)];
        walk[node] = (split.feature, split.bin);
        (nodes[2 * node], nodes[2 * node + 1]) = (low, high);
    }
    for leaf in 0..LEAVES {
        let sum = held_sum(plan, left, &nodes[LEAVES + leaf]);
        grown.leaves[leaf] = plan.rate * sum.gradient / (sum.rows + plan.calm);
    }
    (grown, walk)
}

fn held_sum(plan: &Plan, left: &[f32], rows: &[u32]) -> Sum {
    let mut sum = Sum::default();
    for row in rows {
        sum.gradient += left[*row as usize].clamp(-plan.large_error, plan.large_error);
        sum.rows += 1.0;
    }
    sum
}

fn best_split(
    plan: &Plan,
    binned: &Binned,
    left: &[f32],
    rows: &[u32],
    features: &[usize],
) -> Option<Split> {
    if rows.len() < 2 * plan.least_rows {
        return None;
    }
    let whole = held_sum(plan, left, rows);
    let score = |sum: Sum| sum.gradient * sum.gradient / (sum.rows + plan.calm);
    let mut best: Option<Split> = None;
    for &feature in features {
        let mut sums = [Sum::default(); BINS + 1];
        let bins = &binned.bins[feature];
        for row in rows {
            let sum = &mut sums[usize::from(bins[*row as usize])];
            sum.gradient += left[*row as usize].clamp(-plan.large_error, plan.large_error);
            sum.rows += 1.0;
        }
        let mut low = Sum::default();
        for (bin, sum) in sums[..binned.edges[feature].len()].iter().enumerate() {
            low.gradient += sum.gradient;
            low.rows += sum.rows;
            let high = Sum { gradient: whole.gradient - low.gradient, rows: whole.rows - low.rows };
            if sum.rows == 0.0 || low.rows < plan.least_rows as f32 {
                continue;
            }
            if high.rows < plan.least_rows as f32 {
                break;
            }
            let gain = score(low) + score(high) - score(whole);
            if gain > best.map_or(1e-6, |best| best.gain) {
                best = Some(Split { gain, feature, bin: bin as u8 });
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> (Vec<[f32; COUNT]>, Vec<f32>) {
        let mut random = Random::new(3);
        let rows: Vec<[f32; COUNT]> = (0..count)
            .map(|_| {
                let mut row = [0.0; COUNT];
                row[..6].fill_with(|| random.unit());
                row
            })
            .collect();
        let target = |row: &[f32; COUNT]| {
            let step = if row[0] > 0.5 { 2.0 } else { 0.0 };
            step + row[1] * row[2] + (row[3] * 6.0).sin()
        };
        let targets = rows.iter().map(target).collect();
        (rows, targets)
    }

    #[test]
    fn it_learns_steps_products_and_waves() {
        let (all, targets) = rows(3_000);
        let (train, test) = all.split_at(2_400);
        let binned = Binned::new(&train.iter().collect::<Vec<_>>());
        let forest = grow(&Plan::usual(150, 1), &binned, &targets[..2_400], |_, _| {});
        let error: f32 = test
            .iter()
            .zip(&targets[2_400..])
            .map(|(row, target)| (forest.predict(row) - target).abs())
            .sum::<f32>()
            / 600.0;
        assert!(error < 0.06, "{error}");
    }

    #[test]
    fn what_is_left_shrinks_and_a_seed_decides() {
        let (all, targets) = rows(500);
        let binned = Binned::new(&all.iter().collect::<Vec<_>>());
        let mut squares = Vec::new();
        let first = grow(&Plan::usual(20, 1), &binned, &targets, |_, left| squares.push(left));
        assert!(squares[19] < 0.2 * squares[0], "{squares:?}");
        assert_eq!(first, grow(&Plan::usual(20, 1), &binned, &targets, |_, _| {}));
        assert_ne!(first, grow(&Plan::usual(20, 2), &binned, &targets, |_, _| {}));
    }

    #[test]
    fn nothing_to_learn_from_is_no_fault() {
        let binned = Binned::new(&[]);
        let forest = grow(&Plan::usual(3, 1), &binned, &[], |_, _| {});
        assert!(forest.is_empty());
        assert_eq!(forest.predict(&[1.0; COUNT]), 0.0);
    }
}
