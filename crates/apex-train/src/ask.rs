//! Asks the trained models about launches, one or many, as a program would.
//!
//! Launches are asked about in their order. Where a measured time is given with a launch, it is learned after the
//! launch was predicted and before the next one is: a list with times shows what apex would have said while the
//! program ran. What cannot be computed exactly carries an interval and its basis.

use crate::Error;
use crate::mix::{self, Text};
use crate::models::Loaded;
use crate::rows::Row;
use crate::walks;
use apex_core::small_file::{MADE, read_text};
use apex_policy::LaunchShape;
use apex_policy::launchable::refusal;
use apex_policy::predict::answer::{Knowledge, Models, Prediction};
use apex_policy::predict::features::{FNV_START, fnv};
use apex_policy::predict::question::{
    Arguments, Device, Kernel, Mix, Pipe, Question, Walked, Work,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One launch, as a user writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asked {
    /// The kernel's name: launches of the same name are launches of the same kernel.
    pub kernel: String,
    /// The device by its name in the models' manifest; the only one there if left out.
    pub device: Option<String>,
    /// Blocks by dimension.
    pub grid: Vec<u32>,
    /// Threads of a block by dimension.
    pub block: Vec<u32>,
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory in bytes.
    pub static_shared: u32,
    /// The most dynamic shared memory a launch may ask for; what this one asks for if left out.
    pub max_dynamic_shared: Option<u32>,
    /// Local memory of a thread in bytes.
    pub local_bytes: u32,
    /// Instructions by kind; see `apex predict --help`.
    pub mix: BTreeMap<String, u32>,
    /// What one of its warps does; see `apex predict --help`.
    pub walked: BTreeMap<String, f32>,
    /// A file with the PTX of the kernel's module, to read what its instructions are and to walk its warps.
    pub ptx: Option<PathBuf>,
    /// Integer arguments in their order.
    pub integers: Vec<u64>,
    /// Bytes of the allocations of pointer arguments in their order.
    pub allocations: Vec<u64>,
    /// Arithmetic operations, if known.
    pub flops: Option<f64>,
    /// Bytes read and written, if known.
    pub bytes: Option<f64>,
    /// What does the arithmetic: single, double or tensor.
    pub pipe: Option<String>,
    /// The measured time in nanoseconds, if there is one.
    pub measured_ns: Option<f64>,
}

/// What is said of one launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// The kernel.
    pub kernel: String,
    /// The device.
    pub device: String,
    /// Blocks by dimension.
    pub grid: [u32; 3],
    /// Threads of a block by dimension.
    pub block: [u32; 3],
    /// Theoretical occupancy; exact.
    pub occupancy: f32,
    /// Blocks on one multiprocessor; exact.
    pub blocks_per_sm: u32,
    /// What keeps more blocks away; exact.
    pub limiter: String,
    /// Lane fill times wave fill; exact.
    pub block_efficiency: f32,
    /// Blocks as multiples of what the device holds; exact.
    pub waves: f32,
    /// Why the device refuses it; nothing else is said of such a launch.
    pub refused: Option<String>,
    /// The least time it can take, in nanoseconds.
    pub bound_ns: Option<f32>,
    /// The predicted time in nanoseconds.
    pub time_ns: Option<f32>,
    /// Lower end of its 80 % interval.
    pub low_ns: Option<f32>,
    /// Upper end.
    pub high_ns: Option<f32>,
    /// `measured` for a repeat, `model` otherwise.
    pub basis: String,
    /// Which part said it.
    pub source: String,
    /// Predicted share of warp slots that are taken on average.
    pub achieved_occupancy: Option<f32>,
    /// Predicted share of the multiprocessors' peak.
    pub sm_throughput: Option<f32>,
    /// Predicted share of the memory's peak.
    pub dram_throughput: Option<f32>,
    /// The measured time, if it was given.
    pub measured_ns: Option<f64>,
}

impl Answered {
    /// A prediction of a launch that was not measured.
    #[must_use]
    pub fn new(kernel: &str, device: &str, shape: &LaunchShape, said: &Prediction) -> Answered {
        let Prediction { exact, bound, time, utilisation } = said;
        Answered {
            kernel: kernel.into(),
            device: device.into(),
            grid: shape.grid,
            block: shape.block,
            occupancy: exact.occupancy.fraction,
            blocks_per_sm: exact.occupancy.blocks_per_sm,
            limiter: exact.occupancy.limiter.to_string(),
            block_efficiency: exact.block_efficiency(),
            waves: exact.waves,
            refused: None,
            bound_ns: Some(bound.nanos),
            time_ns: Some(time.nanos),
            low_ns: Some(time.low),
            high_ns: Some(time.high),
            basis: time.basis.word().into(),
            source: time.source.word().into(),
            achieved_occupancy: Some(utilisation.achieved_occupancy),
            sm_throughput: Some(utilisation.sm_throughput),
            dram_throughput: utilisation.dram_throughput,
            measured_ns: None,
        }
    }

