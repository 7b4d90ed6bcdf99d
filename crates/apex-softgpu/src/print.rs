//! What kernels print, kept until the program waits for them.
//!
//! The order is that in which kernels printed. It is written to the program's stdout
//! as the driver does it: when a wait ends, a context is destroyed, or the program
//! ends. The program's own buffer is written first, so that lines stand in the order
//! in which they came about.

use std::sync::Mutex;

use crate::object::lock;

static KEPT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
/// More than this is written at once, so that memory stays bounded.
const KEPT_BYTES: usize = 8 << 20;

unsafe extern "C" {
    static stdout: *mut libc::FILE;
}

/// Keeps output of a kernel.
pub(crate) fn keep(text: &[u8]) {
    let mut kept = lock(&KEPT);
    kept.extend_from_slice(text);
    if kept.len() >= KEPT_BYTES {
        write(&mut kept);
    }
}

/// Writes what kernels printed.
pub(crate) fn flush() {
    let mut kept = lock(&KEPT);
    if !kept.is_empty() {
        write(&mut kept);
    }
}

fn write(kept: &mut Vec<u8>) {
    // SAFETY: C's own stream, which is there for as long as the program; the bytes are
    // as many as said.
    unsafe {
        libc::fwrite(kept.as_ptr().cast(), 1, kept.len(), stdout);
        libc::fflush(stdout);
    }
    kept.clear();
}
