//! A transformer over the launch history, for comparison alone.

use super::judging::Judged;
use super::news::{Announce, News};
use super::options::Options;
use crate::chart::{Series, curves};
use crate::examples::Source;
use crate::metrics::{Pair, ShareScores, time_scores};
use crate::split::Part;
use crate::transformer::{self, Passage, Transformer};
use apex_policy::predict::likeness::Likeness;

/// Trains the transformer and judges it as the others were. It is kept nowhere.
pub(super) fn compare_transformer(
    source: &Source<'_>,
    parts: &[Part],
    options: &Options,
    likeness: &Likeness,
    announce: &mut Announce<'_>,
    charts: &mut Vec<(String, String)>,
) -> Vec<Judged> {
    let of = |part, count, salt: u64| source.passages(parts, part, count, options.seed ^ salt);
    let mut train = Vec::new();
    for (salt, count) in (60..).zip([1, 3, 10, transformer::LENGTH as u32]) {
        train.extend(of(Part::Train, count, salt).into_iter().map(|(_, passage)| passage));
    }
    let plan = transformer::Plan { epochs: options.transformer_epochs, seed: options.seed ^ 0x7f };
    let mut losses = Vec::new();
    let trained = Transformer::train(&plan, likeness, &train, |epoch, loss| {
        losses.push((epoch as f64, f64::from(loss)));
        let what = "transformer for comparison: epoch";
        announce(News::Step { what, done: epoch, all: plan.epochs });
    });
    let series = [Series { name: "trained on".into(), points: losses }];
    charts.push((
        "loss-transformer.svg".into(),
        curves("Transformer, for comparison", "epochs", "loss", &series),
    ));
    let asked = [
        ("known", Part::JudgeKnown, transformer::LENGTH as u32),
        ("unseen after 1", Part::JudgeUnseen, 1),
        ("unseen after 3", Part::JudgeUnseen, 3),
        ("unseen after 10", Part::JudgeUnseen, 10),
    ];
    let judge = |(split, part, count): (&str, Part, u32)| {
        let pair = |(row, passage): (usize, Passage)| {
            let found = trained.over_expected(&passage.asked, &passage.before);
            let expected = f64::from(source.bound(row).expected());
            Pair {
                predicted: expected * f64::from(found).exp2(),
                measured: source.rows()[row].median_ns,
                half_width: None,
            }
        };
        let pairs: Vec<Pair> =
            of(part, count, 70 + u64::from(count)).into_iter().map(pair).collect();
        Judged {
            model: "transformer".into(),
            split: split.into(),
            time: time_scores(&pairs),
            achieved_occupancy: ShareScores::default(),
            sm_throughput: ShareScores::default(),
            dram_throughput: ShareScores::default(),
        }
    };
    asked.into_iter().map(judge).collect()
}