    /// The same of a launch that cannot run, for this reason.
    fn refused(self, reason: String) -> Answered {
        Answered {
            occupancy: 0.0,
            blocks_per_sm: 0,
            waves: 0.0,
            refused: Some(reason),
            bound_ns: None,
            time_ns: None,
            low_ns: None,
            high_ns: None,
            basis: "none".into(),
            source: "none".into(),
            achieved_occupancy: None,
            sm_throughput: None,
            dram_throughput: None,
            ..self
        }
    }
}

/// Reads a list of launches, or a single one.
pub fn parse(text: &str) -> Result<Vec<Asked>, String> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let list = match value {
        serde_json::Value::Array(list) => list,
        one => vec![one],
    };
    let read = |(nth, value)| {
        serde_json::from_value(value)
            .map_err(|error| format!("launch {nth} cannot be read: {error}"))
    };
    (0..).zip(list).map(read).collect()
}

/// Answers for launches in their order.
pub fn answer(models: &Loaded, launches: &[Asked]) -> Result<Vec<Answered>, Error> {
    let mut knowledge = Knowledge::remembering(4096, 1024);
    let mut modules = Modules::default();
    let mut answers = Vec::with_capacity(launches.len());
    for asked in launches {
        let (name, device) = device_of(models, asked.device.as_deref())?;
        let mut kernel = asked.kernel_facts()?;
        let text = modules.text(asked)?;
        kernel.mix = text.map_or(kernel.mix, |text| text.mix);
        let arguments = Arguments::of(&asked.integers, &asked.allocations);
        let given = asked.walked()?;
        let question = Question {
            device: &device,
            kernel: &kernel,
            shape: LaunchShape {
                grid: sides(&asked.grid, "grid")?,
                block: sides(&asked.block, "block")?,
            },
            dynamic_shared: asked.dynamic_shared,
            arguments: &arguments,
            work: asked.work()?,
            walked: &given,
        };
        let program = text.and_then(|text| text.program.as_ref());
        let walked = program.map_or(given, |program| walks::walked(program, &question));
        let question = Question { walked: &walked, ..question };
        let at_hand = Models { small: Some(&models.small), trees: Some(&models.trees) };
        let prediction = knowledge.predict(&question, at_hand);
        let said = Answered::new(&asked.kernel, name, &question.shape, &prediction);
        let said = Answered { measured_ns: asked.measured_ns, ..said };
        let needs = kernel.needs(asked.dynamic_shared);
        if let Some(reason) = refusal(&device.chip, &needs, &question.shape) {
            answers.push(said.refused(reason));
            continue;
        }
        answers.push(said);
        if let Some(measured) = asked.measured_ns {
            knowledge.learn(&question, measured as f32);
        }
    }
    Ok(answers)
}

/// Texts of modules that were read, by their files.
#[derive(Default)]
struct Modules(BTreeMap<PathBuf, BTreeMap<String, Text>>);

impl Modules {
    /// The text of a launch's kernel, if its file is given.
    fn text(&mut self, asked: &Asked) -> Result<Option<&Text>, Error> {
        let Some(path) = &asked.ptx else { return Ok(None) };
        if !self.0.contains_key(path) {
            let text = read_text(path, MADE).map_err(Error::read(path))?;
            self.0.insert(path.clone(), mix::of_module(&text));
        }
        let found = self.0.get(path).and_then(|module| module.get(&asked.kernel));
        let (kernel, file) = (&asked.kernel, path.display());
        let missing = || Error::Device(format!("{file} has no kernel {kernel} that can be read"));
        found.map(Some).ok_or_else(missing)
    }
}

impl Asked {
    /// A measured row as a launch to ask about.
    #[must_use]
    pub fn from_row(row: &Row) -> Asked {
        let LaunchShape { grid, block } = row.shape();
        let kernel = row.kernel_facts();
        let (arguments, work) = (row.arguments(), row.work());
        let counts = Mix::NAMES.iter().zip(kernel.mix.counts());
        let walked = Walked::NAMES.iter().zip(row.walked_facts().numbers());
        Asked {
            kernel: row.entry.clone(),
            device: Some(row.device.clone()),
            grid: grid.to_vec(),
            block: block.to_vec(),
            dynamic_shared: row.dynamic_shared,
            registers: row.registers,
            static_shared: row.static_shared,
            max_dynamic_shared: Some(row.max_dynamic_shared),
            local_bytes: row.local_bytes,
            mix: counts.map(|(name, count)| ((*name).to_owned(), count)).collect(),
            walked: walked.map(|(name, count)| ((*name).to_owned(), count)).collect(),
            ptx: None,
            integers: arguments.integers[..].to_vec(),
            allocations: arguments.allocations[..].to_vec(),
            flops: work.map(|work| work.flops),
            bytes: work.map(|work| work.bytes),
            pipe: Some(row.pipe.clone()),
            measured_ns: Some(row.median_ns),
        }
    }

