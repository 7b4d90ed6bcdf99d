//! The driver's functions for stream-ordered memory and its pools.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use apex_cuda::types::*;

use crate::border::{Answer, get, put};
use crate::machine::device::{Device, device};
use crate::memory::allocation::{allocate, is_the_programs};
use crate::memory::graph_memory::{GraphMemory, is_of_graph};
use crate::memory::pool::{Pool, chosen_pool, default_pool, make};
use crate::memory::range::{MemoryKind, Range, range_of};
use crate::object::{destroy, live};
use crate::run::capture_rules::for_work;
use crate::run::context::current;
use crate::run::domain::Job;
use crate::run::scheduler::{enqueue, is_idle};
use crate::run::stream::queue_of;
use crate::run::work::{Work, is_capturing};

const LOCATION_DEVICE: u32 = 1;

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
            return crate::graph::capturing::append(stream, Work::Allocate(memory));
        }
        let take = || allocate(device, context.handle(), bytes, MemoryKind::Device, 0, handle);
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
            return crate::graph::capturing::append(stream, Work::Free { address });
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
        let (domain, queue) = queue_of(context, stream);
        if is_idle(domain, queue) {
            crate::memory::graph_memory::note_free(address);
            return Ok(());
        }
        let job = Job::Always(Box::new(move || crate::memory::graph_memory::note_free(address)));
        enqueue(domain, queue, &[], job);
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
    use crate::api::context::tests::with_context;

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
