//! Events.

use apex_cuda::types::{CUevent, CUstream};

use crate::border::{check, wanted};
use crate::context::current;

runtime! {
    fn cudaEventCreate(out: *mut CUevent) {
        check((current()?.cuEventCreate)(wanted(out)?, 0))
    }

    fn cudaEventCreateWithFlags(out: *mut CUevent, flags: u32) {
        check((current()?.cuEventCreate)(wanted(out)?, flags))
    }

    fn cudaEventRecord / cudaEventRecord_ptsz(event: CUevent, stream: CUstream) {
        check((current()?.cuEventRecord)(event, stream))
    }

    fn cudaEventRecordWithFlags / cudaEventRecordWithFlags_ptsz(
        event: CUevent,
        stream: CUstream,
        flags: u32,
    ) {
        check((current()?.cuEventRecordWithFlags)(event, stream, flags))
    }

    fn cudaEventQuery(event: CUevent) {
        check((current()?.cuEventQuery)(event))
    }

    fn cudaEventSynchronize(event: CUevent) {
        check((current()?.cuEventSynchronize)(event))
    }

    fn cudaEventDestroy(event: CUevent) {
        check((current()?.cuEventDestroy_v2)(event))
    }

    fn cudaEventElapsedTime(out: *mut f32, start: CUevent, end: CUevent) {
        check((current()?.cuEventElapsedTime)(wanted(out)?, start, end))
    }

    fn cudaEventElapsedTime_v2(out: *mut f32, start: CUevent, end: CUevent) {
        check((current()?.cuEventElapsedTime)(wanted(out)?, start, end))
    }
}
