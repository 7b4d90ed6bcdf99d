//! Predictions beside what a user would do instead, in one run: how long they take, and how near they come.
//!
//! Every part is asked many launches in turn, with its answer used, so that nothing can be left out; the best of
//! several rounds counts, for each alike. Beside the table of repeats stands the standard library's hash map, beside
//! our occupancy the driver's, beside each model a plain way to compute the same.

use super::{Bar, Report};
use crate::arguments::{BenchPredict, Untold};
use anyhow::{Context, Result};
use apex_policy::predict::answer::{Knowledge, Models};
use apex_policy::predict::dense::{DenseLayer, DenseNetwork, OUTPUTS, Space};
use apex_policy::predict::exact::{bound, exact};
use apex_policy::predict::features::{COUNT, features, small_inputs};
use apex_policy::predict::network::{INPUTS, Layer, SmallNetwork};
use apex_policy::predict::question::{Arguments, Device, History, Kernel, Question, Walked, Work};
use apex_policy::predict::repeats::{Repeats, key};
use apex_policy::predict::trees::{Acquaintance, Forest, GrownTree, Trees};
use apex_policy::{Chip, LaunchShape, occupancy};
use apex_train::fit::{self, Judged};
use apex_train::models;
use apex_train::random::Random;
use apex_train::rows::{self, Row};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

const CACHED_NANOS: f64 = 20.0;
const OCCUPANCY_NANOS: f64 = 20.0;
const SMALL_NANOS: f64 = 100.0;
const TREES_MICROS: f64 = 10.0;
const LARGE_MICROS: f64 = 100.0;

const CLASSES: usize = Acquaintance::ALL.len();

/// Launches that are asked about in turn.
const ASKED: usize = 256;

