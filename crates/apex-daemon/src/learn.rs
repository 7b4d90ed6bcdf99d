//! Predicts every timed launch before its time is known, then learns the time.
//!
//! The collector hands over GPU times as they come, and each is first asked of what was measured before and
//! of the models at hand. So the errors kept here are those of real predictions: nothing that is asked about
//! was learned. Models are read through [`Reader`]s, so whoever owns them may replace them while a program runs.
//! Times of launches that found their stream idle hold the wait for the launch too; they are predicted from
//! their own kind, or one would spoil the other.
//!
//! What earlier runs measured of a kernel ([`crate::history`]) is learned when its first launch is seen.
//!
//! A program that wants predictions has small models only. So every configuration that it launches is answered here
//! once by the trees, and the answer goes to the page that the program reads ([`apex_core::answer_page`]). The large
//! network is not asked: on launches that neither has seen, it is farther off than the trees, and so is the middle
//! of both (`apex bench predict --truth`).

mod foresight;
mod remembered;

use crate::described::{guessed, plain_kernel};
use crate::history::{History, Past, Timed};
use crate::known::Known;
use crate::row::Row;
use crate::summary::{KernelPrediction, PredictedBy, PredictionSummary, Summary};
use apex_core::answer_page::{DeviceKey, Writer, kernel_key, launch_key};
use apex_core::event::{KernelId, LaunchShape, TimeBasis, What};
use apex_core::facts;
use apex_models::Reader;
use apex_policy::predict::answer::{Knowledge, Models, Prediction, Source, Time};
use apex_policy::predict::features::{FNV_START, fnv};
use apex_policy::predict::network::SmallNetwork;
use apex_policy::predict::programs::{Programs, Said};
use apex_policy::predict::question::{Device, Kernel, Question};
use apex_policy::predict::repeats::{self, Repeat};
use apex_policy::predict::trees::Trees;
use foresight::{Asked, Foresight};
use remembered::{Place, Remembered};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Configurations and kernels that are remembered.
const CONFIGURATIONS: usize = 1 << 14;
const KERNELS: usize = 1 << 10;
/// Configurations that are answered at most; a program with more has its own models for the rest.
const MOST_ANSWERS: usize = 1 << 14;
/// Errors that are kept for the medians; later ones replace none.
const MOST_ERRORS: usize = 1 << 16;
const MOST_ERRORS_OF_KERNEL: usize = 1 << 10;
/// Times of a configuration that the forests for programs are told.
const YOUNG: u32 = 8;
/// Half of an 80 % interval, in log2, of what only an earlier run measured: no narrower, because runs differ.
const FROM_EARLIER: f32 = 0.06;

/// The models at hand, each replaceable while it is used.
#[derive(Debug, Default)]
pub struct AtHand {
    /// For kernels never seen.
    pub small: Option<Reader<SmallNetwork>>,
    /// For all kernels.
    pub trees: Option<Reader<Trees>>,
    /// For launches of programs.
    pub programs: Option<Arc<Programs>>,
    /// The bound of each device that the models know, by its name.
    pub devices: BTreeMap<String, Device>,
}

/// One timed launch with what was said of it before.
#[derive(Clone, Debug)]
pub struct Foreseen {
    /// The kernel's name as the driver has it.
    pub kernel: String,
    /// The device's name.
    pub device: String,
    /// Grid, block and dynamic shared memory.
    pub shape: LaunchShape,
    /// What was said.
    pub prediction: Prediction,
    /// Whether its time was a number to go by.
    pub is_known: bool,
    /// The time in nanoseconds.
    pub measured_ns: u64,
    /// How it was taken.
    pub basis: TimeBasis,
}

/// Learns the times of one session.
#[derive(Debug)]
pub struct Learner {
    knowledge: Knowledge,
    models: AtHand,
    configurations: HashSet<u64>,
    timed: u64,
    inside: u64,
    errors: BTreeMap<&'static str, Vec<f32>>,
    kernels: HashMap<String, Judged>,
    answers: Option<Writer>,
    answered: HashSet<u64>,
    remembered: Remembered,
    foresight: Option<Foresight>,
    not_known: u64,
}

/// What was said of one kernel and what was measured.
#[derive(Debug, Default)]
struct Judged {
    timed: u64,
    predicted_ns: f64,
    measured_ns: f64,
    errors: Vec<f32>,
}

