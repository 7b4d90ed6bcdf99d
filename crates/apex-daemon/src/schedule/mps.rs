//! NVIDIA's Multi-Process Service as a partner: kernels of several programs on the GPU at the same time.
//!
//! Its control daemon is started in a directory of ours, so that no other one is touched, and is stopped by
//! whoever of its users ends last: each holds a shared lock on a file beside it, and the one that can have it
//! alone is the last. A kill of all of them leaves the control daemon; the next user takes it over.

use crate::session::create_private_directory;
use apex_core::gate_page;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The control program.
const CONTROL: &str = "nvidia-cuda-mps-control";

/// MPS, in use.
#[derive(Debug)]
pub struct Mps {
    directory: PathBuf,
    lock: File,
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
        let mps = Mps { directory, lock };
        if mps.lock.try_lock().is_ok() {
            // Alone: one that still runs there was left behind, and is as good as a new one.
            if mps.process().is_none() {
                mps.launch()?;
            }
            let _ = mps.lock.unlock();
        }
        mps.lock
            .lock_shared()
            .map_err(|error| format!("{} cannot be locked: {error}", mps.directory.display()))?;
        Ok(mps)
    }

    /// The service in `gate`, if somebody runs it; it then runs until this is dropped.
    #[must_use]
    pub fn join(gate: &Path) -> Option<Mps> {
        let directory = gate.join("mps");
        let lock = File::open(directory.join("lock")).ok()?;
        // Who can have it alone has found nobody.
        if lock.try_lock().is_ok() {
            return None;
        }
        lock.lock_shared().ok()?;
        Some(Mps { directory, lock })
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
        let status = self.command().arg("-d").stdin(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!(
                "{CONTROL} ended with {status}; see {}",
                self.directory.join("log").display()
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!(
                "{CONTROL} is not on the PATH: it comes with NVIDIA's driver (package nvidia-compute-utils); \
                 programs share the GPU without MPS"
            )),
            Err(error) => Err(format!("{CONTROL} cannot be started: {error}")),
        }
    }

    /// The control daemon's process, which it writes down itself.
    fn process(&self) -> Option<u32> {
        let file = self.directory.join("pipe/nvidia-cuda-mps-control.pid");
        let pid = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
        gate_page::process_state(pid).filter(|(state, _)| *state != 'Z').map(|_| pid)
    }

    /// Asks it to end and waits for that; one that does not is told by a signal.
    fn stop(&self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        let _ = self.ask("quit");
        let since = Instant::now();
        while let Some(pid) = self.process() {
            if since.elapsed() > PATIENCE {
                let pid = Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX));
                let _ = kill(pid, Signal::SIGTERM);
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(&self, line: &str) -> io::Result<()> {
        let mut control = self
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(mut input) = control.stdin.take() {
            writeln!(input, "{line}")?;
        }
        let status = control.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other("nobody answers")) }
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
        let _ = self.lock.unlock();
        if self.lock.try_lock().is_ok() {
            self.stop();
        }
    }
}
