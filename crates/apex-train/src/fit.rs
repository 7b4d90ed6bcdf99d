//! Trains every model from rows and judges it on rows it has not seen.
//!
//! One seed decides the parts, the order and the first weights, so the same rows give the same models. First it is
//! learned how alike launches of a kernel are; trees and networks then see each row with what its kernel's other
//! launches tell of it. Rows kept apart decide how much of a correction is taken and by which factors intervals are
//! widened until four of five times lie inside. Judged is everything beside the baselines, on unseen configurations
//! and on unseen kernels.

mod comparison;
mod forests;
mod judging;
mod networks;
mod news;
mod options;
mod sets;

pub use judging::{Judged, Models, Report, judge};
pub use news::{Announce, News};
pub use options::Options;

use crate::Error;
use crate::chart::{Series, cloud, curves};
use crate::examples::{Example, Source};
use crate::likeness;
use crate::peaks::{Peaks, peaks};
use crate::rows::Row;
use crate::split::{Part, parts};
use crate::walks;
use apex_models::CheckSet;
use apex_models::dense::DenseNetwork;
use apex_policy::predict::features::COUNT;
use apex_policy::predict::likeness::Likeness;
use apex_policy::predict::network::SmallNetwork;
use apex_policy::predict::trees::Trees;
use comparison::compare_transformer;
use forests::grow_trees;
use judging::report;
use networks::{train_large, train_small};
use options::LEAST_ROWS;
use sets::{Sets, devices, expected_apart, judged_sets};
use std::collections::{BTreeMap, BTreeSet};

/// All models with their report.
#[derive(Debug)]
pub struct Fitted {
    /// The bounds they correct.
    pub peaks: BTreeMap<String, Peaks>,
    /// The small network.
    pub small: SmallNetwork,
    /// The boosted trees.
    pub trees: Trees,
    /// The large network.
    pub large: Option<DenseNetwork>,
    /// Rows to compare later models on.
    pub check: CheckSet,
    /// Features that model files keep as examples of themselves.
    pub golden: Vec<[f32; COUNT]>,
    /// What was found out.
    pub report: Report,
    /// Pictures by file name.
    pub charts: Vec<(String, String)>,
}

const LEAST_KERNELS: usize = 5;
const GOLDEN: usize = 4;
/// Launches of one kernel that the likeness is learned from together.
const LIKENESS_LAUNCHES: usize = 120;

/// Trains and judges. `announce` learns what is being done and what was found out.
pub fn fit(rows: &[Row], options: &Options, announce: &mut Announce<'_>) -> Result<Fitted, Error> {
    let rows = usable(rows);
    let parts = parts(&rows, options.seed);
    let kernels: BTreeSet<&str> = rows.iter().map(|row| row.kernel.as_str()).collect();
    if rows.len() < LEAST_ROWS {
        return Err(Error::TooFew { what: "rows", found: rows.len(), needed: LEAST_ROWS });
    }
    if kernels.len() < LEAST_KERNELS {
        return Err(Error::TooFew { what: "kernels", found: kernels.len(), needed: LEAST_KERNELS });
    }
    let trained = rows.iter().zip(&parts).filter(|(_, part)| **part == Part::Train);
    let mut known_peaks = peaks(&trained.map(|(row, _)| row.clone()).collect::<Vec<_>>());
    for (name, peaks) in peaks(&rows) {
        known_peaks.entry(name).or_insert(peaks);
    }
    let devices = devices(&rows, &known_peaks)?;
    let mut source = Source::new(&rows, |row| devices[row.device.as_str()]);
    let mut charts = Vec::new();
    let likeness = learn_likeness(&source, &parts, options, announce, &mut charts);
    source.set_likeness(&likeness);
    let apart = expected_apart(&rows, &parts, &devices, &likeness, options.seed);
    let sets = Sets::new(&source, &parts, options.seed, apart);

    let found = format!("{} examples of {} rows to train on", sets.train.len(), sets.cold.len());
    announce(News::Found(&found));
    let mut trees = grow_trees(&sets, options, announce, &mut charts);
    trees.likeness = likeness;
    let small = train_small(&sets, options, announce, &mut charts);
    let large =
        (options.large_epochs > 0).then(|| train_large(&sets, options, announce, &mut charts));

    announce(News::Step { what: "judging on rows that no model has seen", done: 1, all: 1 });
    let judged = judged_sets(&source, &parts, options.seed);
    let models = Models { trees: &trees, small: &small, large: large.as_ref() };
    let mut report = report(&source, &parts, &devices, &judged, options.seed, models);
    if options.transformer_epochs > 0 {
        report.judged.extend(compare_transformer(
            &source,
            &parts,
            options,
            &trees.likeness,
            announce,
            &mut charts,
        ));
    }
    charts.push(("predicted-measured.svg".into(), predicted_measured(&judged, &trees)));
    let golden = sets.train.iter().step_by(sets.train.len().div_ceil(GOLDEN).max(1));
    let golden = golden.map(|example| example.features).collect();
    let check = check_set(&judged);
    Ok(Fitted { peaks: known_peaks.clone(), small, trees, large, check, golden, report, charts })
}

