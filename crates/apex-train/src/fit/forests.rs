//! Grows the trees and sets what is taken of them and how wide intervals are.
//!
//! Everything here is chosen on rows kept apart, or on kernels as if they had never been seen; rows that judge have
//! no part in it.

use super::sets::Sets;
use super::{Options, SHARE};
use crate::boost::{self, Binned};
use crate::chart::{Series, curves};
use crate::examples::Example;
use crate::metrics::widening;
use apex_policy::predict::features::{HISTORY_COUNT, LOOPS, doubt};
use apex_policy::predict::trees::{ALWAYS_LEFT, Acquaintance, Forest, GrownTree, LEAVES, Trees};
use std::collections::BTreeSet;

const NARROWEST: f32 = 0.015;
/// How much larger than the least error one may be that is as good.
const NEARLY: f32 = 1.02;

pub(super) fn grow_trees(
    sets: &Sets,
    options: &Options,
    say: &mut dyn FnMut(&str),
    charts: &mut Vec<(String, String)>,
) -> Trees {
    let mut trees = Trees::default();
    let table = binned(sets.train.iter());
    let targets: Vec<f32> = sets.train.iter().map(Example::over_base).collect();
    let mut left = Vec::new();
    let plan = boost::Plan::usual(options.trees, options.seed ^ 0x7ee5);
    trees.forests[0] = boost::grow(&plan, &table, &targets, |tree, square| {
        left.push((tree as f64, f64::from(square)));
        if tree % 50 == 0 {
            say(&format!("trees: {tree} of {}, {square:.5} left", plan.trees));
        }
    });
    let series = [Series { name: "time over bound, trained on".into(), points: left }];
    charts.push((
        "loss-trees.svg".into(),
        curves("Boosted trees", "trees", "mean square error (log2²)", &series),
    ));
    // Shares of peaks, where counters were read; from cold rows, since they hardly depend on history.
    for share in 0..3 {
        let known: Vec<&Example> =
            sets.cold.iter().filter(|example| example.shares[share].is_some()).collect();
        let table = binned(known.iter().copied());
        let targets: Vec<f32> = known.iter().filter_map(|example| example.shares[share]).collect();
        let plan =
            boost::Plan::usual(options.trees.min(200), options.seed ^ (0x54a0 + share as u64));
        trees.forests[2 + share] = boost::grow(&plan, &table, &targets, |_, _| {});
    }
    // Only with kernels that are known well: what trees learn of some kernels' instructions misleads about others.
    let known = Acquaintance::Known;
    let kept_apart = sets.calibrate.iter().filter(|e| Acquaintance::of(e.seen) == known);
    let corrections: Vec<(f32, f32)> =
        kept_apart.map(|e| (trees.forests[0].predict(&e.features), e.over_base())).collect();
    trees.trust[known as usize] = trusted(&corrections);
    say(&format!("trees are trusted by {:.2} with known kernels", trees.trust[known as usize]));
    // Where the trees are not trusted, the training rows are as good as new ones, for then nothing was fitted to them
    // one by one, and their kernels are many more than those kept apart.
    let untouched =
        sets.train.iter().filter(|e| trees.trust[Acquaintance::of(e.seen) as usize] == 0.0);
    let untouched: Vec<&Example> = sets.calibrate.iter().chain(untouched).collect();
    trees.caution = Acquaintance::ALL.map(|class| {
        let asked = untouched.iter().filter(|e| Acquaintance::of(e.seen) == class);
        let left: Vec<(f32, f32)> = asked
            .map(|e| (trees.over_expected(&e.features) - e.over_expected, doubt(&e.features)))
            .collect();
        cautious(&left)
    });
    say(&format!("caution by acquaintance: {:?}", trees.caution));
    // The kernel's own doubt is the width. A forest that learned widths would know kernels by their instructions.
    trees.forests[1] = Forest::new(1.0);
    let scores = |class: Acquaintance| {
        let of_class = untouched.iter().filter(|example| Acquaintance::of(example.seen) == class);
        let score = |e: &&&Example| {
            let error = (trees.over_expected(&e.features) - e.over_expected).abs();
            error / doubt(&e.features).sqrt().max(NARROWEST)
        };
        of_class.map(|example| score(&example)).collect::<Vec<f32>>()
    };
    trees.widening = Acquaintance::ALL.map(|class| widening(scores(class), SHARE));
    // Kernels never seen are judged by costs that were found without them.
    let unseen = Acquaintance::Unseen as usize;
    let left: Vec<(f32, f32)> = sets.apart.iter().map(|apart| (apart.error, 1.0)).collect();
    trees.caution[unseen] = cautious(&left);
    let width = |loops: bool| {
        // Where all kernels are of one kind, it speaks for the other too.
        let any = sets.apart.iter().any(|apart| apart.loops == loops);
        let alike = || sets.apart.iter().filter(|apart| !any || apart.loops == loops);
        // The next kernel is one more of so many, not one more of all their rows.
        let kernels = alike().map(|apart| apart.kernel).collect::<BTreeSet<_>>().len() as f32;
        let share = (((kernels + 1.0) * SHARE).ceil() / kernels.max(1.0)).min(1.0);
        widening(alike().map(|apart| (apart.error - trees.caution[unseen]).abs()).collect(), share)
    };
    // How often a loop runs nobody tells of a kernel never seen, so those with loops are doubted more.
    let (straight, looped) = (width(false), width(true));
    trees.widening[unseen] = straight;
    trees.forests[1].push(&doubted_with_loops(looped / straight - 1.0));
    say(&format!(
        "kernels never seen are within a factor of 2^{straight:.2}, with loops 2^{looped:.2}"
    ));
    trees
}

/// A tree that says something of kernels that have loops and were never measured, and nothing of others.
fn doubted_with_loops(more: f32) -> GrownTree {
    let mut tree = GrownTree {
        features: [0; LEAVES],
        thresholds: [ALWAYS_LEFT; LEAVES],
        leaves: [0.0; LEAVES],
    };
    (tree.features[1], tree.thresholds[1]) = (HISTORY_COUNT as u8, 0.5);
    (tree.features[2], tree.thresholds[2]) = (LOOPS as u8, 0.5);
    // Right of the left one of two: the second quarter of the leaves begins there.
    tree.leaves[LEAVES / 4] = more;
    tree
}

/// The share of predicted corrections that leaves the least mean error of times.
fn trusted(corrections: &[(f32, f32)]) -> f32 {
    least_share(|trust| {
        corrections.iter().map(|(found, truth)| ((trust * found - truth).exp2() - 1.0).abs()).sum()
    })
}

/// The caution that leaves the least mean error of times, of errors in log2 and their doubts.
fn cautious(left: &[(f32, f32)]) -> f32 {
    least_share(|caution| {
        left.iter().map(|(error, doubt)| ((error - caution * doubt).exp2() - 1.0).abs()).sum()
    })
}

/// The share with the least error. A small gain on few rows is chance: the least share that does nearly as well.
fn least_share(error: impl Fn(f32) -> f32) -> f32 {
    let shares = (0..=20).map(|nth| nth as f32 * 0.05);
    let best = shares.clone().map(&error).fold(f32::INFINITY, f32::min);
    shares.into_iter().find(|share| error(*share) <= best * NEARLY).unwrap_or(0.0)
}

fn binned<'a>(examples: impl Iterator<Item = &'a Example>) -> Binned {
    Binned::new(&examples.map(|example| &example.features).collect::<Vec<_>>())
}
