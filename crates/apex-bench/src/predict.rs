//! How long predictions take, beside what a user would do instead, in one run.
//!
//! Every part is asked many launches in turn, with its answer used, so that nothing can be left out; the best of
//! several rounds counts, for each alike. Beside the table of repeats stands the standard library's hash map, beside
//! our occupancy the driver's, beside each model a plain way to compute the same.

use crate::arguments::BenchPredict;
use crate::history;
use crate::models::found;
use crate::report::{Bar, Report};
use anyhow::Result;
use apex_daemon::progress::Progress;
use apex_models::dense::{DenseLayer, DenseNetwork, OUTPUTS, Space};
use apex_policy::predict::acquaintance::Acquaintance;
use apex_policy::predict::answer::{Knowledge, Models};
use apex_policy::predict::bound::bound;
use apex_policy::predict::exact::exact;
use apex_policy::predict::features::{COUNT, features, small_inputs};
use apex_policy::predict::network::{INPUTS, Layer, SmallNetwork};
use apex_policy::predict::question::{Arguments, Device, History, Kernel, Question, Walked, Work};
use apex_policy::predict::repeats::{Repeats, key};
use apex_policy::predict::trees::Trees;
use apex_policy::{Chip, LaunchShape, occupancy};
use apex_train::models;
use apex_train::random::Random;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

const CACHED_NANOS: f64 = 20.0;
const OCCUPANCY_NANOS: f64 = 20.0;
const SMALL_NANOS: f64 = 100.0;
const TREES_MICROS: f64 = 10.0;
const LARGE_MICROS: f64 = 100.0;
const OPEN_MILLIS: f64 = 5.0;
const LOOK_UP_NANOS: f64 = 1_000.0;

const CLASSES: usize = Acquaintance::ALL.len();

/// Launches that are asked about in turn.
const ASKED: usize = 256;

/// Times every part.
pub(crate) fn measure(arguments: &BenchPredict) -> Result<Report> {
    let mut notes = Vec::new();
    let models::Loaded { small, trees, large, .. } =
        models::load(&found(arguments.models.as_deref())?)?;
    let large = large.unwrap_or_else(|| {
        notes.push("no large network was trained: one with random weights is timed".into());
        some_large(&[448, 704, 320]).quantised()
    });
    let largest = some_large(&[512, 1024, 1024, 256]);
    let launches = launches();
    let asked = Asked::of(&launches);
    let mut progress = Progress::on_stderr();
    progress.step("timing predictions", 1, 1);

    let mut times = Times { rounds: if arguments.quick { 3 } else { 30 }, table: Vec::new() };
    let cached = times.of_repeats(&asked);
    let (driver_nanos, device, driver) = driver_occupancy(times.rounds, &mut notes);
    let occupancy = times.of_occupancy(&asked, driver_nanos);
    let network = times.of_small_network(&asked, &small);
    let walked = times.of_trees(&asked, &trees);
    let (shipped, eighteen) = times.of_large_networks(&asked, &large, &largest);
    times.of_whole_answers(&asked, &small, &trees);
    let (opened, looked_up) = times.of_history()?;

    let bars = vec![
        Bar::at_most("cached prediction".into(), cached, "ns", CACHED_NANOS),
        Bar::at_most("occupancy arithmetic".into(), occupancy, "ns", OCCUPANCY_NANOS),
        Bar::at_most("small network".into(), network, "ns", SMALL_NANOS),
        Bar::at_most("boosted trees".into(), walked / 1e3, "µs", TREES_MICROS),
        Bar::at_most("large network as shipped".into(), shipped / 1e3, "µs", LARGE_MICROS),
        Bar::at_most(
            "large network of 1.8 M parameters, int8".into(),
            eighteen / 1e3,
            "µs",
            LARGE_MICROS,
        ),
        Bar::at_most("history of 100,000 kernels opened".into(), opened / 1e6, "ms", OPEN_MILLIS),
        Bar::at_most("kernel looked up in it".into(), looked_up, "ns", LOOK_UP_NANOS),
    ];
    Ok(Report { bench: "predict", device, driver, rows: times.table, bars, notes })
}

/// The launches that are asked about in turn, as questions and as features.
struct Asked<'a> {
    questions: Vec<Question<'a>>,
    rows: Vec<[f32; COUNT]>,
}

impl<'a> Asked<'a> {
    fn of(launches: &'a [OwnLaunch]) -> Asked<'a> {
        let questions: Vec<Question<'_>> = launches.iter().map(OwnLaunch::question).collect();
        let rows =
            questions.iter().map(|question| features(question, &History::default())).collect();
        Asked { questions, rows }
    }

    fn question(&self, nth: usize) -> &Question<'a> {
        black_box(&self.questions[nth % ASKED])
    }

    fn row(&self, nth: usize) -> &[f32; COUNT] {
        black_box(&self.rows[nth % ASKED])
    }
}

/// Takes the times, and keeps them with what they are compared with.
struct Times {
    rounds: u32,
    table: Vec<Value>,
}

impl Times {
    fn take(&self, mut body: impl FnMut(usize)) -> f64 {
        best_nanos(self.rounds, &mut body)
    }