/// Rows that can be learned from, each with what its warps do where that can be found.
fn usable(rows: &[Row]) -> Vec<Row> {
    let mut rows: Vec<Row> = rows.iter().filter(|row| row.is_usable()).cloned().collect();
    walks::fill(&mut rows);
    rows
}

fn learn_likeness(
    source: &Source<'_>,
    parts: &[Part],
    options: &Options,
    announce: &mut Announce<'_>,
    charts: &mut Vec<(String, String)>,
) -> Likeness {
    let plan = likeness::Plan {
        steps: options.likeness_steps,
        most: LIKENESS_LAUNCHES,
        seed: options.seed ^ 0x11ce,
    };
    let mut left = Vec::new();
    let found = likeness::learn(&plan, &source.launches(parts, Part::Train), |step, unlikely| {
        // Likelihoods above one have negative logarithms, which the chart's own logarithmic axis cannot show.
        left.push((step as f64, unlikely.exp()));
        announce(News::Step { what: "likeness: step", done: step, all: plan.steps });
    });
    let series = [Series { name: "launches trained on".into(), points: left }];
    let title = "Likeness of launches";
    charts.push((
        "loss-likeness.svg".into(),
        curves(title, "steps", "inverse likelihood of a launch", &series),
    ));
    found
}

fn predicted_measured(judged: &[(&str, Vec<Example>)], trees: &Trees) -> String {
    let series: Vec<Series> = judged
        .iter()
        .filter(|(split, _)| ["known", "unseen", "unseen after 10"].contains(split))
        .map(|(split, examples)| Series {
            name: format!("{split}, trees"),
            points: examples
                .iter()
                .map(|example| {
                    let predicted = example.nanos(trees.over_expected(&example.features));
                    (example.measured() / 1e3, predicted / 1e3)
                })
                .collect(),
        })
        .collect();
    cloud(
        "Predicted against measured, rows no model has seen",
        "measured µs",
        "predicted µs",
        &series,
    )
}

/// A few hundred rows that later models are compared on: those that no model was trained on.
fn check_set(judged: &[(&str, Vec<Example>)]) -> CheckSet {
    let all: Vec<&Example> = judged
        .iter()
        .filter(|(split, _)| ["known", "unseen"].contains(split))
        .flat_map(|(_, examples)| examples)
        .collect();
    let step = all.len().div_ceil(400).max(1);
    let kept: Vec<&Example> = all.into_iter().step_by(step).collect();
    CheckSet {
        features: kept.iter().map(|example| example.features).collect(),
        over_expected: kept.iter().map(|example| example.over_expected).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::tests::fixture;
    use crate::matmul::Threads;

    fn quick() -> Options {
        Options { threads: Threads::one(), small_epochs: 10, large_epochs: 1, ..Options::quick(1) }
    }

    #[test]
    fn models_come_out_again_from_rows_and_seed() {
        let rows = fixture(10, 60);
        let first = fit(&rows, &quick(), &mut |_| {}).unwrap();
        let second = fit(&rows, &quick(), &mut |_| {}).unwrap();
        assert_eq!(first.trees, second.trees);
        assert_eq!(first.small, second.small);
        assert_eq!(first.large, second.large);
        assert_eq!(first.report, second.report);
    }

    #[test]
    fn known_kernels_are_learned_and_intervals_hold() {
        let rows = fixture(12, 160);
        let fitted = fit(&rows, &Options { trees: 150, ..quick() }, &mut |_| {}).unwrap();
        let known = fitted.report.judged.iter().find(|j| j.model == "trees" && j.split == "known");
        let known = &known.unwrap().time;
        assert!(known.mean_error < 0.08, "{known:?}");
        let coverage = known.coverage.unwrap();
        assert!((0.68..0.92).contains(&coverage), "{coverage}");
        let roofline = &fitted.report.baselines["known"].roofline;
        assert!(known.mean_error < roofline.mean_error);
        assert!(!fitted.report.held_out_kernels.is_empty());
    }

    #[test]
    fn too_little_is_said_so() {
        let few = fit(&fixture(6, 5), &quick(), &mut |_| {});
        assert!(matches!(few, Err(Error::TooFew { what: "rows", .. })));
        let narrow = fit(&fixture(2, 100), &quick(), &mut |_| {});
        assert!(matches!(narrow, Err(Error::TooFew { what: "kernels", .. })));
    }
}
