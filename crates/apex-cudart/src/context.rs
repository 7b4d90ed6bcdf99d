//! The context that is current: the program's own, or the device's primary one, which
//! appears at first use.
//!
//! A thread has a device of its own, at first number 0. A context that the program
//! made current through the driver is respected as long as it is there. The primary
//! contexts are kept for the whole process; when one is reset, [`RESETS`] rises, and a
//! thread whose current context was put there by us before that binds anew.

use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use apex_cuda::Driver;
use apex_cuda::types::{CUcontext, CUdevice};

use crate::border::{Answer, check};
use crate::driver::driver;
use crate::errors::Error;
use crate::{last_error, registry};

/// What a thread remembers.
struct Thread {
    /// The device it chose; below 0 while it has not.
    device: Cell<i32>,
    /// The context that was made current for it here.
    bound: Cell<CUcontext>,
    resets: Cell<u32>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread { device: Cell::new(-1), bound: Cell::new(null_mut()), resets: Cell::new(0) }
    };
}

/// How often a primary context was reset.
static RESETS: AtomicU32 = AtomicU32::new(0);

/// The devices that `cudaSetValidDevices` named; none when it was not called.
static VALID: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// The primary contexts taken so far, by device, as addresses.
static PRIMARIES: Mutex<Vec<(CUdevice, usize)>> = Mutex::new(Vec::new());

fn primaries() -> MutexGuard<'static, Vec<(CUdevice, usize)>> {
    PRIMARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The driver, with a context current for the calling thread.
pub(crate) fn current() -> Result<&'static Driver, Error> {
    let driver = driver()?;
    let context = current_context(driver)?;
    let is_stale = || {
        THREAD.with(|thread| {
            thread.resets.get() != RESETS.load(Ordering::Acquire) && thread.bound.get() == context
        })
    };
    if context.is_null() || is_stale() {
        bind(driver, chosen())?;
    }
    Ok(driver)
}

/// The context that is current, null if none is.
pub(crate) fn current_context(driver: &Driver) -> Result<CUcontext, Error> {
    let mut context = null_mut();
    // SAFETY: the pointer can be written.
    check(unsafe { (driver.cuCtxGetCurrent)(&raw mut context) })?;
    Ok(context)
}

/// The number of the calling thread's device, whether or not it has a context yet.
pub(crate) fn device(driver: &Driver) -> Result<i32, Error> {
    if current_context(driver)?.is_null() {
        return Ok(chosen());
    }
    let mut device = 0;
    // SAFETY: the pointer can be written.
    check(unsafe { (driver.cuCtxGetDevice)(&raw mut device) })?;
    Ok(device)
}

/// The device of that number.
pub(crate) fn device_of(driver: &Driver, ordinal: i32) -> Result<CUdevice, Error> {
    let mut device = 0;
    // SAFETY: the pointer can be written.
    check(unsafe { (driver.cuDeviceGet)(&raw mut device, ordinal) })?;
    Ok(device)
}

fn chosen() -> i32 {
    let device = THREAD.with(|thread| thread.device.get());
    if device >= 0 {
        return device;
    }
    VALID.lock().unwrap_or_else(PoisonError::into_inner).first().copied().unwrap_or(0)
}

/// Says which devices a thread that chooses none may be given.
pub(crate) fn set_valid(devices: &[i32]) {
    *VALID.lock().unwrap_or_else(PoisonError::into_inner) = devices.to_vec();
}

/// Makes a device the calling thread's, with its primary context.
pub(crate) fn choose(driver: &Driver, ordinal: i32) -> Answer {
    device_of(driver, ordinal)?;
    bind(driver, ordinal)?;
    THREAD.with(|thread| thread.device.set(ordinal));
    Ok(())
}

fn bind(driver: &Driver, ordinal: i32) -> Answer {
    // Read before the context is taken: a reset in between makes the thread bind again.
    let resets = RESETS.load(Ordering::Acquire);
    let (context, is_new) = take_primary(driver, ordinal)?;
    // SAFETY: the context is retained.
    check(unsafe { (driver.cuCtxSetCurrent)(context) })?;
    THREAD.with(|thread| {
        thread.bound.set(context);
        thread.resets.set(resets);
    });
    if is_new {
        registry::place_managed_variables(driver)?;
    }
    Ok(())
}

/// The primary context of a device, retained once per process.
pub(crate) fn primary(driver: &Driver, ordinal: i32) -> Result<CUcontext, Error> {
    take_primary(driver, ordinal).map(|(context, _)| context)
}

fn take_primary(driver: &Driver, ordinal: i32) -> Result<(CUcontext, bool), Error> {
    let device = device_of(driver, ordinal)?;
    let mut primaries = primaries();
    if let Some(&(_, context)) = primaries.iter().find(|(known, _)| *known == device) {
        return Ok((core::ptr::with_exposed_provenance_mut(context), false));
    }
    let mut context = null_mut();
    // SAFETY: the pointer can be written.
    check(unsafe { (driver.cuDevicePrimaryCtxRetain)(&raw mut context, device) })?;
    primaries.push((device, context.expose_provenance()));
    Ok((context, true))
}

/// Destroys all that the device's primary context holds; the next call begins anew.
pub(crate) fn reset(driver: &Driver) -> Answer {
    let ordinal = device(driver)?;
    let device = device_of(driver, ordinal)?;
    let mut primaries = primaries();
    let was_taken = primaries.iter().any(|(known, _)| *known == device);
    primaries.retain(|(known, _)| *known != device);
    RESETS.fetch_add(1, Ordering::AcqRel);
    drop(primaries);
    THREAD.with(|thread| thread.bound.set(null_mut()));
    last_error::clear();
    if was_taken {
        // SAFETY: no context of ours is current afterwards, so none that was reset is used.
        unsafe {
            check((driver.cuCtxSetCurrent)(null_mut()))?;
            check((driver.cuDevicePrimaryCtxReset_v2)(device))?;
        }
    }
    Ok(())
}
