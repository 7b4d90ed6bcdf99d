//! Events: points in the order of a stream, and when they were reached.
//!
//! Recording makes a new [`Mark`] for the event and a task that reaches it; the event
//! always tells of its last mark, and a mark outlives its event while its task waits.
//! Recorded in a captured stream, an event stands for a place in the graph instead,
//! and carries the capture to a stream that waits for it. An event that is shared
//! with other processes also counts its records in memory that they see.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use apex_cuda::types::*;

use crate::border::{Answer, put};
use crate::clock;
use crate::context::{Context, context, current};
use crate::device::initialized;
use crate::domain::Domain;
use crate::ipc::SharedEvent;
use crate::object::{create, destroy, live, lock, object};
use crate::schedule::{Job, Task, is_idle, submit, wait as wait_for};
use crate::session::{Branch, append, invalidate, join};
use crate::stream::{Stream, for_work, place};
use crate::work::{Work, give};

/// One event.
pub(crate) struct Event {
    flags: u32,
    domain: Arc<Domain>,
    state: Mutex<Recorded>,
    is_captured: AtomicBool,
    /// The place in a capture where it was last recorded.
    place: Mutex<Option<Branch>>,
    /// What other processes see of it.
    pub(crate) shared: Option<Arc<SharedEvent>>,
}
object!(Event, b"event---");

/// The last record of an event.
#[derive(Clone, Default)]
struct Recorded {
    mark: Option<Arc<Mark>>,
    /// The task that reaches the mark; none when it was reached at once.
    task: Option<Arc<Task>>,
}

/// A point that a stream reaches, and when it did.
pub(crate) struct Mark {
    /// Nanoseconds on the device's clock; 0 before.
    time: AtomicU64,
    /// The count that other processes wait for, when the event is shared.
    shared: Mutex<Option<(Arc<SharedEvent>, u64)>>,
}

/// What a wait for an event waits for.
pub(crate) enum Awaited {
    /// The event was reached, or never recorded.
    Nothing,
    Task(Arc<Task>),
    /// A point in another process.
    Elsewhere(Box<dyn FnMut() -> bool + Send>),
}

const BLOCKING: u32 = 1;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;
const FLAGS: u32 = 7;
/// Asks for a node in the graph where a record or wait is captured.
const EXTERNAL: u32 = 1;

impl Mark {
    pub(crate) fn new() -> Arc<Mark> {
        Arc::new(Mark { time: AtomicU64::new(0), shared: Mutex::new(None) })
    }

    /// The stream is at the point.
    pub(crate) fn reach(&self, time: u64) {
        self.time.store(time, Ordering::Release);
        if let Some((shared, count)) = lock(&self.shared).as_ref() {
            shared.reach(*count);
        }
    }
}

impl Event {
    /// An event of this process or, with `shared`, of another one.
    pub(crate) fn new(context: &Context, flags: u32, shared: Option<Arc<SharedEvent>>) -> Event {
        Event {
            flags,
            domain: Arc::clone(&context.domain),
            state: Mutex::default(),
            is_captured: AtomicBool::new(false),
            place: Mutex::new(None),
            shared,
        }
    }

    fn recorded(&self) -> Recorded {
        lock(&self.state).clone()
    }

    /// Whether its last record was reached, here or elsewhere.
    fn is_reached(&self) -> bool {
        let here = self.recorded().task.is_none_or(|task| task.is_done());
        here && self.shared.as_ref().is_none_or(|shared| shared.is_reached())
    }

    fn set(&self, mark: Arc<Mark>, task: Option<Arc<Task>>) {
        if self.is_captured.swap(false, Ordering::Relaxed) {
            *lock(&self.place) = None;
        }
        if let Some(shared) = &self.shared {
            let count = shared.record();
            let mut kept = lock(&mark.shared);
            // The task may have reached the mark before the count was known.
            if mark.time.load(Ordering::Acquire) != 0 {
                shared.reach(count);
            }
            *kept = Some((Arc::clone(shared), count));
        }
        *lock(&self.state) = Recorded { mark: Some(mark), task };
    }
}

/// The event was recorded by a task.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn set_mark(event: CUevent, mark: Arc<Mark>, task: &Arc<Task>) -> Answer {
    // SAFETY: the caller vouches for the handle.
    unsafe { live::<Event, _>(event) }?.set(mark, Some(Arc::clone(task)));
    Ok(())
}

/// The event is recorded and reached at once.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn reach_now(event: CUevent) -> Answer {
    let mark = Mark::new();
    mark.reach(clock::now(0));
    // SAFETY: the caller vouches for the handle.
    unsafe { live::<Event, _>(event) }?.set(mark, None);
    Ok(())
}

/// What a wait for the event waits for now.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn waited_for(event: CUevent) -> Result<Awaited, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let event: &Event = unsafe { live(event) }?;
    if let Some(task) = event.recorded().task.filter(|task| !task.is_done() || clock::is_virtual())
    {
        return Ok(Awaited::Task(task));
    }
    Ok(match &event.shared {
        Some(shared) if !shared.is_reached() => {
            let (shared, count) = (Arc::clone(shared), shared.recorded());
            Awaited::Elsewhere(Box::new(move || shared.has_reached(count)))
        }
        _ => Awaited::Nothing,
    })
}

