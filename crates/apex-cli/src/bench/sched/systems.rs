//! The ways in which two programs can share a GPU, as environments and command lines.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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
    /// Apex without knowing how long launches take.
    ApexBlind,
    /// Apex.
    Apex,
}

impl System {
    /// Every system, the most telling first: a run that is cut short has those.
    pub(super) const ALL: [System; 9] = [
        System::TimeSlicing,
        System::Apex,
        System::MpsPriority,
        System::ApexBlind,
        System::Mps,
        System::MpsThreads(50),
        System::Streams,
        System::MpsThreads(25),
        System::MpsThreads(75),
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

    /// Measured with each side alone as well: what it costs a program that has the GPU to itself.
    pub(super) fn shows_alone(self) -> bool {
        matches!(self, System::TimeSlicing | System::Apex)
    }

    /// The command of one side. `folder` is the cell's own; the programs of one cell meet there.
    pub(super) fn command(
        self,
        side: Side,
        words: &[OsString],
        folder: &Path,
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
            command.env("APEX_GATE", folder.join("gate")).env("APEX_STATE", folder.join("state"));
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
    fn class(self) -> &'static str {
        match self {
            Side::Latency => "latency",
            Side::Train => "batch",
        }
    }
}

/// A control daemon of MPS in a folder of its own, stopped when dropped.
pub(super) struct Mps {
    folder: PathBuf,
}

impl Mps {
    /// Starts it.
    pub(super) fn start(folder: &Path) -> Result<Mps> {
        for name in ["pipe", "log"] {
            std::fs::create_dir_all(folder.join(name)).context("no folder for MPS")?;
        }
        let status = Command::new(CONTROL)
            .arg("-d")
            .envs(Mps::environment(folder))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(Mps { folder: folder.into() }),
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

const CONTROL: &str = "nvidia-cuda-mps-control";

impl Drop for Mps {
    fn drop(&mut self) {
        let child = Command::new(CONTROL)
            .envs(Mps::environment(&self.folder))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if let Ok(mut child) = child {
            if let Some(mut orders) = child.stdin.take() {
                use std::io::Write;
                let _ = orders.write_all(b"quit\n");
            }
            let _ = child.wait();
            // The next daemon must not find this one's server.
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}
