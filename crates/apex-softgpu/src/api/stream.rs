//! The driver's functions for streams.
//!
//! A wait of the host for a captured stream is refused and spoils the capture.

use core::ptr::null_mut;

use apex_cuda::types::*;

use crate::border::{Answer, get, list, put, put_if_wanted};
use crate::memory::operation::MemoryOperation;
use crate::object::{destroy, live};
use crate::run::capture_rules::for_work;
use crate::run::context::{call_back, context, current};
use crate::run::domain::Job;
use crate::run::scheduler::enqueue;
use crate::run::stream::{LEGACY_ID, NON_BLOCKING, Stream, make, queue_of, resolve};
use crate::run::work::{Callback, Work};
use crate::submit::{submit, wait_for_event};

/// Refuses a wait of the host for a captured stream; the capture is spoilt by it.
fn refuse_capture(stream: Option<&Stream>) -> Answer {
    match stream {
        Some(stream) if stream.capture_status() != 0 => {
            crate::run::capture_rules::invalidate(stream);
            Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        }
        _ => Ok(()),
    }
}

answers! {
    fn cuStreamCreate(out: *mut CUstream, flags: u32) {
        if flags > NON_BLOCKING {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, make(flags, 0)?)
    }

    fn cuStreamCreateWithPriority(out: *mut CUstream, flags: u32, priority: i32) {
        if flags > NON_BLOCKING {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, make(flags, priority.clamp(-5, 0))?)
    }

    fn cuStreamDestroy_v2(stream: CUstream) {
        let stream: &Stream = live(stream)?;
        crate::graph::capturing::depart(stream);
        // What is in the queue will still be done.
        if let Ok(context) = context(stream.context) {
            context.forget_stream(stream.handle());
        }
        destroy::<Stream, _>(stream.handle())
    }

    #[inline]
    fn cuStreamQuery(stream: CUstream) {
        let context = current()?;
        let stream = resolve(stream)?;
        refuse_capture(stream)?;
        let (domain, queue) = queue_of(context, stream);
        if domain.is_drained(queue) { domain.check() } else { Err(CUDA_ERROR_NOT_READY) }
    }

    fn cuStreamSynchronize(stream: CUstream) {
        let context = current()?;
        let stream = resolve(stream)?;
        refuse_capture(stream)?;
        let (domain, queue) = queue_of(context, stream);
        domain.drain_queue(queue, context.spins())
    }

    #[inline]
    fn cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus) {
        let context = current()?;
        match resolve(stream)? {
            Some(stream) => put(status, stream.capture_status()),
            None if context.captures.has_blocking() => Err(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
            None => put(status, 0),
        }
    }

    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: u32) {
        let context = current()?;
        wait_for_event(context, for_work(context, stream)?, event, flags)
    }

    fn cuStreamGetCtx(stream: CUstream, out: *mut CUcontext) {
        let current = current()?;
        put(out, resolve(stream)?.map_or(current.handle(), |stream| stream.context))
    }

    fn cuStreamGetCtx_v2(stream: CUstream, out: *mut CUcontext, green: *mut CUgreenCtx) {
        let current = current()?;
        put_if_wanted(green, null_mut());
        put(out, resolve(stream)?.map_or(current.handle(), |stream| stream.context))
    }

    fn cuStreamGetDevice(stream: CUstream, out: *mut CUdevice) {
        let handle = match resolve(stream)? {
            Some(stream) => stream.context,
            None => current()?.handle(),
        };
        put(out, context(handle)?.device.ordinal)
    }

    fn cuStreamGetFlags(stream: CUstream, out: *mut u32) {
        current()?;
        put(out, resolve(stream)?.map_or(0, |stream| stream.flags))
    }

    fn cuStreamGetPriority(stream: CUstream, out: *mut i32) {
        current()?;
        put(out, resolve(stream)?.map_or(0, |stream| stream.priority))
    }

    fn cuStreamGetId(stream: CUstream, out: *mut u64) {
        current()?;
        put(out, resolve(stream)?.map_or(LEGACY_ID, |stream| stream.id))
    }

    fn cuStreamAddCallback(stream: CUstream, callback: CUstreamCallback, data: *mut c_void, flags: u32) {
        current()?;
        let callback = callback.filter(|_| flags == 0).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let context = current()?;
        let kept = for_work(context, stream)?;
        refuse_capture(kept)?;
        let (domain, queue) = queue_of(context, kept);
        let call = Callback { data, stream };
        enqueue(domain, queue, &[], Job::Host(Box::new(move |status| {
            let Callback { data, stream } = call.whole();
            // SAFETY: the program gave the function for this call.
            call_back(|| unsafe { callback(stream, status, data) });
        })));
        Ok(())
    }

    fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        if function.is_none() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        submit(stream, Work::Host { function, data })
    }

    fn cuLaunchHostFunc_v2(stream: CUstream, function: CUhostFn, data: *mut c_void, _mode: u32) {
        if function.is_none() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        submit(stream, Work::Host { function, data })
    }

    fn cuStreamAttachMemAsync(stream: CUstream, address: CUdeviceptr, _length: usize, _flags: u32) {
        current()?;
        resolve(stream)?;
        crate::memory::range::range_of(address).map(|_| ()).ok_or(CUDA_ERROR_INVALID_VALUE)
    }

    fn cuStreamSetAttribute(stream: CUstream, _attribute: CUstreamAttrID, value: *const CUstreamAttrValue) {
        current()?;
        resolve(stream)?;
        if value.is_null() { Err(CUDA_ERROR_INVALID_VALUE) } else { Ok(()) }
    }

    fn cuStreamGetAttribute(stream: CUstream, _attribute: CUstreamAttrID, out: *mut CUstreamAttrValue) {
        current()?;
        resolve(stream)?;
        put(out.cast(), [0_u8; size_of::<CUstreamAttrValue>()])
    }

    fn cuStreamCopyAttributes(to: CUstream, from: CUstream) {
        current()?;
        resolve(to)?;
        resolve(from).map(|_| ())
    }

    fn cuStreamWriteValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, _flags: u32) {
        submit(stream, Work::Memory(vec![MemoryOperation::write(address, value.into(), 4)?].into()))
    }

    fn cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, _flags: u32) {
        submit(stream, Work::Memory(vec![MemoryOperation::write(address, value, 8)?].into()))
    }

    fn cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: u32) {
        let order = MemoryOperation::wait(address, value.into(), 4, flags)?;
        submit(stream, Work::Memory(vec![order].into()))
    }

    fn cuStreamWaitValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: u32) {
        let order = MemoryOperation::wait(address, value, 8, flags)?;
        submit(stream, Work::Memory(vec![order].into()))
    }

    fn cuStreamBatchMemOp_v2(stream: CUstream, count: u32, orders: *mut CUstreamBatchMemOpParams, flags: u32) {
        if flags != 0 || count > BATCH_AT_MOST {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let mut kept = Vec::with_capacity(count as usize);
        for order in list(orders.cast::<[u64; 6]>(), count as usize)? {
            kept.extend(MemoryOperation::read(get(order)?)?);
        }
        submit(stream, Work::Memory(kept.into()))
    }
}

