//! Says which call a thread is in while it is there, so that a hang has a name.
//!
//! Two words in the header of the thread's ring: the collector reads them when the program has ended, however
//! it ended. Every call that is noted says it, because any may wait: for the GPU, for a compilation, for a lock
//! of the driver that a waiting thread holds. Launches do not: nothing is added to their way.

use crate::state::{
    process,
    thread::{self, Thread},
};
use apex_core::CallId;
use apex_cuda::Function;

/// Makes a call that began at `started`.
#[inline(always)]
pub(crate) fn call<T>(function: Function, started: u64, forward: impl FnOnce() -> T) -> T {
    let outer = block().map(|thread| thread.writer.enter(CallId(function as u16), started));
    let answer = forward();
    // Looked up again: the call may have come back into this library on the same thread.
    if let (Some(outer), Some(thread)) = (outer, thread::current_if_started()) {
        thread.writer.leave(outer);
    }
    answer
}

/// This thread's block. A thread may hang in its first call: its block is made before, unless the process itself
/// is yet to be made, which asks the driver.
#[inline(always)]
fn block() -> Option<&'static mut Thread> {
    match thread::current_if_started() {
        None if process::is_made() => thread::current(),
        block => block,
    }
}
