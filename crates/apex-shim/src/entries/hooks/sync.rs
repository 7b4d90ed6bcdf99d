//! The program waiting for the GPU. Afterwards times of earlier launches are known.

use crate::aspects::{self, Note};
use crate::driver::driver;
use apex_core::event::{SyncKind, What};
use apex_cuda::types::*;

pub(crate) unsafe fn cuCtxSynchronize(_: CUresult) -> Note {
    waited(SyncKind::Context, 0, core::ptr::null_mut())
}

pub(crate) unsafe fn cuCtxSynchronize_v2(_: CUresult, ctx: CUcontext) -> Note {
    waited(SyncKind::Context, ctx as u64, core::ptr::null_mut())
}

pub(crate) unsafe fn cuStreamSynchronize(_: CUresult, stream: CUstream) -> Note {
    waited(SyncKind::Stream, stream as u64, stream)
}

pub(crate) unsafe fn cuEventSynchronize(_: CUresult, event: CUevent) -> Note {
    waited(SyncKind::Event, event as u64, core::ptr::null_mut())
}

pub(crate) use cuStreamSynchronize as cuStreamSynchronize_ptsz;

// A program that asks in a loop would fill the rings, so nothing is noted. But it has waited as soon as the answer
// is yes, and its burst may be over.
macro_rules! asks {
    ($($name:ident($argument:ident: $type:ty) => $waited:expr;)*) => { $(
        pub(crate) unsafe fn $name($argument: $type) -> CUresult {
            // SAFETY: the program's own argument.
            let result = unsafe { (driver().$name)($argument) };
            if result == CUDA_SUCCESS {
                let (stream, event) = $waited;
                aspects::found_done(stream, event);
            }
            result
        }
    )* };
}

asks! {
    cuStreamQuery(stream: CUstream) => (Some(stream as u64), None);
    cuStreamQuery_ptsz(stream: CUstream) => (Some(stream as u64), None);
    cuEventQuery(event: CUevent) => (None, Some(event as u64));
}

fn waited(kind: SyncKind, object: u64, stream: CUstream) -> Note {
    match kind {
        SyncKind::Stream => aspects::waited(Some(object), None),
        SyncKind::Event => aspects::waited(None, Some(object)),
        _ => aspects::waited(None, None),
    }
    Note::on(stream, What::Sync { kind, object })
}
