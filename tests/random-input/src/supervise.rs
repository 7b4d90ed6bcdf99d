//! Starts workers until the time has passed, and says how many cases they read and how the last one ended.

use crate::readers::{READERS, Reader};
use crate::worker::{STATE_FILE, STATE_WORDS};
use anyhow::{Context, Result, bail};
use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What became of one reader.
#[derive(Debug)]
pub struct Outcome {
    /// Its name.
    pub reader: &'static str,
    /// Broken inputs that it was given.
    pub cases: u64,
    /// Those of them that it took for good.
    pub accepted: u64,
    /// How long it was fed.
    pub time: Duration,
    /// The case that ended it and what was said then.
    pub failure: Option<(u64, String)>,
}

impl Outcome {
    /// Nothing failed, and cases were both accepted and refused: else half of the reader was never reached.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.failure.is_none() && self.accepted > 0 && self.accepted < self.cases
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { reader, cases, accepted, time, failure } = self;
        write!(out, "{reader}: {cases} cases in {} s, {accepted} accepted", time.as_secs())?;
        match failure {
            None => write!(out, ", no failure"),
            Some((case, said)) => write!(out, "; case {case} failed: {said}"),
        }
    }
}

/// Feeds one reader, or all of them at once, for a time. A pause after each case leaves the processor to others.
pub fn run(
    executable: &Path,
    name: &str,
    seed: u64,
    time: Duration,
    pause: Duration,
) -> Result<Vec<Outcome>> {
    let chosen: Vec<_> =
        READERS.iter().filter(|reader| name == "all" || name == reader.name).collect();
    if chosen.is_empty() {
        bail!("there is no reader {name}");
    }
    std::thread::scope(|scope| {
        let started: Vec<_> = chosen
            .into_iter()
            .map(|reader| scope.spawn(move || feed(executable, reader, seed, time, pause)))
            .collect();
        started
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| bail!("examples could not be made")))
            .collect()
    })
}

fn feed(
    executable: &Path,
    reader: &'static Reader,
    seed: u64,
    time: Duration,
    pause: Duration,
) -> Result<Outcome> {
    let place = tempfile::tempdir().context("no folder for examples")?;
    let examples = place.path().join(reader.name);
    fs::create_dir(&examples)?;
    (reader.gather)(&examples).with_context(|| format!("{} has no examples", reader.name))?;
    let mut outcome = Outcome { reader: reader.name, cases: 0, accepted: 0, time, failure: None };
    let since = Instant::now();
    let mut next = seed << 40;
    while let Some(left) = time.checked_sub(since.elapsed()).filter(|left| left.as_secs() > 0) {
        let said = place.path().join("said");
        let status = Command::new(executable)
            .args([reader.name, "--seconds", &left.as_secs().to_string()])
            .args(["--pause", &pause.as_micros().to_string()])
            .args(["--seed", &next.to_string(), "--worker"])
            .arg(place.path())
            .envs((reader.variables)(place.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said)?)
            .status()
            .context("a worker cannot be started")?;
        let words = fs::read(place.path().join(STATE_FILE)).unwrap_or_default();
        let mut numbers = [0_u64; STATE_WORDS];
        for (number, bytes) in numbers.iter_mut().zip(words.chunks_exact(8)) {
            *number = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        let [case, cases, accepted] = numbers;
        outcome.cases += cases;
        outcome.accepted += accepted;
        if !status.success() {
            let said = fs::read(&said).unwrap_or_default();
            let said =
                String::from_utf8_lossy(&said[said.len().saturating_sub(2_000)..]).into_owned();
            let kept = place.keep();
            let said = format!("{status}: {}; examples in {}", said.trim(), kept.display());
            outcome.failure = Some((case, said));
            break;
        }
        next = case;
    }
    Ok(outcome)
}
