//! What is given to a stream.
//!
//! [`submit`] is the one way to a stream: work for a stream that is being captured
//! becomes a node of the graph; all other work goes into the stream's queue. An event
//! recorded in a captured stream marks where that stream stands in the graph.

use core::sync::atomic::Ordering;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::graph::capturing::{append, join};
use crate::object::{live, lock};
use crate::run::capture_rules::{for_work, invalidate};
use crate::run::context::{Context, current};
use crate::run::domain::Job;
use crate::run::event::{Awaited, Event, waited_for};
use crate::run::scheduler::enqueue;
use crate::run::stream::{Stream, queue_of};
use crate::run::work::{Work, give, is_capturing};

/// Asks for a node in the graph where a record or wait is captured.
pub(crate) const EXTERNAL: u32 = 1;

/// Gives work to a stream.
///
/// # Safety
///
/// The handle is the program's, and what the work names is there.
pub(crate) unsafe fn submit(stream: CUstream, work: Work) -> Answer {
    let context = current()?;
    // SAFETY: the caller vouches for the handle and the work.
    unsafe {
        let stream = for_work(context, stream)?;
        if is_capturing(stream) {
            return append(stream, work);
        }
        work.check()?;
        let (domain, queue) = queue_of(context, stream);
        give(domain, queue, work).map(|_| ())
    }
}

/// Records an event in a stream.
///
/// # Safety
///
/// The handle is the program's.
#[inline]
pub(crate) unsafe fn record_event(
    context: &Context,
    event: CUevent,
    stream: Option<&Stream>,
    flags: u32,
) -> Answer {
    // SAFETY: the caller vouches for the handle.
    let recorded: &Event = unsafe { live(event) }?;
    match stream {
        Some(stream) if stream.capture_status() != 0 => {
            if flags & EXTERNAL != 0 {
                return append(Some(stream), Work::Record(event));
            }
            *lock(&recorded.branch) = crate::run::capture_rules::branch_of(stream);
            recorded.is_captured.store(true, Ordering::Relaxed);
            Ok(())
        }
        _ => {
            let (domain, queue) = queue_of(context, stream);
            // SAFETY: the caller vouches for the handle.
            unsafe { give(domain, queue, Work::Record(event)) }.map(|_| ())
        }
    }
}

/// Lets a stream wait for an event.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn wait_for_event(
    context: &Context,
    stream: Option<&Stream>,
    handle: CUevent,
    flags: u32,
) -> Answer {
    // SAFETY: the caller vouches for the handle.
    let event: &Event = unsafe { live(handle) }?;
    if event.is_captured.load(Ordering::Relaxed) {
        let branch = lock(&event.branch).clone().ok_or(CUDA_ERROR_INVALID_VALUE)?;
        return join(stream, branch);
    }
    match stream {
        Some(stream) if stream.capture_status() != 0 => {
            if flags & EXTERNAL != 0 {
                append(Some(stream), Work::Wait(handle))
            } else if event.recorded().mark.is_some() {
                invalidate(stream);
                Err(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
            } else {
                Ok(())
            }
        }
        _ => {
            let (domain, queue) = queue_of(context, stream);
            // SAFETY: the caller vouches for the handle.
            let (after, job) = match unsafe { waited_for(handle) }? {
                Awaited::Nothing => return Ok(()),
                Awaited::Task(task) => (Some(task), Job::Nothing),
                Awaited::Elsewhere(is_over) => (None, Job::Until(is_over)),
            };
            enqueue(domain, queue, after.as_slice(), job);
            Ok(())
        }
    }
}
