//! Streams recorded into graphs.
//!
//! A capture is a [`Session`] with one graph; each stream in it stands at a
//! [`Branch`]: the nodes that its next piece of work will depend on. An event
//! recorded in the capture carries a copy of such a place, and a stream that waits
//! for it takes part from then on. Lock order: a stream's branch, then the session's
//! streams, then a graph's nodes.
//!
//! An error, or a call that a capture does not allow, spoils the capture: its streams
//! refuse work until it is ended, and ending it gives the error.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::context::Context;
use crate::graph::add;
use crate::object::{live, lock};
use crate::stream::Stream;
use crate::work::Work;

/// One capture.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) graph: CUgraph,
    /// Whether the capture made the graph, or adds to one of the program's.
    pub(crate) made_graph: bool,
    pub(crate) origin: CUstream,
    pub(crate) context: CUcontext,
    pub(crate) mode: CUstreamCaptureMode,
    pub(crate) thread: ThreadId,
    /// Whether a stream takes part that the legacy stream would wait for.
    pub(crate) is_blocking: AtomicBool,
    pub(crate) spoilt: AtomicBool,
    pub(crate) over: AtomicBool,
    /// The streams that take part.
    pub(crate) streams: Mutex<Vec<CUstream>>,
    /// Where streams stood that took part and were destroyed: they too must lead to the origin.
    pub(crate) left: Mutex<Vec<CUgraphNode>>,
}

// SAFETY: the handles inside are addresses that any thread may use.
unsafe impl Send for Session {}
// SAFETY: as above; what changes is behind a lock.
unsafe impl Sync for Session {}

/// Where a stream stands in a capture.
#[derive(Clone)]
pub(crate) struct Branch {
    pub(crate) session: Arc<Session>,
    pub(crate) dependencies: Vec<CUgraphNode>,
}

pub(crate) const ACTIVE: CUstreamCaptureStatus = 1;
pub(crate) const INVALIDATED: CUstreamCaptureStatus = 2;
pub(crate) const GLOBAL: CUstreamCaptureMode = 0;
pub(crate) const RELAXED: CUstreamCaptureMode = 2;
pub(crate) const MODES: u32 = 3;

thread_local! {
    /// How the calling thread minds captures.
    pub(crate) static MODE: Cell<CUstreamCaptureMode> = const { Cell::new(0) };
}

