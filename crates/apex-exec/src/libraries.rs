//! Finds and opens the libraries beside the driver: NVRTC and cuBLASLt.
//!
//! cudarc opens a library by its name and panics where the loader finds none. So it is never asked first: the
//! loader is asked here for the same names, then the usual folders are searched; what is found there is opened
//! by its path, and from then on answers to its name. A library that was opened is never closed.

use crate::error::{Error, Result};
use core::ffi::c_void;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A library of NVIDIA's that this crate can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Companion {
    /// The compiler.
    Nvrtc,
    /// Matrix products.
    CublasLt,
}

impl Companion {
    fn stem(self) -> &'static str {
        match self {
            Companion::Nvrtc => "nvrtc",
            Companion::CublasLt => "cublasLt",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Companion::Nvrtc => "libnvrtc.so",
            Companion::CublasLt => "libcublasLt.so",
        }
    }

    fn purpose(self) -> &'static str {
        match self {
            Companion::Nvrtc => "compiling CUDA source",
            Companion::CublasLt => "this matrix product",
        }
    }

    /// A function that every version of it has.
    fn landmark(self) -> &'static CStr {
        match self {
            Companion::Nvrtc => c"nvrtcVersion",
            Companion::CublasLt => c"cublasLtGetVersion",
        }
    }

    /// Opens the library, once for the process; gives the folder that it lies in.
    pub(crate) fn open(self) -> Result<&'static Path> {
        static OPENED: [OnceLock<Result<PathBuf>>; 2] = [OnceLock::new(), OnceLock::new()];
        let opened = OPENED[self as usize]
            .get_or_init(|| self.open_now(&places(&|name| std::env::var(name).ok())));
        opened.as_deref().map_err(Clone::clone)
    }

    fn open_now(self, places: &[PathBuf]) -> Result<PathBuf> {
        for name in cudarc::get_lib_name_candidates(self.stem()) {
            if let Some(handle) = open(Path::new(&name)) {
                return Ok(folder_of(handle, self.landmark()));
            }
        }
        for path in places.iter().filter_map(|place| newest(place, self.file())) {
            if self == Companion::Nvrtc {
                // The compiler asks for its second half by name.
                let builtins =
                    path.parent().and_then(|folder| newest(folder, "libnvrtc-builtins.so"));
                builtins.and_then(|path| open(&path));
            }
            // It must answer to a name that cudarc asks for, not only to its path.
            if let Some(handle) = open(&path)
                && cudarc::get_lib_name_candidates(self.stem())
                    .iter()
                    .any(|name| open(Path::new(name)).is_some())
            {
                return Ok(folder_of(handle, self.landmark()));
            }
        }
        Err(Error::LibraryMissing {
            library: self.file(),
            purpose: self.purpose(),
            searched: places.to_vec(),
        })
    }
}

/// The headers that belong to a library in this folder: beside it in a toolkit and in a Python package.
pub(crate) fn headers(folder: &Path) -> Option<PathBuf> {
    let around =
        [folder.join("../include"), folder.join("../../include"), folder.join("../../../include")];
    let packages = folder.join("../../cuda_runtime/include");
    around
        .into_iter()
        .chain([packages])
        .find(|include| include.join("cuda_fp16.h").exists())
        .and_then(|include| include.canonicalize().ok())
}

/// Where the libraries may lie, in the order of preference.
fn places(lookup: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let homes =
        ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|name| lookup(name)).map(PathBuf::from);
    for home in homes.chain(children(Path::new("/usr/local"), "cuda")) {
        places.extend(["lib64", "lib", "targets/x86_64-linux/lib"].map(|below| home.join(below)));
    }
    let python = lookup("PYTHONPATH").unwrap_or_default();
    let mut packages: Vec<PathBuf> = std::env::split_paths(&python).collect();
    packages.extend(lookup("VIRTUAL_ENV").iter().flat_map(|home| site_packages(Path::new(home))));
    for folder in std::env::split_paths(&lookup("PATH").unwrap_or_default()) {
        if folder.join("python3").exists() {
            packages.extend(folder.parent().map(site_packages).unwrap_or_default());
        }
    }
    for package in packages.iter().flat_map(|folder| children(&folder.join("nvidia"), "")) {
        places.push(package.join("lib"));
    }
    places.retain(|place| place.is_absolute() && place.is_dir());
    let mut seen = Vec::new();
    places.retain(|place| {
        let place = place.canonicalize().unwrap_or_else(|_| place.clone());
        !seen.contains(&place) && {
            seen.push(place);
            true
        }
    });
    places
}

fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let libs = [prefix.join("lib"), prefix.join("local/lib"), prefix.join("lib64")];
    let pythons = libs.iter().flat_map(|lib| children(lib, "python3"));
    pythons
        .flat_map(|python| ["site-packages", "dist-packages"].map(|below| python.join(below)))
        .collect()
}

/// The entry of a folder that begins so and has the highest version.
fn newest(folder: &Path, file: &str) -> Option<PathBuf> {
    let version = |path: &PathBuf| -> Vec<u32> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name[file.len()..].split('.').filter_map(|part| part.parse().ok()).collect()
    };
    children(folder, file).into_iter().max_by_key(version)
}

fn children(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).into_iter().flatten().filter_map(core::result::Result::ok);
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

/// A handle that is never closed.
fn open(name: &Path) -> Option<*mut c_void> {
    let name = CString::new(name.as_os_str().as_bytes()).ok()?;
    // SAFETY: the name ends with a NUL; who installed the library trusts its constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_GLOBAL) };
    (!handle.is_null()).then_some(handle)
}

/// The folder of the library that a symbol lies in; empty where the loader does not say.
fn folder_of(handle: *mut c_void, symbol: &CStr) -> PathBuf {
    // SAFETY: the handle is open and the name ends with a NUL; the loader fills `facts`, whose name it keeps.
    let name = unsafe {
        let address = libc::dlsym(handle, symbol.as_ptr());
        let mut facts: libc::Dl_info = core::mem::zeroed();
        if address.is_null() || libc::dladdr(address, &raw mut facts) == 0 {
            return PathBuf::new();
        }
        CStr::from_ptr(facts.dli_fname).to_bytes().to_vec()
    };
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(&name));
    let path = path.canonicalize().unwrap_or(path);
    path.parent().map(Path::to_owned).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_that_says_where_it_was_looked_for() {
        let places = [PathBuf::from("/nonexistent/lib")];
        match Companion::CublasLt.open_now(&places) {
            Ok(_) => {} // this machine has it
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.contains("libcublasLt.so") && text.contains("/nonexistent/lib"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn only_folders_that_exist_are_searched() {
        let found = places(&|name| (name == "CUDA_HOME").then(|| "/nonexistent".into()));
        assert!(!found.iter().any(|place| place.starts_with("/nonexistent")));
    }
}
