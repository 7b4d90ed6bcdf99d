//! Notes what a call did, in this thread's ring.
//!
//! Runs after the driver has answered, guarded: if it fails, the program has its answer already. The
//! way through here takes no lock, allocates nothing and makes no system call once a thread and the
//! kernels it launches are known.

use crate::exports::driver;
use crate::process::{self, guard};
use crate::thread::Thread;
use crate::{capture, contexts, thread};
use apex_core::event::{CallId, Event, Head, What};
use apex_core::ring::RingWord;
use apex_core::time;
use apex_cuda::Function;
use apex_cuda::types::CUresult;

/// What a call did, as its hook describes it.
pub(crate) struct Note {
    /// What happened.
    pub(crate) what: What,
    /// The stream it was given; 0 where it takes none.
    pub(crate) stream: u64,
}

impl Note {
    /// A call on a stream.
    #[inline(always)]
    pub(crate) fn on(stream: apex_cuda::types::CUstream, what: What) -> Note {
        Note { what, stream: stream as u64 }
    }

    /// A call that takes no stream.
    #[inline(always)]
    pub(crate) fn plain(what: What) -> Note {
        Note { what, stream: 0 }
    }
}

/// Handle of the per-thread default stream.
pub(crate) const PER_THREAD_STREAM: u64 = 2;

/// One recording in so many is timed, to know what recording costs.
const OWN_COST_EVERY: u64 = 64;

/// Records a call that began at `started` and has just returned.
#[inline(always)]
pub(crate) fn call(
    function: Function,
    per_thread_twin: bool,
    started: u64,
    result: CUresult,
    describe: impl FnOnce() -> Note,
) {
    let ended = time::ticks();
    at(function, started, ended, result, || {
        let note = describe();
        let stream =
            if per_thread_twin && note.stream == 0 { PER_THREAD_STREAM } else { note.stream };
        Note { stream, ..note }
    });
}

/// Records a call whose end was read by its hook.
#[inline(always)]
pub(crate) fn at(
    function: Function,
    started: u64,
    ended: u64,
    result: CUresult,
    describe: impl FnOnce() -> Note,
) {
    let told = process::told();
    guard(|| {
        let Note { mut what, stream } = describe();
        if capture::any() {
            mark_captured(&mut what, stream);
        }
        if let Some(thread) = thread::current() {
            push(thread, function, stream, started, ended, result, what);
            own_cost(thread, ended, told);
        }
    });
}

/// Writes the event; the thread's block is known.
#[inline(always)]
fn push(
    thread: &mut Thread,
    function: Function,
    stream: u64,
    started: u64,
    ended: u64,
    result: CUresult,
    what: What,
) {
    let mut context = core::ptr::null_mut();
    // SAFETY: a valid place for the answer.
    unsafe { (driver().cuCtxGetCurrent)(&raw mut context) };
    if context != thread.context {
        contexts::switch(thread, context);
    }
    let head = Head {
        call: CallId(function as u16),
        result: u16::try_from(result).unwrap_or(u16::MAX),
        start: started,
        ticks: ended.wrapping_sub(started),
        device: thread.device,
        context: thread.context_id,
        stream,
    };
    thread.writer.push(&Event { head, what });
}

/// What recording itself took: now and then for the usual way, always for what is done once.
#[inline(always)]
fn own_cost(thread: &Thread, ended: u64, told: u32) {
    if process::told() != told {
        thread.writer.add(RingWord::LookupTicks, time::ticks().wrapping_sub(ended));
    } else if thread.writer.position().is_multiple_of(OWN_COST_EVERY) {
        thread.writer.add(RingWord::OwnTicks, time::ticks().wrapping_sub(ended));
        thread.writer.add(RingWord::OwnCalls, 1);
    }
}

#[cold]
fn mark_captured(what: &mut What, stream: u64) {
    let captured = match what {
        What::Launch(launch) => &mut launch.captured,
        What::Copy(copy) => &mut copy.captured,
        What::Set(set) => &mut set.captured,
        What::GraphLaunch { captured, .. } => captured,
        _ => return,
    };
    *captured = capture::on(stream);
}
