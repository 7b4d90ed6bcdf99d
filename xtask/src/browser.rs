//! A real browser for the tests, below `target/` and without root.

use crate::run::{command, root, run, target};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

const INSTALL: &str = "tests/e2e/browser/install.py";

/// A folder with the browser and the accessibility checker; `packages` has Node, which fetches both.
pub(crate) fn browser(packages: &Path) -> Result<PathBuf> {
    let folder = target().join("browser");
    let installed = folder.join("installed");
    let wanted = std::fs::read_to_string(root().join(INSTALL))
        .with_context(|| format!("{INSTALL} is not there"))?;
    if std::fs::read_to_string(&installed).is_ok_and(|script| script == wanted) {
        return Ok(folder);
    }
    let _ = std::fs::remove_dir_all(&folder);
    run(command("python3", &[INSTALL]).arg(&folder).env("PYTHONPATH", packages))?;
    std::fs::write(&installed, wanted).context("what is installed is not noted")?;
    Ok(folder)
}
