//! Streams that have no object of their own.

use apex_cuda::types::CUstream;

/// Handle of the per-thread default stream.
pub(crate) const PER_THREAD_STREAM: u64 = 2;

/// The stream that a twin function means: its null stream is the calling thread's own.
#[inline(always)]
pub(crate) fn per_thread(stream: CUstream) -> u64 {
    if stream.is_null() { PER_THREAD_STREAM } else { stream as u64 }
}
