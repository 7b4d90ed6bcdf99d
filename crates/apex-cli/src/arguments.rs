//! The command line: every verb with its options. Help, completions and the man page come from here.

use apex_core::knobs::{DeviceChoice, Timing};
use apex_daemon::export::Format;
use apex_daemon::show::By;
use apex_policy::schedule::{Class, Sla};
use apex_policy::tune::Tier;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Sees every CUDA call of any program, and reports.
#[derive(Debug, Parser)]
#[command(name = "apex", version, about, after_help = knobs_help(), max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a program and report what it did on the GPU.
    Run(Run),
    /// Schedule the programs of this machine that share a GPU, until stopped.
    Daemon(Daemon),
    /// Show the report of a session again, or one of its tables.
    Report(Report),
    /// Write a session in another format.
    Export(Export),
    /// Compare two sessions.
    Diff(Diff),
    /// Compare a session with a baseline: exit code 0 fine, 1 slower, 3 not decided.
    Check(Check),
    /// List the kept sessions.
    Sessions(List),
    /// Watch running sessions.
    Top(Top),
    /// Check what a session needs on this machine, with the remedy for what is missing.
    Doctor(Doctor),
    /// Measure launches, and train the predictor's models from them.
    #[command(subcommand)]
    Train(Train),
    /// Say what a launch will do: occupancy, time, throughput, and how sure that is.
    Predict(Predict),
    /// Run programs together on a virtual GPU under a scheduling policy, and say what each gets.
    Sim(Sim),
    /// Try what makes a program's kernels faster without changing the program, and write down what wins.
    Tune(Tune),
    /// Measure apex beside what a user has without it.
    #[command(subcommand)]
    Bench(Bench),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
    /// Prints the driver that the loader found for this process.
    #[command(name = crate::environment::MAPPED_DRIVER, hide = true)]
    MappedDriver,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Directory for the session instead of the state directory; %h is the host, %p the process id.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<String>,
    /// What the program runs on: a GPU if there is one (auto), the software GPU, or a GPU and nothing else.
    #[arg(long, value_enum)]
    pub(crate) device: Option<DeviceWord>,
    /// How GPU times are taken: event pairs under a budget, every kernel by CUPTI, or not at all.
    #[arg(long, value_enum)]
    pub(crate) timing: Option<TimingWord>,
    /// What the program is to others on its GPU: latency, normal or batch. Without it nothing is scheduled.
    #[arg(long)]
    pub(crate) class: Option<Class>,
    /// Latency that is held for it, such as p95=10ms.
    #[arg(long, value_name = "PROMISE")]
    pub(crate) sla: Option<Sla>,
    /// Its weight among programs of its class.
    #[arg(long, value_name = "WEIGHT")]
    pub(crate) share: Option<f64>,
    /// How programs share the GPU, if this apex is the first: none, priority, deadline, fair or adaptive.
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Run under NVIDIA's MPS, which is started here if nobody has and stopped by the last.
    #[arg(long)]
    pub(crate) mps: bool,
    /// Run kernels as a file of apex tune says, where they are the same and the device is.
    #[arg(long, value_name = "FILE")]
    pub(crate) tuning: Option<PathBuf>,
    /// What to do beside running the program: observe it, or look closer and end with advice.
    #[arg(long, value_enum, default_value = "observe")]
    pub(crate) mode: ModeWord,
    /// Print the report as a JSON document (to standard error: standard output is the program's).
    #[arg(long)]
    pub(crate) json: bool,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Daemon {
    /// Start NVIDIA's MPS for all programs, and stop it in the end.
    #[arg(long)]
    pub(crate) mps: bool,
    /// JSON document that names the policy, the group and who may be of which class.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Directory of the pages; programs find it by APEX_GATE.
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The program is run several times, with empty standard input and its output kept back. Hints to the \
driver come first, then other limits for code that the driver compiles, then other blocks for kernels whose PTX proves \
that nothing else depends on them. What it copies from the device, prints and ends with must stay the same in every run."
)]
pub(crate) struct Tune {
    /// File to write.
    #[arg(short, long, value_name = "FILE", default_value = "apex-tuning.json")]
    pub(crate) output: PathBuf,
    /// What the program runs on: a GPU if there is one (auto), the software GPU, or a GPU and nothing else.
    #[arg(long, value_enum)]
    pub(crate) device: Option<DeviceWord>,
    /// Try only changes of this kind; may be given several times.
    #[arg(long, value_enum)]
    pub(crate) only: Vec<TierWord>,
    /// Kernels that are tuned, the heaviest first.
    #[arg(long, default_value_t = 8)]
    pub(crate) kernels: usize,
    /// Rounds at most; each takes four runs of the program, and more where a change must be checked alone.
    #[arg(long, default_value_t = 12)]
    pub(crate) rounds: usize,
    /// Print what was found as a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Id, beginning of an id, or directory; the latest session if left out.
    pub(crate) session: Option<String>,
    /// Show a table instead.
    #[arg(long, value_enum)]
    pub(crate) by: Option<ByWord>,
    /// Rows of the table.
    #[arg(long, default_value_t = 30)]
    pub(crate) rows: usize,
    /// Show every finding of the adviser instead.
    #[arg(long, conflicts_with = "by")]
    pub(crate) advice: bool,
    /// Print the whole summary, or with --advice the findings, as a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Id, beginning of an id, or directory; the latest session if left out.
    pub(crate) session: Option<String>,
    /// The format.
    #[arg(long, value_enum)]
    pub(crate) format: FormatWord,
    /// File to write; standard output if left out.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The session to compare with.
    pub(crate) before: String,
    /// The session to look at.
    pub(crate) after: String,
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The session to compare with.
    #[arg(long, value_name = "SESSION")]
    pub(crate) baseline: String,
    /// The session to look at: id, beginning of an id, or directory; the latest if left out.
    pub(crate) session: Option<String>,
    /// The slow-down that is borne, in per cent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = tolerance)]
    pub(crate) tolerance: f64,
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

fn tolerance(word: &str) -> Result<f64, String> {
    let number: Option<f64> = word.parse().ok();
    number.filter(|number| (0.0..=1000.0).contains(number)).ok_or("a number from 0 to 1000".into())
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print what runs now as a JSON document, once.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// What the shim adds to a call, against a direct call into the same stand-in driver.
    Shim {
        /// A tenth of the calls.
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
pub(crate) struct Zoo {
    /// Only this kernel; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub(crate) kernel: Vec<String>,
    /// Configurations of each kernel, or all.
    #[arg(long, value_name = "N|all", default_value = "20", value_parser = configurations)]
    pub(crate) configs: Configurations,
    /// Which configurations: another seed takes others.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Compare the results with references too.
    #[arg(long)]
    pub(crate) check: bool,
    /// Empty the second-level cache before each run.
    #[arg(long)]
    pub(crate) cold: bool,
    /// Small problems and few runs, as always on the software GPU.
    #[arg(long)]
    pub(crate) quick: bool,
    /// What to run on: a GPU if there is one (auto), the software GPU, or a GPU and nothing else.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) device: DeviceWord,
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many configurations of a kernel; all without a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Configurations(pub(crate) Option<usize>);

fn configurations(word: &str) -> Result<Configurations, String> {
    match (word, word.parse()) {
        ("all", _) => Ok(Configurations(None)),
        (_, Ok(count)) if count > 0 => Ok(Configurations(Some(count))),
        _ => Err("a number from 1 on, or all".into()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct BenchSched {
    /// Only these cases; a pair takes about eight minutes under two systems, 14 under five, 27 under all.
    #[arg(long, value_name = "CASE,...", value_delimiter = ',', alias = "pair")]
    pub(crate) only: Vec<String>,
    /// Only these systems. What is compared with, time-slicing, is always measured; up to five take turns with each
    /// other.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) system: Vec<String>,
    /// Load of the program that answers requests, as a part of what it could answer alone.
    #[arg(long, default_value_t = 0.5)]
    pub(crate) load: f64,
    /// Seconds of each turn; 10, or 2.5 with --quick.
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// How often the turns go forth and back; 3. More and shorter ones where the machine changes its speed.
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,
    /// Seconds of the turn before those that count, for every system; 10, or 6 with --quick.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) warm_up: Option<f64>,
    /// Decides the arrivals.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// One pair and short turns, under 8 minutes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Own programs on the software GPU instead of models: shows that everything works, in seconds.
    #[arg(long)]
    pub(crate) synthetic: bool,
    /// Draw the plane of P95 against training, anew after the systems that took turns with each other.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) picture: Option<PathBuf>,
    /// Keep the results with every turn, anew after the systems that took turns with each other.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) output: Option<PathBuf>,
    /// The Python that has PyTorch.
    #[arg(long, default_value = "python3")]
    pub(crate) python: String,
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A TRACE is a session (id, beginning of it, or directory), a .json file, or the word pair for \
the measured one. A class may stand before it: batch=SESSION. The file holds an object or a list of them, with the \
fields name, class, kernels, kernel_us and, if wanted, block_us, sms, bottleneck (compute, memory), host_us, host_spread, graph, \
waits, requests_per_second, share and sla."
)]
pub(crate) struct Sim {
    /// The programs.
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<String>,
    /// How they share: adaptive, priority, deadline, fair or none.
    #[arg(long, value_name = "NAME", default_value = apex_policy::schedule::DEFAULT_POLICY)]
    pub(crate) policy: String,
    /// What the virtual GPU does with several programs.
    #[arg(long, value_enum, default_value = "mps-priority")]
    pub(crate) mode: SharingWord,
    /// How long it runs.
    #[arg(long, default_value_t = 20.0)]
    pub(crate) seconds: f64,
    /// Error of predicted times, as the standard deviation of their logarithm; 0 for none.
    #[arg(long, value_name = "DEVIATION")]
    pub(crate) predictions: Option<f64>,
    /// Decides all that is random.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write what the policy sees and believes, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SharingWord {
    Timeslice,
    Mps,
    MpsPriority,
}

#[derive(Debug, Args)]
pub(crate) struct BenchPredict {
    /// Judge the models of a folder on rows that they have not seen, instead of timing them.
    #[arg(long)]
    pub(crate) truth: bool,
    /// Judge suggested configurations on problems that were held out of the rows, instead of timing predictions.
    #[arg(long, conflicts_with = "truth")]
    pub(crate) suggest: bool,
    /// Judge as if these were not known of a launch, as they are not of most recorded ones; nothing is promised then.
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', requires = "truth")]
    pub(crate) without: Vec<Untold>,
    /// The folder of models.
    #[arg(long, value_name = "DIR", default_value = "models")]
    pub(crate) models: PathBuf,
    /// The rows that the models were trained from; needed to judge them.
    #[arg(long, value_name = "FILE", default_value = "models/h200.parquet")]
    pub(crate) data: PathBuf,
    /// A tenth of the rounds.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What may not be known of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Untold {
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
pub(crate) struct BenchAdvice {
    /// The measured rows to look at.
    #[arg(long, value_name = "FILE", default_value = "models/h200.parquet")]
    pub(crate) data: PathBuf,
    /// Measure the zoo on the device at hand instead.
    #[arg(long)]
    pub(crate) live: bool,
    /// Configurations to measure.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) points: usize,
    /// Which configurations: another seed takes others.
    #[arg(long, default_value_t = 2)]
    pub(crate) seed: u64,
    /// Small problems, as always on the software GPU.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Measure the kernel zoo on the device at hand, or take the times of a recorded session.
    Collect(Collect),
    /// Train every model from rows, and judge them on rows they have not seen.
    Fit(Fit),
    /// Launches points once, for a profiler.
    #[command(hide = true)]
    LaunchPoints {
        #[arg(long)]
        points: usize,
        #[arg(long)]
        seed: u64,
        #[arg(long, value_enum)]
        device: DeviceWord,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Configurations to measure, evenly over the kernels.
    #[arg(long, default_value_t = 5_000)]
    pub(crate) points: usize,
    /// File of rows to write.
    #[arg(long, value_name = "FILE", default_value = "rows.parquet")]
    pub(crate) out: PathBuf,
    /// Timed runs of each configuration.
    #[arg(long, default_value_t = 20)]
    pub(crate) runs: u32,
    /// Which configurations: another seed takes others.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Go on where an interrupted collection stopped.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Take the times of a session instead: its id, the beginning of it, or its directory.
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["ncu", "resume"])]
    pub(crate) from: Option<String>,
    /// Read hardware counters of so many points by ncu, and add them to the rows of the file.
    #[arg(long, value_name = "POINTS", num_args = 0..=1, default_missing_value = "1000")]
    pub(crate) ncu: Option<usize>,
    /// Where to measure.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) device: DeviceWord,
    /// Print what was collected as a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Fit {
    /// File of rows; may be given several times.
    #[arg(long, value_name = "FILE", default_value = "rows.parquet")]
    pub(crate) data: Vec<PathBuf>,
    /// Decides splits, order and first weights.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Folder for the models.
    #[arg(long, value_name = "DIR", default_value = "models")]
    pub(crate) out: PathBuf,
    /// Small models in seconds, to see that everything works.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print the scores as a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A list is a JSON array of objects with the fields kernel, device, grid, block, \
dynamic_shared, registers, static_shared, max_dynamic_shared, local_bytes, mix, walked, ptx, integers, allocations, \
flops, bytes, pipe and measured_ns; all but grid and block may be left out. ptx is a file with the module of the \
kernel: with it and the arguments, mix and walked need not be given. A launch that has a measured time is \
learned from before the next one is predicted."
)]
pub(crate) struct Predict {
    /// The folder of models; by default APEX_MODELS, or models beside the executable or here.
    #[arg(long, value_name = "DIR")]
    pub(crate) models: Option<PathBuf>,
    /// File with a JSON list of launches; - for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["grid", "rows"])]
    pub(crate) list: Option<PathBuf>,
    /// Predict every row of a file of measured rows, in its order.
    #[arg(long, value_name = "FILE", conflicts_with = "grid")]
    pub(crate) rows: Option<PathBuf>,
    /// Predict every timed launch of a recorded session, each before its time is learned: its id, the beginning of
    /// it, its directory, or latest.
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["grid", "rows", "list"])]
    pub(crate) session: Option<String>,
    /// Blocks: X, X,Y or X,Y,Z.
    #[arg(long, value_name = "X,Y,Z", value_delimiter = ',', required_unless_present_any = ["list", "rows", "session"])]
    pub(crate) grid: Vec<u32>,
    /// Threads of a block: X, X,Y or X,Y,Z.
    #[arg(long, value_name = "X,Y,Z", value_delimiter = ',', default_value = "256")]
    pub(crate) block: Vec<u32>,
    /// Part of the device's name, as the models know it.
    #[arg(long)]
    pub(crate) device: Option<String>,
    /// Registers of a thread.
    #[arg(long, default_value_t = 32)]
    pub(crate) registers: u32,
    /// Dynamic shared memory in bytes.
    #[arg(long, default_value_t = 0)]
    pub(crate) shared: u32,
    /// Static shared memory in bytes.
    #[arg(long, default_value_t = 0)]
    pub(crate) static_shared: u32,
    /// Arithmetic operations, if known.
    #[arg(long)]
    pub(crate) flops: Option<f64>,
    /// Bytes read and written, if known.
    #[arg(long)]
    pub(crate) bytes: Option<f64>,
    /// Name a better block for each launch where one is surely better, with as many threads in all.
    #[arg(long, conflicts_with_all = ["session", "chart", "csv"])]
    pub(crate) suggest: bool,
    /// Write a picture of predicted against measured times.
    #[arg(long, value_name = "FILE")]
    pub(crate) chart: Option<PathBuf>,
    /// Print CSV.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DeviceWord {
    Auto,
    Soft,
    Gpu,
}

/// Kinds of changes, safest first.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TierWord {
    /// Cache and carve-out preferences.
    Hint,
    /// Limits of registers for code that the driver compiles.
    Compile,
    /// Other blocks.
    Block,
}

impl From<TierWord> for Tier {
    fn from(word: TierWord) -> Tier {
        match word {
            TierWord::Hint => Tier::Hint,
            TierWord::Compile => Tier::Compile,
            TierWord::Block => Tier::Block,
        }
    }
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeWord {
    Observe,
    Advise,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TimingWord {
    Sampled,
    Full,
    Off,
}

impl From<TimingWord> for Timing {
    fn from(word: TimingWord) -> Timing {
        match word {
            TimingWord::Sampled => Timing::Sampled,
            TimingWord::Full => Timing::Full,
            TimingWord::Off => Timing::Off,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ByWord {
    Kernel,
    Config,
    Stream,
    Thread,
}

impl From<ByWord> for By {
    fn from(word: ByWord) -> By {
        match word {
            ByWord::Kernel => By::Kernel,
            ByWord::Config => By::Config,
            ByWord::Stream => By::Stream,
            ByWord::Thread => By::Thread,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FormatWord {
    Json,
    Ndjson,
    Csv,
    Parquet,
    Perfetto,
    Chrome,
}

impl From<FormatWord> for Format {
    fn from(word: FormatWord) -> Format {
        match word {
            FormatWord::Json => Format::Json,
            FormatWord::Ndjson => Format::Ndjson,
            FormatWord::Csv => Format::Csv,
            FormatWord::Parquet => Format::Parquet,
            FormatWord::Perfetto => Format::Perfetto,
            FormatWord::Chrome => Format::Chrome,
        }
    }
}

fn knobs_help() -> String {
    let mut help = String::from("Settings (environment):\n");
    for knob in apex_core::knobs::list() {
        help.push_str(&format!("  {:<22} {} [{}]\n", knob.variable, knob.help, knob.default));
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_of_the_program_stay_its_own() {
        let arguments =
            Arguments::parse_from(["apex", "run", "--json", "--", "prog", "--json", "-o"]);
        let Verb::Run(run) = arguments.verb else { panic!("not run") };
        assert!(run.json && run.output.is_none());
        assert_eq!(run.command, ["prog", "--json", "-o"]);
    }
}
