//! Judges models on rows that none of them has seen, each beside the baselines and what it is made of.
//!
//! A split tells what was known when a row was asked for; every model is asked the same questions with the same
//! history, so their scores can be compared.

use super::options::LEAST_ROWS;
use super::sets::{COLD_SALT, devices, judged_sets};
use crate::Error;
use crate::baselines::{Baselines, Constants, baselines};
use crate::examples::{Example, Shown, Source};
use crate::metrics::{Pair, ShareScores, TimeScores, share_scores, time_scores};
use crate::peaks::Peaks;
use crate::rows::Row;
use crate::split::{Part, parts};
use apex_models::dense::{DenseNetwork, Space};
use apex_policy::predict::acquaintance::Acquaintance;
use apex_policy::predict::features::{SMALL, base};
use apex_policy::predict::network::SmallNetwork;
use apex_policy::predict::question::Device;
use apex_policy::predict::trees::{Trees, TreesAnswer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How one model did on one kind of question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The model.
    pub model: String,
    /// Unseen configurations of known kernels (`known`), or kernels never trained on, after so many
    /// measurements (`unseen`, `unseen after 10`).
    pub split: String,
    /// Its times.
    pub time: TimeScores,
    /// Its achieved occupancy, where counters were read.
    pub achieved_occupancy: ShareScores,
    /// Its throughput of the multiprocessors.
    pub sm_throughput: ShareScores,
    /// Its throughput of memory.
    pub dram_throughput: ShareScores,
}

/// Everything that was found out about the models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Rows of each part: train, calibrate known, calibrate unseen, judge known, judge unseen.
    pub rows: [usize; 5],
    /// Kernels that no model has seen.
    pub held_out_kernels: Vec<String>,
    /// Median of the quartile distance over the time: the noise from run to run.
    pub noise: f64,
    /// The table of repeats: what was measured first as a prediction of what was measured then.
    pub repeats: TimeScores,
    /// The models' scores.
    pub judged: Vec<Judged>,
    /// The baselines' scores by split.
    pub baselines: BTreeMap<String, Baselines>,
    /// Theoretical occupancy times wave fill as achieved occupancy, by split.
    pub occupancy_baseline: BTreeMap<String, ShareScores>,
    /// Rows whose occupancy the driver was asked for, and those that equal ours.
    pub occupancy_equal: (usize, usize),
}

/// The models that are judged.
#[derive(Clone, Copy, Debug)]
pub struct Models<'a> {
    /// The boosted trees.
    pub trees: &'a Trees,
    /// The small network.
    pub small: &'a SmallNetwork,
    /// The large network.
    pub large: Option<&'a DenseNetwork>,
}

/// Judges models that were trained from these rows with this seed, over the bounds they were trained with.
pub fn judge(
    rows: &[Row],
    seed: u64,
    peaks: &BTreeMap<String, Peaks>,
    models: Models<'_>,
) -> Result<Report, Error> {
    let rows: Vec<Row> = rows.iter().filter(|row| row.is_usable()).cloned().collect();
    if rows.len() < LEAST_ROWS {
        return Err(Error::TooFew { what: "rows", found: rows.len(), needed: LEAST_ROWS });
    }
    let parts = parts(&rows, seed);
    let devices = devices(&rows, peaks)?;
    let mut source = Source::new(&rows, |row| devices[row.device.as_str()]);
    source.set_likeness(&models.trees.likeness);
    let judged = judged_sets(&source, &parts, seed);
    Ok(report(&source, &parts, &devices, &judged, seed, models))
}