/// The most orders of one batch.
const BATCH_AT_MOST: u32 = 256;
const _: () = assert!(size_of::<CUstreamBatchMemOpParams>() == size_of::<[u64; 6]>());

pub(crate) use self::{
    cuStreamBatchMemOp_v2 as cuStreamBatchMemOp, cuStreamDestroy_v2 as cuStreamDestroy,
    cuStreamWaitValue32_v2 as cuStreamWaitValue32, cuStreamWaitValue64_v2 as cuStreamWaitValue64,
    cuStreamWriteValue32_v2 as cuStreamWriteValue32,
    cuStreamWriteValue64_v2 as cuStreamWriteValue64,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::context::tests::with_context;
    use crate::run::stream::per_thread;

    #[test]
    fn streams_are_made_asked_and_destroyed() {
        with_context(|| {
            let (mut stream, mut priority) = (null_mut(), 0);
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuStreamCreateWithPriority(&raw mut stream, 1, -9), CUDA_SUCCESS);
                assert_eq!(cuStreamGetPriority(stream, &raw mut priority), CUDA_SUCCESS);
                assert_eq!(priority, -5);
                assert_eq!(cuStreamQuery(stream), CUDA_SUCCESS);
                assert_eq!(cuStreamSynchronize(per_thread(null_mut())), CUDA_SUCCESS);
                assert_eq!(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
                assert_eq!(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
                assert_eq!(cuStreamDestroy_v2(null_mut()), CUDA_ERROR_INVALID_HANDLE);
            }
        });
    }

    #[test]
    fn host_functions_run_in_stream_order() {
        unsafe extern "C" fn raise(data: *mut c_void) {
            // SAFETY: the test hands a number that outlives the call.
            unsafe { *data.cast::<u32>() += 1 };
        }
        with_context(|| {
            let mut count = 0_u32;
            // SAFETY: `count` outlives the call.
            unsafe {
                let data = (&raw mut count).cast();
                assert_eq!(cuLaunchHostFunc(null_mut(), Some(raise), data), CUDA_SUCCESS);
                assert_eq!(cuLaunchHostFunc(null_mut(), None, data), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(cuStreamSynchronize(null_mut()), CUDA_SUCCESS);
            }
            assert_eq!(count, 1);
        });
    }
}
