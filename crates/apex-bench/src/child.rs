//! What a child does between `fork` and `exec`: takes back the signals that apex holds back for itself, and asks to end
//! with apex where it serves nobody else.
//!
//! A child inherits the signal mask of its parent, and the standard library leaves it so. Every verb that starts a
//! program does it by these functions, so that code between `fork` and `exec` stands in this file alone.
#![allow(unsafe_code, reason = "code between fork and exec has no safe form")]

use apex_daemon::scratch::Scratch;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Starts `command` with this mask.
pub fn with_mask(command: &mut Command, mask: SigSet) {
    // SAFETY: the closure makes one system call that is async-signal-safe, and neither allocates nor
    // touches a lock: its only data is the mask, held by value.
    unsafe { command.pre_exec(move || mask.thread_set_mask().map_err(Into::into)) };
}

/// A command that leaves its temporary files in a folder that goes, and ends with this process.
pub fn in_scratch(folder: &Scratch, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    ends_with_us(command.env("TMPDIR", folder.path()));
    command
}

/// Has the kernel end `command` as soon as the thread that starts it ends, by whatever.
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: as above, without any data.
    unsafe { command.pre_exec(|| set_pdeathsig(Signal::SIGKILL).map_err(Into::into)) }
}
