//! The settings of this process, and the one line that it may say on standard error.
//!
//! Below every storey: nothing here knows of the driver.

use apex_core::knobs::Knobs;
use apex_core::printable::printable;
use core::ffi::CStr;
use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static LOGGED: AtomicBool = AtomicBool::new(false);
/// The program has asked that its launches are not timed.
static UNTIMED: AtomicBool = AtomicBool::new(false);

/// The settings, read once. A child of `fork` has its parent's.
pub(crate) fn knobs() -> &'static Knobs {
    static KNOBS: OnceLock<Knobs> = OnceLock::new();
    KNOBS.get_or_init(|| {
        // `getenv` and not the standard library's reader: that one takes a lock which another
        // thread may have held when this process was forked.
        let lookup = |name: &str| {
            let name = CString::new(name).ok()?;
            // SAFETY: a C string in, null or a C string out, copied at once.
            let value = unsafe { libc::getenv(name.as_ptr()) };
            // SAFETY: as above.
            (!value.is_null())
                .then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
        };
        Knobs::of_program(lookup, |sentence| log_line(&sentence))
    })
}

/// Says something on standard error, once per process for all failures together.
pub(crate) fn log_line(sentence: &str) {
    if LOGGED.swap(true, Ordering::Relaxed) {
        return;
    }
    let line = format!("apex: {}\n", printable(sentence));
    // SAFETY: plain write of our own bytes; a short write is as good as none.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// Whether launches may be timed.
pub(crate) fn are_launches_timed() -> bool {
    !UNTIMED.load(Ordering::Relaxed)
}

/// The program says whether its launches may be timed.
pub(crate) fn time_launches(on: bool) {
    UNTIMED.store(!on, Ordering::Relaxed);
}

/// In a forked child: it may say a line of its own.
pub(crate) fn forget() {
    LOGGED.store(false, Ordering::Relaxed);
}
