//! What this process counts for `apex tune`: copies that were seen, and what a tuning changed.
//!
//! Numbers go to a small file of this process, written whole each time, because a program may end at any moment.

use crate::settings::knobs;
use crate::state::{
    extras::{self, Extra},
    lock::{Lock, locked},
};
use apex_core::outputs::{EXTENSION, Outputs};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

static OUTPUTS: Lock<Outputs> = Lock::new(Outputs {
    copies: 0,
    bytes: 0,
    sum: 0,
    unseen: 0,
    reshaped: 0,
    hinted: 0,
    compiled: 0,
    refused: 0,
});

/// Changes the numbers and writes them down, if they are wanted.
pub(crate) fn count(change: impl FnOnce(&mut Outputs)) {
    if !extras::has(Extra::Outputs) {
        return;
    }
    let Some(folder) = knobs().outputs.as_deref() else { return };
    let Some(mut outputs) = locked(&OUTPUTS) else { return };
    change(&mut outputs);
    let pid = std::process::id();
    write(&folder.join(format!("{pid}.{EXTENSION}")), &outputs.encode());
}

/// In a forked child: its numbers are its own.
pub(crate) fn forget() {
    if let Some(mut outputs) = locked(&OUTPUTS) {
        *outputs = Outputs::default();
    }
}

/// Writes a small file, whole.
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
    // SAFETY: a C string and plain flags; the bytes are ours; the descriptor is closed once.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
        let file = libc::open(path.as_ptr(), flags, 0o600);
        if file >= 0 {
            libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), 0);
            libc::close(file);
        }
    }
}
