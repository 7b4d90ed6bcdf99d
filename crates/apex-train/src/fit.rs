//! Trains every model from rows and judges it on rows it has not seen.
//!
//! One seed decides the parts, the order and the first weights, so the same rows give the same models. Trees are
//! grown on time over the bound; a second forest learns how much the first one errs, on rows kept for that; what is
//! left of those rows sets the factors by which intervals are widened until four of five times lie inside. Judged
//! is everything beside the baselines, on unseen configurations and on unseen kernels.

use crate::Error;
use crate::baselines::{Baselines, Constants, baselines};
use crate::boost::{self, Binned};
use crate::chart::{Series, cloud, curves};
use crate::costs::costs;
use crate::examples::{Example, Shown, Source, question};
use crate::likeness;
use crate::matmul::Threads;
use crate::metrics::{Pair, ShareScores, TimeScores, share_scores, time_scores, widening};
use crate::network::{self, all_inputs, small_inputs};
use crate::peaks::{Peaks, peaks};
use crate::random::named;
use crate::rows::Row;
use crate::split::{Part, parts};
use crate::transformer::{self, Passage, Transformer};
use apex_policy::predict::dense::{DenseNetwork, Space};
use apex_policy::predict::exact::bound;
use apex_policy::predict::features::{COUNT, SMALL, base, doubt};
use apex_policy::predict::neighbours::Likeness;
use apex_policy::predict::network::SmallNetwork;
use apex_policy::predict::question::{Arguments, Device, Kernel};
use apex_policy::predict::swap::CheckSet;
use apex_policy::predict::trees::{Acquaintance, Forest, Trees, TreesAnswer};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What to train and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything random comes from.
    pub seed: u64,
    /// Steps of learning how alike launches are.
    pub likeness_steps: usize,
    /// Trees of the forest for time.
    pub trees: usize,
    /// Epochs of the small network.
    pub small_epochs: usize,
    /// Epochs of the large network; none leaves it out.
    pub large_epochs: usize,
    /// Hidden layers of the large network.
    pub large_hidden: Vec<usize>,
    /// Epochs of the transformer that is trained for comparison; none leaves it out.
    pub transformer_epochs: usize,
    /// Threads for the large network.
    pub threads: Threads,
}

impl Options {
    /// The models that are shipped.
    #[must_use]
    pub fn full(seed: u64) -> Options {
        Options {
            seed,
            likeness_steps: 150,
            trees: 200,
            small_epochs: 200,
            large_epochs: 4,
            large_hidden: vec![448, 704, 320],
            transformer_epochs: 20,
            threads: Threads::all(),
        }
    }

    /// Enough to see that everything works, in seconds.
    #[must_use]
    pub fn quick(seed: u64) -> Options {
        Options {
            likeness_steps: 20,
            trees: 60,
            small_epochs: 30,
            large_epochs: 2,
            large_hidden: vec![64, 64],
            transformer_epochs: 2,
            ..Options::full(seed)
        }
    }
}

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

const LEAST_ROWS: usize = 100;
const LEAST_KERNELS: usize = 5;
const GOLDEN: usize = 4;
const SHARE: f32 = 0.8;
const NARROWEST: f32 = 0.015;
/// How much larger than the least error one may be that is as good.
const NEARLY: f32 = 1.02;
/// Launches of one kernel that the likeness is learned from together.
const LIKENESS_LAUNCHES: usize = 120;

/// Trains and judges. `say` learns what is being done.
pub fn fit(rows: &[Row], options: &Options, say: &mut dyn FnMut(&str)) -> Result<Fitted, Error> {
    let rows: Vec<Row> = rows.iter().filter(|row| row.is_usable()).cloned().collect();
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
    let likeness = learn_likeness(&source, &parts, options, say, &mut charts);
    source.set_likeness(&likeness);
    let apart = expected_apart(&rows, &parts, &devices);
    let sets = Sets::new(&source, &parts, options.seed, apart);

    say(&format!("{} examples of {} rows to train on", sets.train.len(), sets.cold.len()));
    let mut trees = grow_trees(&sets, options, say, &mut charts);
    trees.likeness = likeness;
    let small = train_small(&sets, options, say, &mut charts);
    let large = (options.large_epochs > 0).then(|| train_large(&sets, options, say, &mut charts));

    say("judging on rows that no model has seen");
    let judged = judged_sets(&source, &parts, options.seed);
    let models = Models { trees: &trees, small: &small, large: large.as_ref() };
    let mut report = report(&source, &parts, &devices, &judged, options.seed, models);
    if options.transformer_epochs > 0 {
        say("a transformer for comparison");
        report.judged.extend(compare_transformer(
            &source,
            &parts,
            options,
            &trees.likeness,
            &mut charts,
        ));
    }
    charts.push(("predicted-measured.svg".into(), predicted_measured(&judged, &trees)));
    let golden = sets.train.iter().step_by(sets.train.len().div_ceil(GOLDEN).max(1));
    let golden = golden.map(|example| example.features).collect();
    let check = check_set(&judged);
    Ok(Fitted { peaks: known_peaks.clone(), small, trees, large, check, golden, report, charts })
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

/// The device of every row, by its name.
fn devices<'a>(
    rows: &[Row],
    peaks: &'a BTreeMap<String, Peaks>,
) -> Result<BTreeMap<&'a str, Device>, Error> {
    let found = peaks.iter().filter_map(|(name, peaks)| Some((name.as_str(), peaks.device()?)));
    let devices: BTreeMap<&str, Device> = found.collect();
    match rows.iter().find(|row| !devices.contains_key(row.device.as_str())) {
        None => Ok(devices),
        Some(row) => Err(Error::Device(format!(
            "nothing is known of {} (compute capability {}.{}): collect rows on it first",
            row.device, row.major, row.minor
        ))),
    }
}