impl Default for Learner {
    fn default() -> Learner {
        Learner::new(AtHand::default())
    }
}

impl Learner {
    /// With models, or with none: then from measured times alone.
    #[must_use]
    pub fn new(models: AtHand) -> Learner {
        let foresight =
            models.programs.as_ref().map(|found| Foresight::new(Arc::clone(found), None));
        Learner {
            knowledge: Knowledge::remembering(CONFIGURATIONS, KERNELS),
            models,
            configurations: HashSet::new(),
            timed: 0,
            inside: 0,
            errors: BTreeMap::new(),
            kernels: HashMap::new(),
            answers: None,
            answered: HashSet::new(),
            remembered: Remembered::default(),
            foresight,
            not_known: 0,
        }
    }

    /// Reads the code of kernels as they are seen; `rings` has what lies in no file.
    pub fn read_code_beside(&mut self, rings: &Path) {
        let programs = self.models.programs.as_ref();
        self.foresight = programs.map(|found| Foresight::new(Arc::clone(found), Some(rings)));
    }

    /// Begins with what earlier runs measured; of several histories the first that knows a kernel is believed.
    pub fn recall_from(&mut self, histories: Vec<History>) {
        self.remembered = Remembered::of(histories);
    }

    /// What later runs may begin with, measured on this day since 1970.
    #[must_use]
    pub fn pasts(&self, day: u32) -> Vec<Past> {
        self.remembered.pasts(day, |key| self.knowledge.repeats.find(key))
    }

    /// Answers the programs of a session from here on, whose rings are in `directory`. Without trees there is
    /// nothing to answer that they could not say themselves.
    pub fn answer_in(&mut self, directory: &Path) -> io::Result<()> {
        if self.models.trees.is_some() {
            self.answers = Some(Writer::create(directory)?);
        }
        Ok(())
    }

    /// Takes in one event; says what was foretold if it is the time of a kernel that is known.
    pub fn take(&mut self, known: &Known, row: &Row) -> Option<Foreseen> {
        let (kernel, shape, nanos, basis) = match row.what {
            What::GpuTime { kernel, shape, nanos, basis } => (kernel, shape, nanos, basis),
            What::Launch(launch) if self.answers.is_some() => {
                self.answer(known, row, launch.kernel, &launch.shape);
                return None;
            }
            _ => return None,
        };
        let facts = known.kernel(row.process, kernel.0)?;
        let device_facts = known.device(row.process, row.device)?;
        if nanos == 0 || shape.block == [0; 3] {
            return None;
        }
        let device = self.device(device_facts)?;
        let place = place(known, row.process, facts, device_facts, basis);
        self.recall(&place, &device, basis);
        let kernel = asked_kernel(facts, basis);
        let process = row.process;
        let (kernel, device) = (&kernel, &device);
        let asked = Asked { known, process, facts, kernel, device, device_facts, basis };
        let question = question(device, kernel, &shape);
        let (prediction, is_known) = self.foretell(&question, &asked, &shape);
        self.knowledge.learn(&question, nanos as f32);
        let key = repeats::key(&question);
        let times = self.knowledge.repeats.find(key).map_or(0, |repeat| repeat.count);
        if let Some(foresight) = self.foresight.as_mut().filter(|_| times <= YOUNG) {
            foresight.learn(&asked, &shape, nanos as f32);
        }
        self.remembered.measured(&place, &shape, key);
        self.configurations.insert(key);
        if is_known {
            self.judge(&facts.name, &prediction, nanos as f32);
        } else {
            self.not_known += 1;
        }
        let (kernel, device) = (facts.name.clone(), device_facts.name.clone());
        Some(Foreseen { kernel, device, shape, prediction, is_known, measured_ns: nanos, basis })
    }

