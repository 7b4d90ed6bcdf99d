//! The sides of a comparison: a hidden worker of the command on the driver alone, and the same under `apex run --fast`.
//!
//! A worker is told what to do by lines of JSON and answers each with a line. So sides take turns in one run.

use crate::arguments::DeviceWord;
use crate::child::in_scratch;
use crate::libraries::library;
use anyhow::{Context, Result, bail};
use apex_daemon::scratch::Scratch;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    Gpu,
    SoftwareGpu,
    StandIn,
}

impl Under {
    /// A GPU if there is one, unless told otherwise.
    pub(crate) fn of(device: DeviceWord) -> Result<Under> {
        let gpu = apex_daemon::find::gpu_nodes(Path::new("/"));
        match device {
            DeviceWord::Gpu if !gpu => bail!("no GPU is found here (apex doctor says why)"),
            DeviceWord::Auto | DeviceWord::Gpu if gpu => Ok(Under::Gpu),
            _ => Ok(Under::SoftwareGpu),
        }
    }

    /// What a report calls the device of this name.
    pub(crate) fn device(self, name: &str) -> String {
        match self {
            Under::Gpu => name.into(),
            Under::SoftwareGpu => format!("software GPU ({name})"),
            Under::StandIn => "stand-in (kernels do not run)".into(),
        }
    }

    /// The driver's file; none where programs find it by its name.
    fn library(self) -> Result<Option<PathBuf>> {
        match self {
            Under::Gpu => Ok(None),
            Under::SoftwareGpu => library(apex_daemon::find::SOFTGPU).map(Some),
            Under::StandIn => library("libapex_standin.so").map(Some),
        }
    }
}

/// A worker of a comparison.
pub(crate) struct Side {
    name: String,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: Scratch,
    pub(crate) about: About,
}

/// What a side says of itself.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct About {
    pub(crate) device: String,
    pub(crate) driver: u64,
    pub(crate) runs_kernels: bool,
}

impl About {
    /// The driver's version, for a report.
    pub(crate) fn driver(&self) -> String {
        format!("CUDA {}.{}", self.driver / 1000, self.driver % 1000 / 10)
    }
}

impl Side {
    /// A worker on the driver alone.
    pub(crate) fn alone(under: Under, worker: &str) -> Result<Side> {
        let folder = Scratch::new().context("there is no place for temporary files")?;
        let mut command = in_scratch(&folder, std::env::current_exe()?);
        command.args(["bench", worker]);
        if let Some(library) = under.library()? {
            command.arg("--library").arg(library);
        }
        Side::start("driver".into(), command, folder)
    }

    /// A worker under `apex run`, with these words of `--fast`.
    pub(crate) fn fast(under: Under, worker: &str, words: &str) -> Result<Side> {
        let folder = Scratch::new().context("there is no place for temporary files")?;
        let apex = std::env::current_exe()?;
        let mut command = in_scratch(&folder, &apex);
        let fast = format!("--fast={words}");
        command.args(["run", &fast]).arg("-o").arg(folder.path().join("session"));
        command.arg(format!("--json={}", document(&folder).display()));
        command.args(match under {
            Under::Gpu => ["--device", "gpu"],
            Under::SoftwareGpu | Under::StandIn => ["--device", "soft"],
        });
        if under == Under::StandIn {
            command.env("APEX_REAL_LIBCUDA", library("libapex_standin.so")?);
        }
        command.arg("--").arg(&apex).args(["bench", worker]);
        Side::start(format!("apex run {fast}"), command, folder)
    }

    fn start(name: String, mut command: Command, folder: Scratch) -> Result<Side> {
        let log = File::create(log(&folder)).context("a log cannot be written")?;
        let mut child = command
            // The sides are told apart by their options alone.
            .env_remove("APEX_FAST")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("the side `{name}` does not start"))?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("a child has no standard input or output");
        };
        let about = About { device: String::new(), driver: 0, runs_kernels: false };
        let (orders, answers) = (Some(orders), BufReader::new(answers));
        let mut side = Side { name, child, orders, answers, folder, about };
        side.about = side.answer()?;
        Ok(side)
    }

    /// What it answers to an order.
    pub(crate) fn does<T: for<'a> Deserialize<'a>>(&mut self, order: impl Serialize) -> Result<T> {
        let line = serde_json::to_string(&order)?;
        let told = self.orders.as_mut().map(|orders| writeln!(orders, "{line}"));
        if told.is_none_or(|told| told.is_err()) {
            bail!("{}", self.ended());
        }
        self.answer()
    }

    fn answer<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T> {
        let mut line = String::new();
        if self.answers.read_line(&mut line).unwrap_or(0) == 0 {
            bail!("{}", self.ended());
        }
        serde_json::from_str(&line)
            .with_context(|| format!("the side `{}` answers `{line}`", self.name))
    }

    /// Ends it; what its report says of the queue, where it has one.
    pub(crate) fn end(mut self) -> Result<Option<Value>> {
        let order = json!({"order": "quit"});
        let _ = self.orders.as_mut().map(|orders| writeln!(orders, "{order}"));
        self.orders = None;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the side `{}` ended with {status}: {}", self.name, self.said());
        }
        let Ok(text) = std::fs::read(document(&self.folder)) else { return Ok(None) };
        let report: Value = serde_json::from_slice(&text).context("the report cannot be read")?;
        let found = report.pointer("/summary/fast").or_else(|| report.get("fast"));
        Ok(found.filter(|fast| !fast.is_null()).cloned())
    }

    /// Why it no longer answers.
    fn ended(&self) -> String {
        format!("the side `{}` does not answer; it said: {}", self.name, self.said())
    }

    fn said(&self) -> String {
        let text = std::fs::read_to_string(log(&self.folder)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(6)..].join(" | ")
    }
}

fn document(folder: &Scratch) -> PathBuf {
    folder.path().join("report.json")
}

fn log(folder: &Scratch) -> PathBuf {
    Path::new(folder.path()).join("log")
}
