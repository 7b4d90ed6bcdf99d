//! A device's context, its streams and events: calls of the driver, each with its result checked.
//!
//! A [`Context`] is one device's primary context with what the executor keeps in it: lanes (the driver's
//! streams, see [`crate::order`]), a memory pool of its own (see [`crate::memory`]) and the names of kernels.
//! Handles of the driver never leave the crate; they are made here, in `memory` and in `code`, belong to this
//! context, and die after everything that uses them, because everything holds an `Arc` of it. That is what every
//! `SAFETY` line in those files stands on.

use crate::device::DeviceFacts;
use crate::error::{Error, Result};
use crate::order::Lane;
use apex_cuda::Driver;
use apex_cuda::types::*;
use core::ffi::CStr;
use cudarc::driver::sys;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Streams that an executor can have at once.
pub(crate) const LANES: usize = 1024;

/// A device ready for work.
pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) facts: DeviceFacts,
    device: CUdevice,
    raw: Handle<sys::CUctx_st>,
    pub(crate) pool: Option<Handle<sys::CUmemPoolHandle_st>>,
    /// Append-only; a lane's number is its place.
    lanes: RwLock<Vec<Arc<Lane>>>,
    /// Numbers of lanes whose stream was dropped, to be used again.
    idle_lanes: Mutex<Vec<u16>>,
    /// Names of kernels by number.
    kernel_names: Mutex<Vec<Arc<str>>>,
    /// Pinned memory given back, by size.
    pub(crate) idle_pinned: Mutex<Vec<(usize, PinnedHandle)>>,
}

/// A handle of the driver, or an address of pinned memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handle<T>(pub(crate) *mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: a handle is a number to this side, and the driver's functions may be called with it by any thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// An event of the driver.
pub(crate) type EventHandle = Handle<sys::CUevent_st>;
/// A stream of the driver.
pub(crate) type StreamHandle = Handle<sys::CUstream_st>;
/// Pinned memory.
pub(crate) type PinnedHandle = Handle<c_void>;

/// Turns a result of the driver into ours.
pub(crate) fn check(call: &'static str, result: CUresult) -> Result<()> {
    if result == CUDA_SUCCESS { Ok(()) } else { Err(failure(call, result)) }
}

#[cold]
fn failure(call: &'static str, code: CUresult) -> Error {
    let text = |known: Option<&'static CStr>| known.unwrap_or(c"unknown").to_string_lossy();
    let text = format!("{}: {}", text(result_name(code)), text(result_text(code)));
    Error::Driver { call, code, text, kernel: None }
}

/// Calls a function of the driver and checks what it says.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $crate::context::check(stringify!($name), ($driver.$name)($($argument),*))
    };
}
pub(crate) use call;

/// How many devices a driver has.
pub(crate) fn count_devices(driver: &Driver) -> Result<u32> {
    let mut count = 0;
    // SAFETY: plain calls with an out-pointer to a local.
    unsafe {
        call!(driver, cuInit(0))?;
        call!(driver, cuDeviceGetCount(&raw mut count))?;
    }
    Ok(count.cast_unsigned())
}

/// Whether a driver is the software GPU under the driver's name.
pub(crate) fn first_is_software(driver: &Driver) -> bool {
    count_devices(driver).is_ok_and(|count| count > 0)
        && DeviceQuery { driver, device: 0 }
            .name()
            .is_ok_and(|name| name.starts_with("apex software GPU"))
}

/// Asks one device about itself.
pub(crate) struct DeviceQuery<'a> {
    driver: &'a Driver,
    device: CUdevice,
}

impl DeviceQuery<'_> {
    pub(crate) fn get(&self, attribute: sys::CUdevice_attribute) -> Result<u32> {
        let mut value = 0;
        // SAFETY: an out-pointer to a local.
        unsafe {
            call!(
                self.driver,
                cuDeviceGetAttribute(&raw mut value, attribute as u32, self.device)
            )?;
        }
        Ok(value.cast_unsigned())
    }

    pub(crate) fn name(&self) -> Result<String> {
        let mut name = [0_u8; 256];
        // SAFETY: the driver writes at most as many bytes as it is told, with a NUL.
        unsafe {
            call!(self.driver, cuDeviceGetName(name.as_mut_ptr().cast(), 256, self.device))?;
        }
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    pub(crate) fn memory_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: an out-pointer to a local.
        unsafe { call!(self.driver, cuDeviceTotalMem_v2(&raw mut bytes, self.device))? };
        Ok(bytes as u64)
    }

    pub(crate) fn driver_version(&self) -> Result<u32> {
        let mut version = 0;
        // SAFETY: an out-pointer to a local.
        unsafe { call!(self.driver, cuDriverGetVersion(&raw mut version))? };
        Ok(version.cast_unsigned())
    }
}

