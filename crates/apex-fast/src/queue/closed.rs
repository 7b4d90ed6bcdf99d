//! Why nothing waits in the queue now.

use crate::captures;
use crate::counts::Reason;
use apex_cuda::types::CUresult;
use std::sync::atomic::{AtomicU32, Ordering};

/// Reasons, as bits.
static CLOSED: AtomicU32 = AtomicU32::new(0);
const ASIDE: u32 = 1;
const FAILED: u32 = 2;

/// Whether every call goes down at once.
#[inline(always)]
pub(super) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) != 0 || captures::any()
}

/// Why.
pub(super) fn reason() -> Reason {
    match CLOSED.load(Ordering::Relaxed) {
        closed if closed & ASIDE != 0 => Reason::Aside,
        closed if closed & FAILED != 0 => Reason::Failed,
        _ => Reason::Capture,
    }
}

/// For good, and without waiting for what stands in the ring: somebody sends it.
pub(super) fn step_aside() {
    CLOSED.fetch_or(ASIDE, Ordering::SeqCst);
}

/// The driver refused a call with this. After some errors a context answers every call with them, launches too: then
/// nothing waits until something ends.
pub(super) fn refused(result: CUresult) {
    if matches!(result, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 999) {
        after_failure();
    }
}

/// A call that waited failed: those that follow are answered by the driver itself.
pub(super) fn after_failure() {
    CLOSED.fetch_or(FAILED, Ordering::SeqCst);
}

/// What failed has ended.
pub(super) fn open_again() {
    CLOSED.fetch_and(!FAILED, Ordering::SeqCst);
}
