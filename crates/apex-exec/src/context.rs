//! A device's context, its streams and events.
//!
//! A [`Context`] is one device's primary context with what the executor keeps in it: queues (the driver's
//! streams, see [`crate::order`]), a memory pool of its own (see [`crate::memory`]) and the names of kernels.
//! Handles of the driver never leave the crate; they are made here, in `memory` and in `code`, belong to this
//! context, and die after everything that uses them, because everything holds an `Arc` of it. That is what every
//! `SAFETY` line in those files stands on.

use crate::calls::{EventHandle, Handle, PinnedHandle, call, check};
use crate::device::DeviceFacts;
use crate::error::{Error, Result};
use crate::lock::lock;
use crate::query::{DeviceQuery, count_devices};
use crate::queue::Queue;
use apex_cuda::Driver;
use apex_cuda::types::*;
use cudarc::driver::sys;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Streams that an executor can have at once.
pub(crate) const QUEUES: usize = 1024;

/// A device ready for work.
pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) facts: DeviceFacts,
    device: CUdevice,
    raw: Handle<sys::CUctx_st>,
    pub(crate) pool: Option<Handle<sys::CUmemPoolHandle_st>>,
    /// Append-only; a queue's number is its place.
    queues: RwLock<Vec<Arc<Queue>>>,
    /// Numbers of queues whose stream was dropped, to be used again.
    idle_queues: Mutex<Vec<u16>>,
    /// Names of kernels by number.
    kernel_names: Mutex<Vec<Arc<str>>>,
    /// Pinned memory given back, by size.
    pub(crate) idle_pinned: Mutex<Vec<(usize, PinnedHandle)>>,
}

impl Context {
    /// Takes the primary context of a device and makes its first queue.
    pub(crate) fn new(driver: &'static Driver, number: u32) -> Result<Arc<Context>> {
        let count = count_devices(driver)?;
        if number >= count {
            return Err(Error::NoDevice {
                asked: format!("device {number}"),
                reason: format!("there are {count}, counted from 0"),
            });
        }
        let mut device = 0;
        let mut raw = core::ptr::null_mut();
        // SAFETY: out-pointers to locals; the number is below the count.
        unsafe {
            call!(driver, cuDeviceGet(&raw mut device, number.cast_signed()))?;
            call!(driver, cuDevicePrimaryCtxRetain(&raw mut raw, device))?;
        }
        let query = DeviceQuery::new(driver, device);
        let facts = DeviceFacts::read(&query);
        let has_pools = query
            .get(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)
            .is_ok_and(|supported| supported != 0);
        let mut context = Context {
            driver,
            facts: facts.inspect_err(|_| {
                // SAFETY: retained above, once.
                unsafe { (driver.cuDevicePrimaryCtxRelease_v2)(device) };
            })?,
            device,
            raw: Handle(raw),
            pool: None,
            queues: RwLock::default(),
            idle_queues: Mutex::default(),
            kernel_names: Mutex::default(),
            idle_pinned: Mutex::default(),
        };
        context.bind()?;
        if has_pools {
            context.pool = context.make_pool(device).ok();
        }
        Ok(Arc::new(context))
    }

    /// Makes the context current on this thread; every way into the driver begins here.
    pub(crate) fn bind(&self) -> Result<()> {
        let mut current = core::ptr::null_mut();
        // SAFETY: an out-pointer to a local; the context lives as long as `self`.
        unsafe {
            call!(self.driver, cuCtxGetCurrent(&raw mut current))?;
            if current != self.raw.0 {
                call!(self.driver, cuCtxSetCurrent(self.raw.0))?;
            }
        }
        Ok(())
    }

    /// Takes a queue, one that was used before where there is one.
    pub(crate) fn take_queue(&self) -> Result<Arc<Queue>> {
        self.bind()?;
        if let Some(number) = lock(&self.idle_queues).pop() {
            return Ok(self.queue(number));
        }
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        if queues.len() >= QUEUES {
            return Err(Error::TooMany { what: "streams", limit: QUEUES });
        }
        let mut stream = core::ptr::null_mut();
        // SAFETY: an out-pointer to a local.
        unsafe {
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            call!(self.driver, cuStreamCreate(&raw mut stream, flags))?;
        }
        let mark = self.make_event(false)?;
        // Fewer than `QUEUES`, so the number fits.
        let queue = Arc::new(Queue::new(Handle(stream), queues.len() as u16, mark));
        queues.push(queue.clone());
        Ok(queue)
    }

    /// Gives a queue back; what was put into it goes on.
    pub(crate) fn give_back_queue(&self, queue: &Queue) {
        lock(&self.idle_queues).push(queue.number());
    }

    /// A queue by its number.
    pub(crate) fn queue(&self, number: u16) -> Arc<Queue> {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues[usize::from(number)].clone()
    }