/// Times every part.
pub(super) fn measure(arguments: &BenchPredict) -> Result<Report> {
    let rounds = if arguments.quick { 3 } else { 30 };
    let mut notes = Vec::new();
    let loaded = match models::load(&arguments.models) {
        Ok(loaded) => Some(loaded),
        Err(error) => {
            notes.push(format!("models of the same sizes with random weights are timed: {error}"));
            None
        }
    };
    let small = loaded.as_ref().map_or_else(some_small, |loaded| loaded.small.clone());
    let trees = loaded.as_ref().map_or_else(some_trees, |loaded| loaded.trees.clone());
    let shipped = loaded.as_ref().and_then(|loaded| loaded.large.clone());
    let large = shipped.unwrap_or_else(|| some_large(&[448, 704, 320]).quantised());
    let largest = some_large(&[512, 1024, 1024, 256]);

    let launches = launches();
    let questions: Vec<Question<'_>> = launches.iter().map(OwnLaunch::question).collect();
    let rows: Vec<[f32; COUNT]> =
        questions.iter().map(|question| features(question, &History::default())).collect();
    let time = |body: &mut dyn FnMut(usize)| best_nanos(rounds, body);
    let mut table = Vec::new();
    let mut row = |what: &str, nanos: f64, beside: &str, other: Option<f64>| {
        table.push(json!({"what": what, "nanos": nanos, "beside": beside, "beside_nanos": other}));
    };

    let mut repeats = Repeats::new(4096);
    let mut map = HashMap::new();
    for question in &questions {
        repeats.observe(key(question), 5_000.0);
        map.insert(key(question), 5_000.0_f32);
    }
    let cached = time(&mut |nth| {
        black_box(repeats.find(key(black_box(&questions[nth % ASKED]))));
    });
    let hashed = time(&mut |nth| {
        black_box(map.get(&key(black_box(&questions[nth % ASKED]))));
    });
    row("cached prediction", cached, "std HashMap, same key", Some(hashed));

    let ours = time(&mut |nth| {
        let question = black_box(&questions[nth % ASKED]);
        let needs = question.kernel.needs(question.dynamic_shared);
        let threads = question.shape.threads_per_block();
        black_box(occupancy(&question.device.chip, &needs, threads));
    });
    let (driver, device_name, driver_version) = driver_occupancy(rounds, &mut notes);
    row("occupancy", ours, "the driver's own answer", driver);

    let known: Vec<_> =
        questions.iter().map(|question| (exact(question), bound(question))).collect();
    let network = time(&mut |nth| {
        let (question, (exact, bound)) = black_box((&questions[nth % ASKED], &known[nth % ASKED]));
        black_box(small.answer(&small_inputs(question, exact, bound)));
    });
    let plain = time(&mut |nth| {
        black_box(plain_small(&small, black_box(&rows[nth % ASKED])));
    });
    row("small network, logarithms included", network, "the same weights in vectors", Some(plain));

    let walked = time(&mut |nth| {
        black_box(trees.forests[0].predict(black_box(&rows[nth % ASKED])));
    });
    let all = time(&mut |nth| {
        black_box(trees.outputs(black_box(&rows[nth % ASKED])));
    });
    row("trees, time", walked, "all outputs of the trees", Some(all));
    let filled = time(&mut |nth| {
        black_box(features(black_box(&questions[nth % ASKED]), &History::default()));
    });
    row("all features", filled, "", None);

    let mut space = Space::default();
    let shipped = time(&mut |nth| {
        black_box(large.outputs(black_box(&rows[nth % ASKED]), &mut space));
    });
    row(&format!("large network, {} parameters", large.parameters()), shipped, "", None);
    let bytes = largest.quantised();
    let eighteen = time(&mut |nth| {
        black_box(bytes.outputs(black_box(&rows[nth % ASKED]), &mut space));
    });
    let single = time(&mut |nth| {
        black_box(largest.outputs(black_box(&rows[nth % ASKED]), &mut space));
    });
    let name = format!("large network, {} parameters, int8", largest.parameters());
    row(&name, eighteen, "the same in single precision", Some(single));

    let mut knowledge = Knowledge::new(4096, 64);
    questions.iter().take(ASKED / 2).for_each(|question| knowledge.learn(question, 5_000.0));
    let at_hand = Models { small: Some(&small), trees: None };
    let whole = time(&mut |nth| {
        black_box(knowledge.predict(black_box(&questions[nth % ASKED]), at_hand));
    });
    row("a whole answer in the program", whole, "", None);
    let mut remembering = Knowledge::remembering(4096, 64);
    questions.iter().take(ASKED / 2).for_each(|question| remembering.learn(question, 5_000.0));
    let at_hand = Models { small: Some(&small), trees: Some(&trees) };
    let daemon = time(&mut |nth| {
        black_box(remembering.predict(black_box(&questions[nth % ASKED]), at_hand));
    });
    row("a whole answer in the daemon, likeness included", daemon, "", None);

    let bars = vec![
        Bar::at_most("cached prediction".into(), cached, "ns", CACHED_NANOS),
        Bar::at_most("occupancy arithmetic".into(), ours, "ns", OCCUPANCY_NANOS),
        Bar::at_most("small network".into(), network, "ns", SMALL_NANOS),
        Bar::at_most("boosted trees".into(), walked / 1e3, "µs", TREES_MICROS),
        Bar::at_most("large network as shipped".into(), shipped / 1e3, "µs", LARGE_MICROS),
        Bar::at_most(
            "large network of 1.8 M parameters, int8".into(),
            eighteen / 1e3,
            "µs",
            LARGE_MICROS,
        ),
    ];
    Ok(Report {
        bench: "predict",
        device: device_name,
        driver: driver_version,
        rows: table,
        bars,
        notes,
    })
}

/// Takes from a row what is not to be known.
fn forget(row: &mut Row, what: &[Untold]) {
    for what in what {
        match what {
            Untold::Text => row.walked.clear(),
            Untold::Mix => row.mix.clear(),
            Untold::Work => row.work_known = false,
            Untold::Arguments => {
                row.parameters.clear();
                row.integers.clear();
                row.allocations.clear();
            }
        }
    }
}

