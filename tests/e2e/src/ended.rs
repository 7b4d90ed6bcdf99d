//! What a run left behind: its output, its end, and the session that was kept of it.

use crate::expected::{self, Counted};
use crate::line::Line;
use crate::tools::tools;
use apex_daemon::known::Known;
use apex_daemon::read::{Stored, document};
use apex_daemon::summary::Summary;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// A command that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// A program that has ended under apex.
#[derive(Clone, Debug)]
pub struct Watched {
    /// How.
    pub ended: Ended,
    /// Where its session lies.
    pub session: PathBuf,
}

impl Ended {
    pub(crate) fn of(status: ExitStatus, stdout: &str, stderr: &str) -> Ended {
        let (code, signal) = (status.code(), status.signal());
        Ended { stdout: stdout.into(), stderr: stderr.into(), code, signal }
    }

    /// Ended well, and apex did not fall over.
    #[track_caller]
    pub fn check_success(&self) -> &Ended {
        assert_eq!((self.code, self.signal), (Some(0), None), "{}\n{}", self.stdout, self.stderr);
        self.check_no_panic()
    }

    /// Apex did not fall over, however it ended.
    #[track_caller]
    pub fn check_no_panic(&self) -> &Ended {
        assert!(!self.stderr.contains("panicked") && self.code != Some(101), "{}", self.stderr);
        self
    }

    /// The number behind `name=` on standard output.
    #[track_caller]
    pub fn number(&self, name: &str) -> u64 {
        let found = expected::numbers(&self.stdout).find(|(key, _)| *key == name);
        found.map(|(_, value)| value).unwrap_or_else(|| panic!("no {name} in {}", self.stdout))
    }
}

impl Watched {
    /// The summary that was kept.
    pub fn summary(&self) -> Summary {
        document(&self.session.join("summary.json"))
            .unwrap_or_else(|error| panic!("{error}\n{}", self.ended.stderr))
    }

    /// Every event that was kept, as apex exports it.
    pub fn events(&self) -> Vec<Line> {
        let mut export = Command::new(&tools().apex);
        export.args(["export", "--format", "ndjson"]).arg(&self.session);
        // Whatever runs elsewhere is no business of this test.
        export.env("XDG_RUNTIME_DIR", &self.session).env("APEX_STATE", &self.session);
        let output = export.output().expect("apex can be started");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaints.is_empty(), "{complaints}");
        let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        let read =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        text.lines().map(read).collect()
    }

    /// What was learned of the processes.
    pub fn known(&self) -> Known {
        let mut stored = Stored::open(&self.session).expect("the session can be opened");
        let known = stored.known();
        assert!(stored.complaints.is_empty(), "{:?}", stored.complaints);
        known
    }

    /// What the program says it did is what was recorded, and nothing was lost.
    #[track_caller]
    pub fn check_expected(&self) -> Vec<Line> {
        let events = self.events();
        let summary = self.summary();
        assert_eq!(summary.own.lost, 0, "nothing is lost");
        let counted = Counted { events: &events, summary: &summary };
        let wanted: Vec<(&str, u64)> = expected::expected(&self.ended.stdout).collect();
        assert!(!wanted.is_empty(), "the program says what it did:\n{}", self.ended.stdout);
        for (what, count) in wanted {
            assert_eq!(counted.count(what), count, "{what}\n{}", self.ended.stderr);
        }
        events
    }
}
