//! The command line of `apex bench`: every benchmark with its options, and the word for a device that other verbs use
//! too.
#![allow(missing_docs, reason = "a comment of documentation here is a sentence of the help")]

use apex_core::knobs::DeviceChoice;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// What the shim adds to a call, against a direct call into the same stand-in driver.
    Shim {
        /// A tenth of the calls.
        #[arg(long)]
        quick: bool,
        /// Print a JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Launches through the queue of --fast, against the driver alone.
    Launch(BenchLaunch),
    /// Memory handed out again by --fast, against the driver's own.
    Memory(BenchMemory),
    /// What the collector spends on a launch at 200,000 a second, against reading the same rings and keeping nothing.
    Collect {
        /// A fifth of the launches.
        #[arg(long)]
        quick: bool,
        /// Print a JSON document.
        #[arg(long)]
        json: bool,
    },
    /// The software GPU's speed, against the same work as loops compiled by gcc on the same cores.
    Softgpu {
        /// Two rounds instead of five.
        #[arg(long)]
        quick: bool,
        /// Print a JSON document.
        #[arg(long)]
        json: bool,
    },
    /// The executor's operations, against cuBLASLt and PyTorch on the same shapes.
    Exec {
        /// Fewer rounds and fewer products.
        #[arg(long)]
        quick: bool,
        /// Say which kernel every product takes, and why.
        #[arg(long)]
        explain: bool,
        /// Print a JSON document.
        #[arg(long)]
        json: bool,
    },
    /// The kernel zoo: times, rates and occupancy of each kernel over its launch space.
    Zoo(Zoo),
    /// Predictions: how long they take, or with --truth how near they come.
    Predict(BenchPredict),
    /// A program that answers requests beside one that trains: what each loses, under every way of sharing.
    Sched(BenchSched),
    /// One side of a comparison of launches, told by lines what to do.
    #[command(hide = true)]
    LaunchWorker {
        /// The driver's file; the one that programs get if left out.
        #[arg(long)]
        library: Option<PathBuf>,
    },
    /// One side of a comparison of memory, told by lines what to do.
    #[command(hide = true)]
    MemoryWorker {
        /// The driver's file; the one that programs get if left out.
        #[arg(long)]
        library: Option<PathBuf>,
    },
    /// One side of a pair on the software GPU, told by lines what to do.
    #[command(hide = true)]
    SchedWorker {
        #[arg(long)]
        latency: bool,
        #[arg(long)]
        train: bool,
    },
    /// Advice: whether block sizes that it recommends are faster, and by as much as it says.
    Advice(BenchAdvice),
    /// Launches the kernels that are measured.
    #[command(hide = true)]
    SoftgpuKernels,
    /// Makes the launches that are collected.
    #[command(hide = true)]
    CollectCalls {
        #[arg(long)]
        launches: u64,
        #[arg(long)]
        rate: u64,
    },
    /// Makes the calls that are measured.
    #[command(hide = true)]
    ShimCalls {
        #[arg(long)]
        threads: usize,
        #[arg(long)]
        gate: bool,
        #[arg(long)]
        quick: bool,
    },
}

#[derive(Debug, Args)]
pub struct BenchLaunch {
    /// Measure what launches cost the driver and keep it for --fast, which then knows where graphs pay.
    #[arg(long, conflicts_with = "standin")]
    pub calibrate: bool,
    /// Against a driver that costs nothing: what a call takes that waits in the queue.
    #[arg(long, conflicts_with = "device")]
    pub standin: bool,
    /// A tenth of the launches, and less still on the software GPU.
    #[arg(long)]
    pub quick: bool,
    /// What to run on: a GPU if there is one (auto), the software GPU, or a GPU and nothing else.
    #[arg(long, value_enum, default_value = "auto")]
    pub device: DeviceWord,
    /// Print a JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BenchMemory {
    /// A tenth of the work, and less still on the software GPU.
    #[arg(long)]
    pub quick: bool,
    /// What to run on: a GPU if there is one (auto), the software GPU, or a GPU and nothing else.
    #[arg(long, value_enum, default_value = "auto")]
    pub device: DeviceWord,
    /// Print a JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Zoo {
    /// Only this kernel; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub kernel: Vec<String>,
    /// Configurations of each kernel, or all.
    #[arg(long, alias = "configs", value_name = "N|all", default_value = "20", value_parser = configurations)]
    pub points: Configurations,
    /// Which configurations: another seed takes others.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Compare the results with references too.
    #[arg(long)]
    pub check: bool,
    /// Empty the second-level cache before each run.
    #[arg(long)]
    pub cold: bool,
    /// Small problems and few runs, as always on the software GPU.
    #[arg(long)]
    pub quick: bool,
    /// What to run on: a GPU if there is one (auto), the software GPU, or a GPU and nothing else.
    #[arg(long, value_enum, default_value = "auto")]
    pub device: DeviceWord,
    /// Print a JSON document.
    #[arg(long)]
    pub json: bool,
}

