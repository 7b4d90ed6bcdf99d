//! The driver's functions for events.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use apex_cuda::types::*;

use crate::border::put;
use crate::machine::device::initialized;
use crate::memory::shared::SharedEvent;
use crate::object::{create, destroy, live, lock};
use crate::run::capture_rules::for_work;
use crate::run::context::{context, current};
use crate::run::domain::Job;
use crate::run::event::{Awaited, DISABLE_TIMING, Event, set_mark, waited_for};
use crate::run::mark::Mark;
use crate::run::scheduler::{enqueue, is_idle, wait as wait_for};
use crate::submit::{EXTERNAL, record_event};

const BLOCKING: u32 = 1;
const INTERPROCESS: u32 = 4;
const FLAGS: u32 = 7;

/// # Safety
///
/// The handle is the program's.
#[inline]
unsafe fn outside_capture<'a>(event: CUevent) -> Result<&'a Event, CUresult> {
    // SAFETY: the caller vouches for the handle.
    let event: &Event = unsafe { live(event) }?;
    if event.is_captured.load(Ordering::Relaxed) {
        let branch = lock(&event.branch).clone();
        return Err(branch.map_or(CUDA_ERROR_INVALID_VALUE, |branch| branch.refuse_question()));
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
        record_event(context, event, for_work(context, stream)?, 0)
    }

    #[inline]
    fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: u32) {
        if flags > EXTERNAL {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let context = current()?;
        record_event(context, event, for_work(context, stream)?, flags)
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
        let task = enqueue(domain, legacy, &domain.tails(), Job::Mark(Arc::clone(&mark)));
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
                enqueue(domain, &queue, &[Arc::clone(&task)], Job::Nothing);
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
    use crate::api::context::tests::with_context;

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
