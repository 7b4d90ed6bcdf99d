//! What is known of an address.

use core::ffi::c_void;

use apex_cuda::Driver;
use apex_cuda::types::{CUmemLocation, CUpointer_attribute};

use crate::border::{Answer, check, wanted};
use crate::context::current;
use crate::errors::Error;
use crate::version::is_12;

/// `cudaPointerAttributes`; CUDA 13 has 64 reserved bytes after it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PointerAttributes {
    kind: u32,
    device: i32,
    device_address: u64,
    host_address: u64,
}

const RESERVED_BYTES_13: usize = 64;

/// `cudaMemoryType`; of the driver's, only managed memory has another number.
const UNREGISTERED: u32 = 0;
const HOST: u32 = 1;
const MANAGED: u32 = 3;
/// `cudaInvalidDeviceId`: an address that no device knows.
const NO_DEVICE: i32 = -2;

const MEMORY_TYPE: CUpointer_attribute = 2;
const DEVICE_POINTER: CUpointer_attribute = 3;
const HOST_POINTER: CUpointer_attribute = 4;
const IS_MANAGED: CUpointer_attribute = 8;
const DEVICE_ORDINAL: CUpointer_attribute = 9;

/// What the driver says of an address.
#[derive(Clone, Copy, Default)]
struct Found {
    memory: u32,
    is_managed: u32,
    ordinal: i32,
    device_address: u64,
    host_address: u64,
}

fn ask(driver: &Driver, address: u64) -> Result<Found, Error> {
    let mut found = Found { ordinal: NO_DEVICE, ..Found::default() };
    let mut attributes = [MEMORY_TYPE, IS_MANAGED, DEVICE_ORDINAL, DEVICE_POINTER, HOST_POINTER];
    let mut places: [*mut c_void; 5] = [
        (&raw mut found.memory).cast(),
        (&raw mut found.is_managed).cast(),
        (&raw mut found.ordinal).cast(),
        (&raw mut found.device_address).cast(),
        (&raw mut found.host_address).cast(),
    ];
    let (list, out) = (attributes.as_mut_ptr(), places.as_mut_ptr());
    // SAFETY: each place is as large as its attribute.
    check(unsafe { (driver.cuPointerGetAttributes)(attributes.len() as u32, list, out, address) })?;
    Ok(found)
}

fn attributes(address: u64, found: Found) -> PointerAttributes {
    if found.memory == UNREGISTERED {
        return PointerAttributes {
            kind: UNREGISTERED,
            device: NO_DEVICE,
            device_address: 0,
            host_address: address,
        };
    }
    // The low byte is a C bool.
    let is_managed = found.is_managed & 0xff != 0;
    let kind = if is_managed { MANAGED } else { found.memory };
    let is_seen_by_host = is_managed || kind == HOST;
    PointerAttributes {
        kind,
        device: found.ordinal,
        device_address: found.device_address,
        host_address: match (is_seen_by_host, found.host_address) {
            (false, _) => 0,
            (true, 0) => address,
            (true, host_address) => host_address,
        },
    }
}

/// # Safety
///
/// `out` has room for the struct of the program's CUDA.
unsafe fn put_attributes(out: *mut PointerAttributes, attributes: PointerAttributes) -> Answer {
    let out = wanted(out)?;
    // SAFETY: the caller vouches for the room.
    unsafe {
        out.write_unaligned(attributes);
        if !is_12() {
            out.add(1).cast::<u8>().write_bytes(0, RESERVED_BYTES_13);
        }
    }
    Ok(())
}

runtime! {
    fn cudaMemGetLocationInfo(
        address: *mut c_void,
        bytes: usize,
        summary_granularity: usize,
        sampling_granularity: usize,
        out: *mut CUmemLocation,
    ) {
        let (driver, address) = (current()?, address.expose_provenance() as u64);
        let ask = driver.cuMemGetLocationInfo;
        check(ask(address, bytes, summary_granularity, sampling_granularity, wanted(out)?))
    }

    fn cudaPointerGetAttributes(out: *mut PointerAttributes, address: *const c_void) {
        let address = address.expose_provenance() as u64;
        let found = ask(current()?, address)?;
        put_attributes(out, attributes(address, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_by_who_can_see_it() {
        let device = Found { memory: 2, ordinal: 1, device_address: 64, ..Found::default() };
        let told = attributes(64, device);
        assert_eq!((told.kind, told.device, told.device_address, told.host_address), (2, 1, 64, 0));
        let managed = Found { is_managed: 1, ..device };
        assert_eq!((attributes(64, managed).kind, attributes(64, managed).host_address), (3, 64));
        let host = Found { memory: 1, host_address: 80, ..device };
        assert_eq!(attributes(64, host).host_address, 80);
        let unknown = attributes(96, Found::default());
        assert_eq!((unknown.kind, unknown.device, unknown.device_address), (0, -2, 0));
    }
}