    /// Answers a configuration when it is first launched by a program that wants predictions.
    fn answer(&mut self, known: &Known, row: &Row, kernel: KernelId, shape: &LaunchShape) {
        let wanted = known.process(row.process).is_some_and(|process| process.foresight.is_some());
        if !wanted || self.answered.len() >= MOST_ANSWERS || shape.block == [0; 3] {
            return;
        }
        let (Some(facts), Some(device_facts)) =
            (known.kernel(row.process, kernel.0), known.device(row.process, row.device))
        else {
            return;
        };
        let device_key = DeviceKey {
            capability: (device_facts.major, device_facts.minor),
            sms: device_facts.sms,
            clock_khz: device_facts.clock_khz,
        };
        let key = launch_key(kernel_key(facts, &device_key), shape);
        if !self.answered.insert(key) {
            return;
        }
        let Some(device) = self.device(device_facts) else { return };
        let basis = TimeBasis::EventPair;
        self.recall(&place(known, row.process, facts, device_facts, basis), &device, basis);
        let kernel = asked_kernel(facts, basis);
        let process = row.process;
        let (kernel, device) = (&kernel, &device);
        let asked = Asked { known, process, facts, kernel, device, device_facts, basis };
        let question = question(device, kernel, shape);
        let (prediction, is_known) = self.foretell(&question, &asked, shape);
        let nanos = match is_known {
            true => prediction.time.nanos,
            // A program asks for a number.
            false => self.by_models(&question).time.nanos,
        };
        // A page that cannot be written is as good as none: the programs have their guesses.
        if let Some(answers) = &mut self.answers
            && answers.write(key, nanos).is_err()
        {
            self.answers = None;
        }
    }

    fn device(&self, device: &facts::Device) -> Option<Device> {
        self.models.devices.get(&device.name).copied().or_else(|| guessed(device))
    }

    /// Learns what earlier runs measured of a kernel, the first time it is seen.
    fn recall(&mut self, place: &Place<'_>, device: &Device, basis: TimeBasis) {
        for earlier in self.remembered.recalled(place) {
            let kernel = asked_kernel(place.kernel, basis);
            let shape = earlier.shape();
            let question = question(device, &kernel, &shape);
            self.knowledge.learn(&question, earlier.nanos);
            let key = repeats::key(&question);
            let (nanos, half_width, count) = (earlier.nanos, earlier.half_width, earlier.count);
            let half_width = half_width.max(FROM_EARLIER);
            self.knowledge.repeats.restore(key, Repeat { nanos, half_width, count });
            self.remembered.is_from_earlier(key);
        }
    }

    /// What will be measured, and whether that is a number to go by.
    fn foretell(
        &mut self,
        question: &Question<'_>,
        asked: &Asked<'_>,
        shape: &LaunchShape,
    ) -> (Prediction, bool) {
        let mut prediction = self.by_models(question);
        let source = &mut prediction.time.source;
        if *source == Source::Repeat {
            if self.remembered.knows(repeats::key(question)) {
                *source = Source::History;
            }
            return (prediction, true);
        }
        let said = self.foresight.as_mut().and_then(|foresight| foresight.foretell(asked, shape));
        if let Some(said) = &said {
            prediction.time = Time::of_program(said);
        }
        (prediction, said.is_none_or(|said: Said| said.is_known()))
    }

    fn by_models(&mut self, question: &Question<'_>) -> Prediction {
        let AtHand { small, trees, .. } = &mut self.models;
        let models = Models {
            small: small.as_mut().map(|reader| reader.get()),
            trees: trees.as_mut().map(|reader| reader.get()),
        };
        self.knowledge.predict(question, models)
    }

    fn judge(&mut self, kernel: &str, prediction: &Prediction, measured: f32) {
        let time = &prediction.time;
        let error = (time.nanos / measured - 1.0).abs();
        self.timed += 1;
        self.inside += u64::from((time.low..=time.high).contains(&measured));
        let errors = self.errors.entry(time.source.word()).or_default();
        if errors.len() < MOST_ERRORS {
            errors.push(error);
        }
        if !self.kernels.contains_key(kernel) && self.kernels.len() < KERNELS {
            self.kernels.insert(kernel.to_owned(), Judged::default());
        }
        if let Some(judged) = self.kernels.get_mut(kernel) {
            judged.timed += 1;
            judged.predicted_ns += f64::from(time.nanos);
            judged.measured_ns += f64::from(measured);
            if judged.errors.len() < MOST_ERRORS_OF_KERNEL {
                judged.errors.push(error);
            }
        }
    }

    /// The summary with what was predicted: of the session, and of each kernel that is in it.
    #[must_use]
    pub fn complete(&self, summary: Summary) -> Summary {
        let mut summary = Summary { predicted: self.summary(), ..summary };
        for kernel in &mut summary.kernels {
            kernel.predicted = self.kernels.get(&kernel.mangled).map(Judged::summary);
        }
        summary
    }

