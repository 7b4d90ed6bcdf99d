//! Our own runtime, from the folder beside this library: a copy in memory for each file that needs it.
//!
//! A runtime that is linked into a file shares neither the last error nor what was registered with that of another
//! file. CuPy depends on it: one of its libraries asks whether an event is done, which leaves the error "not ready",
//! and another asks for the last error after each launch. The loader takes a library once for each inode, so that a
//! copy without a name on disk is another library to it.

use crate::objects::Object;
use core::ffi::{c_int, c_void};
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A library of ours, open for good.
#[derive(Clone, Copy)]
pub(crate) struct Runtime {
    handle: *mut c_void,
}

/// Who was given which library, and where it lies. A file that is loaded again gets the same.
struct Given {
    to: PathBuf,
    handle: usize,
    base: Option<u64>,
}

static GIVEN: Mutex<Vec<Given>> = Mutex::new(Vec::new());

impl Runtime {
    /// The library of this version of CUDA for a file, and for no other where the system allows copies.
    pub(crate) fn of(file: &Path, major: u32) -> Option<Runtime> {
        let mut given = GIVEN.lock().ok()?;
        if let Some(known) = given.iter().find(|known| known.to == file) {
            return Some(Runtime { handle: known.handle as *mut c_void });
        }
        let path = library(major)?;
        let runtime = Runtime::copy(&path).or_else(|| Runtime::load(&path))?;
        let (to, handle, base) = (file.to_owned(), runtime.handle as usize, runtime.base());
        given.push(Given { to, handle, base });
        Some(runtime)
    }

    fn load(path: &Path) -> Option<Runtime> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: our own library, whose constructors are those of Rust's library.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(Runtime { handle })
    }

    fn copy(path: &Path) -> Option<Runtime> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        // SAFETY: a C string and a plain flag.
        let descriptor = unsafe { libc::memfd_create(c"libcudart".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the descriptor was just made and is nobody else's.
        let mut copy = unsafe { File::from_raw_fd(descriptor) };
        std::io::copy(&mut File::open(path).ok()?, &mut copy).ok()?;
        // The number may come again, and the loader knows libraries by their path too: each has one of its own.
        let apart = "./".repeat(COUNT.fetch_add(1, Ordering::Relaxed));
        Runtime::load(Path::new(&format!("/proc/self/fd/{apart}{}", copy.as_raw_fd())))
    }

    /// How far the loader has moved the library.
    fn base(&self) -> Option<u64> {
        let address = self.address("cudaMalloc")?;
        // SAFETY: an all-zero `Dl_info` is a valid place for the answer.
        let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
        // SAFETY: an address and a valid place for the answer.
        let known = unsafe { libc::dladdr(address as *const c_void, &raw mut found) } != 0;
        known.then_some(found.dli_fbase as u64)
    }

    /// The address of a function.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        let name = CString::new(name).ok()?;
        // SAFETY: the library is open, and the name ends with a NUL.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found as u64)
    }
}

fn library(major: u32) -> Option<PathBuf> {
    // Links may lead to this library from a folder of names alone.
    let own = std::fs::canonicalize(own_path()?).ok()?;
    Some(own.with_file_name("cudart").join(format!("libcudart.so.{major}")))
}

/// Whether an object is one of apex's own libraries: their functions have the same names, and long tables of symbols
/// that every process would read.
pub(crate) fn is_of_apex(object: &Object) -> bool {
    let is_copy = |given: &Given| given.base == Some(object.base);
    if GIVEN.lock().is_ok_and(|given| given.iter().any(is_copy)) {
        return true;
    }
    let name = object.path.file_name().unwrap_or_default().as_encoded_bytes();
    let is_named = name.starts_with(b"libapex_") || name.starts_with(b"libcudart.so.");
    let (folder, own) = (object.path.parent(), own_path().and_then(Path::parent));
    let lies_there =
        |own: &Path| folder.is_some_and(|folder| folder == own || folder == own.join("cudart"));
    is_named && own.is_some_and(lies_there)
}

/// The path of this library as the loader knows it.
pub(crate) fn own_path() -> Option<&'static Path> {
    // SAFETY: an all-zero `Dl_info` is a valid place for the answer.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: an address inside this library and a valid place for the answer.
    let known = unsafe { libc::dladdr(own_path as *const c_void, &raw mut found) } != 0;
    if !known || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own string; this library is never unloaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// `cudaErrorNotSupported`
const NOT_SUPPORTED: c_int = 801;

/// What a function of a later CUDA answers; the first call of each is said.
///
/// # Safety
///
/// `name` is a C string that stays.
pub(crate) unsafe extern "C" fn of_a_later_cuda(name: *const core::ffi::c_char) -> c_int {
    static SAID: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    if let Ok(mut said) = SAID.lock()
        && !said.contains(&(name as usize))
    {
        said.push(name as usize);
        // SAFETY: the caller vouches for the name.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        say(&format!("the software GPU's CUDA runtime has no {name}: it is not supported"));
    }
    NOT_SUPPORTED
}

/// One line on standard error.
pub(crate) fn say(sentence: &str) {
    let line: String =
        sentence.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    let line = format!("apex: {line}\n");
    // SAFETY: plain write of our own bytes; a short write is as good as none.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}
