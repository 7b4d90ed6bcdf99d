//! Finds a driver and opens it: the real one by its name, the software GPU by its path.
//!
//! The real driver is asked for by name, so that a program under `apex run` gets apex's own library there and
//! is seen. The software GPU has a name of its own, so both can be open in one process, and a library that
//! looks for `libcuda.so.1` later (cuBLASLt does) finds the real one. An opened driver stays open: it has
//! threads and exit handlers of its own.

use crate::error::{Error, Result};
use crate::settings::knobs;
use apex_cuda::types::{CUDA_ERROR_NOT_FOUND, CUresult};
use apex_cuda::{Driver, Function, Library};
use core::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// File name of the software GPU. Under the driver's own name it is taken only where the setting says so: another
/// file of that name may be the real driver.
const SOFTWARE: &str = "libapex_softgpu.so";

/// The driver that the loader gives for its name.
pub(crate) fn real() -> Result<&'static Driver> {
    static REAL: OnceLock<core::result::Result<Driver, String>> = OnceLock::new();
    REAL.get_or_init(|| {
        // SAFETY: the name ends with a NUL; whoever installed a libcuda.so.1 here trusts it.
        let handle = unsafe {
            libc::dlopen(c"libcuda.so.1".as_ptr(), c_int::from(libc::RTLD_NOW | libc::RTLD_GLOBAL))
        };
        if handle.is_null() {
            return Err(
                "no NVIDIA driver is installed (libcuda.so.1 is not in the loader's path)".into()
            );
        }
        // SAFETY: the handle is never closed and the name ends with a NUL.
        let driver = unsafe {
            Driver::from_addresses(|function| {
                let address = libc::dlsym(handle, function.c_name().as_ptr()).cast_const();
                if address.is_null() { absent as *const c_void } else { address }
            })
        };
        Ok(driver)
    })
    .as_ref()
    .map_err(|reason| Error::NoDevice { asked: "a GPU".into(), reason: reason.clone() })
}

/// The software GPU.
pub(crate) fn software() -> Result<&'static Driver> {
    static SOFT: OnceLock<core::result::Result<Driver, String>> = OnceLock::new();
    SOFT.get_or_init(|| {
        let library = knobs().softgpu_library.as_deref();
        let executable = std::env::current_exe().unwrap_or_default();
        let places = places(library, &executable);
        let Some(path) = places.iter().find_map(|path| path.canonicalize().ok()) else {
            let folders: Vec<String> =
                places.iter().map(|path| path.display().to_string()).collect();
            return Err(format!(
                "its library is not there: name it in APEX_SOFTGPU_LIBRARY (looked for {})",
                folders.join(", ")
            ));
        };
        // SAFETY: the setting, or its place beside this program, says that this is the software GPU.
        let library = unsafe { Library::open(&path) }.map_err(|error| error.to_string())?;
        if !library.is_software_gpu() {
            return Err(format!("{} is no software GPU", path.display()));
        }
        // The driver is made of addresses in it, so it stays open.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the addresses come from a library with the driver's functions, or look at no argument.
        Ok(unsafe {
            Driver::from_addresses(|function: Function| {
                library.symbol(function.c_name()).unwrap_or(absent as *const c_void)
            })
        })
    })
    .as_ref()
    .map_err(|reason| Error::NoDevice { asked: "the software GPU".into(), reason: reason.clone() })
}

/// Answers for a function that a driver does not have.
extern "C" fn absent() -> CUresult {
    CUDA_ERROR_NOT_FOUND
}

/// Where the software GPU may lie: where the setting says; beside the executable; where it is installed; one
/// and two folders up, where Cargo puts it for tests and examples.
fn places(setting: Option<&Path>, executable: &Path) -> Vec<PathBuf> {
    if let Some(path) = setting {
        return vec![path.to_owned()];
    }
    let Some(folder) = executable.parent() else { return Vec::new() };
    ["", "../lib/apex", "..", "../.."].map(|below| folder.join(below).join(SOFTWARE)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_alone_is_asked_where_there_is_one() {
        let found = places(Some(Path::new("/x/soft.so")), Path::new("/usr/bin/program"));
        assert_eq!(found, [PathBuf::from("/x/soft.so")]);
    }

    #[test]
    fn beside_the_executable_comes_first() {
        let found = places(None, Path::new("/opt/bin/program"));
        assert_eq!(found[0], PathBuf::from("/opt/bin/libapex_softgpu.so"));
        assert!(found.contains(&PathBuf::from("/opt/bin/../lib/apex/libapex_softgpu.so")));
    }
}
