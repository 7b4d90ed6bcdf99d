//! The program as the user has named it, and what becomes of it where apex cannot stand by.

use apex_daemon::speech::{release, say};
use nix::errno::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The command to start.
pub(super) fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(words.first().cloned().unwrap_or_default());
    command.args(words.iter().skip(1));
    command
}

/// The command as a session keeps it.
pub(super) fn texts(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Becomes the program, without apex.
pub(super) fn run_untouched(words: &[OsString]) -> ExitCode {
    release();
    let mut command = command(words);
    let error = command.exec();
    not_started(command.get_program(), &error)
}

/// What shells answer.
pub(super) fn not_started(program: &OsStr, error: &io::Error) -> ExitCode {
    let program = program.to_string_lossy();
    if error.kind() == io::ErrorKind::NotFound {
        say(&format!("{program} is not found; check its name and PATH"));
        ExitCode::from(127)
    } else {
        say(&format!("{program} cannot be executed: {error}"));
        ExitCode::from(126)
    }
}

/// Whether what apex has open may be what is missing.
pub(super) fn is_short_of_descriptors(error: &io::Error) -> bool {
    let codes = [Errno::EMFILE, Errno::ENFILE];
    error.raw_os_error().is_some_and(|code| codes.contains(&Errno::from_raw(code)))
}
