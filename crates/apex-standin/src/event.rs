//! Events: the host time at which a stream reached a point.
//!
//! A stream reaches every point at once, so the time of the record is the time of
//! the call. Recorded in a captured stream, an event stands for a place in the
//! graph instead, and carries the capture to a stream that waits for it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, put};
use crate::context::{context, current};
use crate::device::initialized;
use crate::object::{create, destroy, live, lock, object};
use crate::session::{Branch, append, invalidate, join};
use crate::stream::{Stream, for_work};
use crate::work::Work;

/// One event.
pub(crate) struct Event {
    flags: u32,
    /// Nanoseconds of the monotonic clock; 0 before the first record.
    time: AtomicU64,
    is_captured: AtomicBool,
    /// The place in a capture where it was last recorded.
    place: Mutex<Option<Branch>>,
}
object!(Event, b"event---");

const DISABLE_TIMING: u32 = 2;
const FLAGS: u32 = 7;
/// Asks for a node in the graph where a record or wait is captured.
const EXTERNAL: u32 = 1;

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` can be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Records an event outside any capture.
///
/// # Safety
///
/// The handle is the program's.
#[inline]
pub(crate) unsafe fn mark(event: CUevent) -> Answer {
    // SAFETY: the caller vouches for the handle.
    let event: &Event = unsafe { live(event) }?;
    event.time.store(now(), Ordering::Release);
    if event.is_captured.load(Ordering::Relaxed) {
        event.is_captured.store(false, Ordering::Relaxed);
        *lock(&event.place) = None;
    }
    Ok(())
}

/// # Safety
///
/// The handle is the program's.
#[inline]
unsafe fn record(event: CUevent, stream: Option<&Stream>, flags: u32) -> Answer {
    match stream {
        Some(stream) if stream.capture_status() != 0 => {
            // SAFETY: the caller vouches for the handle.
            let place: &Event = unsafe { live(event) }?;
            if flags & EXTERNAL != 0 {
                return append(Some(stream), Work::Record(event));
            }
            *lock(&place.place) = crate::session::place(stream);
            place.is_captured.store(true, Ordering::Relaxed);
            Ok(())
        }
        // SAFETY: the caller vouches for the handle.
        _ => unsafe { mark(event) },
    }
}

/// Lets a stream wait for an event.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn wait(stream: Option<&Stream>, handle: CUevent, flags: u32) -> Answer {
    // SAFETY: the caller vouches for the handle.
    let event: &Event = unsafe { live(handle) }?;
    if event.is_captured.load(Ordering::Relaxed) {
        let place = lock(&event.place).clone().ok_or(CUDA_ERROR_INVALID_VALUE)?;
        return join(stream, place);
    }
    match stream {
        Some(stream) if stream.capture_status() != 0 => {
            if flags & EXTERNAL != 0 {
                append(Some(stream), Work::Wait(handle))
            } else if event.time.load(Ordering::Relaxed) != 0 {
                invalidate(stream);
                Err(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

/// # Safety
///
/// The handle is the program's.
#[inline]
unsafe fn outside_capture<'a>(event: CUevent) -> Result<&'a Event, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let event: &Event = unsafe { live(event) }?;
    if event.is_captured.load(Ordering::Relaxed) {
        let place = lock(&event.place).clone();
        return Err(place.map_or(CUDA_ERROR_INVALID_VALUE, |place| place.refuse_question()));
    }
    Ok(event)
}

/// # Safety
///
/// The handle is the program's.
unsafe fn time_of(event: CUevent) -> Result<u64, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let event = unsafe { outside_capture(event) }?;
    let time = event.time.load(Ordering::Acquire);
    let timed = event.flags & DISABLE_TIMING == 0 && time != 0;
    if timed { Ok(time) } else { Err(CUDA_ERROR_INVALID_HANDLE) }
}

answers! {
    fn cuEventCreate(out: *mut CUevent, flags: u32) {
        current()?;
        if flags > FLAGS {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, create(Event {
            flags,
            time: AtomicU64::new(0),
            is_captured: AtomicBool::new(false),
            place: Mutex::new(None),
        }))
    }

    fn cuEventDestroy_v2(event: CUevent) {
        initialized()?;
        destroy::<Event, _>(event)
    }

    #[inline]
    fn cuEventRecord(event: CUevent, stream: CUstream) {
        record(event, for_work(current()?, stream)?, 0)
    }

    #[inline]
    fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: u32) {
        if flags > EXTERNAL {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        record(event, for_work(current()?, stream)?, flags)
    }

    #[inline]
    fn cuEventQuery(event: CUevent) {
        initialized()?;
        outside_capture(event).map(|_| ())
    }

    fn cuEventSynchronize(event: CUevent) {
        initialized()?;
        outside_capture(event).map(|_| ())
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        initialized()?;
        let nanos = time_of(end)?.wrapping_sub(time_of(start)?) as i64;
        put(milliseconds, (nanos as f64 / 1e6) as f32)
    }

    fn cuCtxRecordEvent(handle: CUcontext, event: CUevent) {
        context(handle)?;
        mark(event)
    }

    fn cuCtxWaitEvent(handle: CUcontext, event: CUevent) {
        context(handle)?;
        outside_capture(event).map(|_| ())
    }
}

pub(crate) use self::{
    cuEventDestroy_v2 as cuEventDestroy, cuEventElapsedTime_v2 as cuEventElapsedTime,
};

#[cfg(test)]
mod tests {
    use core::ptr::null_mut;

    use super::*;
    use crate::context::tests::with_context;

    #[test]
    fn events_carry_host_times() {
        with_context(|| {
            let (mut start, mut end, mut milliseconds) = (null_mut(), null_mut(), 0.0);
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuEventCreate(&raw mut start, 0), CUDA_SUCCESS);
                assert_eq!(cuEventCreate(&raw mut end, 0), CUDA_SUCCESS);
                assert_eq!(cuEventRecord(start, null_mut()), CUDA_SUCCESS);
                let elapsed = cuEventElapsedTime(&raw mut milliseconds, start, end);
                assert_eq!(elapsed, CUDA_ERROR_INVALID_HANDLE, "the end was not recorded");
                std::thread::sleep(std::time::Duration::from_millis(2));
                assert_eq!(cuEventRecord(end, null_mut()), CUDA_SUCCESS);
                assert_eq!(cuEventElapsedTime(&raw mut milliseconds, start, end), CUDA_SUCCESS);
                assert!((2.0..2000.0).contains(&milliseconds), "{milliseconds}");
                assert_eq!(cuEventQuery(end), CUDA_SUCCESS);
                assert_eq!(cuEventDestroy_v2(end), CUDA_SUCCESS);
                assert_eq!(cuEventQuery(end), CUDA_ERROR_INVALID_HANDLE);
            }
        });
    }

    #[test]
    fn untimed_events_have_no_time() {
        with_context(|| {
            let (mut event, mut milliseconds) = (null_mut(), 0.0);
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuEventCreate(&raw mut event, DISABLE_TIMING), CUDA_SUCCESS);
                assert_eq!(cuEventRecord(event, null_mut()), CUDA_SUCCESS);
                let elapsed = cuEventElapsedTime(&raw mut milliseconds, event, event);
                assert_eq!(elapsed, CUDA_ERROR_INVALID_HANDLE);
            }
        });
    }
}
