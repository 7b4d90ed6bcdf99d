//! Grows the trees and sets what is taken of them and how wide intervals are.
//!
//! Everything here is chosen on rows kept apart, or on kernels as if they had never been seen; rows that judge have
//! no part in it.

use super::news::{Announce, News};
use super::options::{Options, SHARE};
use super::sets::{Apart, Once, SHOWN, Sets};
use crate::boost::{self, Binned};
use crate::chart::{Series, curves};
use crate::examples::Example;
use crate::metrics::widening;
use apex_policy::predict::acquaintance::{Acquaintance, TELLING};
use apex_policy::predict::features::{HISTORY_COUNT, WALKED, doubt};
use apex_policy::predict::trees::{ALWAYS_LEFT, Forest, GrownTree, LEAVES, Trees};

const NARROWEST: f32 = 0.015;
/// How much larger than the least error one may be that is as good.
const NEARLY: f32 = 1.005;

/// The trees with all that is chosen about them, in the order in which one choice rests on another.
pub(super) fn grow_trees(
    sets: &Sets,
    options: &Options,
    announce: &mut Announce<'_>,
    charts: &mut Vec<(String, String)>,
) -> Trees {
    let mut trees = Trees::default();
    trees.forests[0] = grow_time(sets, options, announce, charts);
    for share in 0..3 {
        trees.forests[2 + share] = grow_share(sets, options, share);
    }
    // Only with kernels that are known well: what trees learn of some kernels' instructions misleads about others.
    let known = Acquaintance::Known as usize;
    trees.trust[known] = trust_with_known(sets, &trees.forests[0]);
    let trust = trees.trust[known];
    announce(News::Found(&format!("trees are trusted by {trust:.2} with known kernels")));
    let untouched = untouched(sets, trees.trust);
    set_caution(&mut trees, &untouched);
    announce(News::Found(&format!("caution by acquaintance: {:?}", trees.caution)));
    // The kernel's own doubt is the width. A forest that learned widths would know kernels by their instructions.
    trees.forests[1] = Forest::new(1.0);
    set_widening(&mut trees, &untouched);
    let unseen = widen_unseen(&mut trees, sets);
    let [walked, blind] = unseen;
    announce(News::Found(&format!(
        "kernels never seen are within a factor of 2^{walked:.2}, those nobody walked 2^{blind:.2}"
    )));
    let first = widen_first(&mut trees, sets);
    let more = [unseen, first].map(|[walked, blind]| blind / walked - 1.0);
    trees.forests[1].push(&doubted_unwalked(more));
    trees
}

/// The forest for time, on every row with each of its histories.
fn grow_time(
    sets: &Sets,
    options: &Options,
    announce: &mut Announce<'_>,
    charts: &mut Vec<(String, String)>,
) -> Forest {
    let table = binned(sets.train.iter());
    let targets: Vec<f32> = sets.train.iter().map(Example::over_base).collect();
    let mut left = Vec::new();
    let plan = boost::Plan::usual(options.trees, options.seed ^ 0x7ee5);
    let forest = boost::grow(&plan, &table, &targets, |tree, square| {
        left.push((tree as f64, f64::from(square)));
        announce(News::Step { what: "trees:", done: tree, all: plan.trees });
    });
    let series = [Series { name: "time over bound, trained on".into(), points: left }];
    charts.push((
        "loss-trees.svg".into(),
        curves("Boosted trees", "trees", "mean square error (log2²)", &series),
    ));
    forest
}

/// The forest for a share of a peak, where counters were read, with every history: how busy a resource is follows from
/// the time. Shares have no intervals, so the rows kept for those teach too.
fn grow_share(sets: &Sets, options: &Options, share: usize) -> Forest {
    let all = sets.train.iter().chain(&sets.calibrate);
    let known: Vec<&Example> = all.filter(|example| example.shares[share].is_some()).collect();
    let table = binned(known.iter().copied());
    let targets: Vec<f32> = known.iter().filter_map(|example| example.shares[share]).collect();
    let plan = boost::Plan {
        rate: 0.05,
        least_rows: 8 * SHOWN,
        feature_share: 0.5,
        ..boost::Plan::usual(options.trees.min(200), options.seed ^ (0x54a0 + share as u64))
    };
    boost::grow(&plan, &table, &targets, |_, _| {})
}

/// How much of the forest's correction is taken of kernels that are known well, by rows kept apart.
fn trust_with_known(sets: &Sets, time: &Forest) -> f32 {
    let kept_apart =
        sets.calibrate.iter().filter(|e| Acquaintance::of(e.seen) == Acquaintance::Known);
    let corrections: Vec<(f32, f32)> =
        kept_apart.map(|e| (time.predict(&e.features), e.over_base())).collect();
    trusted(&corrections)
}

