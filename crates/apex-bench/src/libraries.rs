//! Finds and opens the libraries of apex that lie beside the command.

#![allow(unsafe_code, reason = "opens driver libraries and gives them out by their C functions")]

use anyhow::{Context, Result, bail};
use apex_cuda::{Driver, Library};
use apex_daemon::find::{REMEDY, library as library_of};
use std::path::{Path, PathBuf};

/// A library of ours, found as the shim is.
pub(crate) fn library(name: &str) -> Result<PathBuf> {
    let executable = std::env::current_exe().context("apex cannot find its own executable")?;
    match library_of(&executable, name) {
        Some(path) => Ok(path),
        None => bail!("{name} is not beside {}; {REMEDY}", executable.display()),
    }
}

/// Every driver function of a library of ours.
pub(crate) fn open(path: &Path) -> Result<Driver> {
    // SAFETY: a library of ours.
    let library = unsafe { Library::open(path) }?;
    // SAFETY: our libraries export every function of the table with its signature; one that lacks any is refused.
    match unsafe { library.driver() } {
        Ok(driver) => Ok(driver),
        Err(missing) => {
            bail!(
                "{} has no {}: it belongs to another version of apex",
                path.display(),
                missing.name()
            )
        }
    }
}
