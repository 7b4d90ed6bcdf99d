//! Memory: one map of every range that the driver knows.
//!
//! Device memory is host memory, so a device address can be copied with a plain
//! copy. The map says which addresses are device memory, which are pinned or
//! managed, how long they are and whose; copies and pointer questions ask it. A
//! device has as much as an H200 has, whether or not this machine does: large ranges
//! are mapped without reserve and cost nothing until they are touched.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use apex_cuda::types::*;

use crate::border::{Answer, put, put_if_wanted};
use crate::context::current;
use crate::device::{Device, TOTAL_BYTES, device};

/// What a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Device memory.
    Device,
    /// Device memory mapped by hand; the range was reserved before.
    Mapped,
    /// Memory that moves between host and device.
    Managed,
    /// Pinned host memory of the driver.
    Host,
    /// The program's own host memory, made known to the driver.
    Registered,
}

/// One range that the driver knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) length: u64,
    pub(crate) place: Place,
    pub(crate) context: CUcontext,
    pub(crate) device: i32,
    pub(crate) pool: CUmemoryPool,
    /// The physical memory mapped here, for [`Place::Mapped`].
    pub(crate) physical: u64,
    pub(crate) flags: u32,
    /// Tells this range from all others of the process's life.
    pub(crate) id: u64,
    /// Whether it may be touched yet.
    pub(crate) accessible: bool,
}

// SAFETY: the handles inside are addresses that any thread may use.
unsafe impl Send for Range {}
// SAFETY: as above.
unsafe impl Sync for Range {}

static RANGES: RwLock<BTreeMap<u64, Range>> = RwLock::new(BTreeMap::new());

/// From this size on, memory comes straight from the operating system.
const MAPPED_FROM: u64 = 1 << 20;
/// What the driver aligns device memory to.
const ALIGNMENT: usize = 512;
const PITCH_ALIGNMENT: usize = 512;

pub(crate) fn ranges() -> RwLockReadGuard<'static, BTreeMap<u64, Range>> {
    RANGES.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn ranges_to_change() -> RwLockWriteGuard<'static, BTreeMap<u64, Range>> {
    RANGES.write().unwrap_or_else(PoisonError::into_inner)
}

/// The range around an address, with its start.
pub(crate) fn range_of(address: u64) -> Option<(u64, Range)> {
    let ranges = ranges();
    let (&start, &range) = ranges.range(..=address).next_back()?;
    (address - start < range.length).then_some((start, range))
}

/// Whether all the bytes lie in known ranges that may be touched. Ranges that meet
/// count as one: mapped memory grows piece by piece.
pub(crate) fn is_known(address: u64, length: u64) -> bool {
    let Some(end) = address.checked_add(length) else { return false };
    let mut at = address;
    loop {
        match range_of(at) {
            Some((start, range)) if range.accessible => at = start + range.length,
            _ => return length == 0,
        }
        if at >= end {
            return true;
        }
    }
}

pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Counts bytes against a device's memory, or refuses.
pub(crate) fn take_bytes(device: &Device, bytes: u64) -> Answer {
    let taken = device.used_bytes.fetch_add(bytes, Ordering::Relaxed);
    if taken.saturating_add(bytes) > TOTAL_BYTES {
        device.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        return Err(CUDA_ERROR_OUT_OF_MEMORY);
    }
    Ok(())
}

/// Takes memory and makes it known.
pub(crate) fn allocate(
    device: &Device,
    context: CUcontext,
    bytes: usize,
    place: Place,
    flags: u32,
    pool: CUmemoryPool,
) -> Result<u64, CUresult> {
    if bytes == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let length = bytes as u64;
    let on_device = place != Place::Host;
    if on_device {
        take_bytes(device, length)?;
    }
    let Some(address) = take_host_memory(length) else {
        if on_device {
            device.used_bytes.fetch_sub(length, Ordering::Relaxed);
        }
        return Err(CUDA_ERROR_OUT_OF_MEMORY);
    };
    ranges_to_change().insert(
        address,
        Range {
            length,
            place,
            context,
            device: device.ordinal,
            pool,
            physical: 0,
            flags,
            id: next_id(),
            accessible: true,
        },
    );
    Ok(address)
}

