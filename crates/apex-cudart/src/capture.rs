//! Streams recorded into graphs. What CUDA 12 has without the data of edges is
//! answered by the same functions with none.

use core::ptr::{null, null_mut};

use apex_cuda::types::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};

use crate::border::{Answer, check, wanted};
use crate::context::current;

/// Where the facts of a capture are wanted.
#[derive(Clone, Copy)]
struct Wanted {
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
    graph: *mut CUgraph,
    dependencies: *mut *const CUgraphNode,
    edges: *mut *const CUgraphEdgeData,
    count: *mut usize,
}

/// # Safety
///
/// What is not null can be written.
unsafe fn info(stream: CUstream, out: Wanted) -> Answer {
    let driver = current()?;
    let Wanted { status, id, graph, dependencies, edges, count } = out;
    let status = wanted(status)?;
    // The driver refuses to hide the data of edges, so it is asked for only then.
    // SAFETY: the caller vouches for all places.
    check(unsafe {
        if edges.is_null() {
            (driver.cuStreamGetCaptureInfo_v2)(stream, status, id, graph, dependencies, count)
        } else {
            let ask = driver.cuStreamGetCaptureInfo_v3;
            ask(stream, status, id, graph, dependencies, edges, count)
        }
    })
}

/// # Safety
///
/// As many nodes, and where given edges, can be read.
unsafe fn update(
    stream: CUstream,
    dependencies: *mut CUgraphNode,
    edges: *const CUgraphEdgeData,
    count: usize,
    flags: u32,
) -> Answer {
    let driver = current()?;
    // SAFETY: the caller vouches for nodes and edges.
    check(unsafe {
        if edges.is_null() {
            (driver.cuStreamUpdateCaptureDependencies)(stream, dependencies, count, flags)
        } else {
            let update = driver.cuStreamUpdateCaptureDependencies_v2;
            update(stream, dependencies, edges, count, flags)
        }
    })
}

runtime! {
    fn cudaStreamBeginCapture / cudaStreamBeginCapture_ptsz(
        stream: CUstream,
        mode: CUstreamCaptureMode,
    ) {
        check((current()?.cuStreamBeginCapture_v2)(stream, mode))
    }

    fn cudaStreamBeginCaptureToGraph / cudaStreamBeginCaptureToGraph_ptsz(
        stream: CUstream,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        edges: *const CUgraphEdgeData,
        count: usize,
        mode: CUstreamCaptureMode,
    ) {
        let begin = current()?.cuStreamBeginCaptureToGraph;
        check(begin(stream, graph, dependencies, edges, count, mode))
    }

    fn cudaStreamEndCapture / cudaStreamEndCapture_ptsz(stream: CUstream, out: *mut CUgraph) {
        check((current()?.cuStreamEndCapture)(stream, wanted(out)?))
    }

    fn cudaStreamIsCapturing / cudaStreamIsCapturing_ptsz(
        stream: CUstream,
        out: *mut CUstreamCaptureStatus,
    ) {
        check((current()?.cuStreamIsCapturing)(stream, wanted(out)?))
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) {
        check((current()?.cuThreadExchangeStreamCaptureMode)(wanted(mode)?))
    }

    fn cudart13_cudaStreamGetCaptureInfo / cudart13_cudaStreamGetCaptureInfo_ptsz(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData,
        count: *mut usize,
    ) {
        info(stream, Wanted { status, id, graph, dependencies, edges, count })
    }

    fn cudaStreamGetCaptureInfo_v2 / cudaStreamGetCaptureInfo_v2_ptsz(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        count: *mut usize,
    ) {
        info(stream, Wanted { status, id, graph, dependencies, edges: null_mut(), count })
    }

    fn cudart12_cudaStreamGetCaptureInfo / cudart12_cudaStreamGetCaptureInfo_ptsz(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
    ) {
        let (graph, dependencies) = (null_mut(), null_mut());
        let (edges, count) = (null_mut(), null_mut());
        info(stream, Wanted { status, id, graph, dependencies, edges, count })
    }

    fn cudart13_cudaStreamUpdateCaptureDependencies / cudart13_cudaStreamUpdateCaptureDependencies_ptsz(
        stream: CUstream,
        dependencies: *mut CUgraphNode,
        edges: *const CUgraphEdgeData,
        count: usize,
        flags: u32,
    ) {
        update(stream, dependencies, edges, count, flags)
    }

    fn cudart12_cudaStreamUpdateCaptureDependencies / cudart12_cudaStreamUpdateCaptureDependencies_ptsz(
        stream: CUstream,
        dependencies: *mut CUgraphNode,
        count: usize,
        flags: u32,
    ) {
        update(stream, dependencies, null(), count, flags)
    }
}
