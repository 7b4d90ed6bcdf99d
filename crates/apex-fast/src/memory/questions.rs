//! Questions about pointers and pools, answered as if freed memory had gone back and nothing had been set.
//!
//! A block is the driver's own, so about one that the program has the driver itself answers. About one that it has freed the
//! driver is asked in the name of an address that is nobody's.

#![allow(non_snake_case, reason = "the functions bear the driver's own names")]

use super::{beneath, is_idle, known_elsewhere, ordered};
use apex_cuda::types::*;
use core::ffi::c_void;

/// Neither the device's memory nor the host's.
const NOBODYS: CUdeviceptr = 16;
/// Who asks for it shows the memory to other devices.
const P2P_TOKENS: CUpointer_attribute = 5;

fn asked(address: CUdeviceptr) -> CUdeviceptr {
    if is_idle(address) { NOBODYS } else { address }
}

pub(super) unsafe extern "C" fn cuPointerGetAttribute(
    data: *mut c_void,
    attribute: CUpointer_attribute,
    address: CUdeviceptr,
) -> CUresult {
    if attribute == P2P_TOKENS {
        known_elsewhere(address);
    }
    // SAFETY: the program's own arguments, or an address that is nobody's.
    unsafe { (beneath().cuPointerGetAttribute)(data, attribute, asked(address)) }
}

pub(super) unsafe extern "C" fn cuPointerGetAttributes(
    count: u32,
    attributes: *mut CUpointer_attribute,
    data: *mut *mut c_void,
    address: CUdeviceptr,
) -> CUresult {
    let is_idle = is_idle(address);
    let address = if is_idle { NOBODYS } else { address };
    // SAFETY: the program's own arguments, or an address that is nobody's.
    let result = unsafe { (beneath().cuPointerGetAttributes)(count, attributes, data, address) };
    if result == CUDA_SUCCESS && !is_idle {
        // SAFETY: the driver has read so many.
        let all = (0..count as usize).map(|nth| unsafe { attributes.add(nth).read_unaligned() });
        if all.into_iter().any(|attribute| attribute == P2P_TOKENS) {
            known_elsewhere(address);
        }
    }
    result
}

pub(super) unsafe extern "C" fn cuMemGetAddressRange_v2(
    base: *mut CUdeviceptr,
    bytes: *mut usize,
    address: CUdeviceptr,
) -> CUresult {
    // SAFETY: the program's own arguments, or an address that is nobody's.
    unsafe { (beneath().cuMemGetAddressRange_v2)(base, bytes, asked(address)) }
}

pub(super) unsafe extern "C" fn cuMemPoolGetAttribute(
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: *mut c_void,
) -> CUresult {
    // SAFETY: the program's own arguments, unchanged.
    let result = unsafe { (beneath().cuMemPoolGetAttribute)(pool, attribute, value) };
    if result == CUDA_SUCCESS
        && let Some(bytes) = ordered::told(pool as u64, attribute)
    {
        // SAFETY: the driver has written there, as many bytes.
        unsafe { value.cast::<u64>().write_unaligned(bytes) };
    }
    result
}

pub(super) unsafe extern "C" fn cuMemPoolSetAttribute(
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: *mut c_void,
) -> CUresult {
    // SAFETY: the program's own arguments, unchanged.
    let result = unsafe { (beneath().cuMemPoolSetAttribute)(pool, attribute, value) };
    if result == CUDA_SUCCESS {
        ordered::set_by_program(pool as u64, attribute);
    }
    result
}

pub(super) unsafe extern "C" fn cuMemPoolDestroy(pool: CUmemoryPool) -> CUresult {
    ordered::ended(pool as u64);
    // SAFETY: the program's own argument, unchanged.
    unsafe { (beneath().cuMemPoolDestroy)(pool) }
}

pub(super) unsafe extern "C" fn cuDeviceSetMemPool(
    device: CUdevice,
    pool: CUmemoryPool,
) -> CUresult {
    // SAFETY: the program's own arguments, unchanged.
    let result = unsafe { (beneath().cuDeviceSetMemPool)(device, pool) };
    ordered::changed();
    result
}

pub(super) unsafe extern "C" fn cuMemSetMemPool(
    location: *mut CUmemLocation,
    kind: CUmemAllocationType,
    pool: CUmemoryPool,
) -> CUresult {
    // SAFETY: the program's own arguments, unchanged.
    let result = unsafe { (beneath().cuMemSetMemPool)(location, kind, pool) };
    ordered::changed();
    result
}
