//! Packages from PyPI, in a folder below `target/`.
//!
//! With pip alone: a system Python often lacks `venv`. A folder is made anew when the list of packages changes.

use crate::run::{command, run};
use anyhow::{Context, Result};
use std::path::Path;

/// Installs packages into a folder that Python is told to look in.
pub(crate) fn install(folder: &Path, packages: &[&str]) -> Result<()> {
    let installed = folder.join("installed");
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&installed).is_ok_and(|packages| packages == wanted) {
        return Ok(());
    }
    let _ = std::fs::remove_dir_all(folder);
    run(command("python3", &["-m", "pip", "install", "--quiet", "--target"])
        .arg(folder)
        .args(packages))?;
    std::fs::write(&installed, wanted).context("the list of installed packages is not written")
}