/// How many configurations of a kernel; all without a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configurations(pub Option<usize>);

fn configurations(word: &str) -> Result<Configurations, String> {
    match (word, word.parse()) {
        ("all", _) => Ok(Configurations(None)),
        (_, Ok(count)) if count > 0 => Ok(Configurations(Some(count))),
        _ => Err("a number from 1 on, or all".into()),
    }
}

#[derive(Debug, Args)]
pub struct BenchSched {
    /// Only these cases; a pair takes about eight minutes under two systems, 14 under five, 27 under all.
    #[arg(long, value_name = "CASE,...", value_delimiter = ',', alias = "pair")]
    pub only: Vec<String>,
    /// Only these systems. What is compared with, time-slicing, is always measured; up to five take turns with each
    /// other.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub system: Vec<String>,
    /// Another build of apex, measured beside this one as the system apex-other.
    #[arg(long, value_name = "APEX")]
    pub other: Option<PathBuf>,
    /// Load of the program that answers requests, as a part of what it could answer alone.
    #[arg(long, default_value_t = 0.5)]
    pub load: f64,
    /// Seconds of each turn; 10, or 2.5 with --quick.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// How often the turns go forth and back; 3. More and shorter ones where the machine changes its speed.
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// Seconds of the turn before those that count, for every system; 10, or 6 with --quick.
    #[arg(long, value_name = "SECONDS")]
    pub warm_up: Option<f64>,
    /// Decides the arrivals.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// One pair and short turns, under 8 minutes.
    #[arg(long)]
    pub quick: bool,
    /// Own programs on the software GPU instead of models: shows that everything works, in seconds.
    #[arg(long)]
    pub synthetic: bool,
    /// Draw the plane of P95 against training, anew after the systems that took turns with each other.
    #[arg(long, alias = "picture", value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// Keep the results with every turn, anew after the systems that took turns with each other.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The Python that has PyTorch.
    #[arg(long, default_value = "python3")]
    pub python: String,
    /// Print a JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BenchPredict {
    /// Judge the models of a folder on rows that they have not seen, instead of timing them.
    #[arg(long)]
    pub truth: bool,
    /// Judge the forests for programs on programs that they have not seen, instead of timing predictions.
    #[arg(long, conflicts_with_all = ["truth", "suggest"])]
    pub programs: bool,
    /// Judge suggested configurations on problems that were held out of the rows, instead of timing predictions.
    #[arg(long, conflicts_with = "truth")]
    pub suggest: bool,
    /// Judge as if these were not known of a launch, as they are not of most recorded ones; nothing is promised then.
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', requires = "truth")]
    pub without: Vec<Withheld>,
    /// The folder of models; by default APEX_MODELS, or models beside the executable or here.
    #[arg(long, value_name = "DIR")]
    pub models: Option<PathBuf>,
    /// The measured rows that the models were trained from, needed to judge them; by default h200.parquet among the models,
    /// with --programs programs-h200.parquet.
    #[arg(long, alias = "data", value_name = "FILE")]
    pub rows: Option<PathBuf>,
    /// With --programs, rows of another run of the same programs.
    #[arg(long, value_name = "FILE", requires = "programs")]
    pub again: Option<PathBuf>,
    /// A tenth of the rounds.
    #[arg(long)]
    pub quick: bool,
    /// Print a JSON document.
    #[arg(long)]
    pub json: bool,
}

/// What may not be known of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Withheld {
    /// The kernel's text, so that nobody can walk through it.
    Text,
    /// The instructions that are in it.
    Mix,
    /// Operations and bytes.
    Work,
    /// The values of the arguments.
    Arguments,
}

#[derive(Debug, Args)]
pub struct BenchAdvice {
    /// The measured rows to look at; by default h200.parquet among the models.
    #[arg(long, alias = "data", value_name = "FILE")]
    pub rows: Option<PathBuf>,
    /// Measure the zoo on the device at hand instead.
    #[arg(long)]
    pub live: bool,
    /// Configurations to measure.
    #[arg(long, default_value_t = 1_000)]
    pub points: usize,
    /// Which configurations: another seed takes others.
    #[arg(long, default_value_t = 2)]
    pub seed: u64,
    /// Small problems, as always on the software GPU.
    #[arg(long)]
    pub quick: bool,
    /// Print a JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DeviceWord {
    Auto,
    Soft,
    Gpu,
}

impl From<DeviceWord> for DeviceChoice {
    fn from(word: DeviceWord) -> DeviceChoice {
        match word {
            DeviceWord::Auto => DeviceChoice::Auto,
            DeviceWord::Soft => DeviceChoice::Soft,
            DeviceWord::Gpu => DeviceChoice::Gpu,
        }
    }
}
