//! The driver's functions for addresses reserved and physical memory mapped by hand.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};

use apex_cuda::types::*;

use crate::border::{get, list, put};
use crate::machine::device::{Device, device, initialized, machine};
use crate::memory::hold::wait_for_holders;
use crate::memory::physical::{
    ACCESS_NONE, ACCESS_READ, ACCESS_READ_WRITE, GRANULARITY, RESERVED, aligned, is_reserved,
    let_go, make, mappings, physical, pointer,
};
use crate::memory::range::{MemoryKind, Range, next_id, range_of, ranges_to_change};
use crate::memory::shared::memory_file;
use crate::object::lock;
use crate::run::context::current;

const LOCATION_DEVICE: u32 = 1;
const HANDLE_FILE: CUmemAllocationHandleType = 1;

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
        let start = machine()?.arena.take_addresses(bytes as u64, alignment as u64);
        let start = start.ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        lock(&RESERVED).insert(start, bytes as u64);
        put(out, start)
    }

    fn cuMemAddressFree(address: CUdeviceptr, bytes: usize) {
        initialized()?;
        let mut reserved = lock(&RESERVED);
        let still_mapped = crate::memory::range::ranges().range(address..address.saturating_add(bytes as u64)).next().is_some();
        if reserved.get(&address) != Some(&(bytes as u64)) || still_mapped {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        reserved.remove(&address);
        machine()?.arena.give_back_addresses(address, bytes as u64);
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
        if range.kind != MemoryKind::Mapped {
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
            kind: MemoryKind::Mapped,
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
    use crate::api::context::tests::with_context;
    use crate::memory::range::is_known;

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
