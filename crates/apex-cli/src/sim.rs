//! `apex sim`: recorded or described programs together on a virtual GPU, under a policy.
//!
//! Each program is first run alone in the same mode, so every number has what it is compared with beside it.

use crate::arguments::{SharingWord, Sim};
use crate::pages::print_page;
use anyhow::{Context, Result, bail};
use apex_daemon::progress::Progress;
use apex_daemon::read::Stored;
use apex_daemon::simulate::{described, recorded};
use apex_daemon::speech::say;
use apex_daemon::user_setup::UserSetup;
use apex_policy::schedule::simulate::{
    Gate, Machine, Mode, Outcome, PAIRS, Prediction, Program, percentile, simulate,
};
use apex_policy::schedule::{Class, Logged, Policy, policy};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::channel;

/// What the policies learn in this time does not count.
const WARM_UP: f64 = 0.2;

#[derive(Serialize)]
struct Report {
    policy: String,
    mode: &'static str,
    seconds: f64,
    programs: Vec<Row>,
}

/// One program: times in milliseconds.
#[derive(Serialize)]
struct Row {
    name: String,
    class: &'static str,
    /// Requests answered; none for a program without requests.
    requests: Option<usize>,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
    p95_alone_ms: Option<f64>,
    /// Work done over that done alone.
    share: f64,
    longest_wait_ms: f64,
}

pub(crate) fn sim(arguments: &Sim) -> Result<ExitCode> {
    if !(arguments.seconds > 0.1 && arguments.seconds <= 3_600.0) {
        bail!("--seconds takes a time from 0.1 to 3600");
    }
    let length_ns = (arguments.seconds * 1e9) as u64;
    let mut programs = Vec::new();
    for trace in &arguments.traces {
        programs.extend(load(trace, length_ns, arguments.seed)?);
    }
    if programs.len() > 64 {
        bail!("{} programs are more than the 64 that one GPU's page holds", programs.len());
    }
    let prediction = match arguments.predictions {
        Some(deviation) if deviation > 0.0 => Prediction::Spread(deviation),
        Some(_) => Prediction::Exact,
        None => Machine::default().prediction,
    };
    let mode: Mode = arguments.mode.into();
    let machine = Machine { mode, seed: arguments.seed, prediction, ..Machine::default() };
    let chosen = || policy(&arguments.policy).map_err(anyhow::Error::msg);
    let outcome = match &arguments.log {
        Some(path) => logged(path, chosen()?, |it| simulate(&machine, &programs, it, length_ns))?,
        None => simulate(&machine, &programs, Gate::Policy(chosen()?), length_ns),
    };
    let from_ns = (arguments.seconds * WARM_UP * 1e9) as u64;
    let mut rows = Vec::new();
    for (program, together) in programs.iter().zip(&outcome.programs) {
        let only = std::slice::from_ref(program);
        let alone = simulate(&machine, only, Gate::Policy(chosen()?), length_ns);
        let alone = &alone.programs[0];
        let times = together.responses_ns(from_ns);
        let asked = program.arrivals.is_some();
        let at = |times: &[u64], part| {
            (asked && !times.is_empty()).then(|| percentile(times, part) as f64 / 1e6)
        };
        rows.push(Row {
            name: program.name.clone(),
            class: program.class.word(),
            requests: asked.then_some(times.len()),
            p50_ms: at(&times, 0.5),
            p95_ms: at(&times, 0.95),
            p99_ms: at(&times, 0.99),
            p95_alone_ms: at(&alone.responses_ns(from_ns), 0.95),
            share: together.work_after(from_ns) as f64 / alone.work_after(from_ns).max(1) as f64,
            longest_wait_ms: together.longest_wait_ns as f64 / 1e6,
        });
    }
    let report = Report {
        policy: arguments.policy.clone(),
        mode: arguments.mode.word(),
        seconds: arguments.seconds,
        programs: rows,
    };
    let page =
        if arguments.json { serde_json::to_string_pretty(&report)? + "\n" } else { table(&report) };
    print_page(page.as_bytes())
}

/// What a run gives whose policy writes down what it sees and believes.
fn logged(
    path: &Path,
    policy: Box<dyn Policy>,
    run: impl FnOnce(Gate) -> Outcome,
) -> Result<Outcome> {
    let (send, lines) = channel();
    let write = move |line: &str| {
        let _ = send.send(format!("{line}\n"));
    };
    let outcome = run(Gate::Policy(Box::new(Logged::new(policy, Box::new(write)))));
    let lines: String = lines.into_iter().collect();
    std::fs::write(path, lines).with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(outcome)
}

/// The programs of one TRACE: a pair by its word, a file of numbers, or a session, whose class may stand before
/// it: `batch=SESSION`.
fn load(trace: &str, length_ns: u64, seed: u64) -> Result<Vec<Program>> {
    if let Some(pair) = PAIRS.iter().find(|pair| pair.name == trace) {
        return Ok(pair.programs(length_ns, seed));
    }
    let (class, name) = match trace.split_once('=') {
        Some((word, name)) => (Some(word.parse::<Class>().map_err(anyhow::Error::msg)?), name),
        None => (None, trace),
    };
    if name.ends_with(".json") {
        let mut programs = described(Path::new(name), length_ns, seed)?;
        for program in &mut programs {
            program.class = class.unwrap_or(program.class);
        }
        return Ok(programs);
    }
    let setup = UserSetup::read();
    let mut stored = Stored::open(&setup.sessions.find(Some(name))?)?;
    let program = recorded(&mut stored, class, &mut Progress::on_stderr())
        .with_context(|| format!("{name} cannot be played"))?;
    stored.complaints.iter().for_each(|complaint| say(complaint));
    Ok(vec![program])
}

fn table(report: &Report) -> String {
    let mut page = format!(
        "{} on a virtual GPU ({}), {} s\n\n{:<20} {:<8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9}\n",
        report.policy,
        report.mode,
        report.seconds,
        "program",
        "class",
        "requests",
        "P50 ms",
        "P95 ms",
        "P99 ms",
        "alone P95",
        "share",
        "held ms"
    );
    for row in &report.programs {
        let time = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        let requests = row.requests.map_or("-".into(), |count| count.to_string());
        let _ = writeln!(
            page,
            "{:<20} {:<8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7.3} {:>9.2}",
            row.name,
            row.class,
            requests,
            time(row.p50_ms),
            time(row.p95_ms),
            time(row.p99_ms),
            time(row.p95_alone_ms),
            row.share,
            row.longest_wait_ms
        );
    }
    page
}

impl SharingWord {
    fn word(self) -> &'static str {
        match self {
            SharingWord::Timeslice => "timeslice",
            SharingWord::Mps => "mps",
            SharingWord::MpsPriority => "mps-priority",
        }
    }
}

impl From<SharingWord> for Mode {
    fn from(word: SharingWord) -> Mode {
        match word {
            SharingWord::Timeslice => Mode::TimeSlice,
            SharingWord::Mps => Mode::Mps,
            SharingWord::MpsPriority => Mode::MpsPriority,
        }
    }
}