/// # Safety
///
/// The handle is the program's.
#[inline]
unsafe fn record(context: &Context, event: CUevent, stream: Option<&Stream>, flags: u32) -> Answer {
    // SAFETY: the caller vouches for the handle.
    let recorded: &Event = unsafe { live(event) }?;
    match stream {
        Some(stream) if stream.capture_status() != 0 => {
            if flags & EXTERNAL != 0 {
                return append(Some(stream), Work::Record(event));
            }
            *lock(&recorded.place) = crate::session::place(stream);
            recorded.is_captured.store(true, Ordering::Relaxed);
            Ok(())
        }
        _ => {
            let (domain, queue) = place(context, stream);
            // SAFETY: the caller vouches for the handle.
            unsafe { give(domain, queue, Work::Record(event)) }.map(|_| ())
        }
    }
}

/// Lets a stream wait for an event.
///
/// # Safety
///
/// The handle is the program's.
pub(crate) unsafe fn wait(
    context: &Context,
    stream: Option<&Stream>,
    handle: CUevent,
    flags: u32,
) -> Answer {
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
            } else if event.recorded().mark.is_some() {
                invalidate(stream);
                Err(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
            } else {
                Ok(())
            }
        }
        _ => {
            let (domain, queue) = place(context, stream);
            // SAFETY: the caller vouches for the handle.
            let (after, job) = match unsafe { waited_for(handle) }? {
                Awaited::Nothing => return Ok(()),
                Awaited::Task(task) => (Some(task), Job::Nothing),
                Awaited::Elsewhere(is_over) => (None, Job::Until(is_over)),
            };
            submit(domain, queue, after.as_slice(), job);
            Ok(())
        }
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
    let mark = event.recorded().mark.filter(|_| event.flags & DISABLE_TIMING == 0);
    let time = mark.ok_or(CUDA_ERROR_INVALID_HANDLE)?.time.load(Ordering::Acquire);
    event.domain.check()?;
    if time != 0 { Ok(time) } else { Err(CUDA_ERROR_NOT_READY) }
}

answers! {
    fn cuEventCreate(out: *mut CUevent, flags: u32) {
        let context = current()?;
        let untimed = flags & DISABLE_TIMING != 0;
        if flags > FLAGS || (flags & INTERPROCESS != 0 && !untimed) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let shared = match flags & INTERPROCESS {
            0 => None,
            _ => Some(SharedEvent::create()?),
        };
        put(out, create(Event::new(context, flags, shared)))
    }

    fn cuEventDestroy_v2(event: CUevent) {
        initialized()?;
        destroy::<Event, _>(event)
    }

    #[inline]
    fn cuEventRecord(event: CUevent, stream: CUstream) {
        let context = current()?;
        record(context, event, for_work(context, stream)?, 0)
    }

    #[inline]
    fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: u32) {
        if flags > EXTERNAL {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let context = current()?;
        record(context, event, for_work(context, stream)?, flags)
    }

    #[inline]
    fn cuEventQuery(event: CUevent) {
        initialized()?;
        let event = outside_capture(event)?;
        event.domain.check()?;
        if event.is_reached() { Ok(()) } else { Err(CUDA_ERROR_NOT_READY) }
    }

    fn cuEventSynchronize(event: CUevent) {
        initialized()?;
        let event = outside_capture(event)?;
        if let Some(task) = event.recorded().task {
            wait_for(&task, event.flags & BLOCKING == 0);
        }
        if let Some(shared) = &event.shared {
            shared.wait();
        }
        crate::print::flush();
        event.domain.check()
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent) {
        initialized()?;
        let nanos = time_of(end)?.wrapping_sub(time_of(start)?) as i64;
        put(milliseconds, (nanos as f64 / 1e6) as f32)
    }

    fn cuCtxRecordEvent(handle: CUcontext, event: CUevent) {
        let context = context(handle)?;
        live::<Event, _>(event)?;
        // A point after all work of the context.
        let mark = Mark::new();
        let (domain, legacy) = (&context.domain, &context.domain.legacy);
        let task = submit(domain, legacy, &domain.tails(), Job::Mark(Arc::clone(&mark)));
        set_mark(event, mark, &task)
    }

    fn cuCtxWaitEvent(handle: CUcontext, event: CUevent) {
        let context = context(handle)?;
        outside_capture(event)?;
        let (domain, legacy) = (&context.domain, &context.domain.legacy);
        if let Awaited::Task(task) = waited_for(event)?
            && !is_idle(domain, legacy) | !task.is_done()
        {
            for queue in domain.all_queues() {
                submit(domain, &queue, &[Arc::clone(&task)], Job::Nothing);
            }
        }
        Ok(())
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
    fn events_carry_times() {
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