/// Judges the models of a folder on rows that they have not seen.
pub(super) fn truth(arguments: &BenchPredict) -> Result<Report> {
    let loaded = models::load(&arguments.models)?;
    let mut rows = rows::read(&arguments.data)
        .context("the rows that the models were trained from are needed to judge them")?;
    rows.iter_mut().for_each(|row| forget(row, &arguments.without));
    let manifest = &loaded.manifest;
    let at_hand =
        fit::Models { trees: &loaded.trees, small: &loaded.small, large: loaded.large.as_ref() };
    let report = fit::judge(&rows, manifest.report.seed, &manifest.devices, at_hand)?;
    let find = |model: &str, split: &str| -> Result<&Judged> {
        let found =
            report.judged.iter().find(|judged| judged.model == model && judged.split == split);
        found.with_context(|| format!("{model} was not judged on {split}"))
    };
    let (known, cold) = (find("trees", "known")?, find("trees", "unseen")?);
    let ten = find("trees", "unseen after 10")?;
    let beside = &report.baselines["unseen"];
    let rivals = [&beside.last_value, &beside.kernel_mean, &beside.roofline];
    let best_rival = rivals.iter().map(|rival| rival.mean_error).fold(f64::INFINITY, f64::min);
    let percent = |share: f64| share * 100.0;
    let (asked, equal) = report.occupancy_equal;
    let mut bars = vec![
        Bar::at_least(
            "occupancy equal to the driver's".into(),
            percent(equal as f64 / asked.max(1) as f64),
            "%",
            100.0,
        ),
        Bar::at_most(
            "exact repeats, mean error over noise".into(),
            report.repeats.mean_error / report.noise.max(1e-9),
            "times",
            1.5,
        ),
        Bar::at_most("known kernel, mean error".into(), percent(known.time.mean_error), "%", 8.0),
        Bar::at_least(
            "known kernel, within 10 %".into(),
            percent(known.time.within_10_percent),
            "%",
            90.0,
        ),
        Bar::at_most(
            "unseen kernel after ten, mean error".into(),
            percent(ten.time.mean_error),
            "%",
            15.0,
        ),
        Bar::at_most(
            "unseen kernel cold, mean error over the best baseline's".into(),
            cold.time.mean_error / best_rival,
            "times",
            1.0,
        ),
    ];
    for (split, judged) in [("known", known), ("unseen", cold), ("unseen after 10", ten)] {
        let coverage = percent(judged.time.coverage.unwrap_or(0.0));
        bars.push(Bar::at_least(format!("80 % interval, {split}, at least"), coverage, "%", 75.0));
        bars.push(Bar::at_most(format!("80 % interval, {split}, at most"), coverage, "%", 85.0));
    }
    for (split, judged, most) in [("known", known, 5.0), ("unseen", cold, 10.0)] {
        let found = &judged.achieved_occupancy;
        if found.rows > 0 {
            bars.push(Bar::at_most(
                format!("achieved occupancy, {split}, mean error"),
                found.mean_error_points,
                "points",
                most,
            ));
            bars.push(Bar::at_least(
                format!("achieved occupancy, {split}, correlation"),
                found.correlation,
                "",
                0.95,
            ));
            let shape = report.occupancy_baseline[split].mean_error_points;
            bars.push(Bar::at_most(
                format!("achieved occupancy, {split}, error over theoretical times wave fill"),
                found.mean_error_points / shape,
                "times",
                1.0,
            ));
        }
    }
    if known.sm_throughput.rows > 0 {
        bars.push(Bar::at_least(
            "SM throughput, known, R²".into(),
            known.sm_throughput.r_squared,
            "",
            0.9,
        ));
    }
    let mut table: Vec<Value> = Vec::new();
    for judged in &report.judged {
        table.push(serde_json::to_value(judged)?);
    }
    // The transformer is trained for comparison and kept nowhere: its scores are those of the training.
    for judged in manifest.report.judged.iter().filter(|judged| judged.model == "transformer") {
        table.push(serde_json::to_value(judged)?);
    }
    for (split, baselines) in &report.baselines {
        for (name, time) in [
            ("last value", &baselines.last_value),
            ("kernel mean", &baselines.kernel_mean),
            ("roofline", &baselines.roofline),
        ] {
            table.push(json!({"model": name, "split": split, "time": time}));
        }
    }
    let device = manifest.devices.keys().cloned().collect::<Vec<_>>().join(", ");
    let driver = rows.first().map_or(0, |row| row.driver);
    let notes = vec![
        format!("held-out kernels: {}", report.held_out_kernels.join(", ")),
        format!(
            "noise from run to run {:.2} %, repeats {:.2} %",
            percent(report.noise),
            percent(report.repeats.mean_error)
        ),
        format!("SM throughput on unseen kernels: R² {:.3}", cold.sm_throughput.r_squared),
    ];
    let driver = format!("{}.{}", driver / 1000, driver % 1000 / 10);
    if !arguments.without.is_empty() {
        bars.clear();
    }
    Ok(Report { bench: "predict-truth", device, driver, rows: table, bars, notes })
}

