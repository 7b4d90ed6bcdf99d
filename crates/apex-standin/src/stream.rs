//! Streams.
//!
//! All work is done when it is given, so a stream keeps no queue: it has its flags
//! and, while it is captured, its place in the graph. Asking whether it is captured
//! is one read of an atomic word.

use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, put, put_if_wanted};
use crate::context::{Context, context, current};
use crate::object::{create, destroy, handle_of, live, object};
use crate::session::Branch;
use crate::work::{Work, is_capturing, submit};

/// One stream.
pub(crate) struct Stream {
    pub(crate) context: CUcontext,
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

const LEGACY: usize = 1;
const PER_THREAD: usize = 2;
const LEGACY_ID: u64 = 1;
const NON_BLOCKING: u32 = 1;

thread_local! {
    static OWN: Cell<CUstream> = const { Cell::new(null_mut()) };
}

/// The handle that stands for the calling thread's own stream.
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

/// The calling thread's own stream, made when first asked for. It outlives the thread.
fn own() -> Result<CUstream, CUresult> {
    if OWN.get().is_null() {
        OWN.set(make(NON_BLOCKING, 0)?);
    }
    Ok(OWN.get())
}

fn make(flags: u32, priority: i32) -> Result<CUstream, CUresult> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(LEGACY_ID + 1);
    Ok(create(Stream {
        context: current()?.handle(),
        flags,
        priority,
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        capture: AtomicU32::new(0),
        branch: Mutex::new(None),
    }))
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
        if stream.capture_status() != 0 {
            crate::session::invalidate(stream);
        }
        destroy::<Stream, _>(stream.handle())
    }

    #[inline]
    fn cuStreamQuery(stream: CUstream) {
        current()?;
        refuse_capture(resolve(stream)?)
    }

    fn cuStreamSynchronize(stream: CUstream) {
        current()?;
        refuse_capture(resolve(stream)?)
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
        crate::event::wait(for_work(current()?, stream)?, event, flags)
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
        refuse_capture(resolve(stream)?)?;
        callback(stream, CUDA_SUCCESS, data);
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
        word::<AtomicU32>(stream, address)?.store(value, Ordering::Release);
        Ok(())
    }

    fn cuStreamWriteValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, _flags: u32) {
        word::<AtomicU64>(stream, address)?.store(value, Ordering::Release);
        Ok(())
    }

    fn cuStreamWaitValue32_v2(stream: CUstream, address: CUdeviceptr, value: u32, flags: u32) {
        let found = word::<AtomicU32>(stream, address)?.load(Ordering::Acquire);
        let ahead = found.wrapping_sub(value) as i32 >= 0;
        met(u64::from(found), u64::from(value), ahead, u64::from(u32::MAX), flags)
    }

    fn cuStreamWaitValue64_v2(stream: CUstream, address: CUdeviceptr, value: u64, flags: u32) {
        let found = word::<AtomicU64>(stream, address)?.load(Ordering::Acquire);
        let ahead = found.wrapping_sub(value) as i64 >= 0;
        met(found, value, ahead, u64::MAX, flags)
    }
}

pub(crate) use self::{
    cuStreamDestroy_v2 as cuStreamDestroy, cuStreamWaitValue32_v2 as cuStreamWaitValue32,
    cuStreamWaitValue64_v2 as cuStreamWaitValue64, cuStreamWriteValue32_v2 as cuStreamWriteValue32,
    cuStreamWriteValue64_v2 as cuStreamWriteValue64,
};

/// A word of known memory that streams wait for or write.
///
/// # Safety
///
/// The handle is the program's, and `T` is an atomic integer.
unsafe fn word<'a, T>(stream: CUstream, address: u64) -> Result<&'a T, CUresult> {
    current()?;
    // SAFETY: the caller vouches for the handle.
    if is_capturing(unsafe { resolve(stream) }?) {
        return Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    let bytes = size_of::<T>() as u64;
    if !address.is_multiple_of(bytes) || !crate::memory::is_known(address, bytes) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: aligned and known, found just now; any bytes are an integer.
    Ok(unsafe { &*core::ptr::with_exposed_provenance::<T>(address as usize) })
}

/// Whether a wait is over. One that is not would hold the thread that may be the
/// one to end it, so it is refused.
fn met(found: u64, value: u64, ahead: bool, all_bits: u64, flags: u32) -> Answer {
    let over = match flags & 0xf {
        0 => ahead,
        1 => found == value,
        2 => found & value != 0,
        3 => !(found | value) & all_bits != 0,
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    };
    if over { Ok(()) } else { Err(CUDA_ERROR_NOT_SUPPORTED) }
}

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
    fn host_functions_run_before_the_call_returns() {
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
            }
            assert_eq!(count, 1);
        });
    }
}
