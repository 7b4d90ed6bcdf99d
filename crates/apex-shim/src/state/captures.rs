//! Knows whether a stream is being captured.
//!
//! While nothing in the process is being captured that costs one load; the count is part of the word that
//! every launch reads ([`crate::state::extras`]). The count may stay too high
//! (a capture that ended with its stream), which costs a question to the driver per call and keeps
//! sampling off; it is never too low, because a call that began a capture is counted before the
//! program can use it.

use crate::driver::driver;
pub(crate) use crate::state::extras::{
    capture_began as began, capture_ended as ended, captures as any,
};
use apex_cuda::types::CUstream;

/// Whether this stream is being captured.
pub(crate) fn on(stream: u64) -> bool {
    let mut status = 0;
    // SAFETY: the program's own stream, which the call just made was given, and a valid place.
    let result = unsafe { (driver().cuStreamIsCapturing)(stream as CUstream, &raw mut status) };
    result == 0 && status != 0
}