/// Gives memory back, if the address is the start of such a range.
pub(crate) fn free(address: u64, wanted: impl Fn(&Range) -> bool) -> Answer {
    let mut ranges = ranges_to_change();
    let range =
        *ranges.get(&address).filter(|range| wanted(range)).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    ranges.remove(&address);
    drop(ranges);
    give_back(address, &range);
    Ok(())
}

/// Frees what a context that ends still holds.
pub(crate) fn release_all(context: CUcontext) {
    let mut ranges = ranges_to_change();
    let owned = |range: &Range| {
        range.context == context && !matches!(range.place, Place::Mapped | Place::Registered)
    };
    for (address, range) in ranges.extract_if(.., |_, range| owned(range)) {
        give_back(address, &range);
    }
}

fn give_back(address: u64, range: &Range) {
    crate::pool::note_free(range);
    if range.place != Place::Host
        && let Ok(device) = device(range.device)
    {
        device.used_bytes.fetch_sub(range.length, Ordering::Relaxed);
    }
    give_back_host_memory(address, range.length);
}

fn take_host_memory(length: u64) -> Option<u64> {
    let length = usize::try_from(length).ok()?;
    let mut address = null_mut();
    // SAFETY: plain requests for new memory; the answers are checked.
    unsafe {
        if (length as u64) < MAPPED_FROM {
            let result = libc::posix_memalign(&raw mut address, ALIGNMENT, length);
            if result != 0 {
                return None;
            }
        } else {
            address = libc::mmap(
                null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            if address == libc::MAP_FAILED {
                return None;
            }
        }
    }
    Some(address.expose_provenance() as u64)
}

fn give_back_host_memory(address: u64, length: u64) {
    let pointer = core::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the range was taken by `take_host_memory` with this length and has
    // just been removed from the map.
    unsafe {
        if length < MAPPED_FROM {
            libc::free(pointer);
        } else {
            libc::munmap(pointer, length as usize);
        }
    }
}

fn is_device_memory(range: &Range) -> bool {
    matches!(range.place, Place::Device | Place::Managed)
}

answers! {
    fn cuMemAlloc_v2(out: *mut CUdeviceptr, bytes: usize) {
        let context = current()?;
        context.captures.refuse_unsafe()?;
        put(out, 0)?;
        let address = allocate(context.device, context.handle(), bytes, Place::Device, 0, null_mut())?;
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
        let pitch = width_bytes.next_multiple_of(PITCH_ALIGNMENT);
        let bytes = pitch.checked_mul(height).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let address = allocate(context.device, context.handle(), bytes, Place::Device, 0, null_mut())?;
        put(pitch_out, pitch)?;
        put(out, address)
    }

    fn cuMemAllocManaged(out: *mut CUdeviceptr, bytes: usize, flags: u32) {
        let context = current()?;
        if !matches!(flags, 1 | 2) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, allocate(context.device, context.handle(), bytes, Place::Managed, flags, null_mut())?)
    }

    fn cuMemFree_v2(address: CUdeviceptr) {
        current()?.captures.refuse_unsafe()?;
        if address == 0 {
            return Ok(());
        }
        free(address, is_device_memory)
    }

    fn cuMemGetInfo_v2(free_bytes: *mut usize, total_bytes: *mut usize) {
        let used = current()?.device.used_bytes.load(Ordering::Relaxed);
        put_if_wanted(free_bytes, TOTAL_BYTES.saturating_sub(used) as usize);
        put_if_wanted(total_bytes, TOTAL_BYTES as usize);
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
        current()?;
        if pointer.is_null() {
            return Ok(());
        }
        free(pointer.addr() as u64, |range| range.place == Place::Host)
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
            place: Place::Registered,
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
        current()?;
        let mut ranges = ranges_to_change();
        let start = pointer.addr() as u64;
        let registered = ranges.get(&start).is_some_and(|range| range.place == Place::Registered);
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
        allocate(context.device, context.handle(), bytes, Place::Host, flags, null_mut())?;
    // SAFETY: the caller vouches for `out`.
    unsafe { put(out, core::ptr::with_exposed_provenance_mut(address as usize)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::with_context;

    #[test]
    fn memory_is_counted_and_bounded() {
        with_context(|| {
            let mut address = 0;
            // SAFETY: plain calls of the driver's own kind.
            unsafe {
                assert_eq!(cuMemAlloc_v2(&raw mut address, 0), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(
                    cuMemAlloc_v2(&raw mut address, TOTAL_BYTES as usize + 1),
                    CUDA_ERROR_OUT_OF_MEMORY
                );
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
