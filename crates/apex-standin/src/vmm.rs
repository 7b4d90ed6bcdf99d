//! Address ranges and physical memory, mapped by hand.
//!
//! A reservation is address space that nothing lies behind; physical memory is a
//! file in memory, so that it can be mapped at two places at once; a mapping puts
//! one over the other and can be touched when access has been set. A touch too early
//! or too late faults, as on a device.

use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, get, list, put};
use crate::context::current;
use crate::device::{Device, device, initialized};
use crate::memory::{Place, Range, next_id, range_of, ranges_to_change, take_bytes};
use crate::object::{create, destroy, live, lock, object};

/// Physical memory that can be mapped.
pub(crate) struct Physical {
    bytes: u64,
    device: &'static Device,
    file: libc::c_int,
    /// The handle itself and every mapping hold it.
    held: AtomicU32,
}
object!(Physical, b"physical");

impl Drop for Physical {
    fn drop(&mut self) {
        self.device.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        // SAFETY: the file was opened for this object alone.
        unsafe { libc::close(self.file) };
    }
}

static RESERVED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

const GRANULARITY: usize = 2 << 20;
const LOCATION_DEVICE: u32 = 1;
const ACCESS_NONE: u32 = 0;
const ACCESS_READ: u32 = 1;
const ACCESS_READ_WRITE: u32 = 3;

fn pointer(address: u64) -> *mut c_void {
    with_exposed_provenance_mut(address as usize)
}

fn aligned(address: u64, bytes: usize) -> bool {
    bytes != 0 && bytes.is_multiple_of(GRANULARITY) && address.is_multiple_of(GRANULARITY as u64)
}

/// Whether the bytes lie in one reservation.
fn is_reserved(address: u64, bytes: usize) -> bool {
    let reserved = lock(&RESERVED);
    let around = reserved.range(..=address).next_back();
    around.is_some_and(|(start, length)| address + bytes as u64 <= start + length)
}

fn physical<'a>(handle: u64) -> Result<&'a Physical, CUresult> {
    // SAFETY: the caller's handle, as C demands of it.
    unsafe { live::<Physical, c_void>(pointer(handle)) }
}

fn let_go(handle: u64) -> Answer {
    if physical(handle)?.held.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: nothing holds it any more.
        return unsafe { destroy::<Physical, c_void>(pointer(handle)) };
    }
    Ok(())
}

