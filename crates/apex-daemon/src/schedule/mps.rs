//! NVIDIA's Multi-Process Service as a partner: kernels of several programs on the GPU at the same time.
//!
//! Its control daemon is started in a directory of ours, so that no other one is touched, and is stopped by
//! whoever of its users ends last: each holds a shared lock on a file beside it, and the one that can have it
//! alone is the last. A kill of all of them leaves the control daemon; the next user takes it over.
//!
//! Every wait has an end, because `quit` waits for clients, and a client may never end: a control program that does
//! not answer is killed, the control daemon told by a signal, and a sentence says so.

use crate::session::create_private_directory;
use apex_core::gate_page;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The control program.
const CONTROL: &str = "nvidia-cuda-mps-control";
/// As much of its name as the kernel keeps of a process.
const CONTROL_PROCESS: &str = "nvidia-cuda-mps";
/// It has so long to start, and so long to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// And so long to end after a signal.
const AFTER_SIGNAL: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

/// MPS, in use.
#[derive(Debug)]
pub struct Mps {
    directory: PathBuf,
    /// None once it was left.
    lock: Option<File>,
}

impl Mps {
    /// Uses the service in `gate`, and starts it if nobody has. The error is a sentence for the user.
    pub fn start(gate: &Path) -> Result<Mps, String> {
        let directory = gate.join("mps");
        let prepared = (|| {
            for part in [directory.clone(), directory.join("pipe"), directory.join("log")] {
                if !part.exists() {
                    create_private_directory(&part)?;
                }
            }
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(directory.join("lock"))
        })();
        let lock =
            prepared.map_err(|error| format!("{} cannot be used: {error}", directory.display()))?;
        let mut mps = Mps { directory, lock: None };
        if lock.try_lock().is_ok() {
            // Alone: one that still runs there was left behind, and is as good as a new one.
            if mps.process().is_none() {
                mps.launch()?;
            }
        }
        // Made of the other in place, so that nobody who leaves can stop what was just started.
        share(&lock)
            .map_err(|error| format!("{} cannot be locked: {error}", mps.directory.display()))?;
        mps.lock = Some(lock);
        Ok(mps)
    }

    /// The service in `gate`, if somebody runs it; it then runs until this is dropped.
    #[must_use]
    pub fn join(gate: &Path) -> Option<Mps> {
        let directory = gate.join("mps");
        let lock = File::open(directory.join("lock")).ok()?;
        // Who can have it alone has found nobody.
        if lock.try_lock().is_ok() || share(&lock).is_err() {
            return None;
        }
        Some(Mps { directory, lock: Some(lock) })
    }

    /// Leaves it, and stops it if nobody else uses it. A sentence for the user where it did not end by itself.
    #[must_use]
    pub fn end(mut self) -> Option<String> {
        self.leave()
    }

    /// What a program is given to use it. Priority 0 goes before 1.
    #[must_use]
    pub fn variables(&self, below_normal: bool) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("CUDA_MPS_PIPE_DIRECTORY", self.directory.join("pipe")),
            ("CUDA_MPS_LOG_DIRECTORY", self.directory.join("log")),
            ("CUDA_MPS_CLIENT_PRIORITY", PathBuf::from(if below_normal { "1" } else { "0" })),
        ]
    }

    fn launch(&self) -> Result<(), String> {
        let child = self.command().arg("-d").stdin(Stdio::null()).spawn();
        match child.and_then(|child| ended_by(child, Instant::now() + PATIENCE)) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(format!(
                "{CONTROL} ended with {status}; see {}",
                self.directory.join("log").display()
            )),
            Ok(None) => Err(format!(
                "{CONTROL} did not start in {} s; programs share the GPU without MPS; see {}",
                PATIENCE.as_secs(),
                self.directory.join("log").display()
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!(
                "{CONTROL} is not on the PATH: it comes with NVIDIA's driver (package nvidia-compute-utils); \
                 programs share the GPU without MPS"
            )),
            Err(error) => Err(format!("{CONTROL} cannot be started: {error}")),
        }
    }

    /// The control daemon's process, which it writes down itself. One that was killed leaves its number behind, and
    /// that may be another program's by now: hence the name.
    fn process(&self) -> Option<u32> {
        let file = self.directory.join("pipe/nvidia-cuda-mps-control.pid");
        let pid = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let is_alive = gate_page::process_state(pid).is_some_and(|(state, _)| state != 'Z');
        (is_alive && name.starts_with(CONTROL_PROCESS)).then_some(pid)
    }

    fn leave(&mut self) -> Option<String> {
        let lock = self.lock.take()?;
        let _ = lock.unlock();
        // Held while it ends, so that nobody takes over what is about to go.
        lock.try_lock().ok().and_then(|()| self.stop())
    }

    /// Asks it to end and waits for that; one that does not is told by a signal.
    fn stop(&self) -> Option<String> {
        let until = Instant::now() + PATIENCE;
        let answered = self.ask("quit", until);
        let seconds = PATIENCE.as_secs();
        let Some(pid) = self.process_after(until) else {
            let is_silent = matches!(answered, Ok(None));
            return is_silent.then(|| format!("{CONTROL} did not answer `quit` in {seconds} s"));
        };
        let signalled = Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX));
        if let Err(error) = kill(signalled, Signal::SIGTERM) {
            return Some(format!(
                "MPS has not ended, and its control daemon (process {pid}) cannot be told to: {error}"
            ));
        }
        let still = match self.process_after(Instant::now() + AFTER_SIGNAL) {
            Some(_) => format!("; it still runs: kill -9 {pid} ends it"),
            None => String::new(),
        };
        Some(format!(
            "MPS did not end {seconds} s after it was asked to, as when one of its clients still runs; its control \
             daemon (process {pid}) was told by a signal{still}"
        ))
    }

    /// The control daemon's process if there still is one then.
    fn process_after(&self, until: Instant) -> Option<u32> {
        loop {
            let pid = self.process()?;
            if Instant::now() >= until {
                return Some(pid);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn ask(&self, line: &str, until: Instant) -> io::Result<Option<ExitStatus>> {
        let mut control = self.command().stdin(Stdio::piped()).spawn()?;
        if let Some(mut input) = control.stdin.take() {
            // One that reads nothing has ended, and that is seen below.
            let _ = writeln!(input, "{line}");
        }
        ended_by(control, until)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(CONTROL);
        command
            .env("CUDA_MPS_PIPE_DIRECTORY", self.directory.join("pipe"))
            .env("CUDA_MPS_LOG_DIRECTORY", self.directory.join("log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

impl Drop for Mps {
    fn drop(&mut self) {
        // Nobody listens here to how it ended.
        let _ = self.leave();
    }
}

/// How a program ended; none if it had not by then: it is killed.
fn ended_by(mut child: Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Takes the lock together with others. Somebody may have it alone for a start or an end.
fn share(lock: &File) -> io::Result<()> {
    let until = Instant::now() + 2 * PATIENCE;
    loop {
        match lock.try_lock_shared() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(io::Error::other(
                    "whoever starts or stops MPS there does not get done",
                ));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
        }
    }
}
