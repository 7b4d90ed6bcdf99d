//! The two sides: the driver alone, and the same program under `apex run --fast`.

use super::worker::Order;
use crate::child::in_scratch;
use crate::libraries::library;
use anyhow::{Context, Result, bail};
use apex_daemon::scratch::Scratch;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What launches are measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Under {
    Gpu,
    SoftwareGpu,
    StandIn,
}

impl Under {
    /// The driver's file; none where programs find it by its name.
    fn library(self) -> Result<Option<PathBuf>> {
        match self {
            Under::Gpu => Ok(None),
            Under::SoftwareGpu => library(apex_daemon::find::SOFTGPU).map(Some),
            Under::StandIn => library("libapex_standin.so").map(Some),
        }
    }
}

/// A process that launches.
pub(super) struct Side {
    name: &'static str,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: Scratch,
    pub(super) about: About,
}

/// What a side says of itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct About {
    pub(super) device: String,
    pub(super) driver: u64,
    pub(super) runs_kernels: bool,
}

impl Side {
    /// The driver alone.
    pub(super) fn alone(under: Under) -> Result<Side> {
        let folder = Scratch::new().context("there is no place for temporary files")?;
        let mut command = in_scratch(&folder, std::env::current_exe()?);
        command.args(["bench", "launch-worker"]);
        if let Some(library) = under.library()? {
            command.arg("--library").arg(library);
        }
        Side::start("driver", command, folder)
    }

    /// Under `apex run --fast`.
    pub(super) fn fast(under: Under) -> Result<Side> {
        let folder = Scratch::new().context("there is no place for temporary files")?;
        let apex = std::env::current_exe()?;
        let mut command = in_scratch(&folder, &apex);
        command.args(["run", "--fast"]).arg("-o").arg(folder.path().join("session"));
        command.arg(format!("--json={}", document(&folder).display()));
        command.args(match under {
            Under::Gpu => ["--device", "gpu"],
            Under::SoftwareGpu | Under::StandIn => ["--device", "soft"],
        });
        if under == Under::StandIn {
            command.env("APEX_REAL_LIBCUDA", library("libapex_standin.so")?);
        }
        command.arg("--").arg(&apex).args(["bench", "launch-worker"]);
        Side::start("apex run --fast", command, folder)
    }

    fn start(name: &'static str, mut command: Command, folder: Scratch) -> Result<Side> {
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
    pub(super) fn does<T: for<'a> Deserialize<'a>>(&mut self, order: Order) -> Result<T> {
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
    pub(super) fn end(mut self) -> Result<Option<Value>> {
        let order = serde_json::to_string(&Order::Quit)?;
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
