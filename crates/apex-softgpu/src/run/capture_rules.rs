//! What a capture does not allow, and what becomes of it.
//!
//! An error, or a call that a capture does not allow, spoils the capture: its streams
//! refuse work until it is ended, and ending it gives the error.

use core::sync::atomic::Ordering;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::object::{live, lock};
use crate::run::capture::{Branch, Capture, Captures, GLOBAL, INVALIDATED, MODE, RELAXED};
use crate::run::context::Context;
use crate::run::stream::{Stream, resolve};

/// The stream behind a handle, to give work to: the legacy stream would wait for a
/// blocking stream, which it cannot while that one is captured.
///
/// # Safety
///
/// The handle is the program's.
#[inline]
pub(crate) unsafe fn for_work<'a>(
    context: &Context,
    handle: CUstream,
) -> Result<Option<&'a Stream>, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let stream = unsafe { resolve(handle) }?;
    if stream.is_none() {
        context.captures.refuse_legacy()?;
    }
    Ok(stream)
}

/// The place at which a captured stream stands.
pub(crate) fn branch_of(stream: &Stream) -> Option<Branch> {
    lock(&stream.branch).clone()
}

/// Spoils the capture that a stream takes part in.
pub(crate) fn invalidate(stream: &Stream) {
    if let Some(branch) = branch_of(stream) {
        branch.capture.invalidate();
    }
}

impl Branch {
    /// Answers a host's question for an event in a capture; the question spoils it.
    pub(crate) fn refuse_question(&self) -> CUresult {
        if self.capture.is_of_no_use() {
            return CUDA_ERROR_INVALID_VALUE;
        }
        self.capture.invalidate();
        CUDA_ERROR_CAPTURED_EVENT
    }
}

impl Capture {
    pub(crate) fn invalidate(&self) {
        self.spoilt.store(true, Ordering::Release);
        for &handle in lock(&self.streams).iter() {
            // SAFETY: streams in the list were checked when they came; a destroyed one is refused.
            if let Ok(stream) = unsafe { live::<Stream, _>(handle) } {
                stream.capture_state.store(INVALIDATED, Ordering::Release);
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

impl Captures {
    /// Refuses work for the legacy stream while a stream it would wait for is captured.
    #[inline]
    pub(crate) fn refuse_legacy(&self) -> Answer {
        if !self.has_blocking() {
            return Ok(());
        }
        let is_blocking = |capture: &Capture| capture.is_blocking.load(Ordering::Acquire);
        self.refuse(is_blocking, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    }

    /// Refuses a wait for the whole context.
    pub(crate) fn refuse_any(&self) -> Answer {
        self.refuse(|_| true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Refuses a call that may disturb a capture, by the modes of capture and thread.
    pub(crate) fn refuse_unsafe(&self) -> Answer {
        let disturbs = |capture: &Capture| {
            let own = capture.thread == std::thread::current().id() && capture.mode != RELAXED;
            match MODE.get() {
                GLOBAL => own || capture.mode == GLOBAL,
                RELAXED => false,
                _ => own,
            }
        };
        self.refuse(disturbs, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    }

    fn refuse(&self, concerns: impl Fn(&Capture) -> bool, error: CUresult) -> Answer {
        if self.active.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut answer = Ok(());
        for capture in lock(&self.under_way).iter().filter(|capture| concerns(capture)) {
            capture.invalidate();
            answer = Err(error);
        }
        answer
    }
}