fn report(
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

const KERNEL_FOLDS: u64 = 5;

/// log2 of expected over measured times, each by costs from rows of other kernels: what to expect of the expectation
/// for a kernel never seen. Kernels that judge have no part in it.
fn expected_apart(rows: &[Row], parts: &[Part], devices: &BTreeMap<&str, Device>) -> Vec<f32> {
    let mut errors = Vec::new();
    for (name, device) in devices {
        let used: Vec<(&Row, Kernel, Arguments)> = rows
            .iter()
            .zip(parts)
            .filter(|(row, part)| row.device == *name && **part != Part::JudgeUnseen)
            .map(|(row, _)| (row, row.kernel_facts(), row.arguments()))
            .collect();
        for fold in 0..KERNEL_FOLDS {
            let apart = |row: &Row| named(7, &row.kernel) % KERNEL_FOLDS == fold;
            let others = used.iter().filter(|(row, _, _)| !apart(row));
            let costs = costs(others.map(|(row, kernel, arguments)| {
                (question(row, device, kernel, arguments), row.median_ns)
            }));
            let device = Device { costs, ..*device };
            for (row, kernel, arguments) in used.iter().filter(|(row, _, _)| apart(row)) {
                let expected = bound(&question(row, &device, kernel, arguments)).expected();
                errors.push((f64::from(expected) / row.median_ns).log2() as f32);
            }
        }
    }
    errors
}

/// Examples by what they are for.
struct Sets {
    train: Vec<Example>,
    /// Training rows without a history.
    cold: Vec<Example>,
    calibrate: Vec<Example>,
    /// log2 of expected over measured times of kernels, by costs that were found without them.
    apart: Vec<f32>,
    /// How many kernels those are.
    cold_kernels: usize,
}

const COLD_SALT: u64 = 1;

impl Sets {
    fn new(source: &Source<'_>, parts: &[Part], seed: u64, apart: Vec<f32>) -> Sets {
        let of = |part, shown, salt: u64| source.examples(parts, part, shown, seed ^ salt);
        let cold = of(Part::Train, Shown::Nothing, COLD_SALT);
        let mut train = cold.clone();
        for (salt, shown) in (2..).zip([
            Shown::Some(1),
            Shown::Some(3),
            Shown::Some(9),
            Shown::AllOthers,
            Shown::AllOthers,
        ]) {
            train.extend(of(Part::Train, shown, salt));
        }
        let mut calibrate = of(Part::CalibrateKnown, Shown::AllOthers, 10);
        for (salt, shown) in (11..).zip([
            Shown::Nothing,
            Shown::Some(1),
            Shown::Some(3),
            Shown::Some(9),
            Shown::Some(10),
        ]) {
            calibrate.extend(of(Part::CalibrateUnseen, shown, salt));
        }
        let kernels: BTreeSet<&str> = source
            .rows()
            .iter()
            .zip(parts)
            .filter(|(_, part)| **part != Part::JudgeUnseen)
            .map(|(row, _)| row.kernel.as_str())
            .collect();
        Sets { train, cold, calibrate, apart, cold_kernels: kernels.len() }
    }

    /// Rows kept apart, in two halves: the first chooses, the second sets intervals for what was chosen.
    fn halves(&self) -> (Vec<&Example>, Vec<&Example>) {
        self.calibrate.iter().partition(|example| example.row.is_multiple_of(2))
    }
}

/// Rows that no model has seen, as they are asked about.
fn judged_sets(
    source: &Source<'_>,
    parts: &[Part],
    seed: u64,
) -> Vec<(&'static str, Vec<Example>)> {
    let of = |part, shown, salt: u64| source.examples(parts, part, shown, seed ^ salt);
    vec![
        ("known", of(Part::JudgeKnown, Shown::AllOthers, 20)),
        ("unseen", of(Part::JudgeUnseen, Shown::Nothing, 21)),
        ("unseen after 1", of(Part::JudgeUnseen, Shown::Some(1), 22)),
        ("unseen after 3", of(Part::JudgeUnseen, Shown::Some(3), 23)),
        ("unseen after 10", of(Part::JudgeUnseen, Shown::Some(10), 24)),
    ]
}

fn learn_likeness(
    source: &Source<'_>,
    parts: &[Part],
    options: &Options,
    say: &mut dyn FnMut(&str),
    charts: &mut Vec<(String, String)>,
) -> Likeness {
    let plan = likeness::Plan {
        steps: options.likeness_steps,
        most: LIKENESS_LAUNCHES,
        seed: options.seed ^ 0x11ce,
    };
    let mut left = Vec::new();
    let found = likeness::learn(&plan, &source.launches(parts, Part::Train), |step, unlikely| {
        left.push((step as f64, unlikely));
        if step % 20 == 0 {
            say(&format!("likeness: step {step} of {}, {unlikely:.4}", plan.steps));
        }
    });
    let series = [Series { name: "launches trained on".into(), points: left }];
    let title = "Likeness of launches";
    charts.push((
        "loss-likeness.svg".into(),
        curves(title, "steps", "negative log likelihood of a launch", &series),
    ));
    found
}

fn grow_trees(
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
    let left: Vec<(f32, f32)> = sets.apart.iter().map(|error| (*error, 1.0)).collect();
    trees.caution[unseen] = cautious(&left);
    let errors = sets.apart.iter().map(|error| (error - trees.caution[unseen]).abs());
    // The next kernel is one more of so many, not one more of all their rows.
    let kernels = sets.cold_kernels.max(1) as f32;
    let share = (((kernels + 1.0) * SHARE).ceil() / kernels).min(1.0);
    trees.widening[unseen] = widening(errors.collect(), share);
    trees
}

/// The share of predicted corrections that leaves the least mean error of times.
fn trusted(corrections: &[(f32, f32)]) -> f32 {
    let error = |trust: f32| -> f32 {
        corrections.iter().map(|(found, truth)| ((trust * found - truth).exp2() - 1.0).abs()).sum()
    };
    let shares = (0..=20).map(|nth| nth as f32 * 0.05);
    let best = shares.clone().map(error).fold(f32::INFINITY, f32::min);
    // A small gain on few rows is chance: the least trust that does nearly as well.
    shares.into_iter().find(|share| error(*share) <= best * NEARLY).unwrap_or(0.0)
}

/// The caution that leaves the least mean error of times, of errors in log2 and their doubts.
fn cautious(left: &[(f32, f32)]) -> f32 {
    let error = |caution: f32| -> f32 {
        left.iter().map(|(error, doubt)| ((error - caution * doubt).exp2() - 1.0).abs()).sum()
    };
    let shares = (0..=20).map(|nth| nth as f32 * 0.05);
    shares.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(0.0)
}

fn binned<'a>(examples: impl Iterator<Item = &'a Example>) -> Binned {
    Binned::new(&examples.map(|example| &example.features).collect::<Vec<_>>())
}

