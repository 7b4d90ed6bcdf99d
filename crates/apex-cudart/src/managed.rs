//! Hints and moves for managed memory.

use core::ffi::c_void;

use apex_cuda::types::{CUmem_advise, CUmem_range_attribute, CUmemLocation, CUstream};

use crate::border::{check, wanted};
use crate::context::current;

/// `cudaCpuDeviceId`: the number that meant the host where a device was asked for.
const HOST_DEVICE: i32 = -1;
const AT_DEVICE: u32 = 1;
const AT_HOST: u32 = 2;

/// CUDA 12's number of a device as a place.
fn place(device: i32) -> CUmemLocation {
    if device == HOST_DEVICE {
        CUmemLocation { kind: AT_HOST, id: 0 }
    } else {
        CUmemLocation { kind: AT_DEVICE, id: device }
    }
}

fn number(address: *const c_void) -> u64 {
    address.expose_provenance() as u64
}

runtime! {
    fn cudart13_cudaMemAdvise(
        address: *const c_void,
        bytes: usize,
        advice: CUmem_advise,
        location: CUmemLocation,
    ) {
        check((current()?.cuMemAdvise_v2)(number(address), bytes, advice, location))
    }

    fn cudart12_cudaMemAdvise(
        address: *const c_void,
        bytes: usize,
        advice: CUmem_advise,
        device: i32,
    ) {
        check((current()?.cuMemAdvise_v2)(number(address), bytes, advice, place(device)))
    }

    fn cudart13_cudaMemPrefetchAsync / cudart13_cudaMemPrefetchAsync_ptsz(
        address: *const c_void,
        bytes: usize,
        location: CUmemLocation,
        flags: u32,
        stream: CUstream,
    ) {
        check((current()?.cuMemPrefetchAsync_v2)(number(address), bytes, location, flags, stream))
    }

    fn cudart12_cudaMemPrefetchAsync / cudart12_cudaMemPrefetchAsync_ptsz(
        address: *const c_void,
        bytes: usize,
        device: i32,
        stream: CUstream,
    ) {
        let prefetch = current()?.cuMemPrefetchAsync_v2;
        check(prefetch(number(address), bytes, place(device), 0, stream))
    }

    fn cudaMemPrefetchBatchAsync / cudaMemPrefetchBatchAsync_ptsz(
        addresses: *mut u64,
        sizes: *mut usize,
        count: usize,
        locations: *mut CUmemLocation,
        location_indices: *mut usize,
        location_count: usize,
        flags: u64,
        stream: CUstream,
    ) {
        check((current()?.cuMemPrefetchBatchAsync)(
            addresses, sizes, count, locations, location_indices, location_count, flags, stream,
        ))
    }

    fn cudaMemDiscardBatchAsync / cudaMemDiscardBatchAsync_ptsz(
        addresses: *mut u64,
        sizes: *mut usize,
        count: usize,
        flags: u64,
        stream: CUstream,
    ) {
        check((current()?.cuMemDiscardBatchAsync)(addresses, sizes, count, flags, stream))
    }

    fn cudaMemDiscardAndPrefetchBatchAsync / cudaMemDiscardAndPrefetchBatchAsync_ptsz(
        addresses: *mut u64,
        sizes: *mut usize,
        count: usize,
        locations: *mut CUmemLocation,
        location_indices: *mut usize,
        location_count: usize,
        flags: u64,
        stream: CUstream,
    ) {
        check((current()?.cuMemDiscardAndPrefetchBatchAsync)(
            addresses, sizes, count, locations, location_indices, location_count, flags, stream,
        ))
    }

    fn cudaMemRangeGetAttribute(
        out: *mut c_void,
        out_bytes: usize,
        attribute: CUmem_range_attribute,
        address: *const c_void,
        bytes: usize,
    ) {
        let ask = current()?.cuMemRangeGetAttribute;
        check(ask(wanted(out)?, out_bytes, attribute, number(address), bytes))
    }

    fn cudaMemRangeGetAttributes(
        outs: *mut *mut c_void,
        out_sizes: *mut usize,
        attributes: *mut CUmem_range_attribute,
        count: usize,
        address: *const c_void,
        bytes: usize,
    ) {
        let ask = current()?.cuMemRangeGetAttributes;
        check(ask(wanted(outs)?, out_sizes, attributes, count, number(address), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_was_device_minus_one() {
        assert_eq!(place(-1), CUmemLocation { kind: AT_HOST, id: 0 });
        assert_eq!(place(3), CUmemLocation { kind: AT_DEVICE, id: 3 });
    }
}
