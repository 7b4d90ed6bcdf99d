//! The driver's functions for capturing a stream; what a capture is stands in
//! [`crate::run::capture`].

use core::ptr::null_mut;
use std::sync::Arc;

use apex_cuda::types::*;

use crate::border::{get, list, put, put_if_wanted};
use crate::graph::capturing::{begin, is_joined, leave};
use crate::graph::nodes::{Graph, destroy_graph};
use crate::object::{live, lock};
use crate::run::capture::{INVALIDATED, MODE, MODES};
use crate::run::capture_rules::branch_of;
use crate::run::context::current;
use crate::run::stream::resolve;

const SET_DEPENDENCIES: u32 = 1;

/// What a capture tells of itself; the list of dependencies lives until the stream's
/// next piece of work.
struct Info {
    status: CUstreamCaptureStatus,
    id: u64,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    count: usize,
}

/// # Safety
///
/// The handle is the program's.
unsafe fn info(stream: CUstream) -> Result<Info, CUresult> {
    current()?;
    // SAFETY: the caller vouches for the handle.
    let stream = unsafe { resolve(stream) }?;
    let none =
        Info { status: 0, id: 0, graph: null_mut(), dependencies: core::ptr::null(), count: 0 };
    let Some(stream) = stream else { return Ok(none) };
    let branch = lock(&stream.branch);
    Ok(branch.as_ref().map_or(none, |branch| Info {
        status: stream.capture_status(),
        id: branch.capture.id,
        graph: branch.capture.graph,
        dependencies: branch.dependencies.as_ptr(),
        count: branch.dependencies.len(),
    }))
}

