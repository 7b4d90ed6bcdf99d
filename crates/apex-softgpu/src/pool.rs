//! Stream-ordered memory pools.
//!
//! A pool counts and names what was taken through it. Memory is taken at once, which
//! is never too late for the stream, and given back when the stream comes to the
//! free. Where there is not enough, frees that are on their way are waited for. So
//! what is reserved always equals what is used.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use apex_cuda::types::*;

use crate::border::{Answer, get, put};
use crate::context::current;
use crate::device::{Device, device};
use crate::graph_memory::{GraphMemory, is_of_graph};
use crate::memory::{Place, Range, allocate, is_the_programs, range_of};
use crate::object::{create, destroy, live, object};
use crate::schedule::{Job, is_idle, submit};
use crate::stream::{for_work, place};
use crate::work::{Work, is_capturing};

/// One pool.
pub(crate) struct Pool {
    ordinal: i32,
    release_threshold: AtomicU64,
    /// The three switches of reuse, by attribute number less one.
    reuse: [AtomicU64; 3],
    used_bytes: AtomicU64,
    highest_bytes: AtomicU64,
}
object!(Pool, b"mempool-");

/// The pools of a device: the one it has from the start and the one in use.
#[derive(Default)]
pub(crate) struct Pools {
    first: AtomicPtr<c_void>,
    chosen: AtomicPtr<c_void>,
}

const LOCATION_DEVICE: u32 = 1;

fn make(ordinal: i32) -> CUmemoryPool {
    create(Pool {
        ordinal,
        release_threshold: AtomicU64::new(0),
        reuse: [const { AtomicU64::new(1) }; 3],
        used_bytes: AtomicU64::new(0),
        highest_bytes: AtomicU64::new(0),
    })
}