impl Context {
    /// Takes the primary context of a device and makes its first lane.
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
        let query = DeviceQuery { driver, device };
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
            lanes: RwLock::default(),
            idle_lanes: Mutex::default(),
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

    /// Takes a lane, one that was used before where there is one.
    pub(crate) fn take_lane(&self) -> Result<Arc<Lane>> {
        self.bind()?;
        if let Some(number) = lock(&self.idle_lanes).pop() {
            return Ok(self.lane(number));
        }
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() >= LANES {
            return Err(Error::TooMany { what: "streams", limit: LANES });
        }
        let mut stream = core::ptr::null_mut();
        // SAFETY: an out-pointer to a local.
        unsafe {
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            call!(self.driver, cuStreamCreate(&raw mut stream, flags))?;
        }
        let mark = self.make_event(false)?;
        // Fewer than `LANES`, so the number fits.
        let lane = Arc::new(Lane::new(Handle(stream), lanes.len() as u16, mark));
        lanes.push(lane.clone());
        Ok(lane)
    }

    /// Gives a lane back; what was put into it goes on.
    pub(crate) fn give_back_lane(&self, lane: &Lane) {
        lock(&self.idle_lanes).push(lane.number());
    }

    /// A lane by its number.
    pub(crate) fn lane(&self, number: u16) -> Arc<Lane> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes[usize::from(number)].clone()
    }

    /// Gives a kernel's name a number, so that a lane can remember the last one cheaply.
    pub(crate) fn number_kernel(&self, name: &str) -> u32 {
        let mut names = lock(&self.kernel_names);
        names.push(name.into());
        u32::try_from(names.len()).unwrap_or(0)
    }

    /// Adds to an error the kernel that this lane launched last.
    pub(crate) fn blame(&self, error: Error, lane: &Lane) -> Error {
        match error {
            Error::Driver { call, code, text, kernel: None } => {
                let number = lane.last_kernel() as usize;
                let names = lock(&self.kernel_names);
                let name = number.checked_sub(1).and_then(|place| names.get(place));
                Error::Driver { call, code, text, kernel: name.map(ToString::to_string) }
            }
            other => other,
        }
    }

    /// Waits for everything in a lane.
    pub(crate) fn synchronize_lane(&self, lane: &Lane) -> Result<()> {
        self.bind()?;
        // SAFETY: the lane's stream lives as long as the context.
        unsafe { call!(self.driver, cuStreamSynchronize(lane.stream().0)) }
            .map_err(|error| self.blame(error, lane))
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

    /// Lets an event mark what is in the lane now.
    pub(crate) fn record_event(&self, event: EventHandle, lane: &Lane) -> Result<()> {
        self.bind()?;
        // SAFETY: event and stream are of this context.
        unsafe { call!(self.driver, cuEventRecord(event.0, lane.stream().0)) }
            .map_err(|error| self.blame(error, lane))
    }

    /// Lets a lane wait, on the device, for what an event marks.
    pub(crate) fn wait_event(&self, event: EventHandle, lane: &Lane) -> Result<()> {
        self.bind()?;
        // SAFETY: event and stream are of this context.
        unsafe { call!(self.driver, cuStreamWaitEvent(lane.stream().0, event.0, 0)) }
            .map_err(|error| self.blame(error, lane))
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
            for lane in self.lanes.get_mut().unwrap_or_else(PoisonError::into_inner) {
                (self.driver.cuEventDestroy_v2)(lane.mark_for_drop().0);
                (self.driver.cuStreamDestroy_v2)(lane.stream().0);
            }
            if let Some(pool) = self.pool {
                (self.driver.cuMemPoolDestroy)(pool.0);
            }
            (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device);
        }
    }
}

/// A lock whose content is whole even where a holder panicked: each is changed in one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
