//! Streams.
//!
//! A stream is a queue of the schedule and, while it is captured, a place in the
//! graph. Asking whether it is captured is one read of an atomic word. The legacy
//! stream is no [`Stream`]: it is the context's own queue.

use core::cell::RefCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::border::{Answer, get, list, put, put_if_wanted};
use crate::context::{Context, call_back, context, current};
use crate::domain::{Domain, Queue};
use crate::object::{create, destroy, handle_of, live, object};
use crate::order::MemoryOrder;
use crate::schedule::{Job, submit as schedule};
use crate::session::Branch;
use crate::work::{Callback, Work, submit};

/// One stream.
pub(crate) struct Stream {
    pub(crate) context: CUcontext,
    pub(crate) domain: Arc<Domain>,
    pub(crate) queue: Arc<Queue>,
    flags: u32,
    priority: i32,
    id: u64,
    /// 0 not captured, 1 captured, 2 captured until an error came.
    pub(crate) capture: AtomicU32,
    /// Where in the capture the stream stands.
    pub(crate) branch: Mutex<Option<Branch>>,
}
object!(Stream, b"stream--");

impl Stream {
    #[inline]
    pub(crate) fn capture_status(&self) -> CUstreamCaptureStatus {
        self.capture.load(Ordering::Relaxed)
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
pub(crate) fn place<'a>(
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
const LEGACY_ID: u64 = 1;
const NON_BLOCKING: u32 = 1;

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

fn make(flags: u32, priority: i32) -> Result<CUstream, CUresult> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(LEGACY_ID + 1);
    let context = current()?;
    let stream = create(Stream {
        context: context.handle(),
        domain: Arc::clone(&context.domain),
        queue: context.domain.add_queue(priority, flags & NON_BLOCKING == 0),
        flags,
        priority,
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        capture: AtomicU32::new(0),
        branch: Mutex::new(None),
    });
    context.note_stream(stream);
    Ok(stream)
}

/// Refuses a wait of the host for a captured stream; the capture is spoilt by it.
fn refuse_capture(stream: Option<&Stream>) -> Answer {
    match stream {
        Some(stream) if stream.capture_status() != 0 => {
            crate::session::invalidate(stream);
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
        crate::session::depart(stream);
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
        let (domain, queue) = place(context, stream);
        if domain.is_drained(queue) { domain.check() } else { Err(CUDA_ERROR_NOT_READY) }
    }

    fn cuStreamSynchronize(stream: CUstream) {
        let context = current()?;
        let stream = resolve(stream)?;
        refuse_capture(stream)?;
        let (domain, queue) = place(context, stream);
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
        crate::event::wait(context, for_work(context, stream)?, event, flags)
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
        let (domain, queue) = place(context, kept);
        let call = Callback { data, stream };
        schedule(domain, queue, &[], Job::Host(Box::new(move |status| {
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
        crate::memory::range_of(address).map(|_| ()).ok_or(CUDA_ERROR_INVALID_VALUE)
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
        submit(stream, Work::Memory(vec![MemoryOrder::write(address, value.into(), 4)?].into()))
    }

    fn cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, _flags: u32) {
        submit(stream, Work::Memory(vec![MemoryOrder::write(address, value, 8)?].into()))
    }

    fn cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: u32) {
        let order = MemoryOrder::wait(address, value.into(), 4, flags)?;
        submit(stream, Work::Memory(vec![order].into()))
    }

    fn cuStreamWaitValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: u32) {
        let order = MemoryOrder::wait(address, value, 8, flags)?;
        submit(stream, Work::Memory(vec![order].into()))
    }

    fn cuStreamBatchMemOp_v2(stream: CUstream, count: u32, orders: *mut CUstreamBatchMemOpParams, flags: u32) {
        if flags != 0 || count > BATCH_AT_MOST {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let mut kept = Vec::with_capacity(count as usize);
        for order in list(orders.cast::<[u64; 6]>(), count as usize)? {
            kept.extend(MemoryOrder::read(get(order)?)?);
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
    use crate::context::tests::with_context;

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
