//! Streams.
//!
//! A stream is a queue of the scheduler and, while it is captured, a place in the
//! graph. Asking whether it is captured is one read of an atomic word. The legacy
//! stream is no [`Stream`]: it is the context's own queue.

use core::cell::RefCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::object::{create, handle_of, live, object};
use crate::run::capture::Branch;
use crate::run::context::{Context, current};
use crate::run::domain::{Domain, Queue};

/// One stream.
pub(crate) struct Stream {
    pub(crate) context: CUcontext,
    pub(crate) domain: Arc<Domain>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) id: u64,
    /// 0 not captured, 1 captured, 2 captured until an error came.
    pub(crate) capture_state: AtomicU32,
    /// Where in the capture the stream stands.
    pub(crate) branch: Mutex<Option<Branch>>,
}
object!(Stream, b"stream--");

impl Stream {
    #[inline]
    pub(crate) fn capture_status(&self) -> CUstreamCaptureStatus {
        self.capture_state.load(Ordering::Relaxed)
    }

    /// Whether the legacy stream and this one wait for each other.
    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    pub(crate) fn handle(&self) -> CUstream {
        handle_of(self)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.domain.close_queue(&self.queue);
    }
}

/// Where work for a stream goes; for none, to the context's legacy stream.
pub(crate) fn queue_of<'a>(
    context: &'a Context,
    stream: Option<&'a Stream>,
) -> (&'a Arc<Domain>, &'a Arc<Queue>) {
    match stream {
        Some(stream) => (&stream.domain, &stream.queue),
        None => (&context.domain, &context.domain.legacy),
    }
}

const LEGACY: usize = 1;
const PER_THREAD: usize = 2;
pub(crate) const LEGACY_ID: u64 = 1;
pub(crate) const NON_BLOCKING: u32 = 1;

thread_local! {
    /// The thread's own streams, one per context that it used.
    static OWN: RefCell<Vec<(u64, CUstream)>> = const { RefCell::new(Vec::new()) };
}

/// The handle that stands for the legacy stream.
pub(crate) const LEGACY_STREAM: CUstream = null_mut();

/// The handle that stands for the calling thread's own stream.
pub(crate) fn own_stream() -> CUstream {
    core::ptr::without_provenance_mut(PER_THREAD)
}

/// As [`own_stream`], where no stream is given.
pub(crate) fn per_thread(stream: CUstream) -> CUstream {
    if stream.is_null() { core::ptr::without_provenance_mut(PER_THREAD) } else { stream }
}

/// The stream behind a handle; none for the legacy stream, which is never captured.
///
/// # Safety
///
/// The handle is the program's.
#[inline]
pub(crate) unsafe fn resolve<'a>(handle: CUstream) -> Result<Option<&'a Stream>, CUresult> {
    match handle.addr() {
        0 | LEGACY => Ok(None),
        // SAFETY: the handle is one that `create` gave.
        PER_THREAD => unsafe { live(own()?) }.map(Some),
        // SAFETY: the caller vouches for the handle.
        _ => unsafe { live(handle) }.map(Some),
    }
}

/// The calling thread's own stream in the current context, made when first asked
/// for. It lives as long as the context.
fn own() -> Result<CUstream, CUresult> {
    let context = current()?;
    let known = OWN.with_borrow(|own| {
        own.iter().find(|(id, _)| *id == context.id()).map(|&(_, stream)| stream)
    });
    // SAFETY: a handle that `create` gave; the stream may have ended with its context.
    let alive = known.filter(|&stream| unsafe { live::<Stream, _>(stream) }.is_ok());
    if let Some(stream) = alive {
        return Ok(stream);
    }
    let made = make(0, 0)?;
    OWN.with_borrow_mut(|own| {
        own.retain(|(id, _)| *id != context.id());
        own.push((context.id(), made));
    });
    Ok(made)
}

pub(crate) fn make(flags: u32, priority: i32) -> Result<CUstream, CUresult> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(LEGACY_ID + 1);
    let context = current()?;
    let stream = create(Stream {
        context: context.handle(),
        domain: Arc::clone(&context.domain),
        queue: context.domain.add_queue(priority, flags & NON_BLOCKING == 0),
        flags,
        priority,
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        capture_state: AtomicU32::new(0),
        branch: Mutex::new(None),
    });
    context.note_stream(stream);
    Ok(stream)
}
