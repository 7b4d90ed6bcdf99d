//! Pools of stream-ordered memory keep what is freed in them, instead of giving it back at the program's next wait.
//!
//! The driver has such a pool for each device, and by default it keeps nothing: a GiB then costs 31 ms each time. How much it
//! keeps is one attribute. Where a program left it at none it is raised within a bound, and the program is answered as if it
//! had not been. What the program sets itself stays. Where memory is lacking, all that lies idle in these pools goes back.

use super::{IS_CHILD, beneath, captures, own_context};
use crate::counts::COUNTERS;
use apex_cuda::types::*;
use apex_policy::pool::kept_in_order;
use core::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Attributes of a pool.
const RELEASE_THRESHOLD: u32 = 4;
const RESERVED_BYTES: u32 = 5;
const USED_BYTES: u32 = 7;
/// For less the driver needs no memory that lies idle elsewhere.
const LEAST_TRIMMED_FOR: u64 = 2 << 20;

/// A pool that was looked at.
struct Known {
    pool: u64,
    /// It keeps more because of us.
    is_raised: bool,
}

static POOLS: Mutex<Vec<Known>> = Mutex::new(Vec::new());
/// The context whose pool was looked at last; zero where it may have another since.
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);

fn with<T>(look: impl FnOnce(&mut Vec<Known>) -> T) -> Option<T> {
    if IS_CHILD.load(Ordering::Relaxed) {
        return None;
    }
    Some(look(&mut POOLS.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Memory is about to be taken from the pool of the calling thread's device.
pub(super) fn taken() {
    let context = own_context();
    if context == 0 || LOOKED_AT.load(Ordering::Relaxed) == context || captures::any() {
        return;
    }
    LOOKED_AT.store(context, Ordering::Relaxed);
    let (mut device, mut pool, mut bytes) = (0, core::ptr::null_mut(), 0);
    let driver = beneath();
    // SAFETY: valid places for the answers; the calling thread has a context.
    let is_found = unsafe {
        (driver.cuCtxGetDevice)(&raw mut device) == CUDA_SUCCESS
            && (driver.cuDeviceGetMemPool)(&raw mut pool, device) == CUDA_SUCCESS
            && (driver.cuDeviceTotalMem_v2)(&raw mut bytes, device) == CUDA_SUCCESS
    };
    let is_known = || with(|known| known.iter().any(|known| known.pool == pool as u64));
    if !is_found || is_known() != Some(false) {
        return;
    }
    let is_raised = get(pool as u64, RELEASE_THRESHOLD) == Some(0)
        && set_threshold(pool as u64, kept_in_order(bytes as u64));
    if is_raised {
        COUNTERS.pool_raised.fetch_add(1, Ordering::Relaxed);
    }
    with(|known| known.push(Known { pool: pool as u64, is_raised }));
}

/// The pool that a device has may be another one.
pub(super) fn changed() {
    LOOKED_AT.store(0, Ordering::Relaxed);
}

/// A pool ends, and its name may come again.
pub(super) fn ended(pool: u64) {
    changed();
    with(|known| known.retain(|known| known.pool != pool));
}

/// The context ends, and what was set with it.
pub(super) fn forget() {
    changed();
    with(Vec::clear);
}

/// The program says itself how much a pool keeps.
pub(super) fn set_by_program(pool: u64, attribute: u32) {
    if attribute == RELEASE_THRESHOLD {
        with(|known| {
            known.retain(|known| known.pool != pool);
            known.push(Known { pool, is_raised: false });
        });
    }
}

/// What the program is told instead of what the driver says.
pub(super) fn told(pool: u64, attribute: u32) -> Option<u64> {
    let is_raised =
        |known: &mut Vec<Known>| known.iter().any(|known| known.pool == pool && known.is_raised);
    (attribute == RELEASE_THRESHOLD && with(is_raised) == Some(true)).then_some(0)
}

fn raised() -> Vec<u64> {
    let raised = |known: &mut Vec<Known>| {
        known.iter().filter(|known| known.is_raised).map(|known| known.pool).collect()
    };
    with(raised).unwrap_or_default()
}

/// Bytes that lie idle in pools that were raised.
pub(super) fn idle_bytes() -> u64 {
    raised().into_iter().map(idle_of).sum()
}

fn idle_of(pool: u64) -> u64 {
    let bytes = |attribute| get(pool, attribute).unwrap_or(0);
    bytes(RESERVED_BYTES).saturating_sub(bytes(USED_BYTES))
}

/// Other memory is to come from the driver: what lies idle here goes back first, so that both together are no more than
/// the program had.
pub(super) fn trim_for(bytes: u64) {
    if bytes >= LEAST_TRIMMED_FOR {
        trim();
    }
}

/// Gives back all that lies idle. Says whether there was any.
pub(super) fn trim() -> bool {
    let mut is_any = false;
    for pool in raised() {
        if idle_of(pool) > 0 {
            // SAFETY: a pool that has not ended.
            is_any |=
                unsafe { (beneath().cuMemPoolTrimTo)(pool as CUmemoryPool, 0) } == CUDA_SUCCESS;
        }
    }
    is_any
}

fn get(pool: u64, attribute: u32) -> Option<u64> {
    let mut value = 0_u64;
    let place = (&raw mut value).cast::<c_void>();
    // SAFETY: a pool that has not ended, and a place as large as these attributes are.
    let result =
        unsafe { (beneath().cuMemPoolGetAttribute)(pool as CUmemoryPool, attribute, place) };
    (result == CUDA_SUCCESS).then_some(value)
}

fn set_threshold(pool: u64, mut bytes: u64) -> bool {
    let place = (&raw mut bytes).cast::<c_void>();
    // SAFETY: as above.
    let result = unsafe {
        (beneath().cuMemPoolSetAttribute)(pool as CUmemoryPool, RELEASE_THRESHOLD, place)
    };
    result == CUDA_SUCCESS
}
