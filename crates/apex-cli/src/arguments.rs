//! The command line: every verb with its options. Help, completions and the man page come from here.

use apex_bench::arguments::{Bench, DeviceWord};
use apex_core::knobs::{Fast, Timing};
use apex_daemon::export::Format;
use apex_daemon::graph::Picture;
use apex_daemon::show::By;
use apex_policy::schedule::{Class, Sla};
use apex_policy::tune::Tier;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Sees every CUDA call of any program, and reports.
#[derive(Debug, Parser)]
#[command(name = "apex", version, after_help = knobs_help(), max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show what apex does, in a minute, with programs of its own.
    Demo,
    /// Run a program and report what it did on the GPU.
    Run(Run),
    /// Schedule the programs of this machine that share a GPU, until stopped.
    Daemon(Daemon),
    /// Show the report of a session again, or one of its tables.
    Report(Report),
    /// Write a session in another format.
    Export(Export),
    /// Draw which launches of a session with --fast=overlap depend on which, and what ran at once.
    Graph(Graph),
    /// Compare two sessions.
    Diff(Diff),
    /// Compare a session with a baseline: exit code 0 fine, 1 slower, 3 not decided.
    Check(Check),
    /// List the kept sessions, or keep one for good.
    Sessions(List),
    /// Watch running sessions.
    Top(Top),
    /// Serve a page of what runs and of what ran, for a browser and for Prometheus.
    Dashboard(Dashboard),
    /// Check what a session needs on this machine, with the remedy for what is missing.
    Doctor(Doctor),
    /// Measure launches, and train the predictor's models from them.
    #[command(subcommand)]
    Train(Train),
    /// Say what a launch will do: occupancy, time, throughput, and how sure that is.
    Predict(Predict),
    /// What earlier runs measured of kernels, which later runs begin with.
    #[command(subcommand)]
    History(History),
    /// Run programs together on a virtual GPU under a scheduling policy, and say what each gets.
    Sim(Sim),
    /// Try what makes a program's kernels faster without changing the program, and write down what wins.
    Tune(Tune),
    /// Bring PTX that was made for a newer chip down to an older one, and say what becomes of it.
    Lower(Lower),
    /// Print a kernel as it is rewritten for the scalars, the block and the grid that it is called with.
    Specialise(Specialise),
    /// Measure apex beside what a user has without it.
    #[command(subcommand)]
    Bench(Bench),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a page of the manual, or write all of them.
    Man {
        /// The verb that the page is about, such as run or bench shim; the whole of apex if left out.
        #[arg(conflicts_with = "output")]
        verb: Vec<String>,
        /// Directory for all pages, such as share/man/man1.
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// The program of the demo.
    #[command(name = crate::demo::PROGRAM, hide = true)]
    DemoProgram,
    /// Prints the table of commands of a page.
    #[command(hide = true)]
    CommandTable {
        #[arg(value_enum)]
        length: TableLength,
    },
    /// Prints the driver that the loader found for this process.
    #[command(name = crate::real_driver::MAPPED_DRIVER, hide = true)]
    MappedDriver,
}

/// How much of each command a table shows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TableLength {
    /// What must be given.
    Short,
    /// Every option.
    Long,
}

/// How every command names a session.
const SESSION: &str = "A session: its id, the beginning of its id, its directory, or latest";
const SESSION_OR_LATEST: &str =
    "A session: its id, the beginning of its id, its directory, or latest, which is the default";

/// In place of a file: the document goes to standard error.
pub(crate) const STANDARD_ERROR: &str = "-";

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
    /// Latency that is held for it, such as p95=10ms; without a class it is a latency program then.
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
    /// Make the program faster, unchanged: launch has its launches wait in a queue and go down as graphs where they
    /// repeat, memory has freed memory handed out again without the driver; all is both, and meant without words.
    /// specialise, which is to be named, has kernels compiled again for what they are called with and keeps what is
    /// faster; overlap, to be named too, has launches of a graph run at once where they touch nothing in common. With
    /// strict each call waits for the driver's answer; none switches off what APEX_FAST says.
    #[arg(
        long,
        value_name = "WORDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        value_parser = fast
    )]
    pub(crate) fast: Option<Fast>,
    /// What to do beside running the program: observe it, or look closer and end with advice.
    #[arg(long, value_enum, default_value = "observe")]
    pub(crate) mode: ModeWord,
    /// Wait for processes that outlive the program too, such as a server that it leaves behind; Ctrl-C ends the waiting.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Write the report as a JSON document to a file. Without a file it takes the place of all that apex says on
    /// standard error (standard output is the program's).
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = STANDARD_ERROR
    )]
    pub(crate) json: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

