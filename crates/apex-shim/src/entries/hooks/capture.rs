//! Streams whose work becomes a graph instead of running.

use crate::aspects::Note;
use crate::state::captures;
use apex_core::event::What;
use apex_cuda::types::*;

pub(crate) unsafe fn cuStreamBeginCapture(result: CUresult, stream: CUstream) -> Note {
    began(result, stream)
}

pub(crate) unsafe fn cuStreamBeginCapture_v2(
    result: CUresult,
    stream: CUstream,
    _mode: CUstreamCaptureMode,
) -> Note {
    began(result, stream)
}

pub(crate) unsafe fn cuStreamBeginCaptureToGraph(
    result: CUresult,
    stream: CUstream,
    _graph: CUgraph,
    _dependencies: *const CUgraphNode,
    _dependency_data: *const CUgraphEdgeData,
    _num_dependencies: usize,
    _mode: CUstreamCaptureMode,
) -> Note {
    began(result, stream)
}

pub(crate) unsafe fn cuStreamBeginRecaptureToGraph(
    result: CUresult,
    stream: CUstream,
    _mode: CUstreamCaptureMode,
    _graph: CUgraph,
    _callback: CUgraphRecaptureCallback,
    _user_data: *mut c_void,
) -> Note {
    began(result, stream)
}

pub(crate) unsafe fn cuStreamEndCapture(
    result: CUresult,
    stream: CUstream,
    _graph: *mut CUgraph,
) -> Note {
    // A capture that was broken has ended too; a stream that was not captured has ended nothing.
    let ends =
        [CUDA_SUCCESS, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED];
    if ends.contains(&result) {
        captures::ended();
    }
    Note::on(stream, What::Other)
}

pub(crate) use {
    cuStreamBeginCapture as cuStreamBeginCapture_ptsz,
    cuStreamBeginCapture_v2 as cuStreamBeginCapture_v2_ptsz,
    cuStreamBeginCaptureToGraph as cuStreamBeginCaptureToGraph_ptsz,
    cuStreamBeginRecaptureToGraph as cuStreamBeginRecaptureToGraph_ptsz,
    cuStreamEndCapture as cuStreamEndCapture_ptsz,
};

fn began(result: CUresult, stream: CUstream) -> Note {
    if result == CUDA_SUCCESS {
        captures::began();
    }
    Note::on(stream, What::Other)
}