    /// How near the predictions of this session came; nothing if no launch was timed.
    #[must_use]
    pub fn summary(&self) -> Option<PredictionSummary> {
        let written_back = self.answers.as_ref().map_or(0, Writer::count);
        if self.timed == 0 && written_back == 0 && self.not_known == 0 {
            return None;
        }
        let all: Vec<f32> = self.errors.values().flatten().copied().collect();
        let near = all.iter().filter(|error| **error <= 0.1).count();
        let by = |(source, errors): (&&'static str, &Vec<f32>)| PredictedBy {
            source: (*source).into(),
            timed: errors.len() as u64,
            median_error: median(errors.clone()),
        };
        Some(PredictionSummary {
            timed: self.timed,
            configurations: self.configurations.len() as u64,
            median_error: median(all.clone()),
            within_10_percent: near as f64 / all.len().max(1) as f64,
            in_interval: self.inside as f64 / self.timed.max(1) as f64,
            with_models: self.models.trees.is_some() || self.models.small.is_some(),
            by: self.errors.iter().map(by).collect(),
            written_back,
            taken: 0,
            not_known: self.not_known,
        })
    }
}

impl Judged {
    fn summary(&self) -> KernelPrediction {
        let mean = |sum: f64| sum / self.timed.max(1) as f64;
        KernelPrediction {
            timed: self.timed,
            predicted_ns: mean(self.predicted_ns),
            measured_ns: mean(self.measured_ns),
            median_error: median(self.errors.clone()),
        }
    }
}

fn place<'a>(
    known: &Known,
    process: u32,
    kernel: &'a facts::Kernel,
    device: &'a facts::Device,
    basis: TimeBasis,
) -> Place<'a> {
    let process = known.process(process).and_then(|process| process.process.as_ref());
    let driver = process.map_or(0, |process| process.driver_version);
    let driver = u32::try_from(driver).unwrap_or(0);
    Place { kernel, device: &device.name, driver, timed: Timed::of(basis) }
}

fn question<'a>(device: &'a Device, kernel: &'a Kernel, shape: &LaunchShape) -> Question<'a> {
    let plain = apex_policy::LaunchShape { grid: shape.grid, block: shape.block.map(u32::from) };
    Question::by_shape(device, kernel, plain, shape.dynamic_shared)
}

fn median(mut errors: Vec<f32>) -> f64 {
    errors.sort_by(f32::total_cmp);
    errors.get(errors.len() / 2).copied().map_or(0.0, f64::from)
}

