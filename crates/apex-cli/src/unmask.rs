//! Gives a program back the signals that apex holds back for itself.
//!
//! A child inherits the signal mask of its parent, and the standard library leaves it so. This is the
//! only place of the command that is not safe Rust: code between `fork` and `exec`.
#![allow(unsafe_code, reason = "code between fork and exec has no safe form")]

use nix::sys::signal::SigSet;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Starts `command` with this mask.
pub(crate) fn with_mask(command: &mut Command, mask: SigSet) {
    // SAFETY: the closure makes one system call that is async-signal-safe, and neither allocates nor
    // touches a lock: its only data is the mask, held by value.
    unsafe { command.pre_exec(move || mask.thread_set_mask().map_err(Into::into)) };
}
