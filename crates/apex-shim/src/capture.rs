//! Knows whether a stream is being captured.
//!
//! While nothing in the process is being captured that costs one load. The count may stay too high
//! (a capture that ended with its stream), which costs a question to the driver per call and keeps
//! sampling off; it is never too low, because a call that began a capture is counted before the
//! program can use it.

use crate::exports::driver;
use apex_cuda::types::CUstream;
use std::sync::atomic::{AtomicU32, Ordering};

static ACTIVE: AtomicU32 = AtomicU32::new(0);

/// A capture began somewhere.
pub(crate) fn began() {
    ACTIVE.fetch_add(1, Ordering::Relaxed);
}

/// A capture ended.
pub(crate) fn ended() {
    ACTIVE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |active| active.checked_sub(1)).ok();
}

/// Whether any capture may be under way.
#[inline(always)]
pub(crate) fn any() -> bool {
    ACTIVE.load(Ordering::Relaxed) != 0
}

/// Whether this stream is being captured.
pub(crate) fn on(stream: u64) -> bool {
    let mut status = 0;
    // SAFETY: the program's own stream, which the call just made was given, and a valid place.
    let result = unsafe { (driver().cuStreamIsCapturing)(stream as CUstream, &raw mut status) };
    result == 0 && status != 0
}
