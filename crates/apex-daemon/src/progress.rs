//! Says how far long work has come, on a terminal only.

use std::io::{IsTerminal, Write};

/// One line on stderr that is written over and in the end wiped out.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    terminal: bool,
}

impl Progress {
    /// Silent unless stderr is a terminal.
    #[must_use]
    pub fn on_stderr() -> Progress {
        Progress { shown: false, terminal: std::io::stderr().is_terminal() }
    }

    /// Says nothing at all.
    #[must_use]
    pub fn silent() -> Progress {
        Progress { shown: false, terminal: false }
    }

    /// Shows one step.
    pub fn step(&mut self, what: &str, done: usize, all: usize) {
        if self.terminal && all > 1 {
            self.shown = true;
            // A terminal that went away is no reason to stop.
            let _ = write!(std::io::stderr(), "\r\x1b[K{what} {done} of {all}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
