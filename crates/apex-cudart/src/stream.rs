//! Streams, and host functions in them.
//!
//! Streams are the driver's own, and so are their special values: 1 is the legacy
//! stream, 2 the calling thread's.

use core::ffi::c_void;

use apex_cuda::types::{
    CUevent, CUhostFn, CUstream, CUstreamAttrID, CUstreamAttrValue, CUstreamCallback,
};

use crate::border::{PER_THREAD, check, own_stream, wanted};
use crate::context::current;
use crate::errors::cudaErrorInvalidResourceHandle;

runtime! {
    fn cudaStreamCreate(out: *mut CUstream) {
        check((current()?.cuStreamCreate)(wanted(out)?, 0))
    }

    fn cudaStreamCreateWithFlags(out: *mut CUstream, flags: u32) {
        check((current()?.cuStreamCreate)(wanted(out)?, flags))
    }

    fn cudaStreamCreateWithPriority(out: *mut CUstream, flags: u32, priority: i32) {
        check((current()?.cuStreamCreateWithPriority)(wanted(out)?, flags, priority))
    }

    fn cudaStreamDestroy(stream: CUstream) {
        let driver = current()?;
        // The streams that have no handle of their own are never destroyed.
        if stream.addr() <= PER_THREAD {
            return Err(cudaErrorInvalidResourceHandle);
        }
        check((driver.cuStreamDestroy_v2)(stream))
    }

    fn cudaStreamSynchronize / cudaStreamSynchronize_ptsz(stream: CUstream) {
        check((current()?.cuStreamSynchronize)(stream))
    }

    fn cudaStreamQuery / cudaStreamQuery_ptsz(stream: CUstream) {
        check((current()?.cuStreamQuery)(stream))
    }

    fn cudaStreamWaitEvent / cudaStreamWaitEvent_ptsz(
        stream: CUstream,
        event: CUevent,
        flags: u32,
    ) {
        check((current()?.cuStreamWaitEvent)(stream, event, flags))
    }

    fn cudaStreamGetFlags / cudaStreamGetFlags_ptsz(stream: CUstream, out: *mut u32) {
        check((current()?.cuStreamGetFlags)(stream, wanted(out)?))
    }

    fn cudaStreamGetPriority / cudaStreamGetPriority_ptsz(stream: CUstream, out: *mut i32) {
        check((current()?.cuStreamGetPriority)(stream, wanted(out)?))
    }

    fn cudaStreamGetId / cudaStreamGetId_ptsz(stream: CUstream, out: *mut u64) {
        check((current()?.cuStreamGetId)(stream, wanted(out)?))
    }

    fn cudaStreamGetDevice / cudaStreamGetDevice_ptsz(stream: CUstream, out: *mut i32) {
        check((current()?.cuStreamGetDevice)(stream, wanted(out)?))
    }

    fn cudaStreamCopyAttributes(target: CUstream, source: CUstream) {
        check((current()?.cuStreamCopyAttributes)(target, source))
    }

    fn cudaStreamCopyAttributes_ptsz(target: CUstream, source: CUstream) {
        check((current()?.cuStreamCopyAttributes)(own_stream(target), own_stream(source)))
    }

    fn cudaStreamGetAttribute / cudaStreamGetAttribute_ptsz(
        stream: CUstream,
        attribute: CUstreamAttrID,
        out: *mut CUstreamAttrValue,
    ) {
        check((current()?.cuStreamGetAttribute)(stream, attribute, wanted(out)?))
    }

    fn cudaStreamSetAttribute / cudaStreamSetAttribute_ptsz(
        stream: CUstream,
        attribute: CUstreamAttrID,
        value: *const CUstreamAttrValue,
    ) {
        wanted(value.cast_mut())?;
        check((current()?.cuStreamSetAttribute)(stream, attribute, value))
    }

    fn cudaStreamAttachMemAsync / cudaStreamAttachMemAsync_ptsz(
        stream: CUstream,
        address: *mut c_void,
        bytes: usize,
        flags: u32,
    ) {
        let address = address.expose_provenance() as u64;
        check((current()?.cuStreamAttachMemAsync)(stream, address, bytes, flags))
    }

    // The callback is given a result, and the numbers of both interfaces are alike.
    fn cudaStreamAddCallback / cudaStreamAddCallback_ptsz(
        stream: CUstream,
        callback: CUstreamCallback,
        data: *mut c_void,
        flags: u32,
    ) {
        check((current()?.cuStreamAddCallback)(stream, callback, data, flags))
    }

    fn cudaLaunchHostFunc / cudaLaunchHostFunc_ptsz(
        stream: CUstream,
        function: CUhostFn,
        data: *mut c_void,
    ) {
        check((current()?.cuLaunchHostFunc)(stream, function, data))
    }

    fn cudaLaunchHostFunc_v2 / cudaLaunchHostFunc_v2_ptsz(
        stream: CUstream,
        function: CUhostFn,
        data: *mut c_void,
        sync_mode: u32,
    ) {
        check((current()?.cuLaunchHostFunc_v2)(stream, function, data, sync_mode))
    }

    fn cudaCtxResetPersistingL2Cache() {
        check((current()?.cuCtxResetPersistingL2Cache)())
    }
}
