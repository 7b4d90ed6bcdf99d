//! Streams recorded into graphs.
//!
//! A capture begins at one stream, its origin. Work for a stream that takes part becomes a
//! node, which depends on the nodes where the stream stands. A stream comes in by waiting
//! for an event of the capture, and must have led back to the origin when the capture ends.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::border::Answer;
use crate::graph::nodes::{Node, add, make_graph};
use crate::object::{live, lock};
use crate::run::capture::{ACTIVE, Branch, Capture, INVALIDATED, MODES};
use crate::run::capture_rules::branch_of;
use crate::run::context::{Context, current};
use crate::run::stream::{Stream, resolve};
use crate::run::work::Work;

/// # Safety
///
/// The handles are the program's.
pub(crate) unsafe fn begin(
    stream: CUstream,
    graph: Option<CUgraph>,
    dependencies: Vec<CUgraphNode>,
    mode: CUstreamCaptureMode,
) -> Answer {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let context = current()?;
    if mode >= MODES {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the handle.
    let stream = unsafe { resolve(stream) }?.ok_or(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    let mut branch = lock(&stream.branch);
    if branch.is_some() {
        return Err(CUDA_ERROR_ILLEGAL_STATE);
    }
    let capture = Arc::new(Capture {
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        graph: graph.unwrap_or_else(make_graph),
        made_graph: graph.is_none(),
        origin: stream.handle(),
        context: context.handle(),
        mode,
        thread: std::thread::current().id(),
        is_blocking: AtomicBool::new(false),
        spoilt: AtomicBool::new(false),
        over: AtomicBool::new(false),
        streams: Mutex::new(vec![stream.handle()]),
        left: Mutex::default(),
    });
    context.captures.enter(&capture);
    capture.note_blocking(stream);
    *branch = Some(Branch { capture, dependencies });
    stream.capture_state.store(ACTIVE, Ordering::Release);
    Ok(())
}

/// Whether every stream's last nodes lead to the origin's.
///
/// # Safety
///
/// The capture's graph is alive.
pub(crate) unsafe fn is_joined(capture: &Capture, end: &Branch) -> bool {
    let mut reached = HashSet::new();
    let mut next = end.dependencies.clone();
    while let Some(handle) = next.pop() {
        if !reached.insert(handle) {
            continue;
        }
        // SAFETY: nodes live as long as their graph.
        if let Ok(node) = unsafe { live::<Node, _>(handle) } {
            next.extend_from_slice(&lock(&node.dependencies));
        }
    }
    let left = lock(&capture.left).iter().all(|node| reached.contains(node));
    let streams = lock(&capture.streams).clone();
    left && streams.iter().filter(|&&handle| handle != capture.origin).all(|&handle| {
        // SAFETY: a destroyed stream is refused.
        let branch = unsafe { live::<Stream, _>(handle) }.ok().and_then(branch_of);
        branch.is_none_or(|branch| branch.dependencies.iter().all(|node| reached.contains(node)))
    })
}

pub(crate) fn leave(capture: &Capture) {
    capture.over.store(true, Ordering::Release);
    // SAFETY: the capture's context; a destroyed one is refused.
    if let Ok(context) = unsafe { live::<Context, _>(capture.context) } {
        context.captures.leave(capture);
    }
    let streams = core::mem::take(&mut *lock(&capture.streams));
    for handle in streams {
        // SAFETY: a destroyed stream is refused.
        if let Ok(stream) = unsafe { live::<Stream, _>(handle) } {
            *lock(&stream.branch) = None;
            stream.capture_state.store(0, Ordering::Release);
        }
    }
}

/// Makes work the next node of a captured stream.
pub(crate) fn append(stream: Option<&Stream>, work: Work) -> Answer {
    let stream = stream.ok_or(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)?;
    if stream.capture_status() == INVALIDATED {
        return Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    let mut branch = lock(&stream.branch);
    let branch = branch.as_mut().ok_or(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)?;
    // SAFETY: the capture keeps its graph alive while streams take part.
    let node = unsafe { add(branch.capture.graph, &branch.dependencies, work) }?;
    branch.dependencies = vec![node];
    Ok(())
}

/// Lets a stream take part in a capture from a branch on.
pub(crate) fn join(stream: Option<&Stream>, at: Branch) -> Answer {
    if at.capture.is_of_no_use() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let stream = stream.ok_or(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)?;
    let mut branch = lock(&stream.branch);
    match branch.as_mut() {
        Some(own) if !Arc::ptr_eq(&own.capture, &at.capture) => {
            own.capture.invalidate();
            at.capture.invalidate();
            return Err(CUDA_ERROR_STREAM_CAPTURE_MERGE);
        }
        Some(own) => {
            for node in at.dependencies {
                if !own.dependencies.contains(&node) {
                    own.dependencies.push(node);
                }
            }
        }
        None => {
            lock(&at.capture.streams).push(stream.handle());
            at.capture.note_blocking(stream);
            *branch = Some(at);
            stream.capture_state.store(ACTIVE, Ordering::Release);
        }
    }
    Ok(())
}

/// Takes a stream that is being destroyed out of its capture. A program may do so with a stream that it
/// has joined back; the end of the origin spoils the capture.
pub(crate) fn depart(stream: &Stream) {
    let Some(Branch { capture, dependencies }) = lock(&stream.branch).take() else { return };
    if capture.origin == stream.handle() {
        capture.invalidate();
    } else {
        lock(&capture.left).extend(dependencies);
    }
    lock(&capture.streams).retain(|&other| other != stream.handle());
}