    /// Gives a kernel's name a number, so that a queue can remember the last one cheaply.
    pub(crate) fn number_kernel(&self, name: &str) -> u32 {
        let mut names = lock(&self.kernel_names);
        names.push(name.into());
        u32::try_from(names.len()).unwrap_or(0)
    }

    /// Adds to an error the kernel that this queue launched last.
    pub(crate) fn blame(&self, error: Error, queue: &Queue) -> Error {
        match error {
            Error::Driver { call, code, text, kernel: None } => {
                let number = queue.last_kernel() as usize;
                let names = lock(&self.kernel_names);
                let name = number.checked_sub(1).and_then(|place| names.get(place));
                Error::Driver { call, code, text, kernel: name.map(ToString::to_string) }
            }
            other => other,
        }
    }

    /// Waits for everything in a queue.
    pub(crate) fn synchronize_queue(&self, queue: &Queue) -> Result<()> {
        self.bind()?;
        // SAFETY: the queue's stream lives as long as the context.
        unsafe { call!(self.driver, cuStreamSynchronize(queue.stream().0)) }
            .map_err(|error| self.blame(error, queue))
    }

    /// Waits for everything on the device that this process gave it.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: a plain call.
        unsafe { call!(self.driver, cuCtxSynchronize()) }
    }

    /// An event of the driver.
    pub(crate) fn make_event(&self, timed: bool) -> Result<EventHandle> {
        self.bind()?;
        let mut event = core::ptr::null_mut();
        let flags = if timed {
            sys::CUevent_flags::CU_EVENT_DEFAULT
        } else {
            sys::CUevent_flags::CU_EVENT_DISABLE_TIMING
        };
        // SAFETY: an out-pointer to a local.
        unsafe { call!(self.driver, cuEventCreate(&raw mut event, flags as u32))? };
        Ok(Handle(event))
    }

    /// Lets an event mark what is in the queue now.
    pub(crate) fn record_event(&self, event: EventHandle, queue: &Queue) -> Result<()> {
        self.bind()?;
        // SAFETY: event and stream are of this context.
        unsafe { call!(self.driver, cuEventRecord(event.0, queue.stream().0)) }
            .map_err(|error| self.blame(error, queue))
    }

    /// Lets a queue wait, on the device, for what an event marks.
    pub(crate) fn wait_event(&self, event: EventHandle, queue: &Queue) -> Result<()> {
        self.bind()?;
        // SAFETY: event and stream are of this context.
        unsafe { call!(self.driver, cuStreamWaitEvent(queue.stream().0, event.0, 0)) }
            .map_err(|error| self.blame(error, queue))
    }

    /// Waits for what an event marks.
    pub(crate) fn synchronize_event(&self, event: EventHandle) -> Result<()> {
        self.bind()?;
        // SAFETY: the event is of this context.
        unsafe { call!(self.driver, cuEventSynchronize(event.0)) }
    }

    /// Whether what an event marks is done.
    pub(crate) fn is_event_done(&self, event: EventHandle) -> Result<bool> {
        self.bind()?;
        // SAFETY: the event is of this context.
        match unsafe { (self.driver.cuEventQuery)(event.0) } {
            CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuEventQuery", result).map(|()| true),
        }
    }

    /// Milliseconds between two events that are done.
    pub(crate) fn milliseconds(&self, earlier: EventHandle, later: EventHandle) -> Result<f32> {
        self.bind()?;
        let mut milliseconds = 0.0;
        // SAFETY: an out-pointer to a local; the events are of this context.
        unsafe {
            call!(self.driver, cuEventElapsedTime(&raw mut milliseconds, earlier.0, later.0))?
        };
        Ok(milliseconds)
    }

    /// Gives an event back.
    pub(crate) fn destroy_event(&self, event: EventHandle) {
        if self.bind().is_ok() {
            // SAFETY: its only owner is being dropped; the driver keeps it as long as a stream needs it.
            unsafe { (self.driver.cuEventDestroy_v2)(event.0) };
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.bind().is_err() {
            return;
        }
        let idle = core::mem::take(&mut *lock(&self.idle_pinned));
        // SAFETY: nobody else holds the context, so nothing uses its handles any more.
        unsafe {
            (self.driver.cuCtxSynchronize)();
            for (_, address) in idle {
                (self.driver.cuMemFreeHost)(address.0);
            }
            for queue in self.queues.get_mut().unwrap_or_else(PoisonError::into_inner) {
                (self.driver.cuEventDestroy_v2)(queue.mark_for_drop().0);
                (self.driver.cuStreamDestroy_v2)(queue.stream().0);
            }
            if let Some(pool) = self.pool {
                (self.driver.cuMemPoolDestroy)(pool.0);
            }
            (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device);
        }
    }
}