/// The starts of the mappings that make up exactly these bytes.
fn mappings(
    ranges: &BTreeMap<u64, Range>,
    address: u64,
    bytes: usize,
) -> Result<Vec<u64>, CUresult> {
    let end = address.checked_add(bytes as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let mut at = address;
    let mut starts = Vec::new();
    while at < end {
        let range = ranges.get(&at).filter(|range| range.place == Place::Mapped);
        starts.push(at);
        at += range.ok_or(CUDA_ERROR_INVALID_VALUE)?.length;
    }
    if at == end { Ok(starts) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

answers! {
    fn cuMemGetAllocationGranularity(
        out: *mut usize,
        properties: *const CUmemAllocationProp,
        _option: CUmemAllocationGranularity_flags,
    ) {
        initialized()?;
        located(properties)?;
        put(out, GRANULARITY)
    }

    fn cuMemAddressReserve(out: *mut CUdeviceptr, bytes: usize, alignment: usize, _wish: CUdeviceptr, flags: u64) {
        initialized()?;
        let alignment = alignment.max(GRANULARITY);
        if !aligned(0, bytes) || flags != 0 || !alignment.is_power_of_two() || out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // Room to move the start to the alignment; what is too much goes back.
        let all = bytes.checked_add(alignment).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let kept = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapped = libc::mmap(null_mut(), all, libc::PROT_NONE, kept, -1, 0);
        if mapped == libc::MAP_FAILED {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        let first = mapped.expose_provenance();
        let start = first.next_multiple_of(alignment);
        if start > first {
            libc::munmap(mapped, start - first);
        }
        libc::munmap(pointer((start + bytes) as u64), first + all - start - bytes);
        lock(&RESERVED).insert(start as u64, bytes as u64);
        put(out, start as u64)
    }

    fn cuMemAddressFree(address: CUdeviceptr, bytes: usize) {
        initialized()?;
        let mut reserved = lock(&RESERVED);
        let still_mapped = crate::memory::ranges().range(address..address + bytes as u64).next().is_some();
        if reserved.get(&address) != Some(&(bytes as u64)) || still_mapped {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        reserved.remove(&address);
        libc::munmap(pointer(address), bytes);
        Ok(())
    }

    fn cuMemCreate(
        out: *mut CUmemGenericAllocationHandle,
        bytes: usize,
        properties: *const CUmemAllocationProp,
        flags: u64,
    ) {
        initialized()?;
        let device = located(properties)?;
        if !aligned(0, bytes) || flags != 0 || out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        take_bytes(device, bytes as u64)?;
        let file = libc::memfd_create(c"apex-standin".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 || libc::ftruncate(file, bytes as libc::off_t) != 0 {
            device.used_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        let handle: *mut c_void =
            create(Physical { bytes: bytes as u64, device, file, held: AtomicU32::new(1) });
        put(out, handle.expose_provenance() as u64)
    }

    fn cuMemRelease(handle: CUmemGenericAllocationHandle) {
        initialized()?;
        let_go(handle)
    }

    fn cuMemRetainAllocationHandle(out: *mut CUmemGenericAllocationHandle, address: *mut c_void) {
        let (_, range) = range_of(address.addr() as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if range.place != Place::Mapped {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, range.physical)?;
        physical(range.physical)?.held.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn cuMemMap(
        address: CUdeviceptr,
        bytes: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        flags: u64,
    ) {
        initialized()?;
        let memory = physical(handle)?;
        let inside = offset.checked_add(bytes).is_some_and(|end| end as u64 <= memory.bytes);
        if !aligned(address, bytes) || !inside || flags != 0 || !is_reserved(address, bytes) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let mut ranges = ranges_to_change();
        let taken = ranges.range(..address + bytes as u64).next_back();
        if taken.is_some_and(|(start, range)| start + range.length > address) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let kept = libc::MAP_SHARED | libc::MAP_FIXED;
        let offset = offset as libc::off_t;
        let mapped = libc::mmap(pointer(address), bytes, libc::PROT_NONE, kept, memory.file, offset);
        if mapped == libc::MAP_FAILED {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        memory.held.fetch_add(1, Ordering::AcqRel);
        ranges.insert(address, Range {
            length: bytes as u64,
            place: Place::Mapped,
            context: current().map_or(null_mut(), |context| context.handle()),
            device: memory.device.ordinal,
            pool: null_mut(),
            physical: handle,
            flags: ACCESS_NONE,
            id: next_id(),
            accessible: false,
        });
        Ok(())
    }

    fn cuMemUnmap(address: CUdeviceptr, bytes: usize) {
        initialized()?;
        let mut ranges = ranges_to_change();
        let starts = mappings(&ranges, address, bytes)?;
        let kept = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // The address space stays reserved.
        libc::mmap(pointer(address), bytes, libc::PROT_NONE, kept, -1, 0);
        for range in starts.iter().filter_map(|start| ranges.remove(start)) {
            let_go(range.physical)?;
        }
        Ok(())
    }

    fn cuMemSetAccess(address: CUdeviceptr, bytes: usize, access: *const CUmemAccessDesc, count: usize) {
        initialized()?;
        let mut wanted = ACCESS_NONE;
        for description in list(access.cast::<[u32; 3]>(), count)? {
            wanted |= description[2];
        }
        let protection = match wanted {
            ACCESS_NONE => libc::PROT_NONE,
            ACCESS_READ => libc::PROT_READ,
            ACCESS_READ_WRITE => libc::PROT_READ | libc::PROT_WRITE,
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        };
        let mut ranges = ranges_to_change();
        for start in mappings(&ranges, address, bytes)? {
            if let Some(range) = ranges.get_mut(&start) {
                libc::mprotect(pointer(start), range.length as usize, protection);
                range.accessible = wanted != ACCESS_NONE;
                range.flags = wanted;
            }
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: *mut u64, location: *const CUmemLocation, address: CUdeviceptr) {
        get(location)?;
        let (_, range) = range_of(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        put(flags, u64::from(range.flags))
    }
}

/// # Safety
///
/// `properties` is null or holds the properties of an allocation.
unsafe fn located(properties: *const CUmemAllocationProp) -> Result<&'static Device, CUresult> {
    if properties.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null; the location is read as the numbers that it is.
    let location = unsafe { get((&raw const (*properties).location).cast::<CUmemLocation>()) }?;
    if location.kind == LOCATION_DEVICE {
        device(location.id)
    } else {
        Err(CUDA_ERROR_NOT_SUPPORTED)
    }
}

const _: () = assert!(size_of::<CUmemAccessDesc>() == size_of::<[u32; 3]>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::with_context;
    use crate::memory::is_known;

    #[test]
    fn memory_is_reserved_mapped_and_given_back() {
        with_context(|| {
            let bytes = GRANULARITY;
            let (mut address, mut handle) = (0, 0);
            let mut properties = [0_u32; size_of::<CUmemAllocationProp>() / 4];
            properties[0] = 1;
            properties[2] = LOCATION_DEVICE;
            let access = [LOCATION_DEVICE, 0, ACCESS_READ_WRITE];
            // SAFETY: the arrays stand for the C structs of the same layout.
            unsafe {
                let properties = properties.as_ptr().cast();
                let access = access.as_ptr().cast();
                assert_eq!(cuMemAddressReserve(&raw mut address, 2 * bytes, 0, 0, 0), CUDA_SUCCESS);
                assert_eq!(cuMemCreate(&raw mut handle, bytes, properties, 0), CUDA_SUCCESS);
                assert_eq!(cuMemMap(address, bytes, 0, handle, 0), CUDA_SUCCESS);
                assert_eq!(cuMemMap(address, bytes, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
                let second = address + bytes as u64;
                assert_eq!(cuMemMap(second, bytes, 0, handle, 0), CUDA_SUCCESS);
                assert!(!is_known(address, 1));
                assert_eq!(cuMemSetAccess(address, 2 * bytes, access, 1), CUDA_SUCCESS);
                assert!(is_known(address, 2 * bytes as u64));
                pointer(address).cast::<u8>().write(42);
                assert_eq!(pointer(second).cast::<u8>().read(), 42, "both show the same memory");
                assert_eq!(cuMemRelease(handle), CUDA_SUCCESS);
                assert_eq!(cuMemAddressFree(address, 2 * bytes), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(cuMemUnmap(address, 2 * bytes), CUDA_SUCCESS);
                assert_eq!(cuMemAddressFree(address, 2 * bytes), CUDA_SUCCESS);
                assert_eq!(cuMemRelease(handle), CUDA_ERROR_INVALID_HANDLE);
            }
        });
    }
}