/// The times as a table.
pub(super) fn print_times(rows: &[Value]) {
    println!("{:<46} {:>12}   beside", "what", "time");
    for row in rows {
        let nanos = |name: &str| match row[name].as_f64() {
            None => String::new(),
            Some(nanos) if nanos >= 1e4 => format!("{:.1} µs", nanos / 1e3),
            Some(nanos) => format!("{nanos:.1} ns"),
        };
        println!(
            "{:<46} {:>12}   {} {}",
            row["what"].as_str().unwrap_or(""),
            nanos("nanos"),
            row["beside"].as_str().unwrap_or(""),
            nanos("beside_nanos")
        );
    }
}

/// The scores as a table.
pub(super) fn print_scores(rows: &[Value]) {
    println!(
        "{:<22} {:<16} {:>6} {:>8} {:>8} {:>8} {:>8}",
        "model", "split", "rows", "mean", "median", "±10 %", "in 80 %"
    );
    for row in rows {
        let time = &row["time"];
        let percent = |name: &str| {
            time[name].as_f64().map_or("-".into(), |share| format!("{:.1} %", share * 100.0))
        };
        println!(
            "{:<22} {:<16} {:>6} {:>8} {:>8} {:>8} {:>8}",
            row["model"].as_str().unwrap_or(""),
            row["split"].as_str().unwrap_or(""),
            time["rows"].as_u64().unwrap_or(0),
            percent("mean_error"),
            percent("median_error"),
            percent("within_10_percent"),
            percent("coverage")
        );
    }
}

/// The best mean time of one call over several rounds.
fn best_nanos(rounds: u32, body: &mut dyn FnMut(usize)) -> f64 {
    let mut calls = 1;
    // A round is long enough for the clock, and short enough to fall between two disturbances.
    loop {
        let start = Instant::now();
        (0..calls).for_each(&mut *body);
        if start.elapsed().as_micros() > 200 || calls > 1 << 20 {
            break;
        }
        calls *= 2;
    }
    let round = |_| {
        let start = Instant::now();
        (0..calls).for_each(&mut *body);
        start.elapsed().as_nanos() as f64 / calls as f64
    };
    (0..rounds * 10).map(round).fold(f64::INFINITY, f64::min)
}

/// The driver's answer for a kernel of ours, where there is a device.
fn driver_occupancy(rounds: u32, notes: &mut Vec<String>) -> (Option<f64>, String, String) {
    let asked = || -> Result<(f64, String, String), apex_exec::Error> {
        let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
        let kernel = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("add")?;
        kernel.occupancy(256, 0)?;
        let nanos = best_nanos(rounds, &mut |nth| {
            let _ = black_box(kernel.occupancy(32 << (nth % 6), 0));
        });
        let facts = executor.facts();
        let version = facts.driver_version;
        Ok((nanos, facts.name.clone(), format!("{}.{}", version / 1000, version % 1000 / 10)))
    };
    match asked() {
        Ok((nanos, device, driver)) => (Some(nanos), device, driver),
        Err(error) => {
            notes.push(format!("the driver was not asked: {error}"));
            (None, "none".into(), "none".into())
        }
    }
}

/// A launch that owns what its question borrows.
struct OwnLaunch {
    device: Device,
    kernel: Kernel,
    arguments: Arguments,
    shape: LaunchShape,
    dynamic_shared: u32,
    work: Work,
}

impl OwnLaunch {
    fn question(&self) -> Question<'_> {
        Question {
            device: &self.device,
            kernel: &self.kernel,
            shape: self.shape,
            dynamic_shared: self.dynamic_shared,
            arguments: &self.arguments,
            work: Some(self.work),
            walked: Walked::NONE,
        }
    }
}