answers! {
    fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) {
        begin(stream, None, Vec::new(), mode)
    }

    fn cuStreamBeginCapture(stream: CUstream) {
        begin(stream, None, Vec::new(), 0)
    }

    fn cuStreamBeginCaptureToGraph(
        stream: CUstream,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        _edges: *const CUgraphEdgeData,
        count: usize,
        mode: CUstreamCaptureMode,
    ) {
        live::<Graph, _>(graph)?;
        begin(stream, Some(graph), list(dependencies, count)?.to_vec(), mode)
    }

    fn cuStreamEndCapture(stream: CUstream, out: *mut CUgraph) {
        current()?;
        let stream = resolve(stream)?.ok_or(CUDA_ERROR_ILLEGAL_STATE)?;
        let end = branch_of(stream).ok_or(CUDA_ERROR_ILLEGAL_STATE)?;
        let capture = Arc::clone(&end.capture);
        if capture.origin != stream.handle() {
            capture.invalidate();
            return Err(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        let error = if stream.capture_status() == INVALIDATED {
            Some(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        } else if !is_joined(&capture, &end) {
            Some(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
        } else {
            None
        };
        leave(&capture);
        match error {
            None => put(out, capture.graph),
            Some(error) => {
                put_if_wanted(out, null_mut());
                if capture.made_graph {
                    destroy_graph(capture.graph)?;
                }
                Err(error)
            }
        }
    }

    fn cuStreamGetCaptureInfo(stream: CUstream, status: *mut CUstreamCaptureStatus, id: *mut u64) {
        let info = info(stream)?;
        put_if_wanted(id, info.id);
        put(status, info.status)
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        count: *mut usize,
    ) {
        let info = info(stream)?;
        put_if_wanted(id, info.id);
        put_if_wanted(graph, info.graph);
        put_if_wanted(dependencies, info.dependencies);
        put_if_wanted(count, info.count);
        put(status, info.status)
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData,
        count: *mut usize,
    ) {
        let info = info(stream)?;
        put_if_wanted(id, info.id);
        put_if_wanted(graph, info.graph);
        put_if_wanted(dependencies, info.dependencies);
        put_if_wanted(edges, core::ptr::null());
        put_if_wanted(count, info.count);
        put(status, info.status)
    }

    fn cuStreamUpdateCaptureDependencies(
        stream: CUstream,
        dependencies: *mut CUgraphNode,
        count: usize,
        flags: u32,
    ) {
        current()?;
        let stream = resolve(stream)?.ok_or(CUDA_ERROR_ILLEGAL_STATE)?;
        let mut branch = lock(&stream.branch);
        let branch = branch.as_mut().ok_or(CUDA_ERROR_ILLEGAL_STATE)?;
        if flags & SET_DEPENDENCIES != 0 {
            branch.dependencies.clear();
        }
        branch.dependencies.extend_from_slice(list(dependencies, count)?);
        Ok(())
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        stream: CUstream,
        dependencies: *mut CUgraphNode,
        _edges: *const CUgraphEdgeData,
        count: usize,
        flags: u32,
    ) {
        match cuStreamUpdateCaptureDependencies(stream, dependencies, count, flags) {
            CUDA_SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) {
        let wanted = get(mode)?;
        if wanted >= MODES {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(mode, MODE.replace(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::context::tests::with_context;
    use crate::api::event::{cuEventCreate, cuEventQuery, cuEventRecord};
    use crate::api::fill::cuMemsetD8Async;
    use crate::api::graph::{cuGraphDestroy, cuGraphGetNodes};
    use crate::api::stream::{
        cuStreamCreate, cuStreamDestroy_v2, cuStreamIsCapturing, cuStreamQuery, cuStreamWaitEvent,
    };
    use crate::graph::capturing::append;
    use crate::run::capture::{ACTIVE, GLOBAL, RELAXED};
    use crate::run::work::Work;

    fn stream() -> CUstream {
        let mut stream = null_mut();
        // SAFETY: plain call of the driver's own kind.
        assert_eq!(unsafe { cuStreamCreate(&raw mut stream, 1) }, CUDA_SUCCESS);
        stream
    }

    #[test]
    fn captured_work_becomes_nodes_and_is_not_done() {
        with_context(|| {
            let stream = stream();
            let (mut address, mut graph, mut count, mut status) = (0, null_mut(), 0, 9);
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(crate::api::memory::cuMemAlloc_v2(&raw mut address, 8), CUDA_SUCCESS);
                assert_eq!(crate::api::fill::cuMemsetD8_v2(address, 1, 8), CUDA_SUCCESS);
                assert_eq!(
                    cuStreamBeginCapture_v2(null_mut(), 0),
                    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                );
                assert_eq!(cuStreamBeginCapture_v2(stream, 0), CUDA_SUCCESS);
                assert_eq!(cuStreamIsCapturing(stream, &raw mut status), CUDA_SUCCESS);
                assert_eq!(status, ACTIVE);
                assert_eq!(cuMemsetD8Async(address, 7, 8, stream), CUDA_SUCCESS);
                assert_eq!(core::ptr::with_exposed_provenance::<u8>(address as usize).read(), 1);
                assert_eq!(cuStreamEndCapture(stream, &raw mut graph), CUDA_SUCCESS);
                assert_eq!(cuGraphGetNodes(graph, null_mut(), &raw mut count), CUDA_SUCCESS);
                assert_eq!(count, 1);
                assert_eq!(cuStreamIsCapturing(stream, &raw mut status), CUDA_SUCCESS);
                assert_eq!(status, 0);
                assert_eq!(cuGraphDestroy(graph), CUDA_SUCCESS);
            }
        });
    }

    #[test]
    fn an_event_carries_the_capture_and_must_bring_it_back() {
        with_context(|| {
            let (origin, other) = (stream(), stream());
            let (mut fork, mut back, mut graph, mut status) =
                (null_mut(), null_mut(), null_mut(), 0);
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuEventCreate(&raw mut fork, 2), CUDA_SUCCESS);
                assert_eq!(cuEventCreate(&raw mut back, 2), CUDA_SUCCESS);
                for joined in [false, true] {
                    assert_eq!(cuStreamBeginCapture_v2(origin, 0), CUDA_SUCCESS);
                    assert_eq!(cuEventRecord(fork, origin), CUDA_SUCCESS);
                    assert_eq!(cuStreamWaitEvent(other, fork, 0), CUDA_SUCCESS);
                    assert_eq!(cuStreamIsCapturing(other, &raw mut status), CUDA_SUCCESS);
                    assert_eq!(status, ACTIVE);
                    append(resolve(other).unwrap(), Work::Empty).unwrap();
                    if joined {
                        assert_eq!(cuEventRecord(back, other), CUDA_SUCCESS);
                        assert_eq!(cuStreamWaitEvent(origin, back, 0), CUDA_SUCCESS);
                    }
                    let expected =
                        if joined { CUDA_SUCCESS } else { CUDA_ERROR_STREAM_CAPTURE_UNJOINED };
                    assert_eq!(cuStreamEndCapture(origin, &raw mut graph), expected);
                    assert_eq!(graph.is_null(), !joined);
                    assert_eq!(cuEventQuery(fork), CUDA_ERROR_INVALID_VALUE);
                }
            }
        });
    }

    #[test]
    fn a_stream_destroyed_in_a_capture_must_have_been_joined() {
        with_context(|| {
            let origin = stream();
            let (mut event, mut graph) = (null_mut(), null_mut());
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuEventCreate(&raw mut event, 2), CUDA_SUCCESS);
                for joined in [false, true] {
                    let other = stream();
                    assert_eq!(cuStreamBeginCapture_v2(origin, 0), CUDA_SUCCESS);
                    assert_eq!(cuEventRecord(event, origin), CUDA_SUCCESS);
                    assert_eq!(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
                    append(resolve(other).unwrap(), Work::Empty).unwrap();
                    if joined {
                        assert_eq!(cuEventRecord(event, other), CUDA_SUCCESS);
                        assert_eq!(cuStreamWaitEvent(origin, event, 0), CUDA_SUCCESS);
                    }
                    assert_eq!(cuStreamDestroy_v2(other), CUDA_SUCCESS);
                    let expected =
                        if joined { CUDA_SUCCESS } else { CUDA_ERROR_STREAM_CAPTURE_UNJOINED };
                    assert_eq!(cuStreamEndCapture(origin, &raw mut graph), expected);
                    assert_eq!(graph.is_null(), !joined);
                }
            }
        });
    }

    #[test]
    fn a_wait_of_the_host_spoils_the_capture() {
        with_context(|| {
            let stream = stream();
            let mut graph = null_mut();
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuStreamBeginCapture_v2(stream, 0), CUDA_SUCCESS);
                assert_eq!(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
                let end = cuStreamEndCapture(stream, &raw mut graph);
                assert_eq!(end, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                assert_eq!(cuStreamQuery(stream), CUDA_SUCCESS);
                assert_eq!(cuStreamBeginCapture_v2(stream, 0), CUDA_SUCCESS);
                assert_eq!(
                    crate::api::context::cuCtxSynchronize(),
                    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                );
                let end = cuStreamEndCapture(stream, &raw mut graph);
                assert_eq!(end, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            }
        });
    }

    #[test]
    fn the_mode_says_what_disturbs_a_capture() {
        with_context(|| {
            for (mode, expected) in
                [(GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), (RELAXED, CUDA_SUCCESS)]
            {
                let stream = stream();
                let (mut graph, mut address) = (null_mut(), 0);
                // SAFETY: plain calls of the driver's own kind.
                unsafe {
                    assert_eq!(cuStreamBeginCapture_v2(stream, mode), CUDA_SUCCESS);
                    assert_eq!(crate::api::memory::cuMemAlloc_v2(&raw mut address, 8), expected);
                    let end = cuStreamEndCapture(stream, &raw mut graph);
                    assert_eq!(end == CUDA_SUCCESS, expected == CUDA_SUCCESS);
                }
            }
        });
    }

    #[test]
    fn the_legacy_stream_is_refused_beside_a_blocking_one() {
        with_context(|| {
            let (mut stream, mut graph, mut status) = (null_mut(), null_mut(), 0);
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuStreamCreate(&raw mut stream, 0), CUDA_SUCCESS);
                assert_eq!(cuStreamBeginCapture_v2(stream, RELAXED), CUDA_SUCCESS);
                let implicit = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
                assert_eq!(cuStreamIsCapturing(null_mut(), &raw mut status), implicit);
                assert_eq!(cuMemsetD8Async(0, 0, 0, null_mut()), implicit);
                let end = cuStreamEndCapture(stream, &raw mut graph);
                assert_eq!(end, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                assert_eq!(cuMemsetD8Async(0, 0, 0, null_mut()), CUDA_SUCCESS);
            }
        });
    }
}