fn asked_kernel(facts: &facts::Kernel, basis: TimeBasis) -> Kernel {
    let idle = u64::from(basis == TimeBasis::EventPairIdle);
    let identity = fnv(FNV_START ^ facts.image_hash ^ idle, facts.name.as_bytes());
    Kernel { identity, ..plain_kernel(facts) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::KnownProcess;
    use crate::summary::KernelSummary;
    use apex_core::event::KernelId;
    use apex_policy::predict::answer::Source;
    use apex_policy::predict::programs::Rest;
    use apex_policy::predict::trees::Forest;

    fn is_repeat(prediction: &Prediction) -> bool {
        prediction.time.source == Source::Repeat
    }

    fn known() -> Known {
        let mut process = KnownProcess::default();
        let kernel = facts::Kernel { id: 1, name: "k".into(), registers: 32, ..Default::default() };
        let device =
            facts::Device { major: 9, sms: 132, clock_khz: 1_980_000, ..Default::default() };
        process.kernels.insert(1, kernel);
        process.devices.insert(0, device);
        Known { processes: vec![process] }
    }

    fn row(blocks: u32, nanos: u64, basis: TimeBasis) -> Row {
        let shape =
            LaunchShape { grid: [blocks, 1, 1], block: [256, 1, 1], ..LaunchShape::default() };
        let what = What::GpuTime { kernel: KernelId(1), shape, nanos, basis };
        Row { device: Some(0), ..crate::row::tests::row(0, what) }
    }

    #[test]
    fn a_time_is_foretold_before_it_is_learned() {
        let (mut learner, known) = (Learner::default(), known());
        let first = learner.take(&known, &row(10, 7_000, TimeBasis::EventPair)).unwrap();
        assert!(!is_repeat(&first.prediction));
        let again = learner.take(&known, &row(10, 7_000, TimeBasis::EventPair)).unwrap();
        assert!(is_repeat(&again.prediction) && again.prediction.time.nanos == 7_000.0);
        let idle = learner.take(&known, &row(10, 11_000, TimeBasis::EventPairIdle)).unwrap();
        assert!(!is_repeat(&idle.prediction), "another kind of time is another thing");
        let summary = learner.summary().unwrap();
        assert_eq!((summary.timed, summary.configurations), (3, 2));
        assert_eq!(summary.by.iter().find(|by| by.source == "repeat").unwrap().median_error, 0.0);
    }

    #[test]
    fn each_kernel_is_judged_for_itself() {
        let (mut learner, known) = (Learner::default(), known());
        for _ in 0..3 {
            learner.take(&known, &row(10, 7_000, TimeBasis::EventPair));
        }
        let kernel =
            |mangled: &str| KernelSummary { mangled: mangled.into(), ..Default::default() };
        let kernels = vec![kernel("k"), kernel("other")];
        let summary = learner.complete(Summary { kernels, ..Summary::default() });
        let judged = summary.kernels[0].predicted.as_ref().unwrap();
        assert_eq!((judged.timed, judged.measured_ns, judged.median_error), (3, 7_000.0, 0.0));
        assert_eq!(
            (summary.kernels[1].predicted.as_ref(), summary.predicted.unwrap().timed),
            (None, 3)
        );
    }

    #[test]
    fn a_later_run_begins_with_what_an_earlier_one_measured() {
        let mut known = known();
        known.processes[0].kernels.get_mut(&1).unwrap().image_hash = 9;
        let mut first = Learner::default();
        for nanos in [7_000, 7_100, 6_900] {
            first.take(&known, &row(10, nanos, TimeBasis::EventPair));
        }
        first.take(&known, &row(10, 11_000, TimeBasis::EventPairIdle));
        let folder = tempfile::tempdir().unwrap();
        crate::history::keep(folder.path(), &first.pasts(20_000)).unwrap();

        let mut later = Learner::default();
        later.recall_from(vec![History::open(folder.path()).unwrap()]);
        let foreseen = later.take(&known, &row(10, 7_050, TimeBasis::EventPair)).unwrap();
        let time = foreseen.prediction.time;
        assert_eq!(time.source, Source::History);
        assert!((time.nanos / 7_000.0 - 1.0).abs() < 0.02 && time.low < 6_900.0, "{time:?}");
        // What was measured in this run is a repeat, and what was timed otherwise is another thing.
        let again = later.take(&known, &row(10, 7_050, TimeBasis::EventPair)).unwrap();
        assert_eq!(again.prediction.time.source, Source::Repeat);
        let idle = later.take(&known, &row(10, 11_000, TimeBasis::EventPairIdle)).unwrap();
        assert_eq!(idle.prediction.time.source, Source::History);
        assert!((idle.prediction.time.nanos / 11_000.0 - 1.0).abs() < 0.01);
        // Changed code is another kernel.
        known.processes[0].kernels.get_mut(&1).unwrap().image_hash = 10;
        let changed = later.take(&known, &row(10, 7_000, TimeBasis::EventPair)).unwrap();
        assert_ne!(changed.prediction.time.source, Source::History);
    }

    /// Forests that correct nothing; where the shape is all that is known, they doubt much.
    fn programs() -> AtHand {
        let forests = [Forest::new(0.0), Forest::new(0.0), Forest::new(0.25)];
        let programs = Programs { forests, widening: [10.0, 1.0, 1.0, 1.0] };
        AtHand { programs: Some(Arc::new(programs)), ..AtHand::default() }
    }

    #[test]
    fn of_a_shape_alone_nothing_is_said_and_another_shape_helps() {
        let (mut learner, known) = (Learner::new(programs()), known());
        let first = learner.take(&known, &row(10, 7_000, TimeBasis::EventPair)).unwrap();
        assert!(!first.is_known);
        let other = learner.take(&known, &row(20, 7_500, TimeBasis::EventPair)).unwrap();
        assert!(other.is_known);
        assert_eq!(other.prediction.time.source, Source::Programs(Rest::Others));
        assert!((other.prediction.time.nanos / 7_000.0 - 1.0).abs() < 0.05);
        let summary = learner.summary().unwrap();
        assert_eq!((summary.timed, summary.not_known, summary.configurations), (1, 1, 2));
    }

    #[test]
    fn code_that_was_read_meanwhile_is_known() {
        let code = include_bytes!("../../../tests/programs/demo.ptx");
        let hash = apex_cuda::image::hash(code);
        let rings = tempfile::tempdir().unwrap();
        std::fs::write(rings.path().join(facts::image_file(hash)), code).unwrap();
        let mut known = known();
        let process = &mut known.processes[0];
        let image = facts::Image { id: 1, kind: "ptx".into(), hash, ..facts::Image::default() };
        process.images.insert(1, image);
        let kernel = facts::Kernel {
            id: 1,
            name: "vector_add".into(),
            image: 1,
            image_hash: hash,
            ..facts::Kernel::default()
        };
        process.kernels.insert(1, kernel);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(240);
        let mut fresh = Learner::new(programs());
        fresh.read_code_beside(rings.path());
        let ask = |learner: &mut Learner| {
            let kernel = asked_kernel(&known.processes[0].kernels[&1], TimeBasis::EventPair);
            let device_facts = &known.processes[0].devices[&0];
            let device = learner.device(device_facts).unwrap();
            let facts = &known.processes[0].kernels[&1];
            let shape =
                LaunchShape { grid: [4, 1, 1], block: [64, 1, 1], ..LaunchShape::default() };
            let asked = Asked {
                known: &known,
                process: 0,
                facts,
                kernel: &kernel,
                device: &device,
                device_facts,
                basis: TimeBasis::EventPair,
            };
            learner.foretell(&question(&device, &kernel, &shape), &asked, &shape)
        };
        while ask(&mut fresh).0.time.source != Source::Programs(Rest::Mix) {
            assert!(std::time::Instant::now() < end, "the code was never read");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(ask(&mut fresh).1, "its instructions say enough");
    }

    #[test]
    fn other_events_and_unknown_kernels_are_passed_over() {
        let (mut learner, known) = (Learner::default(), known());
        let mut other = row(1, 5, TimeBasis::Cupti);
        other.process = 9;
        assert!(learner.take(&known, &other).is_none());
        assert!(learner.take(&known, &row(1, 0, TimeBasis::Cupti)).is_none());
        other.what = What::Other;
        assert!(learner.take(&known, &other).is_none() && learner.summary().is_none());
    }

    #[test]
    fn more_of_the_same_work_takes_longer() {
        let (mut learner, known) = (Learner::default(), known());
        for blocks in [1_000, 2_000, 4_000, 8_000] {
            let nanos = 2_000 + u64::from(blocks) * 3;
            learner.take(&known, &row(blocks, nanos, TimeBasis::Cupti));
        }
        let said = learner.take(&known, &row(16_000, 50_000, TimeBasis::Cupti)).unwrap();
        assert!((said.prediction.time.nanos / 50_000.0 - 1.0).abs() < 0.15, "{said:?}");
    }

    #[test]
    fn configurations_of_programs_that_ask_are_answered_once() {
        let place = tempfile::tempdir().unwrap();
        let (mut learner, mut known) = (Learner::default(), known());
        learner.answer_in(place.path()).unwrap();
        assert!(!place.path().join(apex_core::answer_page::FILE).exists(), "no trees, no answers");
        learner.answers = Some(Writer::create(place.path()).unwrap());
        let mut launched = row(10, 1, TimeBasis::EventPair);
        let What::GpuTime { kernel, shape, .. } = launched.what else { panic!() };
        let launch =
            |shape| apex_core::Launch { kernel, shape, cooperative: false, captured: false };
        launched.what = What::Launch(launch(shape));
        assert!(learner.take(&known, &launched).is_none() && learner.summary().is_none());
        known.processes[0].foresight = Some(facts::Foresight::default());
        for _ in 0..3 {
            learner.take(&known, &launched);
        }
        launched.what = What::Launch(launch(LaunchShape { grid: [20, 1, 1], ..shape }));
        learner.take(&known, &launched);
        assert_eq!(learner.summary().unwrap().written_back, 2);
        let page = apex_core::answer_page::Page::map(place.path()).unwrap();
        let device = &known.processes[0].devices[&0];
        let device = DeviceKey {
            capability: (device.major, device.minor),
            sms: device.sms,
            clock_khz: device.clock_khz,
        };
        let kernel = kernel_key(&known.processes[0].kernels[&1], &device);
        let said = learner.take(&known, &row(10, 5_000, TimeBasis::EventPair)).unwrap();
        assert_eq!(page.find(launch_key(kernel, &shape)), Some(said.prediction.time.nanos));
    }
}