    fn walked(&self) -> Result<Walked, Error> {
        let numbers = by_name(&self.walked, Walked::NAMES, "nothing that a warp does")?;
        Ok(Walked::from_numbers(&numbers))
    }

    fn kernel_facts(&self) -> Result<Kernel, Error> {
        let counts = by_name(&self.mix, Mix::NAMES, "no kind of instruction")?;
        Ok(Kernel {
            identity: fnv(FNV_START, self.kernel.as_bytes()),
            registers: self.registers,
            static_shared: self.static_shared,
            max_dynamic_shared: self.max_dynamic_shared.unwrap_or(self.dynamic_shared),
            local_bytes: self.local_bytes,
            mix: Mix::from_counts(&counts),
            ..Kernel::default()
        })
    }

    fn work(&self) -> Result<Option<Work>, Error> {
        let pipe = match self.pipe.as_deref() {
            None | Some("" | "single") => Pipe::Single,
            Some("double") => Pipe::Double,
            Some("tensor") => Pipe::Tensor,
            Some(other) => {
                return Err(Error::Device(format!(
                    "pipe is single, double or tensor, not {other}"
                )));
            }
        };
        let (flops, bytes) = (self.flops, self.bytes);
        let known = flops.is_some() || bytes.is_some();
        Ok(known.then(|| Work { flops: flops.unwrap_or(0.0), bytes: bytes.unwrap_or(0.0), pipe }))
    }
}

fn device_of<'a>(models: &'a Loaded, wanted: Option<&str>) -> Result<(&'a str, Device), Error> {
    let devices = &models.manifest.devices;
    let names = || devices.keys().cloned().collect::<Vec<_>>().join(", ");
    let (name, peaks) = match wanted {
        Some(wanted) => devices
            .iter()
            .find(|(name, _)| name.to_lowercase().contains(&wanted.to_lowercase()))
            .ok_or_else(|| {
                Error::Device(format!("the models know no {wanted}, but {}", names()))
            })?,
        None if devices.len() == 1 => devices
            .first_key_value()
            .ok_or_else(|| Error::Device("the models know no device".into()))?,
        None => return Err(Error::Device(format!("name one of the devices: {}", names()))),
    };
    let device = peaks.device().ok_or_else(|| {
        Error::Device(format!("{name} has a compute capability that apex does not know"))
    })?;
    Ok((name, device))
}

/// Numbers by the order of their names; those left out are zero.
fn by_name<T: Copy + Default, const N: usize>(
    given: &BTreeMap<String, T>,
    names: &[&str],
    none: &str,
) -> Result<[T; N], Error> {
    let mut found = [T::default(); N];
    for (name, number) in given {
        let place = names.iter().position(|known| known == name);
        let place = place.and_then(|place| found.get_mut(place)).ok_or_else(|| {
            Error::Device(format!("{none} is called {name}: {}", names.join(", ")))
        })?;
        *place = *number;
    }
    Ok(found)
}

/// One to three sides; those left out are one.
fn sides(given: &[u32], what: &str) -> Result<[u32; 3], Error> {
    if given.is_empty() || given.len() > 3 || given.contains(&0) {
        return Err(Error::Device(format!(
            "a {what} has one to three sides, none of them 0; {given:?} does not"
        )));
    }
    let mut sides = [1; 3];
    sides[..given.len()].copy_from_slice(given);
    Ok(sides)
}

