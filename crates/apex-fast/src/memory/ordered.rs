//! Pools of stream-ordered memory keep what is freed in them, instead of giving it back at the program's next wait.
//!
//! The driver has such a pool for each device, and by default it keeps nothing: a GiB then costs 31 ms each time. How much it
//! keeps is one attribute. Where a program left it at none it is raised within a bound, and the program is answered as if it
//! had not been. What the program sets itself stays. At a wait, where the driver would give all of it back, what is too much
//! for other processes does; where memory is lacking, all of it.

use super::{IS_CHILD, beneath, captures, own_context};
use crate::counts::COUNTERS;
use apex_cuda::types::*;
use apex_policy::pool::{idle_of_device, kept_in_order};
use core::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Bytes that may lie idle in it then.
    idle_bytes: u64,
}

/// Some pool was raised.
static IS_ANY_RAISED: AtomicBool = AtomicBool::new(false);
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
    let (mut device, mut bytes) = (0, 0);
    let (mut pool, mut default) = (core::ptr::null_mut(), core::ptr::null_mut());
    let driver = beneath();
    // SAFETY: valid places for the answers; the calling thread has a context.
    let is_found = unsafe {
        (driver.cuCtxGetDevice)(&raw mut device) == CUDA_SUCCESS
            && (driver.cuDeviceGetMemPool)(&raw mut pool, device) == CUDA_SUCCESS
            && (driver.cuDeviceGetDefaultMemPool)(&raw mut default, device) == CUDA_SUCCESS
            && (driver.cuDeviceTotalMem_v2)(&raw mut bytes, device) == CUDA_SUCCESS
    };
    let is_known = || with(|known| known.iter().any(|known| known.pool == pool as u64));
    if !is_found || is_known() != Some(false) {
        return;
    }
    // A pool that the program made may end while another thread's wait has it trimmed; the device's own never ends.
    let is_raised = pool == default
        && get(pool as u64, RELEASE_THRESHOLD) == Some(0)
        && set_threshold(pool as u64, kept_in_order(bytes as u64));
    if is_raised {
        COUNTERS.pool_raised.fetch_add(1, Ordering::Relaxed);
        IS_ANY_RAISED.store(true, Ordering::Relaxed);
    }
    let idle_bytes = idle_of_device(bytes as u64);
    with(|known| known.push(Known { pool: pool as u64, is_raised, idle_bytes }));
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
            known.push(Known { pool, is_raised: false, idle_bytes: 0 });
        });
    }
}

/// What the program is told instead of what the driver says.
pub(super) fn told(pool: u64, attribute: u32) -> Option<u64> {
    let is_raised =
        |known: &mut Vec<Known>| known.iter().any(|known| known.pool == pool && known.is_raised);
    (attribute == RELEASE_THRESHOLD && with(is_raised) == Some(true)).then_some(0)
}

/// Pools that were raised, and the bytes that may lie idle in each.
fn raised() -> Vec<(u64, u64)> {
    let raised = |known: &mut Vec<Known>| {
        let raised = known.iter().filter(|known| known.is_raised);
        raised.map(|known| (known.pool, known.idle_bytes)).collect()
    };
    with(raised).unwrap_or_default()
}

/// Bytes that lie idle in pools that were raised.
pub(super) fn idle_bytes() -> u64 {
    raised().into_iter().map(|(pool, _)| idle_of(pool)).sum()
}

fn idle_of(pool: u64) -> u64 {
    let bytes = |attribute| get(pool, attribute).unwrap_or(0);
    bytes(RESERVED_BYTES).saturating_sub(bytes(USED_BYTES))
}

/// The program has waited.
#[inline(always)]
pub(super) fn waited() {
    if IS_ANY_RAISED.load(Ordering::Relaxed) && !captures::any() {
        trim_to_share();
    }
}

#[cold]
fn trim_to_share() {
    for (pool, most) in raised() {
        if idle_of(pool) > most {
            let kept = get(pool, USED_BYTES).unwrap_or(0) + most;
            // SAFETY: a pool that has not ended.
            unsafe { (beneath().cuMemPoolTrimTo)(pool as CUmemoryPool, kept as usize) };
        }
    }
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
    for (pool, _) in raised() {
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
