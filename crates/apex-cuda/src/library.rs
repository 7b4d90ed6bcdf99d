//! Opens a driver library by its absolute path.
//!
//! Never by name: where apex runs, the name `libcuda.so.1` is apex itself. A
//! library that was opened is never closed, because the driver has threads and exit
//! handlers of its own and the addresses handed out must stay good.
//!
//! A libcuda exports its functions by name. The software GPU exports one function
//! that finds them all, so that no program meets its names by accident; whoever asks
//! here for a symbol need not know which of the two it is.

use crate::driver::{Driver, Function};
use crate::types::{CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, CUresult};
use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An open driver library.
#[derive(Debug)]
pub struct Library {
    handle: *mut c_void,
    /// Finds functions that are not exported by name, where the library has it.
    finder: Option<Finder>,
}

/// Gives the address of a driver function, or null.
type Finder = unsafe extern "C" fn(name: *const c_char) -> *const c_void;

/// The one function that the software GPU exports.
const SOFTGPU_FINDER: &CStr = c"apex_softgpu_function";

// SAFETY: the handle is only ever given to `dlsym`, which any thread may call.
unsafe impl Send for Library {}
// SAFETY: as above; nothing is changed through it.
unsafe impl Sync for Library {}

/// Why a driver library could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LibraryError {
    /// The path does not begin at the root.
    NotAbsolute(PathBuf),
    /// The path holds a NUL byte.
    NulInPath(PathBuf),
    /// The loader refused the file.
    Refused {
        /// The file.
        path: PathBuf,
        /// What the loader said.
        reason: String,
    },
}

impl fmt::Display for LibraryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LibraryError::NotAbsolute(path) => write!(
                formatter,
                "{} is not an absolute path: a driver found by name could be apex itself; \
                 give the whole path of the real libcuda.so.1",
                path.display()
            ),
            LibraryError::NulInPath(path) => write!(
                formatter,
                "{} holds a NUL byte: give the path of the real libcuda.so.1",
                path.display()
            ),
            LibraryError::Refused { path, reason } => write!(
                formatter,
                "the driver {} could not be loaded ({reason}): check that the file exists \
                 and belongs to an NVIDIA driver for this machine",
                path.display()
            ),
        }
    }
}

impl std::error::Error for LibraryError {}

impl Library {
    /// Opens the library, its names kept to itself.
    ///
    /// # Errors
    ///
    /// When the path is not absolute or the loader refuses the file.
    ///
    /// # Safety
    ///
    /// Loading runs the library's constructors: the caller trusts the file.
    pub unsafe fn open(path: &Path) -> Result<Library, LibraryError> {
        if !path.is_absolute() {
            return Err(LibraryError::NotAbsolute(path.to_owned()));
        }
        let c_path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| LibraryError::NulInPath(path.to_owned()))?;
        // `dlmopen` into the program's own namespace is `dlopen`, except that the shim, which
        // answers `dlopen` of a libcuda with itself, does not stand in front of it.
        // SAFETY: `c_path` ends with a NUL; the caller trusts the file's constructors.
        let handle = unsafe {
            libc::dlmopen(libc::LM_ID_BASE, c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL)
        };
        if handle.is_null() {
            return Err(LibraryError::Refused { path: path.to_owned(), reason: loader_error() });
        }
        // SAFETY: the handle is open for good; a function of that name has this signature.
        let finder = unsafe {
            let address = libc::dlsym(handle, SOFTGPU_FINDER.as_ptr());
            (!address.is_null()).then(|| core::mem::transmute::<*mut c_void, Finder>(address))
        };
        Ok(Library { handle, finder })
    }

    /// Opens the driver that the loader gives a program for its name: under apex, the shim.
    pub fn of_programs() -> Option<Library> {
        // SAFETY: the name ends with a NUL; every CUDA program trusts the library of that name.
        let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        (!handle.is_null()).then_some(Library { handle, finder: None })
    }

    /// The functions of the driver that programs are given. One that it lacks answers that a newer driver is needed.
    pub fn driver_of_programs() -> Option<Driver> {
        extern "C" fn absent() -> CUresult {
            CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER
        }
        let library = Library::of_programs()?;
        let address = |function: Function| {
            library.symbol(function.c_name()).unwrap_or(absent as *const c_void)
        };
        // SAFETY: a function of the driver has the signature of its row; the one that stands for an absent function
        // looks at no argument. The library is never closed.
        Some(unsafe { Driver::from_addresses(address) })
    }

    /// Opens the driver's management library, which is found by its name wherever there is a driver.
    pub fn management() -> Option<Library> {
        // SAFETY: the name ends with a NUL; the library is the driver's own.
        let handle = unsafe { libc::dlopen(c"libnvidia-ml.so.1".as_ptr(), libc::RTLD_NOW) };
        (!handle.is_null()).then_some(Library { handle, finder: None })
    }

    /// Whether it is the software GPU.
    pub fn is_software_gpu(&self) -> bool {
        self.finder.is_some()
    }

    /// The loader's handle, for the loader alone.
    pub fn handle(&self) -> *mut c_void {
        self.handle
    }

    /// A driver of all functions of the table.
    ///
    /// # Errors
    ///
    /// A function that the library lacks.
    ///
    /// # Safety
    ///
    /// Each function that the library has under a name of the table has the signature that the table gives for it.
    pub unsafe fn driver(&self) -> Result<Driver, Function> {
        let mut missing = None;
        let address = |function: Function| {
            self.symbol(function.c_name()).unwrap_or_else(|| {
                missing = Some(function);
                core::ptr::dangling()
            })
        };
        // SAFETY: the caller vouches for the signatures; a driver that lacks a function is not given out, and the
        // library is never closed.
        let driver = unsafe { Driver::from_addresses(address) };
        missing.map_or(Ok(driver), Err)
    }

    /// The address of an exported symbol or of a driver function, if the library has it.
    pub fn symbol(&self, name: &CStr) -> Option<*const c_void> {
        if let Some(finder) = self.finder {
            // SAFETY: `name` ends with a NUL.
            let address = unsafe { finder(name.as_ptr()) };
            if !address.is_null() {
                return Some(address);
            }
        }
        // SAFETY: the handle is open for good and `name` ends with a NUL.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address.cast_const())
    }
}

fn loader_error() -> String {
    // SAFETY: `dlerror` gives null or a string that lives until this thread's next
    // call of the loader; it is copied at once.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "the loader gave no reason".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &str) -> Result<Library, LibraryError> {
        // SAFETY: the files named by these tests do not exist, or are this process's own libc.
        unsafe { Library::open(Path::new(path)) }
    }

    #[test]
    fn a_name_is_refused() {
        let error = open("libcuda.so.1").unwrap_err();
        assert!(error.to_string().contains("absolute"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = open("/nonexistent/libcuda.so.1").unwrap_err();
        assert!(error.to_string().contains("/nonexistent/libcuda.so.1"), "{error}");
    }

    #[test]
    fn symbols_are_found_or_absent() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc_path = maps
            .lines()
            .filter_map(|line| line.split_whitespace().last())
            .find(|path| path.contains("/libc.so") || path.contains("/libc-"))
            .unwrap();
        let library = open(libc_path).unwrap();
        assert!(library.symbol(c"malloc").is_some());
        assert!(library.symbol(c"cuInit").is_none());
        // SAFETY: it has no function of the table.
        assert!(unsafe { library.driver() }.is_err());
    }
}