fn launches() -> Vec<OwnLaunch> {
    let mut random = Random::new(1);
    // The facts of 9.0 are in the table of chips.
    let Some(chip) = Chip::for_capability(9, 0) else { return Vec::new() };
    let device = Device::from_attributes(chip, 132, 1_980_000, 4.8e12, 60 << 20);
    let mut one = |_| {
        let (blocks, threads) = (1 + random.below(9_999) as u32, 32 << random.below(6));
        OwnLaunch {
            device,
            kernel: Kernel {
                identity: random.bits() % 40,
                registers: 16 + random.below(200) as u32,
                ..Kernel::default()
            },
            arguments: Arguments::of(&[random.bits() >> 40, random.bits() >> 44], &[1 << 20]),
            shape: LaunchShape { grid: [blocks, 1, 1], block: [threads, 1, 1] },
            dynamic_shared: (random.below(3) * 4096) as u32,
            work: Work { bytes: f64::from(blocks) * f64::from(threads) * 12.0, ..Work::default() },
        }
    };
    (0..ASKED).map(&mut one).collect()
}

/// The small network as one would write it without knowing its sizes.
fn plain_small(small: &SmallNetwork, features: &[f32; COUNT]) -> Vec<f32> {
    fn layer<const I: usize, const O: usize>(
        values: &[f32],
        layer: &Layer<I, O>,
        last: bool,
    ) -> Vec<f32> {
        let sum = |output: usize| {
            let sum: f32 =
                values.iter().zip(&layer.weights).map(|(value, row)| value * row[output]).sum();
            let sum = sum + layer.bias[output];
            if last { sum } else { sum.max(0.0) }
        };
        (0..O).map(sum).collect()
    }
    let places = apex_policy::predict::features::SMALL;
    let mut values: Vec<f32> = (0..INPUTS)
        .map(|nth| (features[places[nth]] - small.mean[nth]) * small.scale[nth])
        .collect();
    values = layer(&values, &small.first, false);
    values = layer(&values, &small.second, false);
    layer(&values, &small.third, true)
}

fn some_small() -> SmallNetwork {
    fn layer<const I: usize, const O: usize>(random: &mut Random) -> Layer<I, O> {
        let mut layer = Layer { weights: [[0.0; O]; I], bias: [0.0; O] };
        layer.weights.iter_mut().flatten().for_each(|weight| *weight = random.normal() * 0.3);
        layer
    }
    let mut random = Random::new(2);
    SmallNetwork {
        mean: [5.0; INPUTS],
        scale: [0.3; INPUTS],
        first: layer(&mut random),
        second: layer(&mut random),
        third: layer(&mut random),
        widening: 1.0,
        knows_shares: false,
    }
}

fn some_trees() -> Trees {
    let mut random = Random::new(3);
    let mut trees = Trees { widening: [1.0; CLASSES], trust: [1.0; CLASSES], ..Trees::default() };
    for forest in &mut trees.forests {
        *forest = Forest::new(0.0);
        for _ in 0..300 {
            forest.push(&GrownTree {
                features: std::array::from_fn(|_| random.below(COUNT) as u8),
                thresholds: std::array::from_fn(|_| random.below(16) as f32),
                leaves: std::array::from_fn(|_: usize| random.normal() * 0.01),
            });
        }
    }
    trees
}

fn some_large(hidden: &[usize]) -> DenseNetwork {
    let mut random = Random::new(4);
    let mut sizes = vec![COUNT];
    sizes.extend(hidden);
    sizes.push(OUTPUTS);
    let layers = sizes.windows(2).map(|pair| {
        let weights: Vec<f32> = (0..pair[0] * pair[1]).map(|_| random.normal() * 0.05).collect();
        DenseLayer::single(pair[0], &weights, vec![0.0; pair[1]])
    });
    DenseNetwork {
        layers: layers.collect(),
        mean: vec![5.0; COUNT],
        scale: vec![0.3; COUNT],
        widening: [1.0; CLASSES],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_forgotten() {
        let known = || Row {
            walked: "1,2".into(),
            mix: "3".into(),
            integers: "4".into(),
            allocations: "5".into(),
            work_known: true,
            ..Row::default()
        };
        let mut row = known();
        forget(&mut row, &[Untold::Text, Untold::Arguments]);
        assert_eq!((&*row.walked, &*row.integers, &*row.allocations), ("", "", ""));
        assert!(row.mix == "3" && row.work_known);
        forget(&mut row, &[Untold::Mix, Untold::Work]);
        assert!(row.mix.is_empty() && !row.work_known);
    }
}
