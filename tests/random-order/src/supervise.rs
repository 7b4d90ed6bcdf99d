//! Starts workers until the time has passed, and says how many programs they ran and how the last one ended.
//!
//! Where asked, the thread that sends is stopped again and again for a moment, alone and wherever it is: the others go on.

use crate::worker::{STATE_WORDS, Way};
use anyhow::{Context, Result};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// How the accelerators come about.
    pub way: Way,
    /// The first program.
    pub seed: u64,
    /// For how long.
    pub time: Duration,
    /// How many programs at most.
    pub most: u64,
    /// Whether the thread that sends is stopped now and then.
    pub stalls: bool,
}

/// What became of it.
#[derive(Debug)]
pub struct Outcome {
    /// What was run.
    pub asked: Asked,
    /// Programs that were run on both sides.
    pub programs: u64,
    /// Calls that waited in the queue.
    pub queued: u64,
    /// Launches that went down as nodes of graphs.
    pub in_graphs: u64,
    /// Allocations that were served from freed memory.
    pub served: u64,
    /// Launches that ran a kernel which was compiled again for them.
    pub rewritten: u64,
    /// Launches that went down in graphs with branches.
    pub beside: u64,
    /// Times that the thread was stopped.
    pub stops: u64,
    /// Stops during which programs ended: others had taken over.
    pub taken_over: u64,
    /// What was said at the end, if that was bad.
    pub failure: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { asked, programs, queued, in_graphs, served, rewritten, .. } = self;
        let Outcome { beside, stops, taken_over, failure, .. } = self;
        write!(
            out,
            "{}: {programs} programs, {queued} calls queued, {in_graphs} in graphs",
            asked.way.name()
        )?;
        if asked.stalls {
            write!(out, ", {stops} stops, during {taken_over} of them programs ended")?;
        }
        if asked.way == Way::Memory {
            write!(out, ", {served} allocations from freed memory")?;
        }
        if asked.way == Way::Overlap {
            write!(out, ", {beside} in graphs with branches")?;
        }
        if asked.way == Way::Specialise {
            write!(out, ", {rewritten} launches of rewritten kernels")?;
        }
        match failure {
            None => write!(out, ", no difference"),
            Some(said) => write!(out, "\n{said}"),
        }
    }
}

/// Runs programs.
///
/// # Errors
///
/// A worker cannot be started.
pub fn run(executable: &Path, asked: Asked) -> Result<Outcome> {
    let place = tempfile::tempdir().context("no folder for a worker")?;
    let (state, said, rings) =
        (place.path().join("state"), place.path().join("said"), place.path().join("rings"));
    fs::create_dir(&rings)?;
    let mut command = Command::new(executable);
    command.args(["--way", asked.way.name(), "--seed", &asked.seed.to_string()]);
    command.args([
        "--seconds",
        &asked.time.as_secs().to_string(),
        "--programs",
        &asked.most.to_string(),
    ]);
    command
        .arg("--worker")
        .arg(&state)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said)?);
    command.env("APEX_SOFTGPU_MEMORY", "268435456").env("RUST_BACKTRACE", "0");
    if asked.way == Way::Shim {
        command
            .env("APEX_FAST", "launch")
            .env("APEX_REAL_LIBCUDA", &apex_e2e::tools().libcuda)
            .env("APEX_RINGS", &rings);
    }
    let mut child = command.spawn().context("a worker cannot be started")?;
    let (stops, taken_over) =
        if asked.stalls { disturb(&mut child, &state, asked.time) } else { (0, 0) };
    let status = child.wait()?;
    let [program, programs, queued, in_graphs, served, rewritten, beside] = numbers(&state);
    let failure = (!status.success()).then(|| {
        let said = fs::read_to_string(&said).unwrap_or_default();
        // Kernels that fail on purpose are spoken of too.
        let said: Vec<&str> = said.lines().filter(|line| !line.contains("kernel fault")).collect();
        let said = said.join("\n");
        let way = asked.way.name();
        let stalls = if asked.stalls { " --stalls yes" } else { "" };
        format!(
            "{status}: {}\nto repeat it: apex-random-order --way {way} --seed {program} --programs 1{stalls}, \
             with all before it: --seed {} --programs {}",
            said.trim(),
            asked.seed,
            programs + 1,
        )
    });
    Ok(Outcome {
        asked,
        programs,
        queued,
        in_graphs,
        served,
        rewritten,
        beside,
        stops,
        taken_over,
        failure,
    })
}

fn numbers(state: &Path) -> [u64; STATE_WORDS] {
    let bytes = fs::read(state).unwrap_or_default();
    let mut numbers = [0; STATE_WORDS];
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    numbers
}

/// Stops the thread that sends for moments of many lengths until its time has passed.
fn disturb(child: &mut Child, state: &Path, time: Duration) -> (u64, u64) {
    const LENGTHS_US: [u64; 6] = [50, 500, 3_000, 20_000, 60_000, 200];
    let since = Instant::now();
    let (mut stops, mut taken_over) = (0, 0);
    while matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_micros(700 + 137 * (stops % 16)));
        let Some(thread) = sender(child.id()) else { continue };
        if since.elapsed() > time || !is_stopped(thread) {
            // One that has ended under our hands must be asked for, else its process cannot end.
            let _ = waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG));
            continue;
        }
        let before = numbers(state)[1];
        std::thread::sleep(Duration::from_micros(LENGTHS_US[stops as usize % LENGTHS_US.len()]));
        taken_over += u64::from(numbers(state)[1] > before);
        stops += 1;
        let _ = ptrace::detach(thread, None);
    }
    (stops, taken_over)
}

/// Stops a thread.
fn is_stopped(thread: Pid) -> bool {
    let is_asked =
        ptrace::seize(thread, ptrace::Options::empty()).and_then(|()| ptrace::interrupt(thread));
    let stands = |status| matches!(status, WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(..));
    is_asked.is_ok() && waitpid(thread, Some(WaitPidFlag::__WALL)).is_ok_and(stands)
}

/// The thread of a process that sends what waits.
fn sender(process: u32) -> Option<Pid> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    threads.flatten().find_map(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        let number = thread.file_name().to_str()?.parse().ok()?;
        (name.trim() == "apex-submit").then(|| Pid::from_raw(number))
    })
}
