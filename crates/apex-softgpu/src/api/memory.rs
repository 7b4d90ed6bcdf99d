//! The driver's functions that take memory and give it back.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use apex_cuda::types::*;

use crate::border::{Answer, put, put_if_wanted};
use crate::machine::device::machine;
use crate::memory::allocation::{allocate, free, is_the_programs};
use crate::memory::range::{MemoryKind, Range, next_id, ranges_to_change};
use crate::run::context::current;

const PITCH_ALIGNMENT: usize = 512;

answers! {
    fn cuMemAlloc_v2(out: *mut CUdeviceptr, bytes: usize) {
        let context = current()?;
        context.captures.refuse_unsafe()?;
        put(out, 0)?;
        let address = allocate(context.device, context.handle(), bytes, MemoryKind::Device, 0, null_mut())?;
        put(out, address)
    }

    fn cuMemAllocPitch_v2(
        out: *mut CUdeviceptr,
        pitch_out: *mut usize,
        width_bytes: usize,
        height: usize,
        element_bytes: u32,
    ) {
        let context = current()?;
        context.captures.refuse_unsafe()?;
        if width_bytes == 0 || height == 0 || !matches!(element_bytes, 4 | 8 | 16) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let pitch = width_bytes.checked_next_multiple_of(PITCH_ALIGNMENT);
        let pitch = pitch.ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let bytes = pitch.checked_mul(height).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let address = allocate(context.device, context.handle(), bytes, MemoryKind::Device, 0, null_mut())?;
        put(pitch_out, pitch)?;
        put(out, address)
    }

    fn cuMemAllocManaged(out: *mut CUdeviceptr, bytes: usize, flags: u32) {
        let context = current()?;
        if !matches!(flags, 1 | 2) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, allocate(context.device, context.handle(), bytes, MemoryKind::Managed, flags, null_mut())?)
    }

    fn cuMemFree_v2(address: CUdeviceptr) {
        let context = current()?;
        context.captures.refuse_unsafe()?;
        if address == 0 {
            return Ok(());
        }
        // Work under way may still use the memory.
        context.domain.drain(context.spins())?;
        if crate::memory::graph_memory::is_of_graph(address) {
            return Ok(());
        }
        free(address, is_the_programs)
    }

    fn cuMemGetInfo_v2(free_bytes: *mut usize, total_bytes: *mut usize) {
        let (device, machine) = (current()?.device, machine()?);
        let of_device = device.memory_bytes.saturating_sub(device.used_bytes.load(Ordering::Relaxed));
        let of_host = machine.host_limit.saturating_sub(machine.host_used.load(Ordering::Relaxed));
        put_if_wanted(free_bytes, of_device.min(of_host) as usize);
        put_if_wanted(total_bytes, device.memory_bytes as usize);
        Ok(())
    }

    fn cuMemAllocHost_v2(out: *mut *mut c_void, bytes: usize) {
        allocate_host(out, bytes, 0)
    }

    fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, flags: u32) {
        if flags > 7 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        allocate_host(out, bytes, flags)
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        let context = current()?;
        if pointer.is_null() {
            return Ok(());
        }
        context.domain.drain(context.spins())?;
        free(pointer.addr() as u64, |range| range.kind == MemoryKind::Host)
    }

    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: u32) {
        let context = current()?;
        let start = pointer.expose_provenance() as u64;
        let end = start.checked_add(bytes as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if pointer.is_null() || bytes == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let mut ranges = ranges_to_change();
        let before = ranges.range(..end).next_back();
        if before.is_some_and(|(&other, range)| other + range.length > start) {
            return Err(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        }
        ranges.insert(start, Range {
            length: bytes as u64,
            kind: MemoryKind::Registered,
            context: context.handle(),
            device: context.device.ordinal,
            pool: null_mut(),
            physical: 0,
            flags,
            id: next_id(),
            accessible: true,
        });
        Ok(())
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        let context = current()?;
        context.domain.drain(context.spins())?;
        let mut ranges = ranges_to_change();
        let start = pointer.addr() as u64;
        let registered = ranges.get(&start).is_some_and(|range| range.kind == MemoryKind::Registered);
        if !registered {
            return Err(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        }
        ranges.remove(&start);
        Ok(())
    }
}

pub(crate) use self::cuMemHostRegister_v2 as cuMemHostRegister;

/// # Safety
///
/// `out` is null or can be written.
unsafe fn allocate_host(out: *mut *mut c_void, bytes: usize, flags: u32) -> Answer {
    let context = current()?;
    context.captures.refuse_unsafe()?;
    if bytes == 0 {
        // SAFETY: the caller vouches for `out`.
        return unsafe { put(out, null_mut()) };
    }
    let address =
        allocate(context.device, context.handle(), bytes, MemoryKind::Host, flags, null_mut())?;
    // SAFETY: the caller vouches for `out`.
    unsafe { put(out, core::ptr::with_exposed_provenance_mut(address as usize)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::context::tests::with_context;
    use crate::machine::device::device;
    use crate::memory::range::is_known;

    #[test]
    fn memory_is_counted_and_bounded() {
        with_context(|| {
            let mut address = 0;
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuMemAlloc_v2(&raw mut address, 0), CUDA_ERROR_INVALID_VALUE);
                let all = device(0).unwrap().memory_bytes as usize;
                assert_eq!(cuMemAlloc_v2(&raw mut address, all + 1), CUDA_ERROR_OUT_OF_MEMORY);
                assert_eq!(cuMemAlloc_v2(&raw mut address, 1 << 30), CUDA_SUCCESS);
                assert!(is_known(address + 5, 100));
                assert!(!is_known(address, (1 << 30) + 1));
                assert_eq!(cuMemFree_v2(address + 512), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(cuMemFree_v2(address), CUDA_SUCCESS);
                assert_eq!(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(cuMemFree_v2(0), CUDA_SUCCESS);
            }
        });
    }

    #[test]
    fn host_memory_is_registered_once() {
        with_context(|| {
            let mut bytes = vec![0_u8; 4096];
            let pointer = bytes.as_mut_ptr().cast();
            // SAFETY: the vector outlives its registration.
            unsafe {
                assert_eq!(cuMemHostRegister_v2(pointer, 4096, 0), CUDA_SUCCESS);
                assert_eq!(
                    cuMemHostRegister_v2(pointer.byte_add(8), 8, 0),
                    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                );
                assert_eq!(cuMemHostUnregister(pointer), CUDA_SUCCESS);
                assert_eq!(cuMemHostUnregister(pointer), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
            }
        });
    }
}
