//! Address ranges and physical memory, mapped by hand.
//!
//! A reservation is address space that nothing lies behind; physical memory is a
//! file in memory, so that it can be mapped at two places at once; a mapping puts
//! one over the other and can be touched when access has been set. A touch too early
//! or too late faults, as on a device.

use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, get, list, put};
use crate::context::current;
use crate::device::{Device, device, initialized};
use crate::ipc::memory_file;
use crate::memory::{Place, Range, next_id, range_of, ranges_to_change, wait_for_holders};
use crate::object::{create, destroy, live, lock, object};

/// Physical memory that can be mapped.
pub(crate) struct Physical {
    bytes: u64,
    device: &'static Device,
    file: File,
    /// The handle itself and every mapping hold it.
    held: AtomicU32,
}
object!(Physical, b"physical");

impl Drop for Physical {
    fn drop(&mut self) {
        self.device.give_back_bytes(self.bytes);
    }
}

static RESERVED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

const GRANULARITY: usize = 2 << 20;
const LOCATION_DEVICE: u32 = 1;
const HANDLE_FILE: CUmemAllocationHandleType = 1;
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
    around.is_some_and(|(start, length)| {
        address.checked_add(bytes as u64).is_some_and(|end| end <= start + length)
    })
}

fn make(bytes: u64, device: &'static Device, file: File) -> u64 {
    let handle: *mut c_void = create(Physical { bytes, device, file, held: AtomicU32::new(1) });
    handle.expose_provenance() as u64
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
        let still_mapped = crate::memory::ranges().range(address..address.saturating_add(bytes as u64)).next().is_some();
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
        device.take_bytes(bytes as u64)?;
        let file = memory_file(bytes as u64).inspect_err(|_| device.give_back_bytes(bytes as u64))?;
        put(out, make(bytes as u64, device, file))
    }

    fn cuMemExportToShareableHandle(
        out: *mut c_void,
        handle: CUmemGenericAllocationHandle,
        kind: CUmemAllocationHandleType,
        flags: u64,
    ) {
        initialized()?;
        let memory = physical(handle)?;
        if kind != HANDLE_FILE {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        if flags != 0 || out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let copy = memory.file.try_clone().map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)?;
        // The file is the program's from now on.
        put(out.cast(), copy.into_raw_fd())
    }

    fn cuMemImportFromShareableHandle(
        out: *mut CUmemGenericAllocationHandle,
        file: *mut c_void,
        kind: CUmemAllocationHandleType,
    ) {
        initialized()?;
        if kind != HANDLE_FILE {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        // The number of the file is the pointer itself.
        let copy = libc::fcntl(file.addr() as i32, libc::F_DUPFD_CLOEXEC, 0);
        if copy < 0 || out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let file = File::from_raw_fd(copy);
        let bytes = file.metadata().map_err(|_| CUDA_ERROR_INVALID_VALUE)?.len();
        if !aligned(0, bytes as usize) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let device = current().map_or_else(|_| device(0), |context| Ok(context.device))?;
        device.take_bytes(bytes)?;
        put(out, make(bytes, device, file))
    }

    fn cuMemGetAllocationPropertiesFromHandle(
        out: *mut CUmemAllocationProp,
        handle: CUmemGenericAllocationHandle,
    ) {
        initialized()?;
        let memory = physical(handle)?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        out.write_bytes(0, 1);
        // Type pinned, file handles, then the location.
        let words = out.cast::<u32>();
        words.write(1);
        words.add(1).write(HANDLE_FILE);
        words.add(2).write(LOCATION_DEVICE);
        words.add(3).write(memory.device.ordinal as u32);
        Ok(())
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
        let mapped = libc::mmap(pointer(address), bytes, libc::PROT_NONE, kept, memory.file.as_raw_fd(), offset);
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
        if let Ok(context) = current() {
            context.domain.drain(context.spins())?;
        }
        let mut ranges = ranges_to_change();
        let starts = mappings(&ranges, address, bytes)?;
        let gone: Vec<Range> = starts.iter().filter_map(|start| ranges.remove(start)).collect();
        drop(ranges);
        wait_for_holders(address, bytes as u64);
        let kept = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // The address space stays reserved.
        libc::mmap(pointer(address), bytes, libc::PROT_NONE, kept, -1, 0);
        for range in gone {
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