/// Rows that nothing was fitted to. Where the trees are not trusted, the training rows are as good as new ones, and
/// their kernels are many more than those kept apart. After one launch the device's costs decide, so there each
/// kernel has those that were found without it.
fn untouched(sets: &Sets, trust: [f32; Acquaintance::ALL.len()]) -> Vec<&Example> {
    let untrusted = sets.train.iter().filter(|e| {
        let class = Acquaintance::of(e.seen);
        class != Acquaintance::First && trust[class as usize] == 0.0
    });
    sets.calibrate
        .iter()
        .chain(untrusted)
        .chain(usual(&sets.after_one, |once| once.blind).map(|once| &once.example))
        .collect()
}

/// What is taken off for doubt, by acquaintance.
fn set_caution(trees: &mut Trees, untouched: &[&Example]) {
    trees.caution = Acquaintance::ALL.map(|class| {
        let asked = untouched.iter().filter(|e| Acquaintance::of(e.seen) == class);
        let left: Vec<(f32, f32)> = asked
            .map(|e| (trees.over_expected(&e.features) - e.over_expected, doubt(&e.features)))
            .collect();
        cautious(&left)
    });
}

/// What a kernel's own doubt is multiplied with, by acquaintance.
fn set_widening(trees: &mut Trees, untouched: &[&Example]) {
    let scores = |class: Acquaintance| {
        let of_class = untouched.iter().filter(|example| Acquaintance::of(example.seen) == class);
        let score = |e: &&&Example| {
            let error = (trees.over_expected(&e.features) - e.over_expected).abs();
            error / doubt(&e.features).sqrt().max(NARROWEST)
        };
        of_class.map(|example| score(&example)).collect::<Vec<f32>>()
    };
    trees.widening = Acquaintance::ALL.map(|class| widening(scores(class), SHARE));
}

/// Sets caution and widening for kernels never seen, which are judged by costs that were found without them. Says the
/// widths of those whose text was walked and of the others.
fn widen_unseen(trees: &mut Trees, sets: &Sets) -> [f32; 2] {
    let unseen = Acquaintance::Unseen as usize;
    let left: Vec<(f32, f32)> = usual(&sets.apart, |apart| apart.blind)
        .map(|apart| (apart.error, apart.doubt * apart.doubt))
        .collect();
    trees.caution[unseen] = cautious(&left);
    let apart = sets.apart.iter().map(|apart| {
        let error = apart.error - trees.caution[unseen] * apart.doubt * apart.doubt;
        Apart { error: error.abs() / apart.doubt, ..*apart }
    });
    let found = widths(&apart.collect::<Vec<_>>());
    trees.widening[unseen] = found[0];
    found
}

/// The same widening for kernels that were measured once.
fn widen_first(trees: &mut Trees, sets: &Sets) -> [f32; 2] {
    let after_one = sets.after_one.iter().map(|Once { example: e, blind }| {
        let doubt = doubt(&e.features).sqrt().max(NARROWEST);
        let error = (trees.over_expected(&e.features) - e.over_expected).abs() / doubt;
        Apart { error, doubt, blind: *blind }
    });
    let found = widths(&after_one.collect::<Vec<_>>());
    trees.widening[Acquaintance::First as usize] = found[0];
    found
}

/// Those whose text was walked; all where none was.
fn usual<T>(all: &[T], blind: impl Fn(&T) -> bool + Copy) -> impl Iterator<Item = &T> {
    let none = all.iter().all(blind);
    all.iter().filter(move |one| none || !blind(one))
}

/// Half widths that hold the share of errors, of kernels whose text was walked and of others: what a loop does and
/// how lanes reach memory nobody tells of these, so they are doubted more.
fn widths(errors: &[Apart]) -> [f32; 2] {
    [false, true].map(|blind| {
        // Where all kernels are of one kind, it speaks for the other too.
        let any = errors.iter().any(|apart| apart.blind == blind);
        let alike = errors.iter().filter(|apart| !any || apart.blind == blind);
        widening(alike.map(|apart| apart.error).collect(), SHARE)
    })
}

/// A tree that says something of kernels that nobody walked and that were never measured, or once or twice, and
/// nothing of others.
fn doubted_unwalked([never, once]: [f32; 2]) -> GrownTree {
    let mut tree = GrownTree {
        features: [0; LEAVES],
        thresholds: [ALWAYS_LEFT; LEAVES],
        leaves: [0.0; LEAVES],
    };
    let mut ask = |node: usize, feature: usize, threshold: f32| {
        (tree.features[node], tree.thresholds[node]) = (feature as u8, threshold);
    };
    ask(1, HISTORY_COUNT, (TELLING as f32 + 0.5).log2());
    ask(2, HISTORY_COUNT, 0.5);
    ask(4, WALKED, 0.5);
    ask(5, WALKED, 0.5);
    // Three steps lead to an eighth of the leaves each: left, left, left and left, right, left.
    tree.leaves[0] = never;
    tree.leaves[2 * LEAVES / 8] = once;
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
