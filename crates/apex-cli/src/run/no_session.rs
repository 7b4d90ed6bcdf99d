//! Why there is no session, and what happens in its place.

use super::program::{not_started, run_untouched};
use crate::USAGE;
use apex_daemon::speech::say;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// A reason to run no session, with the sentence for the user.
pub(super) enum NoSession {
    /// Something of apex is missing: the program runs as if apex were absent.
    RunsUntouched(String),
    /// Apex was called wrongly: nothing runs.
    CalledWrongly(String),
    /// The program cannot be started, with apex or without.
    NotStarted(io::Error),
}

impl NoSession {
    /// Says why, and does what is left to do.
    pub(super) fn carry_on(self, words: &[OsString]) -> ExitCode {
        match self {
            NoSession::RunsUntouched(sentence) => {
                say(&sentence);
                run_untouched(words)
            }
            NoSession::CalledWrongly(sentence) => {
                say(&sentence);
                ExitCode::from(USAGE)
            }
            NoSession::NotStarted(error) => {
                not_started(words.first().cloned().unwrap_or_default().as_os_str(), &error)
            }
        }
    }
}