/// Makes work the next node of a captured stream.
pub(crate) fn append(stream: Option<&Stream>, work: Work) -> Answer {
    let stream = stream.ok_or(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)?;
    if stream.capture_status() == INVALIDATED {
        return Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    let mut branch = lock(&stream.branch);
    let branch = branch.as_mut().ok_or(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)?;
    // SAFETY: the session keeps its graph alive while streams take part.
    let node = unsafe { add(branch.session.graph, &branch.dependencies, work) }?;
    branch.dependencies = vec![node];
    Ok(())
}

/// The place at which a captured stream stands.
pub(crate) fn place(stream: &Stream) -> Option<Branch> {
    lock(&stream.branch).clone()
}

/// Lets a stream take part in a capture from a place on.
pub(crate) fn join(stream: Option<&Stream>, place: Branch) -> Answer {
    if place.session.is_of_no_use() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let stream = stream.ok_or(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)?;
    let mut branch = lock(&stream.branch);
    match branch.as_mut() {
        Some(own) if !Arc::ptr_eq(&own.session, &place.session) => {
            own.session.invalidate();
            place.session.invalidate();
            return Err(CUDA_ERROR_STREAM_CAPTURE_MERGE);
        }
        Some(own) => {
            for node in place.dependencies {
                if !own.dependencies.contains(&node) {
                    own.dependencies.push(node);
                }
            }
        }
        None => {
            lock(&place.session.streams).push(stream.handle());
            place.session.note_blocking(stream);
            *branch = Some(place);
            stream.capture.store(ACTIVE, Ordering::Release);
        }
    }
    Ok(())
}

/// Spoils the capture that a stream takes part in.
pub(crate) fn invalidate(stream: &Stream) {
    if let Some(branch) = place(stream) {
        branch.session.invalidate();
    }
}

/// Takes a stream that is being destroyed out of its capture. A program may do so with a stream that it
/// has joined back; the end of the origin spoils the capture.
pub(crate) fn depart(stream: &Stream) {
    let Some(Branch { session, dependencies }) = lock(&stream.branch).take() else { return };
    if session.origin == stream.handle() {
        session.invalidate();
    } else {
        lock(&session.left).extend(dependencies);
    }
    lock(&session.streams).retain(|&other| other != stream.handle());
}

impl Branch {
    /// Answers a host's question for an event in a capture; the question spoils it.
    pub(crate) fn refuse_question(&self) -> CUresult {
        if self.session.is_of_no_use() {
            return CUDA_ERROR_INVALID_VALUE;
        }
        self.session.invalidate();
        CUDA_ERROR_CAPTURED_EVENT
    }
}

impl Session {
    fn is_of_no_use(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.spoilt.load(Ordering::Acquire)
    }

    pub(crate) fn invalidate(&self) {
        self.spoilt.store(true, Ordering::Release);
        for &handle in lock(&self.streams).iter() {
            // SAFETY: streams in the list were checked when they came; a destroyed one is refused.
            if let Ok(stream) = unsafe { live::<Stream, _>(handle) } {
                stream.capture.store(INVALIDATED, Ordering::Release);
            }
        }
    }

    pub(crate) fn note_blocking(&self, stream: &Stream) {
        if stream.is_blocking() && !self.is_blocking.swap(true, Ordering::AcqRel) {
            // SAFETY: the capture's context; a destroyed one is refused.
            if let Ok(context) = unsafe { live::<Context, _>(self.context) } {
                context.captures.blocking.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
}

/// The captures under way in a context. The counts make the usual question, whether
/// there is any, one read.
#[derive(Default)]
pub(crate) struct Captures {
    active: AtomicU32,
    blocking: AtomicU32,
    sessions: Mutex<Vec<Arc<Session>>>,
}

impl Captures {
    #[inline]
    pub(crate) fn has_blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed) != 0
    }

    /// Refuses work for the legacy stream while a stream it would wait for is captured.
    #[inline]
    pub(crate) fn refuse_legacy(&self) -> Answer {
        if !self.has_blocking() {
            return Ok(());
        }
        let is_blocking = |session: &Session| session.is_blocking.load(Ordering::Acquire);
        self.refuse(is_blocking, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    }

    /// Refuses a wait for the whole context.
    pub(crate) fn refuse_any(&self) -> Answer {
        self.refuse(|_| true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Refuses a call that may disturb a capture, by the modes of capture and thread.
    pub(crate) fn refuse_unsafe(&self) -> Answer {
        let disturbs = |session: &Session| {
            let own = session.thread == std::thread::current().id() && session.mode != RELAXED;
            match MODE.get() {
                GLOBAL => own || session.mode == GLOBAL,
                RELAXED => false,
                _ => own,
            }
        };
        self.refuse(disturbs, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    }

    fn refuse(&self, concerns: impl Fn(&Session) -> bool, error: CUresult) -> Answer {
        if self.active.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut answer = Ok(());
        for session in lock(&self.sessions).iter().filter(|session| concerns(session)) {
            session.invalidate();
            answer = Err(error);
        }
        answer
    }

    pub(crate) fn enter(&self, session: &Arc<Session>) {
        lock(&self.sessions).push(Arc::clone(session));
        self.active.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn leave(&self, session: &Session) {
        lock(&self.sessions).retain(|other| other.id != session.id);
        self.active.fetch_sub(1, Ordering::AcqRel);
        if session.is_blocking.load(Ordering::Acquire) {
            self.blocking.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
