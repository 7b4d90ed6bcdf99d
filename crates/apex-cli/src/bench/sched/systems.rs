//! The ways in which two programs can share a GPU, as environments and command lines.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A way of sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// Two processes, and nothing else: the GPU changes between them.
    TimeSlicing,
    /// Two clients of MPS.
    Mps,
    /// The same, the training client below normal priority.
    MpsPriority,
    /// The same, the training client with so many of a hundred threads.
    MpsThreads(u8),
    /// One process with two streams of different priority.
    Streams,
    /// One process with two green contexts, each with half of the multiprocessors.
    Green,
    /// Apex without knowing how long launches take.
    ApexBlind,
    /// Apex.
    Apex,
}

impl System {
    /// Every system, the most telling first: a run that is cut short has those.
    pub(super) const ALL: [System; 10] = [
        System::TimeSlicing,
        System::Apex,
        System::MpsPriority,
        System::ApexBlind,
        System::Mps,
        System::MpsThreads(50),
        System::Streams,
        System::MpsThreads(25),
        System::MpsThreads(75),
        System::Green,
    ];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            System::TimeSlicing => "time-slicing",
            System::Mps => "mps",
            System::MpsPriority => "mps-priority",
            System::MpsThreads(25) => "mps-25",
            System::MpsThreads(75) => "mps-75",
            System::MpsThreads(_) => "mps-50",
            System::Streams => "streams",
            System::Green => "green",
            System::ApexBlind => "apex-blind",
            System::Apex => "apex",
        }
    }

    /// The system of that name.
    pub(super) fn named(name: &str) -> Result<System> {
        match System::ALL.into_iter().find(|system| system.name() == name) {
            Some(system) => Ok(system),
            None => {
                let names: Vec<&str> = System::ALL.map(System::name).to_vec();
                bail!("no system is called {name}; there are {}", names.join(", "))
            }
        }
    }

    pub(super) fn is_apex(self) -> bool {
        matches!(self, System::Apex | System::ApexBlind)
    }

    pub(super) fn is_mps(self) -> bool {
        matches!(self, System::Mps | System::MpsPriority | System::MpsThreads(_))
    }

    /// Both sides are in one process.
    pub(super) fn is_one_process(self) -> bool {
        matches!(self, System::Streams | System::Green)
    }

    /// Measured with each side alone as well: what it costs a program that has the GPU to itself.
    pub(super) fn shows_alone(self) -> bool {
        matches!(self, System::TimeSlicing | System::Apex)
    }

    /// The command of one side. `folder` is the cell's own; the programs of one cell meet in `pages`.
    pub(super) fn command(
        self,
        side: Side,
        words: &[OsString],
        folder: &Path,
        pages: &Path,
        with_mps: bool,
    ) -> Result<Command> {
        let mut command = if self.is_apex() {
            let mut command = Command::new(std::env::current_exe().context("apex is not found")?);
            command.args(["run", "--class", side.class(), "--policy", "adaptive"]);
            if with_mps {
                command.arg("--mps");
            }
            if self == System::ApexBlind {
                command.args(["--timing", "off"]).env("APEX_PREDICT", "0");
            }
            command.arg("--").args(words);
            command.env("APEX_GATE", pages.join("gate")).env("APEX_STATE", folder.join("state"));
            command
        } else {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        };
        if self.is_mps() {
            command.envs(Mps::environment(folder));
        }
        if side == Side::Train {
            match self {
                System::MpsPriority => {
                    command.env("CUDA_MPS_CLIENT_PRIORITY", "1");
                }
                System::MpsThreads(percent) => {
                    command.env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent.to_string());
                }
                _ => {}
            }
        }
        Ok(command)
    }
}

/// A side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Latency,
    Train,
}

impl Side {
    /// What tells a worker.
    pub(super) fn option(self) -> &'static str {
        match self {
            Side::Latency => "--latency",
            Side::Train => "--train",
        }
    }

    /// What apex is told.
    pub(super) fn class(self) -> &'static str {
        match self {
            Side::Latency => "latency",
            Side::Train => "batch",
        }
    }
}

/// A control daemon of MPS in a folder of its own.
///
/// Beside it waits a shell that does nothing until its input ends, because this was dropped or this program was
/// killed, and then stops the daemon. It is in a group of its own: what ends the group of this program leaves it.
pub(super) struct Mps {
    guard: Child,
}

const CONTROL: &str = "nvidia-cuda-mps-control";
/// Asks the daemon to end; one that waits for a client that never ends is told by a signal.
const GUARD: &str = r#"
trap '' HUP INT TERM
read -r line
echo quit | timeout 15 nvidia-cuda-mps-control >/dev/null 2>&1
pid=$(cat "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid" 2>/dev/null)
if [ -n "$pid" ] && grep -q nvidia-cuda-mps "/proc/$pid/comm" 2>/dev/null; then kill "$pid"; fi
"#;

impl Mps {
    /// Starts it.
    pub(super) fn start(folder: &Path) -> Result<Mps> {
        for name in ["pipe", "log"] {
            std::fs::create_dir_all(folder.join(name)).context("no folder for MPS")?;
        }
        let guard = Command::new("sh")
            .args(["-c", GUARD])
            .envs(Mps::environment(folder))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("there is no shell to watch over MPS")?;
        // From here on it is stopped whatever happens.
        let mps = Mps { guard };
        let status = Command::new("timeout")
            .args(["20", CONTROL, "-d"])
            .envs(Mps::environment(folder))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(mps),
            Ok(status) => bail!("{CONTROL} ends with {status}"),
            Err(error) => bail!("{CONTROL} does not start: {error}"),
        }
    }

    fn environment(folder: &Path) -> [(&'static str, PathBuf); 2] {
        [
            ("CUDA_MPS_PIPE_DIRECTORY", folder.join("pipe")),
            ("CUDA_MPS_LOG_DIRECTORY", folder.join("log")),
        ]
    }
}

impl Drop for Mps {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        // The next daemon must not find this one's server.
        std::thread::sleep(Duration::from_millis(500));
    }
}