pub(super) fn report(
    source: &Source<'_>,
    parts: &[Part],
    devices: &BTreeMap<&str, Device>,
    judged: &[(&'static str, Vec<Example>)],
    seed: u64,
    models: Models<'_>,
) -> Report {
    let rows = source.rows();
    let mut report = Report {
        seed,
        rows: [
            Part::Train,
            Part::CalibrateKnown,
            Part::CalibrateUnseen,
            Part::JudgeKnown,
            Part::JudgeUnseen,
        ]
        .map(|wanted| parts.iter().filter(|part| **part == wanted).count()),
        held_out_kernels: held_out(rows, parts),
        noise: noise(rows),
        repeats: repeats(rows),
        occupancy_equal: occupancy_equal(rows, devices),
        ..Report::default()
    };
    let cold = source.examples(parts, Part::Train, Shown::Nothing, seed ^ COLD_SALT);
    let constants = Constants::of(&cold);
    for (split, examples) in judged {
        judge_all(&mut report, split, examples, models);
        report.baselines.insert((*split).into(), baselines(examples, constants));
        report.occupancy_baseline.insert((*split).into(), occupancy_baseline(examples));
    }
    report
}

fn judge_all(report: &mut Report, split: &str, examples: &[Example], models: Models<'_>) {
    let Models { trees, small, large } = models;
    let class = |example: &Example| Acquaintance::of(example.seen);
    let mut judge = |model: &str, answer: &mut dyn FnMut(&Example) -> TreesAnswer| {
        report.judged.push(judged(model, split, examples, answer));
    };
    judge("trees", &mut |example| trees.answer(&example.features, class(example)));
    judge("small network", &mut |example| {
        let answer = small.answer(&SMALL.map(|place| example.features[place]));
        TreesAnswer {
            over_expected: answer.over_expected,
            half_width: answer.half_width,
            achieved_occupancy: answer.achieved_occupancy,
            sm_throughput: answer.sm_throughput,
            dram_throughput: 0.0,
        }
    });
    if let Some(large) = large {
        let mut space = Space::default();
        let bytes = large.quantised();
        judge("large network", &mut |e| large.answer(&e.features, class(e), &mut space));
        let mut space = Space::default();
        judge("large network, int8", &mut |e| bytes.answer(&e.features, class(e), &mut space));
    }
    let bare = |over_expected: f32| TreesAnswer {
        over_expected,
        half_width: 0.0,
        achieved_occupancy: 0.0,
        sm_throughput: 0.0,
        dram_throughput: 0.0,
    };
    judge("parts", &mut |_| bare(0.0));
    if examples.iter().any(|example| example.seen > 0) {
        judge("line", &mut |e| bare((e.line_nanos.max(1.0) / e.expected_nanos).log2()));
        judge("likeness", &mut |e| bare(base(&e.features)));
    }
}

fn judged(
    model: &str,
    split: &str,
    examples: &[Example],
    answer: &mut dyn FnMut(&Example) -> TreesAnswer,
) -> Judged {
    let mut times = Vec::new();
    let mut shares: [Vec<(f64, f64)>; 3] = Default::default();
    for example in examples {
        let answer = answer(example);
        times.push(Pair {
            predicted: example.nanos(answer.over_expected),
            measured: example.measured(),
            half_width: (answer.half_width > 0.0).then_some(f64::from(answer.half_width)),
        });
        let predicted = [answer.achieved_occupancy, answer.sm_throughput, answer.dram_throughput];
        for ((pairs, predicted), measured) in shares.iter_mut().zip(predicted).zip(example.shares) {
            if let Some(measured) = measured {
                pairs.push((f64::from(predicted), f64::from(measured)));
            }
        }
    }
    let [achieved, sm, dram] = shares.map(|pairs| share_scores(&pairs));
    Judged {
        model: model.into(),
        split: split.into(),
        time: time_scores(&times),
        achieved_occupancy: achieved,
        sm_throughput: sm,
        dram_throughput: dram,
    }
}

/// What the shape alone says of achieved occupancy.
fn occupancy_baseline(examples: &[Example]) -> ShareScores {
    let place = |name: &str| {
        apex_policy::predict::features::NAMES.iter().position(|known| *known == name).unwrap_or(0)
    };
    let (occupancy, fill) = (place("occupancy"), place("wave_fill"));
    let pairs: Vec<(f64, f64)> = examples
        .iter()
        .filter_map(|example| {
            let theoretical = example.features[occupancy] * example.features[fill];
            Some((f64::from(theoretical), f64::from(example.shares[0]?)))
        })
        .collect();
    share_scores(&pairs)
}

fn held_out(rows: &[Row], parts: &[Part]) -> Vec<String> {
    let mut kernels: Vec<String> = rows
        .iter()
        .zip(parts)
        .filter(|(_, part)| **part == Part::JudgeUnseen)
        .map(|(row, _)| row.kernel.clone())
        .collect();
    kernels.sort();
    kernels.dedup();
    kernels
}

fn noise(rows: &[Row]) -> f64 {
    let mut shares: Vec<f64> = rows.iter().map(|row| row.quartiles_ns / row.median_ns).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied().unwrap_or(0.0)
}

/// What was measured first as a prediction of what was measured again.
fn repeats(rows: &[Row]) -> TimeScores {
    let twice = rows.iter().filter(|row| row.repeat_ns > 0.0);
    let pair =
        |row: &Row| Pair { predicted: row.median_ns, measured: row.repeat_ns, half_width: None };
    time_scores(&twice.map(pair).collect::<Vec<_>>())
}

/// Rows whose occupancy the driver was asked for, and how many of its answers are ours too.
fn occupancy_equal(rows: &[Row], devices: &BTreeMap<&str, Device>) -> (usize, usize) {
    let asked = rows.iter().filter(|row| row.driver_blocks_per_sm > 0);
    asked.fold((0, 0), |(asked, equal), row| {
        let needs = row.kernel_facts().needs(row.dynamic_shared);
        let chip = &devices[row.device.as_str()].chip;
        let found = apex_policy::occupancy(chip, &needs, row.shape().threads_per_block());
        (asked + 1, equal + usize::from(found.blocks_per_sm == row.driver_blocks_per_sm))
    })
}