fn fast(words: &str) -> Result<Fast, String> {
    Fast::parse(words).map_err(|wanted| format!("it is {wanted}"))
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 1 means that a text says what the older chip cannot do: its line and the reason are \
named."
)]
pub(crate) struct Lower {
    /// The chip that it shall run on.
    #[arg(long, value_name = "CHIP", default_value = "sm_90")]
    pub(crate) target: String,
    /// The driver's version, as cuDriverGetVersion counts it: it says which PTX its compiler reads.
    #[arg(long, value_name = "NUMBER", default_value_t = 13_000)]
    pub(crate) driver: u32,
    /// File for the PTX that comes out; several texts get numbers.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// PTX, a fatbin, a library or a program.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
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
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Specialise {
    /// PTX, or a program or library that carries it.
    pub(crate) file: PathBuf,
    /// The kernel, by its name in the text; may be left out where there is one only.
    #[arg(long, value_name = "NAME")]
    pub(crate) kernel: Option<String>,
    /// A parameter's value, such as n=1024; parameters are also known by the end of their names and by their numbers from
    /// 0, and bytes of a structure are written 0x and digits. May be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Threads of a block: X, X,Y or X,Y,Z.
    #[arg(long, value_name = "X,Y,Z", value_parser = sides)]
    pub(crate) block: Option<Sides>,
    /// Blocks of the grid: X, X,Y or X,Y,Z.
    #[arg(long, value_name = "X,Y,Z", value_parser = sides)]
    pub(crate) grid: Option<Sides>,
    /// Where a variable of the module lies, such as table=0x7f0012345600: rewritten kernels have none of their own.
    #[arg(long, value_name = "NAME=ADDRESS")]
    pub(crate) address: Vec<String>,
    /// A pass to leave out: parameters, geometry, block, decide or dead.
    #[arg(long, value_name = "PASS")]
    pub(crate) without: Vec<String>,
}

/// Sides of a grid or a block.
pub(crate) type Sides = [u32; 3];

fn sides(text: &str) -> Result<Sides, String> {
    let wrong =
        || format!("{text} is not one to three sides, none of them 0, such as 256 or 16,16");
    let given: Option<Vec<u32>> = text.split(',').map(|side| side.trim().parse().ok()).collect();
    let given = given.filter(|given| given.len() <= 3 && !given.contains(&0)).ok_or_else(wrong)?;
    let mut sides = [1; 3];
    sides[..given.len()].copy_from_slice(&given);
    Ok(sides)
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    #[arg(help = SESSION_OR_LATEST)]
    pub(crate) session: Option<String>,
    /// Show a table instead.
    #[arg(long, value_enum)]
    pub(crate) by: Option<ByWord>,
    /// Lines of the table at most.
    #[arg(long, alias = "rows", value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,
    /// Show every finding of the adviser instead.
    #[arg(long, conflicts_with = "by")]
    pub(crate) advice: bool,
    /// Print the whole summary, or with --advice the findings, as a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[arg(help = SESSION_OR_LATEST)]
    pub(crate) session: Option<String>,
    /// The format.
    #[arg(long, value_enum)]
    pub(crate) format: FormatWord,
    /// File to write; standard output if left out.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Graph {
    #[arg(help = SESSION_OR_LATEST)]
    pub(crate) session: Option<String>,
    /// The picture.
    #[arg(long, value_enum, default_value_t = PictureWord::Svg)]
    pub(crate) format: PictureWord,
    /// Which of the session's graphs, from 1 on; the one with the most to run at once if left out.
    #[arg(long, value_name = "N")]
    pub(crate) number: Option<usize>,
    /// File to write; standard output if left out.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The pictures of `apex graph`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PictureWord {
    /// A picture for a browser: lanes before and after.
    Svg,
    /// A graph for Graphviz.
    Dot,
    /// A trace for ui.perfetto.dev, with dependences as flows.
    Perfetto,
}

impl From<PictureWord> for Picture {
    fn from(word: PictureWord) -> Picture {
        match word {
            PictureWord::Svg => Picture::Svg,
            PictureWord::Dot => Picture::Dot,
            PictureWord::Perfetto => Picture::Perfetto,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    #[arg(help = SESSION)]
    pub(crate) before: String,
    #[arg(help = SESSION)]
    pub(crate) after: String,
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The session to compare with, named as any other.
    #[arg(long, value_name = "SESSION")]
    pub(crate) baseline: String,
    #[arg(help = SESSION_OR_LATEST)]
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
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct List {
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) change: Option<Keep>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keep {
    /// Keep a session, whatever becomes of the others.
    Pin {
        #[arg(help = SESSION)]
        session: String,
    },
    /// Let a session go when newer ones need its place.
    Unpin {
        #[arg(help = SESSION)]
        session: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print what runs now as a JSON document, once.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "On loopback every user of this machine can read the page. From elsewhere the printed link is needed, which \
carries a token; Prometheus sends the token as a bearer token to /metrics. No request starts, stops or changes anything."
)]
pub(crate) struct Dashboard {
    /// Address and port; port 0 takes any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8377")]
    pub(crate) listen: SocketAddr,
    /// Encrypt connections with this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// Show the page in the browser.
    #[arg(long)]
    pub(crate) open: bool,
    /// Push the metrics of /metrics to this collector of OpenTelemetry, such as http://localhost:4318.
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<apex_dashboard::Collector>,
    /// Seconds between two pushes.
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) otlp_seconds: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "A TRACE is a SESSION, a .json file, or the word of a \
described pair: pair (the measured one), gpu-bound, decode-graph-bert, resnet-resnet, prefill-resnet, bert-gpt2, decode-bert, \
resnet-graph-stream, bert-gpt2-medium, gpu-bound-products, two-training, two-serving. A class may stand before a session: \
batch=SESSION. The file holds an object or a list of them, with the \
fields name, class, kernels, kernel_us and, if wanted, block_us, sms, bottleneck (compute, memory), host_us, host_spread, graph, \
waits, requests_per_second, share and sla.")]
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

#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Measure the kernel zoo on the device at hand, or take the times of a recorded session.
    Collect(Collect),
    /// Train every model from rows, and judge them on rows they have not seen.
    Fit(Fit),
    /// Grow the forests that predict launches of programs, from rows of real ones, and judge them on others.
    Programs(Programs),
    /// Foresee allocations: train a network on recorded ones, and judge every method on programs it has not seen.
    Foresee(Foresee),
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

#[derive(Debug, Subcommand)]
pub(crate) enum History {
    /// List what is remembered, what was seen last first.
    List {
        /// Only kernels whose names have this in them.
        #[arg(long, value_name = "PART")]
        kernel: Option<String>,
        /// Lines at most.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print all of it as a JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Write what is remembered as lines of JSON, a kernel each.
    Export {
        /// Only kernels whose names have this in them.
        #[arg(long, value_name = "PART")]
        kernel: Option<String>,
        /// File to write; standard output if left out.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remember what was exported elsewhere, or rows of `apex train collect`.
    Import {
        /// Files of lines, or of rows with the ending .parquet.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Folder of another history, such as that of the models that come with apex.
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// Forget kernels.
    Forget {
        /// Those whose names have this in them.
        #[arg(long, value_name = "PART")]
        kernel: Option<String>,
        /// All of them.
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Configurations to measure, evenly over the kernels.
    #[arg(long, default_value_t = 5_000)]
    pub(crate) points: usize,
    /// File of rows to write.
    #[arg(short, long, alias = "out", value_name = "FILE", default_value = "rows.parquet")]
    pub(crate) output: PathBuf,
    /// Timed runs of each configuration.
    #[arg(long, default_value_t = 20)]
    pub(crate) runs: u32,
    /// Which configurations: another seed takes others.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Go on where an interrupted collection stopped.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Take the times of a session instead; may be given several times. Each is a program by its folder's name.
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["ncu", "resume"])]
    pub(crate) from: Vec<String>,
    /// Only put the pieces together that lie beside the file: FILE with the ending NUMBER.piece.
    #[arg(long, conflicts_with_all = ["from", "ncu", "resume"])]
    pub(crate) join: bool,
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
    /// File of measured rows; may be given several times.
    #[arg(long, alias = "data", value_name = "FILE", default_value = "rows.parquet")]
    pub(crate) rows: Vec<PathBuf>,
    /// Decides splits, order and first weights.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Folder for the models.
    #[arg(short, long, alias = "out", value_name = "DIR", default_value = "models")]
    pub(crate) output: PathBuf,
    /// Small models in seconds, to see that everything works.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print the scores as a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Programs {
    /// File of rows of sessions; may be given several times.
    #[arg(long, alias = "data", value_name = "FILE", required = true)]
    pub(crate) rows: Vec<PathBuf>,
    /// Rows of other runs of the same programs, to judge what is remembered.
    #[arg(long, value_name = "FILE")]
    pub(crate) again: Vec<PathBuf>,
    /// Decides which programs judge, and everything random.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Trees of each forest.
    #[arg(long, default_value_t = 160)]
    pub(crate) trees: usize,
    /// Folder of models that the forests are added to.
    #[arg(short, long, alias = "out", value_name = "DIR", default_value = "models")]
    pub(crate) output: PathBuf,
    /// Print the scores as a JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Foresee {
    /// Sessions whose allocations are added to the file first; each is one program.
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
    /// File of allocations.
    #[arg(long, value_name = "FILE", default_value = "allocations.csv")]
    pub(crate) traces: PathBuf,
    /// Allocations of a program that are kept at most.
    #[arg(long, default_value_t = 1_500)]
    pub(crate) most: usize,
    /// Times that the network is shown all training programs; 0 judges an untrained one.
    #[arg(long, default_value_t = 8)]
    pub(crate) epochs: usize,
    /// Decides first weights and order.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only add the sessions to the file.
    #[arg(long, requires = "sessions")]
    pub(crate) keep: bool,
    /// Print a JSON document.
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
    /// Predict every timed launch of a session, each before its time is learned.
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
    /// One document: the session, its summary and every event.
    Json,
    /// An event on each line, as a JSON object.
    Ndjson,
    /// An event on each line, below a heading.
    Csv,
    /// All events in one file.
    Parquet,
    /// A trace for ui.perfetto.dev.
    Perfetto,
    /// A trace for other viewers.
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
    for knob in apex_core::knobs::list().iter().filter(|knob| !knob.is_internal) {
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
        assert!(
            run.json.is_some_and(|to| to.as_os_str() == STANDARD_ERROR) && run.output.is_none()
        );
        assert_eq!(run.command, ["prog", "--json", "-o"]);
    }

    fn run(words: &[&str]) -> Result<Run, clap::Error> {
        let words = ["apex", "run"].iter().chain(words);
        match Arguments::try_parse_from(words)?.verb {
            Verb::Run(run) => Ok(run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mistyped_option_is_not_the_program() {
        let said = run(&["--clas", "latency", "--", "ls"]).unwrap_err().to_string();
        assert!(said.contains("'--clas'") && said.contains("'--class'"), "{said}");
        assert!(run(&["-x"]).is_err());
        assert_eq!(run(&["ls", "-l", "--clas"]).unwrap().command, ["ls", "-l", "--clas"]);
        assert_eq!(run(&["--", "--clas", "-x"]).unwrap().command, ["--clas", "-x"]);
        assert_eq!(run(&["ls", "--", "x"]).unwrap().command, ["ls", "--", "x"]);
        assert!(Arguments::try_parse_from(["apex", "tune", "--onl", "hint", "ls"]).is_err());
    }

    #[test]
    fn a_document_goes_where_it_is_told() {
        assert_eq!(run(&["--json=a.json", "ls"]).unwrap().json, Some("a.json".into()));
        // What follows without a sign of equality is the program.
        let plain = run(&["--json", "ls"]).unwrap();
        assert_eq!((plain.json, &plain.command[0]), (Some(STANDARD_ERROR.into()), &"ls".into()));
        assert_eq!(run(&["ls"]).unwrap().json, None);
    }

    #[test]
    fn a_program_is_made_faster_by_words_behind_a_sign_of_equality() {
        assert_eq!(run(&["--fast", "--", "ls"]).unwrap().fast, Some(Fast::ALL));
        let plain = run(&["--fast", "launch"]).unwrap();
        assert_eq!((plain.fast, &plain.command[0]), (Some(Fast::ALL), &"launch".into()));
        let strict = Fast { strict: true, ..Fast::ALL };
        assert_eq!(run(&["--fast=strict", "--", "ls"]).unwrap().fast, Some(strict));
        let launch = run(&["--fast=launch", "ls"]).unwrap().fast;
        assert_eq!(launch.map(Fast::words), Some("launch".into()));
        assert_eq!(run(&["--fast=none", "ls"]).unwrap().fast, Some(Fast::default()));
        assert_eq!(run(&["ls", "--fast"]).unwrap().fast, None);
        let said = run(&["--fast=lanch,strict", "ls"]).unwrap_err().to_string();
        assert!(
            said.contains("'lanch,strict'")
                && said.contains("a list of launch, memory, specialise, overlap, strict"),
            "{said}"
        );
    }

    #[test]
    fn the_help_is_for_users() {
        let help = Arguments::command().render_long_help().to_string();
        assert!(help.starts_with("Sees every CUDA call of any program"), "{help}");
        assert!(help.contains("APEX_STATE") && !help.contains("APEX_FAULT"));
        assert!(!help.contains("APEX_RINGS"));
    }
}