    fn keep(&mut self, what: &str, nanos: f64, beside: &str, other: Option<f64>) {
        let row = json!({"what": what, "nanos": nanos, "beside": beside, "beside_nanos": other});
        self.table.push(row);
    }

    /// A repeat in the table, beside the standard library's map.
    fn of_repeats(&mut self, asked: &Asked<'_>) -> f64 {
        let mut repeats = Repeats::new(4096);
        let mut map = HashMap::new();
        for question in &asked.questions {
            repeats.observe(key(question), 5_000.0);
            map.insert(key(question), 5_000.0_f32);
        }
        let cached = self.take(|nth| {
            black_box(repeats.find(key(asked.question(nth))));
        });
        let hashed = self.take(|nth| {
            black_box(map.get(&key(asked.question(nth))));
        });
        self.keep("cached prediction", cached, "std HashMap, same key", Some(hashed));
        cached
    }

    fn of_occupancy(&mut self, asked: &Asked<'_>, driver: Option<f64>) -> f64 {
        let ours = self.take(|nth| {
            let question = asked.question(nth);
            let needs = question.kernel.needs(question.dynamic_shared);
            let threads = question.shape.threads_per_block();
            black_box(occupancy(&question.device.chip, &needs, threads));
        });
        self.keep("occupancy", ours, "the driver's own answer", driver);
        ours
    }

    fn of_small_network(&mut self, asked: &Asked<'_>, small: &SmallNetwork) -> f64 {
        let known: Vec<_> =
            asked.questions.iter().map(|question| (exact(question), bound(question))).collect();
        let network = self.take(|nth| {
            let (exact, bound) = black_box(&known[nth % ASKED]);
            black_box(small.answer(&small_inputs(asked.question(nth), exact, bound)));
        });
        let plain = self.take(|nth| {
            black_box(plain_small(small, asked.row(nth)));
        });
        let what = "small network, logarithms included";
        self.keep(what, network, "the same weights in vectors", Some(plain));
        network
    }

    /// The trees for the time, beside those for all outputs; and the features that they need.
    fn of_trees(&mut self, asked: &Asked<'_>, trees: &Trees) -> f64 {
        let walked = self.take(|nth| {
            black_box(trees.forests[0].predict(asked.row(nth)));
        });
        let all = self.take(|nth| {
            black_box(trees.outputs(asked.row(nth)));
        });
        self.keep("trees, time", walked, "all outputs of the trees", Some(all));
        let filled = self.take(|nth| {
            black_box(features(asked.question(nth), &History::default()));
        });
        self.keep("all features", filled, "", None);
        walked
    }

    /// The network as it is shipped, and the largest one in eight bits.
    fn of_large_networks(
        &mut self,
        asked: &Asked<'_>,
        large: &DenseNetwork,
        largest: &DenseNetwork,
    ) -> (f64, f64) {
        let mut space = Space::default();
        let shipped = self.take(|nth| {
            black_box(large.outputs(asked.row(nth), &mut space));
        });
        self.keep(&format!("large network, {} parameters", large.parameters()), shipped, "", None);
        let bytes = largest.quantised();
        let eighteen = self.take(|nth| {
            black_box(bytes.outputs(asked.row(nth), &mut space));
        });
        let single = self.take(|nth| {
            black_box(largest.outputs(asked.row(nth), &mut space));
        });
        let what = format!("large network, {} parameters, int8", largest.parameters());
        self.keep(&what, eighteen, "the same in single precision", Some(single));
        (shipped, eighteen)
    }

    /// What earlier runs measured: opened, and a kernel looked up.
    fn of_history(&mut self) -> Result<(f64, f64)> {
        let found = history::measure(self.rounds)?;
        let (opened, lines) = found.open;
        self.keep(
            "history of 100,000 kernels, opened",
            opened,
            "their lines of JSON read",
            Some(lines),
        );
        let (looked_up, mapped) = found.find;
        self.keep(
            "a kernel looked up in it",
            looked_up,
            "std HashMap of all of them",
            Some(mapped),
        );
        Ok((opened, looked_up))
    }

    /// An answer from all that is known, in the program and in the daemon.
    fn of_whole_answers(&mut self, asked: &Asked<'_>, small: &SmallNetwork, trees: &Trees) {
        let learnt = || asked.questions.iter().take(ASKED / 2);
        let mut knowledge = Knowledge::new(4096, 64);
        learnt().for_each(|question| knowledge.learn(question, 5_000.0));
        let at_hand = Models { small: Some(small), trees: None };
        let whole = self.take(|nth| {
            black_box(knowledge.predict(asked.question(nth), at_hand));
        });
        self.keep("a whole answer in the program", whole, "", None);
        let mut remembering = Knowledge::remembering(4096, 64);
        learnt().for_each(|question| remembering.learn(question, 5_000.0));
        let at_hand = Models { small: Some(small), trees: Some(trees) };
        let daemon = self.take(|nth| {
            black_box(remembering.predict(asked.question(nth), at_hand));
        });
        self.keep("a whole answer in the daemon, likeness included", daemon, "", None);
    }
}

/// The times as a table.
pub(crate) fn print_rows(rows: &[Value]) {
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
