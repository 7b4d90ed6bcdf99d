//! Finds and opens the libraries of apex that lie beside the command.

#![allow(unsafe_code, reason = "opens driver libraries and gives them out by their C functions")]

use anyhow::{Context, Result, bail};
use apex_cuda::types::{CUDA_ERROR_NOT_FOUND, CUDA_SUCCESS, CUresult, result_name};
use apex_cuda::{Driver, Library};
use apex_daemon::find::{REMEDY, library as library_of};
use std::ffi::c_void;
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

/// The functions of the driver in this file, or of the one that programs get; those that it lacks answer so.
pub(crate) fn driver_of(path: Option<&Path>) -> Result<Driver> {
    let library = match path {
        // SAFETY: whoever names a file to a child names a driver.
        Some(path) => unsafe { Library::open(path) }?,
        None => Library::of_programs().context("libcuda.so.1 is not in the loader's path")?,
    };
    // SAFETY: a driver has its functions with the signatures of the table.
    Ok(unsafe {
        Driver::from_addresses(|function| {
            library.symbol(function.c_name()).unwrap_or(absent as *const c_void)
        })
    })
}

/// Answers for a function that a driver does not have.
extern "C" fn absent() -> CUresult {
    CUDA_ERROR_NOT_FOUND
}

/// The calling thread gets the first device's own context.
pub(crate) fn begin(driver: &Driver) -> Result<()> {
    let (mut device, mut context) = (0, core::ptr::null_mut());
    // SAFETY: valid places for the answers.
    unsafe {
        check("cuInit", (driver.cuInit)(0))?;
        check("cuDeviceGet", (driver.cuDeviceGet)(&raw mut device, 0))?;
        let retained = (driver.cuDevicePrimaryCtxRetain)(&raw mut context, device);
        check("cuDevicePrimaryCtxRetain", retained)?;
        check("cuCtxSetCurrent", (driver.cuCtxSetCurrent)(context))
    }
}

/// The first device's name and the driver's version.
pub(crate) fn describe(driver: &Driver) -> (String, u64) {
    let mut name = [0_u8; 256];
    let mut version = 0;
    // SAFETY: valid places for the answers, with the length of the first.
    unsafe {
        (driver.cuDeviceGetName)(name.as_mut_ptr().cast(), name.len() as i32, 0);
        (driver.cuDriverGetVersion)(&raw mut version);
    }
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    (String::from_utf8_lossy(&name[..end]).into_owned(), u64::try_from(version).unwrap_or(0))
}

/// An answer of the driver that is none of success, in words.
pub(crate) fn check(call: &str, answer: CUresult) -> Result<()> {
    if answer == CUDA_SUCCESS {
        return Ok(());
    }
    let name = result_name(answer).map(|name| name.to_string_lossy().into_owned());
    bail!("{call} answered {}", name.unwrap_or_else(|| answer.to_string()))
}
