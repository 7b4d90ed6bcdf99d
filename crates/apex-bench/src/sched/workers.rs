//! The programs of a pair: started, told by lines what to do, and stopped.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Making and warming up a model takes this long at most.
const START: Duration = Duration::from_secs(240);

/// One request, in nanoseconds since the turn began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) scheduled: u64,
    pub(super) started: u64,
    /// When its first kernel began.
    pub(super) first: Option<i64>,
    pub(super) ended: u64,
}

impl Request {
    pub(super) fn response_ms(&self) -> f64 {
        self.ended.saturating_sub(self.scheduled) as f64 / 1e6
    }

    pub(super) fn service_ms(&self) -> f64 {
        self.ended.saturating_sub(self.started) as f64 / 1e6
    }

    /// From its arrival to the begin of its first kernel.
    pub(super) fn queue_ms(&self) -> Option<f64> {
        self.first.map(|first| (first as f64 - self.scheduled as f64).max(0.0) / 1e6)
    }
}

/// What one turn gave.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Turn {
    requests: Vec<(u64, u64, Option<i64>, u64)>,
    pub(super) steps: Vec<u64>,
}

impl Turn {
    pub(super) fn requests(&self) -> Vec<Request> {
        let request = |&(scheduled, started, first, ended): &(u64, u64, Option<i64>, u64)| {
            Request { scheduled, started, first, ended }
        };
        self.requests.iter().map(request).collect()
    }
}

/// A running program.
pub(super) struct Worker {
    name: String,
    child: Child,
    /// None once it was told to end.
    orders: Option<ChildStdin>,
    answers: Receiver<String>,
    log: PathBuf,
    deadline: Option<Instant>,
    pub(super) device: String,
}

/// What a program computed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Computed {
    /// Of the first answer to a request, and of the last one of every turn.
    digests: Vec<String>,
    /// Every loss, from the first step on.
    losses: Vec<String>,
}

impl Computed {
    /// So that another run can be compared with this one.
    pub(super) fn first_losses(&self) -> Vec<&str> {
        self.losses.iter().map(String::as_str).take(8).collect()
    }

    /// Whether both answered and learned the same bits, as far as both went.
    pub(super) fn agrees(&self, other: &Computed) -> [bool; 2] {
        let equal = |(a, b): (&String, &String)| a == b;
        [
            self.digests.iter().zip(&other.digests).all(equal),
            self.losses.iter().zip(&other.losses).all(equal),
        ]
    }
}

impl Worker {
    /// Starts it. What it says beside its answers goes into a file of `folder`, the end of which explains a
    /// failure.
    pub(super) fn start(
        mut command: Command,
        name: String,
        folder: &Path,
        deadline: Option<Instant>,
    ) -> Result<Worker> {
        let log = folder.join(format!("{name}.log"));
        let errors = File::create(&log).context("the worker's log cannot be written")?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .with_context(|| format!("{} does not start", command.get_program().display()))?;
        let (Some(orders), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("a worker has no standard input or output");
        };
        let (sender, answers) = channel();
        // Ends with the worker's output.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let orders = Some(orders);
        Ok(Worker { name, child, orders, answers, log, deadline, device: String::new() })
    }

    /// Its number.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it is ready.
    pub(super) fn wait_ready(&mut self) -> Result<()> {
        let ready = self.answer(START)?;
        if let Some(reason) = ready.get("none").and_then(Value::as_str) {
            bail!("the {} worker cannot run: {reason}", self.name);
        }
        self.device = ready.get("device").and_then(Value::as_str).unwrap_or_default().into();
        Ok(())
    }

    /// The time of one request, while nothing else runs, as seen for a while.
    pub(super) fn service_ns(&mut self, seen: Duration) -> Result<u64> {
        self.order(&json!({"service": seen.as_secs_f64()}))?;
        let answer = self.answer(START)?;
        let time = answer.get("service_ns").and_then(Value::as_u64).filter(|time| *time > 0);
        time.with_context(|| format!("{} answers wrongly", self.name))
    }

    /// Tells it to run a turn.
    pub(super) fn order(&mut self, order: &Value) -> Result<()> {
        let written = self.orders.as_mut().map(|orders| writeln!(orders, "{order}"));
        written.is_some_and(|written| written.is_ok()).then_some(()).with_context(|| self.ended())
    }

    /// What the turn gave.
    pub(super) fn turn(&mut self, seconds: f64) -> Result<Turn> {
        let answer = self.answer(Duration::from_secs_f64(seconds + 45.0))?;
        serde_json::from_value(answer).with_context(|| format!("{} answers wrongly", self.name))
    }

    /// Ends it; what it computed, and what apex said of it.
    pub(super) fn quit(mut self) -> Result<(Computed, Option<String>)> {
        self.order(&json!({"quit": 1}))?;
        let answer = self.answer(Duration::from_secs(60))?;
        let Some(true) = self.wait(Duration::from_secs(30)).map(|status| status.success()) else {
            bail!("{}", self.ended());
        };
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let said = log.lines().find(|line| line.contains("shared the GPU as")).map(str::to_owned);
        let computed = serde_json::from_value(answer)
            .with_context(|| format!("{} answers wrongly", self.name))?;
        Ok((computed, said))
    }

    fn answer(&mut self, within: Duration) -> Result<Value> {
        let left = self.deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let within = left.map_or(within, |left| within.min(left));
        let line = self.answers.recv_timeout(within).ok().with_context(|| self.ended())?;
        serde_json::from_str(&line).with_context(|| format!("{} answers `{line}`", self.name))
    }

    /// How it ended, if it did in that time.
    fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        // The end of its orders is an order to end.
        self.orders = None;
        let since = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if since.elapsed() < within => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => return None,
            }
        }
    }

    /// Why it no longer answers.
    fn ended(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(6).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        format!("the {} worker does not answer; it said: {}", self.name, tail.join(" | "))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Killed at once it could stop nothing that it has started itself, such as MPS.
        if self.wait(Duration::from_secs(5)).is_some() {
            return;
        }
        let pid = i32::try_from(self.child.id()).map(Pid::from_raw);
        let _ = pid.map(|pid| kill(pid, Signal::SIGTERM));
        if self.wait(Duration::from_secs(10)).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