fn train_small(
    sets: &Sets,
    options: &Options,
    say: &mut dyn FnMut(&str),
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
    let (watch, widen) = sets.halves();
    let (watch, widen) = (cold(watch), cold(widen));
    let trained =
        network::train(&plan, &small_inputs(), &sets.cold, &watch, |epoch, own, other| {
            if epoch % 50 == 0 {
                say(&format!(
                    "small network: epoch {epoch} of {}, {own:.4} {other:.4}",
                    plan.epochs
                ));
            }
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

fn train_large(
    sets: &Sets,
    options: &Options,
    say: &mut dyn FnMut(&str),
    charts: &mut Vec<(String, String)>,
) -> DenseNetwork {
    let plan = network::Plan {
        hidden: options.large_hidden.clone(),
        outputs: apex_policy::predict::dense::OUTPUTS,
        epochs: options.large_epochs,
        batch: 128,
        rate: 1e-3,
        decay: 1e-3,
        seed: options.seed ^ 0x1a26e,
        threads: options.threads,
    };
    let inputs = all_inputs();
    let (watch, widen) = sets.halves();
    let watch: Vec<Example> = watch.into_iter().cloned().collect();
    let trained = network::train(&plan, &inputs, &sets.train, &watch, |epoch, own, other| {
        say(&format!("large network: epoch {epoch} of {}, {own:.4} {other:.4}", plan.epochs));
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

/// Trains the transformer and judges it as the others were. It is kept nowhere.
fn compare_transformer(
    source: &Source<'_>,
    parts: &[Part],
    options: &Options,
    likeness: &Likeness,
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
