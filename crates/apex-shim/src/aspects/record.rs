//! Notes what a call did, in this thread's ring.
//!
//! Runs after the driver has answered, guarded: if it fails, the program has its answer already. The
//! way through here takes no lock, allocates nothing and makes no system call once a thread and the
//! kernels it launches are known. Everything on it is passed by value and inlined, so that an event is
//! packed straight from the registers it was described in.

use crate::aspects::moments::Note;
use crate::state::{
    captures, contexts,
    process::{self, guard},
    streams::PER_THREAD_STREAM,
    thread::{self, Thread},
};
use apex_core::event::{CallId, Event, Head, Launch, What};
use apex_core::pace::UNREAD;
use apex_core::ring::RingWord;
use apex_core::time;
use apex_cuda::Function;
use apex_cuda::types::{CUDA_SUCCESS, CUresult};

/// A call that has been made.
#[derive(Clone, Copy)]
struct Made {
    function: Function,
    started: u64,
    ended: u64,
    result: CUresult,
    /// Facts written when it ended.
    facts_written: u32,
}

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
    beside(captures::any(), function, started, ended, result, describe);
}

/// As [`at`], where the hook knows already whether anything may be captured.
#[inline(always)]
pub(crate) fn beside(
    captures: bool,
    function: Function,
    started: u64,
    ended: u64,
    result: CUresult,
    describe: impl FnOnce() -> Note,
) {
    let made = Made { function, started, ended, result, facts_written: process::facts_written() };
    guard(|| {
        let note = describe();
        if captures {
            // A copy for the cold way: its address must not keep the note in memory on the usual one.
            push_in_capture(made, core::hint::black_box(note));
        } else {
            push(made, note);
        }
    });
}

#[inline(always)]
fn push(made: Made, note: Note) {
    let Some(thread) = thread::current() else { return thread::count_loss() };
    contexts::follow(thread);
    let head = Head {
        call: CallId(made.function as u16),
        result: made.result as u16,
        start: made.started,
        ticks: made.ended.wrapping_sub(made.started),
        device: thread.device,
        context: thread.context_id,
        stream: note.stream,
    };
    thread.writer.push(&Event { head, what: note.what });
    if !matches!(note.what, What::Launch(_)) {
        thread.interrupt();
    }
    own_cost(thread, made);
}

/// Records a launch that read no clock and did nothing else beside ([`Thread::record_only`]). Nothing in here can
/// panic, so there is no guard.
#[inline(always)]
pub(crate) fn only(thread: &mut Thread, function: Function, launch: Launch, stream: u64) {
    let head = Head {
        call: CallId(function as u16),
        result: CUDA_SUCCESS as u16,
        start: UNREAD,
        ticks: 0,
        device: thread.device,
        context: thread.context_id,
        stream,
    };
    thread.writer.push(&Event { head, what: What::Launch(launch) });
}

/// What recording itself took: now and then for the usual way, always for what is done once.
#[inline(always)]
fn own_cost(thread: &Thread, made: Made) {
    let once = process::facts_written() != made.facts_written;
    // Where the end was not read, another call is measured.
    if made.ended != made.started
        && (once || thread.writer.position().is_multiple_of(OWN_COST_EVERY))
    {
        count_own_cost(thread, made.ended, once);
    }
}

#[cold]
fn count_own_cost(thread: &Thread, ended: u64, once: bool) {
    let ticks = time::ticks().wrapping_sub(ended);
    if once {
        thread.writer.add(RingWord::LookupTicks, ticks);
    } else {
        thread.writer.count_cost(ticks);
    }
}

/// While something is being captured, a call on a captured stream made a graph node and ran nothing.
#[cold]
fn push_in_capture(made: Made, mut note: Note) {
    let captured = match &mut note.what {
        What::Launch(launch) => Some(&mut launch.captured),
        What::Copy(copy) => Some(&mut copy.captured),
        What::Set(set) => Some(&mut set.captured),
        What::GraphLaunch { captured, .. } => Some(captured),
        _ => None,
    };
    if let Some(captured) = captured {
        *captured = captures::on(note.stream);
    }
    push(made, note);
}
