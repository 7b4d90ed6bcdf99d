//! What stands in for NVIDIA's libraries and programs on the software GPU.
//!
//! Some of them make machine code or ask for hardware, and the software GPU has neither. `apex run` names a directory
//! in which ours bear their names, and only with the software GPU: elsewhere the variable is not set and nothing here
//! finds anything. The directory is read once. What is kept are the files behind its links, because a process may
//! outlive the session and its directory.

use crate::settings::knobs;
use core::ffi::CStr;
use std::ffi::CString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;

/// A name that is asked for, and the file that answers.
struct StandIn {
    name: Vec<u8>,
    path: CString,
}

static ALL: OnceLock<Vec<StandIn>> = OnceLock::new();

/// Libraries that take a word of the environment before they start: name, variable, word.
///
/// XLA has an assembler of its own inside, which makes machine code; without it XLA calls one of those that stand here.
/// Only a process that opens the library is told, because another may have a parser that refuses the word.
const TOLD: &[(&[u8], &CStr, &CStr)] =
    &[(b"xla_cuda_plugin.so", c"XLA_FLAGS", c"--xla_gpu_enable_libnvptxcompiler=false")];

/// The file that stands in for one of that name.
pub(crate) fn file(name: &[u8]) -> Option<&'static CStr> {
    find(ALL.get_or_init(read), name)
}

/// The same without reading the directory: between `fork` and `exec` nothing may be allocated.
pub(crate) fn known_file(name: &[u8]) -> Option<&'static CStr> {
    find(ALL.get()?, name)
}

/// Whether anything stands in for anything.
pub(crate) fn are_there() -> bool {
    !ALL.get_or_init(read).is_empty()
}

/// Tells a library what it must know before it starts.
pub(crate) fn tell(library: &[u8]) {
    for (_, variable, word) in TOLD.iter().filter(|(name, ..)| *name == library) {
        if are_there() {
            append(variable, word);
        }
    }
}

fn find(all: &'static [StandIn], name: &[u8]) -> Option<&'static CStr> {
    all.iter().find(|one| one.name == name).map(|one| one.path.as_c_str())
}

fn read() -> Vec<StandIn> {
    let directory = knobs().stand_ins.as_deref();
    let entries = directory.and_then(|path| path.read_dir().ok()).into_iter().flatten().flatten();
    let stand_in = |name: Vec<u8>, path: &Path| {
        let path = path.canonicalize().ok()?;
        Some(StandIn { name, path: CString::new(path.as_os_str().as_bytes()).ok()? })
    };
    entries.filter_map(|entry| stand_in(entry.file_name().into_vec(), &entry.path())).collect()
}

/// Adds a word to a variable that does not have it; what the user says of the same option stays.
fn append(variable: &CStr, word: &CStr) {
    let option = word.to_bytes().split(|&byte| byte == b'=').next().unwrap_or_default();
    // SAFETY: a C string in, null or a C string out, copied at once.
    let known = unsafe {
        let value = libc::getenv(variable.as_ptr());
        if value.is_null() { Vec::new() } else { CStr::from_ptr(value).to_bytes().to_vec() }
    };
    if known.windows(option.len()).any(|window| window == option) {
        return;
    }
    let mut value = known;
    if !value.is_empty() {
        value.push(b' ');
    }
    value.extend_from_slice(word.to_bytes());
    if let Ok(value) = CString::new(value) {
        // SAFETY: two C strings, which are copied.
        unsafe { libc::setenv(variable.as_ptr(), value.as_ptr(), 1) };
    }
}
