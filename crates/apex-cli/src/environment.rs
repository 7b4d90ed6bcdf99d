//! What a program is given so that it meets the shim where it looks for the driver.
//!
//! Three variables do it together: the preload catches requests by SONAME, the library path those for
//! `libcuda.so`, and the real driver is named by its absolute path so that the shim never finds itself.

use crate::device::Driver;
use crate::say;
use apex_core::knobs::{Knobs, Timing};
use apex_daemon::find;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// The hidden verb with which apex asks the loader for the driver.
pub(crate) const MAPPED_DRIVER: &str = "mapped-driver";

/// The answer to the hidden verb; nothing is printed where there is no driver.
pub(crate) fn print_mapped_driver() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some(path) = find::mapped_driver(&maps) {
        let _ = writeln!(io::stdout(), "{path}");
    }
}

/// The variables of the program.
pub(crate) fn variables(
    knobs: &Knobs,
    timing: Timing,
    rings: &Path,
    shim: &Path,
    driver: &Driver,
) -> io::Result<Vec<(&'static str, OsString)>> {
    let libraries = libraries(rings, shim, driver)?;
    let mut variables = vec![
        ("LD_PRELOAD", before("LD_PRELOAD", preloaded(shim, &libraries).as_os_str())),
        ("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", libraries.as_os_str())),
        ("APEX_RINGS", rings.into()),
        ("APEX_TIMING", timing.word().into()),
    ];
    if let Some(path) = driver.path() {
        variables.push(("APEX_REAL_LIBCUDA", path.into()));
    }
    if timing == Timing::Full && knobs.cupti.is_none() {
        match find::cupti(|name| std::env::var(name).ok()) {
            Some(cupti) => variables.push(("APEX_CUPTI", cupti.into())),
            None => say(
                "no libcupti.so is found, so kernels cannot be timed in full; set CUDA_HOME or APEX_CUPTI, or install nvidia-cuda-cupti",
            ),
        }
    }
    Ok(variables)
}

/// The driver that a program would get without us.
pub(crate) fn real_driver() -> Option<PathBuf> {
    find::driver(&std::env::current_exe().ok()?, MAPPED_DRIVER)
}

/// A directory in which the shim bears the driver's names, and on the software GPU our runtime its own.
fn libraries(rings: &Path, shim: &Path, driver: &Driver) -> io::Result<PathBuf> {
    let directory = rings.join("lib");
    std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
    for name in [find::DRIVER, "libcuda.so"] {
        symlink(shim, directory.join(name))?;
    }
    for (name, library) in driver.runtimes() {
        symlink(library, directory.join(name))?;
    }
    Ok(directory)
}

/// The shim where it lies, because a process may outlive the session and its directory; only a path that
/// the loader would take apart is named by its link.
fn preloaded(shim: &Path, libraries: &Path) -> PathBuf {
    let parted = shim.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':'));
    if parted { libraries.join(find::DRIVER) } else { shim.to_owned() }
}

fn before(variable: &str, first: &OsStr) -> OsString {
    let mut value = first.to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        value.push(":");
        value.push(rest);
    }
    value
}
