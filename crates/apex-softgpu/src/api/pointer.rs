//! What is known of an address, answered from the map of ranges.

use core::ptr::{null_mut, with_exposed_provenance_mut};

use apex_cuda::types::*;

use crate::border::{Answer, list, put, put_if_wanted};
use crate::machine::device::initialized;
use crate::memory::range::{MemoryKind, Range, range_of};
use crate::run::context::current;

const MEMORY_HOST: u32 = 1;
const MEMORY_DEVICE: u32 = 2;
const ACCESS_READ_WRITE: u32 = 3;
const LOCATION_DEVICE: u32 = 1;

answers! {
    fn cuPointerGetAttribute(data: *mut c_void, attribute: CUpointer_attribute, address: CUdeviceptr) {
        initialized()?;
        let (start, range) = range_of(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        put_attribute(data, attribute, address, start, &range)
    }

    fn cuPointerGetAttributes(
        count: u32,
        attributes: *mut CUpointer_attribute,
        data: *mut *mut c_void,
        address: CUdeviceptr,
    ) {
        initialized()?;
        let attributes = list(attributes, count as usize)?;
        let data = list(data, count as usize)?;
        let known = range_of(address);
        for (&attribute, &out) in attributes.iter().zip(data) {
            let answer = match &known {
                Some((start, range)) => put_attribute(out, attribute, address, *start, range),
                None => put_nothing(out, attribute, address),
            };
            // One attribute that does not apply is no reason to refuse the others.
            if answer.is_err() {
                put_nothing(out, attribute, address)?;
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(_value: *const c_void, attribute: CUpointer_attribute, address: CUdeviceptr) {
        range_of(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if attribute == 6 { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
    }

    fn cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) {
        current()?;
        let (start, range) = range_of(address).ok_or(CUDA_ERROR_NOT_FOUND)?;
        put_if_wanted(base, start);
        put_if_wanted(size, range.length as usize);
        Ok(())
    }

    fn cuMemHostGetDevicePointer_v2(out: *mut CUdeviceptr, pointer: *mut c_void, flags: u32) {
        current()?;
        let address = pointer.addr() as u64;
        let (_, range) = range_of(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if flags != 0 || !matches!(range.kind, MemoryKind::Host | MemoryKind::Registered) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, address)
    }

    fn cuMemHostGetFlags(out: *mut u32, pointer: *mut c_void) {
        current()?;
        let (_, range) = range_of(pointer.addr() as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if !matches!(range.kind, MemoryKind::Host | MemoryKind::Registered) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, range.flags)
    }

    fn cuMemGetLocationInfo(
        address: CUdeviceptr,
        size: usize,
        _summary: usize,
        _sampling: usize,
        out: *mut CUmemLocation,
    ) {
        let (_, range) = range_of(address).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        if size == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put(out, CUmemLocation { kind: LOCATION_DEVICE, id: range.device })
    }
}

/// # Safety
///
/// `data` is null or has room for the attribute's type.
unsafe fn put_attribute(
    data: *mut c_void,
    attribute: CUpointer_attribute,
    address: u64,
    start: u64,
    range: &Range,
) -> Answer {
    let on_host = matches!(range.kind, MemoryKind::Host | MemoryKind::Registered);
    let reachable_from_host = on_host || range.kind == MemoryKind::Managed;
    // SAFETY: the caller vouches for `data`; each arm writes the attribute's C type.
    unsafe {
        match attribute {
            1 => put(data.cast(), range.context),
            2 => put(data.cast(), if on_host { MEMORY_HOST } else { MEMORY_DEVICE }),
            3 => put(data.cast(), address),
            4 if reachable_from_host => {
                put(data.cast(), with_exposed_provenance_mut::<c_void>(address as usize))
            }
            6 => put(data.cast(), 0_u32),
            7 => put(data.cast(), range.id),
            8 => put(data.cast(), u32::from(range.kind == MemoryKind::Managed)),
            9 => put(data.cast(), range.device),
            10 => put(data.cast(), 0_u8),
            11 | 19 => put(data.cast(), start),
            12 | 18 => put(data.cast(), range.length as usize),
            13 => put(data.cast(), 1_u8),
            14 => put(data.cast(), 0_u64),
            15 => put(data.cast(), 0_u8),
            16 => put(data.cast(), ACCESS_READ_WRITE),
            17 => put(data.cast(), range.pool),
            20 => put(data.cast(), range.id),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}

/// What the driver writes for an address it does not know.
///
/// # Safety
///
/// As for [`put_attribute`].
unsafe fn put_nothing(data: *mut c_void, attribute: CUpointer_attribute, address: u64) -> Answer {
    // SAFETY: the caller vouches for `data`; each arm writes the attribute's C type.
    unsafe {
        match attribute {
            4 => put(data.cast(), address),
            1 | 3 | 7 | 11 | 12 | 14 | 17..=20 => put(data.cast(), null_mut::<c_void>()),
            2 | 6 | 8 | 16 => put(data.cast(), 0_u32),
            9 => put(data.cast(), -2_i32),
            10 | 13 | 15 => put(data.cast(), 0_u8),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}
