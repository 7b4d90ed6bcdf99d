//! PyTorch, started beside us and asked by lines: the same case, in the same minute, by turns.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = include_str!("../../../../benches/exec/pytorch.py");

/// A running PyTorch.
pub(super) struct Torch {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub(super) version: String,
}

impl Torch {
    /// Starts it; the reason where there is none.
    pub(super) fn start() -> core::result::Result<Torch, String> {
        let mut child = Command::new("python3")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("python3 does not start: {error}"))?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("python3 has no standard input or output".into());
        };
        let mut answers = BufReader::new(answers);
        let mut line = String::new();
        let _ = answers.read_line(&mut line);
        match line.trim().split_once(' ') {
            Some(("ready", version)) => {
                Ok(Torch { child, questions, answers, version: version.into() })
            }
            Some(("none", reason)) => {
                let _ = child.wait();
                Err(reason.into())
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                Err("python3 ends without a word".into())
            }
        }
    }

    /// Seconds of one call of a case, as the mean of so many; of each alone, with nothing left in the caches, or of all
    /// in a row.
    pub(super) fn time(&mut self, case: &str, repeats: usize, is_cold: bool) -> Result<f64> {
        let manner = if is_cold { "cold" } else { "warm" };
        writeln!(self.questions, "{repeats} {manner} {case}").context("PyTorch has ended")?;
        self.questions.flush().context("PyTorch has ended")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("PyTorch does not answer")?;
        match line.trim().split_once(' ') {
            Some(("ok", seconds)) => seconds.parse().context("PyTorch's answer is no time"),
            Some(("error", text)) => bail!("PyTorch cannot do {case}: {text}"),
            _ => bail!("PyTorch has ended in {case}"),
        }
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