/// Answers as CSV.
#[must_use]
pub fn csv(answers: &[Answered]) -> String {
    let mut text = String::from(
        "kernel,device,grid_x,grid_y,grid_z,block_x,block_y,block_z,occupancy,blocks_per_sm,limiter,\
         block_efficiency,waves,bound_ns,time_ns,low_ns,high_ns,basis,source,achieved_occupancy,\
         sm_throughput,dram_throughput,measured_ns,refused\n",
    );
    for answer in answers {
        let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
        let known = |value: Option<f32>| value.map_or(String::new(), |value| value.to_string());
        let cells = [
            quoted(&answer.kernel),
            quoted(&answer.device),
            answer.grid.map(|side| side.to_string()).join(","),
            answer.block.map(|side| side.to_string()).join(","),
            answer.occupancy.to_string(),
            answer.blocks_per_sm.to_string(),
            quoted(&answer.limiter),
            answer.block_efficiency.to_string(),
            answer.waves.to_string(),
            known(answer.bound_ns),
            known(answer.time_ns),
            known(answer.low_ns),
            known(answer.high_ns),
            answer.basis.clone(),
            answer.source.clone(),
            known(answer.achieved_occupancy),
            known(answer.sm_throughput),
            known(answer.dram_throughput),
            answer.measured_ns.map_or(String::new(), |value| value.to_string()),
            quoted(answer.refused.as_deref().unwrap_or_default()),
        ];
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::tests::fixture;
    use crate::fit::{Options, fit};
    use crate::matmul::Threads;
    use crate::models;

    fn loaded() -> (tempfile::TempDir, Loaded) {
        let options = Options {
            threads: Threads::one(),
            trees: 10,
            small_epochs: 2,
            large_epochs: 0,
            ..Options::quick(1)
        };
        let fitted = fit(&fixture(8, 30), &options, &mut |_| {}).unwrap();
        let place = tempfile::tempdir().unwrap();
        models::write(place.path(), &fitted, 7).unwrap();
        let loaded = models::load(place.path()).unwrap();
        (place, loaded)
    }

    #[test]
    fn a_list_with_times_is_learned_from_as_it_goes() {
        let (_place, loaded) = loaded();
        let list = r#"[
            {"kernel": "k", "grid": [1000], "block": [256], "registers": 32, "bytes": 3e6, "measured_ns": 9000},
            {"kernel": "k", "grid": [1000], "block": [256], "registers": 32, "bytes": 3e6}
        ]"#;
        let answers = answer(&loaded, &parse(list).unwrap()).unwrap();
        assert_eq!(answers[0].basis, "model");
        assert_eq!((answers[1].basis.as_str(), answers[1].time_ns), ("measured", Some(9000.0)));
        assert_eq!(answers[0].occupancy, 1.0);
        let text = csv(&answers);
        assert_eq!(text.lines().count(), 3);
        let columns = text.lines().next().unwrap().split(',').count();
        assert!(text.lines().all(|line| line.split(',').count() == columns));
    }

    #[test]
    fn a_text_says_what_its_kernel_does() {
        let (place, loaded) = loaded();
        let file = place.path().join("module.ptx");
        std::fs::write(&file, apex_exec::EXAMPLE_PTX).unwrap();
        let launch = Asked {
            kernel: "add".into(),
            grid: vec![4096],
            block: vec![256],
            integers: vec![1 << 20],
            allocations: vec![4 << 20; 3],
            ..Asked::default()
        };
        let read = Asked { ptx: Some(file), ..launch.clone() };
        let answers = answer(&loaded, &[launch, read.clone()]).unwrap();
        // What the text does is the only difference.
        assert_ne!(answers[0].time_ns, answers[1].time_ns);
        let other = Asked { kernel: "substract".into(), ..read };
        let error = answer(&loaded, &[other]).unwrap_err().to_string();
        assert!(error.contains("no kernel substract"), "{error}");
    }

    #[test]
    fn what_is_wrong_with_a_question_is_said() {
        let (_place, loaded) = loaded();
        let ask = |text: &str| match parse(text) {
            Ok(list) => answer(&loaded, &list).map(|_| ()).map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        assert!(ask("{").unwrap_err().contains("not JSON"));
        assert!(ask(r#"{"gird": [1]}"#).unwrap_err().contains("gird"));
        assert!(ask(r#"{"grid": [0], "block": [1]}"#).unwrap_err().contains("grid"));
        assert!(ask(r#"{"grid": [1], "block": []}"#).unwrap_err().contains("block"));
        assert!(
            ask(r#"{"grid": [1], "block": [1], "device": "x9"}"#).unwrap_err().contains("made up")
        );
        assert!(
            ask(r#"{"grid": [1], "block": [1], "mix": {"q": 1}}"#).unwrap_err().contains("float32")
        );
        assert!(ask(r#"{"grid": [1], "block": [1], "pipe": "x"}"#).unwrap_err().contains("tensor"));
        // What cannot be launched has no time, but a reason.
        let list = parse(r#"{"grid": [1], "block": [4096]}"#).unwrap();
        let said = &answer(&loaded, &list).unwrap()[0];
        assert_eq!((said.time_ns, said.occupancy, said.blocks_per_sm), (None, 0.0, 0));
        let reason = said.refused.as_deref().unwrap();
        assert_eq!(reason, "its block has 4,096 threads, 1,024 are the most");
    }
}
