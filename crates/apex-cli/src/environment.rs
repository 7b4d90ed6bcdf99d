//! What a program is given so that it meets the shim where it looks for the driver.
//!
//! Three variables do it together: the preload catches requests by SONAME, the library path those for
//! `libcuda.so`, and the real driver is named by its absolute path so that the shim never finds itself.
//! On the software GPU our runtime is preloaded too: a library that names its own by DT_RPATH looks there before the
//! library path, but first of all among what is loaded.
//! On the software GPU frameworks are told besides where ours stand in for NVIDIA's libraries and programs
//! (`frameworks.rs`).

use crate::device::Driver;
use crate::frameworks::{self, Variables};
use apex_core::knobs::{Knobs, Timing};
use apex_daemon::find;
use apex_daemon::speech::say;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// The variables of the program.
pub(crate) fn variables(
    knobs: &Knobs,
    timing: Timing,
    rings: &Path,
    shim: &Path,
    driver: &Driver,
    command: &[OsString],
) -> io::Result<Variables> {
    let libraries = libraries(rings, shim, driver)?;
    let mut variables = vec![
        ("LD_PRELOAD", before("LD_PRELOAD", &preloads(shim, &libraries, driver))),
        ("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", libraries.as_os_str())),
        ("APEX_RINGS", rings.into()),
        ("APEX_TIMING", timing.word().into()),
    ];
    let program = command.first().map_or(OsStr::new(""), OsString::as_os_str);
    variables.extend(frameworks::variables(&libraries, driver, program));
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

/// A directory in which the shim bears the driver's names, and on the software GPU what stands in for NVIDIA's
/// libraries and programs their own.
fn libraries(rings: &Path, shim: &Path, driver: &Driver) -> io::Result<PathBuf> {
    let directory = rings.join("lib");
    std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
    for name in [find::DRIVER, "libcuda.so"] {
        symlink(shim, directory.join(name))?;
    }
    for (name, library) in driver.runtimes().iter().chain(driver.stand_ins()) {
        symlink(library, directory.join(name))?;
    }
    Ok(directory)
}

/// The shim, and on the software GPU our runtime.
fn preloads(shim: &Path, libraries: &Path, driver: &Driver) -> OsString {
    let mut value = preloaded(shim, find::DRIVER, libraries).into_os_string();
    for (name, library) in driver.runtimes() {
        value.push(":");
        value.push(preloaded(library, name, libraries));
    }
    value
}

/// A library where it lies, because a process may outlive the session and its directory; only a path that
/// the loader would take apart is named by its link.
fn preloaded(library: &Path, name: &str, libraries: &Path) -> PathBuf {
    let parted = library.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':'));
    if parted { libraries.join(name) } else { library.to_owned() }
}

fn before(variable: &str, first: &OsStr) -> OsString {
    let mut value = first.to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        value.push(":");
        value.push(rest);
    }
    value
}
