//! Runs other programs: says what it runs, fails with the command in the message.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's root folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Where Cargo builds.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => std::path::absolute(&folder).unwrap_or(folder.into()),
        None => root().join("target"),
    }
}

/// A command in the project's root.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Cargo, as this program was started by it.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or("cargo".into()), arguments)
}

/// Runs a command to its end; an exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ");
    eprintln!("xtask: {line}");
    let status = command.status().with_context(|| format!("{line} could not be started"))?;
    if !status.success() {
        bail!("{line} ended with {status}");
    }
    Ok(())
}