fn default_pool(device: &Device) -> CUmemoryPool {
    let known = device.pools.first.load(Ordering::Acquire);
    if !known.is_null() {
        return known.cast();
    }
    let made: CUmemoryPool = make(device.ordinal);
    let first = &device.pools.first;
    match first.compare_exchange(null_mut(), made.cast(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(other) => {
            // SAFETY: made above and given to nobody.
            let _ = unsafe { destroy::<Pool, _>(made) };
            other.cast()
        }
    }
}

fn chosen_pool(device: &Device) -> CUmemoryPool {
    let chosen = device.pools.chosen.load(Ordering::Acquire);
    if chosen.is_null() { default_pool(device) } else { chosen.cast() }
}

/// Counts a range as gone from its pool.
pub(crate) fn note_free(range: &Range) {
    // SAFETY: the pool's handle was checked when the range was taken.
    if let Ok(pool) = unsafe { live::<Pool, _>(range.pool) } {
        pool.used_bytes.fetch_sub(range.length, Ordering::Relaxed);
    }
}

/// # Safety
///
/// The pointers and handles are the caller's, as C demands.
unsafe fn allocate_from(
    out: *mut CUdeviceptr,
    bytes: usize,
    handle: CUmemoryPool,
    stream: CUstream,
) -> Answer {
    // SAFETY: the caller vouches for pointers and handles.
    unsafe {
        let context = current()?;
        let stream = for_work(context, stream)?;
        let pool: &Pool = live(handle)?;
        let device = device(pool.ordinal)?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if bytes == 0 {
            return put(out, 0);
        }
        if is_capturing(stream) {
            let memory = GraphMemory::take(device, bytes)?;
            put(out, memory.address)?;
            return crate::session::append(stream, Work::Allocate(memory));
        }
        let take = || allocate(device, context.handle(), bytes, Place::Device, 0, handle);
        let address = match take() {
            Err(CUDA_ERROR_OUT_OF_MEMORY) => {
                context.domain.drain(context.spins())?;
                take()?
            }
            other => other?,
        };
        let used = pool.used_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        pool.highest_bytes.fetch_max(used, Ordering::Relaxed);
        put(out, address)
    }
}

answers! {
    fn cuMemAllocAsync(out: *mut CUdeviceptr, bytes: usize, stream: CUstream) {
        allocate_from(out, bytes, chosen_pool(current()?.device), stream)
    }

    fn cuMemAllocFromPoolAsync(out: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream) {
        allocate_from(out, bytes, pool, stream)
    }

    fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) {
        let context = current()?;
        let stream = for_work(context, stream)?;
        if is_capturing(stream) {
            return crate::session::append(stream, Work::Free { address });
        }
        if address == 0 {
            return Ok(());
        }
        let can_be_freed = |(start, range): (u64, Range)| {
            start == address && (is_of_graph(address) || is_the_programs(&range))
        };
        if !range_of(address).is_some_and(can_be_freed) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let (domain, queue) = place(context, stream);
        if is_idle(domain, queue) {
            crate::graph_memory::note_free(address);
            return Ok(());
        }
        let job = Job::Always(Box::new(move || crate::graph_memory::note_free(address)));
        submit(domain, queue, &[], job);
        Ok(())
    }

    fn cuDeviceGetDefaultMemPool(out: *mut CUmemoryPool, dev: CUdevice) {
        put(out, default_pool(device(dev)?))
    }

    fn cuDeviceGetMemPool(out: *mut CUmemoryPool, dev: CUdevice) {
        put(out, chosen_pool(device(dev)?))
    }

    fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) {
        let device = device(dev)?;
        live::<Pool, _>(pool)?;
        device.pools.chosen.store(pool.cast(), Ordering::Release);
        Ok(())
    }

    fn cuMemGetDefaultMemPool(out: *mut CUmemoryPool, location: *mut CUmemLocation, _kind: CUmemAllocationType) {
        put(out, default_pool(device_at(location)?))
    }

    fn cuMemGetMemPool(out: *mut CUmemoryPool, location: *mut CUmemLocation, _kind: CUmemAllocationType) {
        put(out, chosen_pool(device_at(location)?))
    }

    fn cuMemPoolCreate(out: *mut CUmemoryPool, properties: *const CUmemPoolProps) {
        if properties.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let device = device_at((&raw const (*properties).location).cast())?;
        put(out, make(device.ordinal))
    }

    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        let device = device(live::<Pool, _>(pool)?.ordinal)?;
        if default_pool(device) == pool {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let chosen = &device.pools.chosen;
        let _ = chosen.compare_exchange(pool.cast(), null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        destroy::<Pool, _>(pool)
    }

    fn cuMemPoolTrimTo(pool: CUmemoryPool, _keep_bytes: usize) {
        live::<Pool, _>(pool).map(|_| ())
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, _map: *const CUmemAccessDesc, _count: usize) {
        live::<Pool, _>(pool).map(|_| ())
    }

    fn cuMemPoolGetAccess(flags: *mut CUmemAccess_flags, pool: CUmemoryPool, location: *mut CUmemLocation) {
        live::<Pool, _>(pool)?;
        device_at(location)?;
        put(flags, 3)
    }

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
        let pool: &Pool = live(pool)?;
        let used = pool.used_bytes.load(Ordering::Relaxed);
        let highest = pool.highest_bytes.load(Ordering::Relaxed);
        match attribute {
            1..=3 => {
                let switch = &pool.reuse[attribute as usize - 1];
                put(value.cast(), switch.load(Ordering::Relaxed) as i32)
            }
            4 => put(value.cast(), pool.release_threshold.load(Ordering::Relaxed)),
            5 | 7 => put(value.cast(), used),
            6 | 8 => put(value.cast(), highest),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
        let pool: &Pool = live(pool)?;
        match attribute {
            1..=3 => {
                let switch = get(value.cast::<i32>())?;
                pool.reuse[attribute as usize - 1].store(switch as u64, Ordering::Relaxed);
            }
            4 => pool.release_threshold.store(get(value.cast())?, Ordering::Relaxed),
            6 | 8 if get(value.cast::<u64>())? == 0 => {
                let used = pool.used_bytes.load(Ordering::Relaxed);
                pool.highest_bytes.store(used, Ordering::Relaxed);
            }
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        }
        Ok(())
    }
}

/// # Safety
///
/// `location` is null or holds a location.
unsafe fn device_at(location: *const CUmemLocation) -> Result<&'static Device, CUresult> {
    // SAFETY: the caller vouches for `location`.
    let location = unsafe { get(location) }?;
    if location.kind != LOCATION_DEVICE {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    device(location.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::with_context;

    #[test]
    fn a_pool_counts_what_it_gave() {
        with_context(|| {
            let (mut address, mut used) = (0, 0_u64);
            let pool = make(0);
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                let stream = null_mut();
                assert_eq!(
                    cuMemAllocFromPoolAsync(&raw mut address, 1000, pool, stream),
                    CUDA_SUCCESS
                );
                assert_eq!(cuMemPoolGetAttribute(pool, 7, (&raw mut used).cast()), CUDA_SUCCESS);
                assert_eq!(used, 1000);
                assert_eq!(cuMemFreeAsync(address, stream), CUDA_SUCCESS);
                assert_eq!(cuMemPoolGetAttribute(pool, 7, (&raw mut used).cast()), CUDA_SUCCESS);
                assert_eq!(used, 0);
                assert_eq!(cuMemPoolDestroy(pool), CUDA_SUCCESS);
                assert_eq!(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_HANDLE);
            }
        });
    }
}
