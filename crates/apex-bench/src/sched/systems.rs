//! The ways in which two programs can share a GPU, as environments and command lines.

use super::mps::Mps;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// Apex without MPS: the GPU changes between the two, and one of them waits at its fences.
    ApexSlicing,
    /// Apex without knowing how long launches take.
    ApexBlind,
    /// Apex.
    Apex,
    /// Another build of apex, named by `--other`.
    ApexOther,
}

impl System {
    /// Every system but another build, the most telling first: a run that is cut short has those.
    pub(super) const ALL: [System; 11] = [
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
        System::ApexSlicing,
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
            System::ApexSlicing => "apex-slicing",
            System::ApexBlind => "apex-blind",
            System::Apex => "apex",
            System::ApexOther => "apex-other",
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
        matches!(self, System::Apex | System::ApexBlind | System::ApexSlicing | System::ApexOther)
    }

    /// Apex starts its programs as clients of MPS where there is one.
    pub(super) fn is_apex_with_mps(self) -> bool {
        matches!(self, System::Apex | System::ApexBlind | System::ApexOther)
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

    /// The command of one side.
    pub(super) fn command(
        self,
        side: Side,
        words: &[OsString],
        folders: &CellFolders<'_>,
    ) -> Result<Command> {
        let mut command = if self.is_apex() {
            let own = || std::env::current_exe().context("apex is not found");
            let other = folders.other.filter(|_| self == System::ApexOther);
            let mut command = Command::new(other.map_or_else(own, |path| Ok(path.into()))?);
            command.args(["run", "--class", side.class(), "--policy", "adaptive"]);
            if folders.apex_with_mps {
                command.arg("--mps");
            }
            if self == System::ApexBlind {
                command.args(["--timing", "off"]).env("APEX_PREDICT", "0");
            }
            command.arg("--").args(words);
            command.env("APEX_GATE", folders.gate());
            command.env("APEX_STATE", folders.folder.join("state"));
            // Each system's own, or nobody knows whose lines they are.
            if let Ok(log) = std::env::var("APEX_SCHEDULE_LOG") {
                command.env("APEX_SCHEDULE_LOG", format!("{log}.{}", self.name()));
            }
            command
        } else {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        };
        if let Some(mps) = folders.mps.filter(|_| self.is_mps()) {
            command.envs(mps.environment());
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

/// Where the programs of one cell find what they share, and whether MPS is there.
pub(super) struct CellFolders<'a> {
    /// The cell's own.
    pub(super) folder: &'a Path,
    /// Where they meet.
    pub(super) pages: &'a Path,
    /// The group's.
    pub(super) mps: Option<&'a Mps>,
    pub(super) apex_with_mps: bool,
    /// The other build of apex.
    pub(super) other: Option<&'a Path>,
}

impl CellFolders<'_> {
    pub(super) fn gate(&self) -> PathBuf {
        self.pages.join("gate")
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
