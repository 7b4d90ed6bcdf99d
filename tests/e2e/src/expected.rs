//! What a program says it did, and the same counted in what was recorded.
//!
//! A program states it in lines such as `expected launches=3 copy.peer.bytes=800 cuInit=1`. A word
//! that begins with `cu` counts the calls of that function and `sync` all waits, whatever they
//! answered; all others count calls that succeeded.

use crate::line::Line;
use apex_daemon::summary::Summary;
use std::collections::HashSet;

/// The pairs of all lines that begin with `expected`.
pub(crate) fn expected(stdout: &str) -> impl Iterator<Item = (&str, u64)> {
    stdout.lines().filter_map(|line| line.strip_prefix("expected ")).flat_map(numbers)
}

/// All pairs of a name and a number.
pub(crate) fn numbers(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.split_whitespace().filter_map(|word| {
        let (name, number) = word.split_once('=')?;
        Some((name, number.parse().ok()?))
    })
}

/// A session, to be counted.
pub(crate) struct Counted<'a> {
    pub(crate) events: &'a [Line],
    pub(crate) summary: &'a Summary,
}

impl Counted<'_> {
    /// How often something happened, or how many bytes it had.
    pub(crate) fn count(&self, what: &str) -> u64 {
        let parts: Vec<&str> = what.split('.').collect();
        match parts[..] {
            ["launches"] => {
                let launches = self.number(|line| line.kind == "launch" && !line.captured);
                assert_eq!(launches, self.summary.launches, "the summary's launches");
                launches
            }
            ["captured"] => {
                let captured = self.number(|line| line.kind == "launch" && line.captured);
                assert_eq!(captured, self.summary.captured_launches, "the summary's captured");
                captured
            }
            ["captured", kind] => self.number(|line| line.kind == kind && line.captured),
            ["graph_launches"] => self.number(|line| line.kind == "graph-launch"),
            ["graph_kernels"] => {
                let launches = self.events.iter().filter(|line| line.kind == "graph-launch");
                launches.map(|line| line.graph_kernels).sum()
            }
            ["kernels"] => self.summary.kernels_executed,
            ["kernel", name] => self
                .number(|line| line.kind == "launch" && line.kernel_name.as_deref() == Some(name)),
            ["refused"] => {
                self.events.iter().filter(|line| line.kind == "launch" && line.result != 0).count()
                    as u64
            }
            ["refused_alloc"] => {
                self.events.iter().filter(|line| line.kind == "alloc" && line.result != 0).count()
                    as u64
            }
            ["processes"] => {
                let processes: HashSet<u32> = self.events.iter().map(|line| line.process).collect();
                assert_eq!(
                    processes.len() as u64,
                    self.summary.processes,
                    "the summary's processes"
                );
                self.summary.processes
            }
            ["threads"] => {
                let is_birth =
                    |line: &Line| line.object.as_deref() == Some("thread") && line.begins;
                self.number(is_birth)
            }
            ["sync"] => self.events.iter().filter(|line| line.kind == "sync").count() as u64,
            ["copy", "pageable"] => self.number(|line| line.pageable == Some(true)),
            ["copy", "pinned"] => self.number(|line| line.pageable == Some(false)),
            ["alloc" | "free" | "copy" | "set", "bytes"] => {
                self.bytes(|line| line.kind == parts[0])
            }
            [kind @ ("alloc" | "free"), memory] => {
                self.number(|line| line.kind == kind && line.memory.as_deref() == Some(memory))
            }
            [kind @ ("alloc" | "free"), memory, "bytes"] => {
                self.bytes(|line| line.kind == kind && line.memory.as_deref() == Some(memory))
            }
            ["copy", direction] => self
                .number(|line| line.kind == "copy" && line.direction.as_deref() == Some(direction)),
            ["copy", direction, "bytes"] => self
                .bytes(|line| line.kind == "copy" && line.direction.as_deref() == Some(direction)),
            ["alloc" | "free" | "copy" | "set" | "load"] => {
                self.number(|line| line.kind == parts[0])
            }
            [function] if function.starts_with("cu") => {
                // A time on the GPU bears the name of its launch.
                let calls = |line: &&Line| line.function == function && line.kind != "gpu-time";
                self.events.iter().filter(calls).count() as u64
            }
            _ => panic!("{what} is nothing that can be counted"),
        }
    }

    fn number(&self, is_meant: impl Fn(&Line) -> bool) -> u64 {
        self.events.iter().filter(|line| line.result == 0 && is_meant(line)).count() as u64
    }

    fn bytes(&self, is_meant: impl Fn(&Line) -> bool) -> u64 {
        let meant = self.events.iter().filter(|line| line.result == 0 && is_meant(line));
        meant.map(|line| line.bytes).sum()
    }
}
