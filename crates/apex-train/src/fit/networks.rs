//! Trains the networks, small and large, and widens their intervals until they hold.

use super::news::{Announce, News};
use super::options::{Options, SHARE};
use super::sets::Sets;
use crate::chart::{Series, curves};
use crate::examples::Example;
use crate::matmul::Threads;
use crate::metrics::widening;
use crate::network::{self, all_inputs, small_inputs};
use apex_models::dense::{DenseNetwork, Space};
use apex_policy::predict::acquaintance::Acquaintance;
use apex_policy::predict::features::SMALL;
use apex_policy::predict::network::SmallNetwork;

pub(super) fn train_small(
    sets: &Sets,
    options: &Options,
    announce: &mut Announce<'_>,
    charts: &mut Vec<(String, String)>,
) -> SmallNetwork {
    let plan = network::Plan {
        hidden: vec![16, 8],
        outputs: apex_policy::predict::network::OUTPUTS,
        epochs: options.small_epochs,
        batch: 64,
        rate: 4e-3,
        decay: 0.0,
        seed: options.seed ^ 0x5a11,
        threads: Threads::one(),
    };
    let cold = |half: Vec<&Example>| -> Vec<Example> {
        half.into_iter().filter(|example| example.seen == 0).cloned().collect()
    };
    let (choosing, widen) = sets.halves();
    let (choosing, widen) = (cold(choosing), cold(widen));
    let trained = network::train(&plan, &small_inputs(), &sets.cold, &choosing, |epoch, _, _| {
        announce(News::Step { what: "small network: epoch", done: epoch, all: plan.epochs });
    });
    charts.push(("loss-small-network.svg".into(), loss_chart("Small network", &trained.losses)));
    // The sizes are those of the small network, so it cannot fail to be one.
    let counted = sets.cold.iter().any(|example| example.shares[0].is_some());
    let mut small = trained.small(1.0, counted).unwrap_or_else(|| unreachable!("8-16-8-4"));
    let scores = widen.iter().map(|example| {
        let answer = small.answer(&SMALL.map(|place| example.features[place]));
        (answer.over_expected - example.over_expected).abs() / answer.half_width
    });
    small.widening = widening(scores.collect(), SHARE);
    small
}

pub(super) fn train_large(
    sets: &Sets,
    options: &Options,
    announce: &mut Announce<'_>,
    charts: &mut Vec<(String, String)>,
) -> DenseNetwork {
    let plan = network::Plan {
        hidden: options.large_hidden.clone(),
        outputs: apex_models::dense::OUTPUTS,
        epochs: options.large_epochs,
        batch: 128,
        rate: 1e-3,
        decay: 1e-3,
        seed: options.seed ^ 0x1a26e,
        threads: options.threads,
    };
    let inputs = all_inputs();
    let (choosing, widen) = sets.halves();
    let choosing: Vec<Example> = choosing.into_iter().cloned().collect();
    let trained = network::train(&plan, &inputs, &sets.train, &choosing, |epoch, _, _| {
        announce(News::Step { what: "large network: epoch", done: epoch, all: plan.epochs });
    });
    charts.push(("loss-large-network.svg".into(), loss_chart("Large network", &trained.losses)));
    let mut dense = trained.dense([1.0; Acquaintance::ALL.len()]);
    let mut space = Space::default();
    let mut scores: [Vec<f32>; Acquaintance::ALL.len()] = Default::default();
    for example in widen {
        let class = Acquaintance::of(example.seen);
        let answer = dense.answer(&example.features, class, &mut space);
        let score = (answer.over_expected - example.over_expected).abs() / answer.half_width;
        scores[class as usize].push(score);
    }
    dense.widening = scores.map(|scores| widening(scores, SHARE));
    dense
}

fn loss_chart(title: &str, losses: &[(f32, f32)]) -> String {
    let series = |name: &str, value: fn(&(f32, f32)) -> f32| Series {
        name: name.into(),
        points: losses
            .iter()
            .enumerate()
            .map(|(nth, loss)| (nth as f64 + 1.0, f64::from(value(loss))))
            .collect(),
    };
    let both = [series("trained on", |loss| loss.0), series("kept apart", |loss| loss.1)];
    curves(title, "epochs", "loss", &both)
}
