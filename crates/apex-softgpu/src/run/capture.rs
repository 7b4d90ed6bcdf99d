//! What a capture is: a stream's work recorded into a graph instead of done.
//!
//! A [`Capture`] has one graph; each stream in it stands at a [`Branch`]: the nodes that
//! its next piece of work will depend on. An event recorded in the capture carries a copy
//! of such a branch. Lock order: a stream's branch, then the capture's streams, then a
//! graph's nodes.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use apex_cuda::types::*;

use crate::object::lock;

/// One capture.
pub(crate) struct Capture {
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
unsafe impl Send for Capture {}
// SAFETY: as above; what changes is behind a lock.
unsafe impl Sync for Capture {}

/// Where a stream stands in a capture.
#[derive(Clone)]
pub(crate) struct Branch {
    pub(crate) capture: Arc<Capture>,
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

impl Capture {
    pub(crate) fn is_of_no_use(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.spoilt.load(Ordering::Acquire)
    }
}

/// The captures under way in a context. The counts make the usual question, whether
/// there is any, one read.
#[derive(Default)]
pub(crate) struct Captures {
    pub(crate) active: AtomicU32,
    pub(crate) blocking: AtomicU32,
    pub(crate) under_way: Mutex<Vec<Arc<Capture>>>,
}

impl Captures {
    #[inline]
    pub(crate) fn has_blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn enter(&self, capture: &Arc<Capture>) {
        lock(&self.under_way).push(Arc::clone(capture));
        self.active.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn leave(&self, capture: &Capture) {
        lock(&self.under_way).retain(|other| other.id != capture.id);
        self.active.fetch_sub(1, Ordering::AcqRel);
        if capture.is_blocking.load(Ordering::Acquire) {
            self.blocking.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
