//! Arrays, and what their elements are.
//!
//! The runtime describes an element by the bits of its channels, the driver by a
//! format and a count. Both directions stand here.

use core::ptr::null_mut;

use apex_cuda::Driver;
use apex_cuda::types::{
    CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY_SPARSE_PROPERTIES, CUarray, CUarray_format,
    CUmipmappedArray,
};

use crate::border::{check, get, put, put_if_wanted, wanted};
use crate::context::{current, device_of};
use crate::errors::{Error, cudaErrorInvalidChannelDescriptor};
use crate::layouts::{ArrayDescriptor, Channels, Extent};

/// `cudaChannelFormatKind`.
const SIGNED: u32 = 0;
const UNSIGNED: u32 = 1;
const FLOAT: u32 = 2;
const NONE: u32 = 3;
const NV12: u32 = 4;

/// The driver's format, the runtime's kind, and the bits of one channel.
const PLAIN: [(CUarray_format, u32, i32); 8] = [
    (0x01, UNSIGNED, 8),
    (0x02, UNSIGNED, 16),
    (0x03, UNSIGNED, 32),
    (0x08, SIGNED, 8),
    (0x09, SIGNED, 16),
    (0x0a, SIGNED, 32),
    (0x10, FLOAT, 16),
    (0x20, FLOAT, 32),
];

/// Formats with channels of their own count: the driver's, the runtime's kind, the
/// count, the bits of one channel.
const NORMALISED: [(CUarray_format, u32, u32, i32); 12] = [
    (0xc0, 5, 1, 8),
    (0xc1, 6, 2, 8),
    (0xc2, 7, 4, 8),
    (0xc3, 8, 1, 16),
    (0xc4, 9, 2, 16),
    (0xc5, 10, 4, 16),
    (0xc6, 11, 1, 8),
    (0xc7, 12, 2, 8),
    (0xc8, 13, 4, 8),
    (0xc9, 14, 1, 16),
    (0xca, 15, 2, 16),
    (0xcb, 16, 4, 16),
];

const FORMAT_NV12: CUarray_format = 0xb0;

/// The driver's format and count of channels.
pub(crate) fn driver_format(channels: Channels) -> Result<(CUarray_format, u32), Error> {
    let Channels { bits, kind } = channels;
    if kind == NV12 {
        return Ok((FORMAT_NV12, 3));
    }
    if let Some(&(format, _, count, _)) = NORMALISED.iter().find(|row| row.1 == kind) {
        return Ok((format, count));
    }
    let count = bits.iter().take_while(|&&bits| bits != 0).count();
    let is_regular = bits[..count].iter().all(|&other| other == bits[0])
        && bits[count..].iter().all(|&other| other == 0)
        && matches!(count, 1 | 2 | 4);
    let plain = PLAIN.iter().find(|row| row.1 == kind && row.2 == bits[0]);
    match plain {
        Some(&(format, ..)) if is_regular => Ok((format, count as u32)),
        _ => Err(cudaErrorInvalidChannelDescriptor),
    }
}

/// The runtime's description of a driver's format.
pub(crate) fn channels(format: CUarray_format, count: u32) -> Channels {
    let of = |kind, count: u32, width| Channels {
        bits: core::array::from_fn(|index| if (index as u32) < count { width } else { 0 }),
        kind,
    };
    if let Some(&(_, kind, width)) = PLAIN.iter().find(|row| row.0 == format) {
        return of(kind, count, width);
    }
    if let Some(&(_, kind, count, width)) = NORMALISED.iter().find(|row| row.0 == format) {
        return of(kind, count, width);
    }
    if format == FORMAT_NV12 {
        return of(NV12, 3, 8);
    }
    of(NONE, 0, 0)
}

/// Whether the elements are integers, which a texture can read as they are.
pub(crate) fn is_integer(format: CUarray_format) -> bool {
    matches!(format, 0x01..=0x03 | 0x08..=0x0a)
}

/// What an array is.
pub(crate) fn descriptor(driver: &Driver, array: CUarray) -> Result<ArrayDescriptor, Error> {
    let mut found = ArrayDescriptor::default();
    // SAFETY: the descriptor can be written and has the driver's layout.
    check(unsafe { (driver.cuArray3DGetDescriptor_v2)((&raw mut found).cast(), array) })?;
    Ok(found)
}

/// Bytes of one element.
pub(crate) fn element_bytes(descriptor: &ArrayDescriptor) -> usize {
    let bits: i32 = channels(descriptor.format, descriptor.channels).bits.iter().sum();
    (bits / 8) as usize
}

/// # Safety
///
/// `channels` is null or holds a description.
unsafe fn described(
    channels: *const Channels,
    extent: Extent,
    flags: u32,
) -> Result<ArrayDescriptor, Error> {
    // SAFETY: the caller vouches for it.
    let (format, channels) = driver_format(unsafe { get(channels) }?)?;
    Ok(ArrayDescriptor { extent, format, channels, flags })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cudaCreateChannelDesc(x: i32, y: i32, z: i32, w: i32, kind: u32) -> Channels {
    Channels { bits: [x, y, z, w], kind }
}

runtime! {
    fn cudaMallocArray(
        out: *mut CUarray,
        channels: *const Channels,
        width: usize,
        height: usize,
        flags: u32,
    ) {
        let driver = current()?;
        put(out, null_mut())?;
        let asked = described(channels, Extent { width, height, depth: 0 }, flags)?;
        check((driver.cuArray3DCreate_v2)(out, (&raw const asked).cast()))
    }

    fn cudaMalloc3DArray(
        out: *mut CUarray,
        channels: *const Channels,
        extent: Extent,
        flags: u32,
    ) {
        let driver = current()?;
        put(out, null_mut())?;
        let asked = described(channels, extent, flags)?;
        check((driver.cuArray3DCreate_v2)(out, (&raw const asked).cast()))
    }

    fn cudaMallocMipmappedArray(
        out: *mut CUmipmappedArray,
        channels: *const Channels,
        extent: Extent,
        levels: u32,
        flags: u32,
    ) {
        let driver = current()?;
        put(out, null_mut())?;
        let asked = described(channels, extent, flags)?;
        check((driver.cuMipmappedArrayCreate)(out, (&raw const asked).cast(), levels))
    }

    fn cudaFreeArray(array: CUarray) {
        let driver = current()?;
        if array.is_null() {
            return Ok(());
        }
        check((driver.cuArrayDestroy)(array))
    }

    fn cudaFreeMipmappedArray(array: CUmipmappedArray) {
        let driver = current()?;
        if array.is_null() {
            return Ok(());
        }
        check((driver.cuMipmappedArrayDestroy)(array))
    }

    fn cudaGetMipmappedArrayLevel(out: *mut CUarray, array: CUmipmappedArray, level: u32) {
        check((current()?.cuMipmappedArrayGetLevel)(wanted(out)?, array, level))
    }

    fn cudaGetChannelDesc(out: *mut Channels, array: CUarray) {
        let found = descriptor(current()?, array)?;
        put(out, channels(found.format, found.channels))
    }

    fn cudaArrayGetInfo(
        channels_out: *mut Channels,
        extent: *mut Extent,
        flags: *mut u32,
        array: CUarray,
    ) {
        let found = descriptor(current()?, array)?;
        put_if_wanted(channels_out, channels(found.format, found.channels));
        put_if_wanted(extent, found.extent);
        put_if_wanted(flags, found.flags);
        Ok(())
    }

    fn cudaArrayGetPlane(out: *mut CUarray, array: CUarray, plane: u32) {
        check((current()?.cuArrayGetPlane)(wanted(out)?, array, plane))
    }

    fn cudaArrayGetSparseProperties(out: *mut CUDA_ARRAY_SPARSE_PROPERTIES, array: CUarray) {
        check((current()?.cuArrayGetSparseProperties)(wanted(out)?, array))
    }

    fn cudaMipmappedArrayGetSparseProperties(
        out: *mut CUDA_ARRAY_SPARSE_PROPERTIES,
        array: CUmipmappedArray,
    ) {
        check((current()?.cuMipmappedArrayGetSparseProperties)(wanted(out)?, array))
    }

    fn cudaArrayGetMemoryRequirements(
        out: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS,
        array: CUarray,
        ordinal: i32,
    ) {
        let driver = current()?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuArrayGetMemoryRequirements)(wanted(out)?, array, device))
    }

    fn cudaMipmappedArrayGetMemoryRequirements(
        out: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS,
        array: CUmipmappedArray,
        ordinal: i32,
    ) {
        let driver = current()?;
        let device = device_of(driver, ordinal)?;
        check((driver.cuMipmappedArrayGetMemoryRequirements)(wanted(out)?, array, device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_both(bits: [i32; 4], kind: u32, format: CUarray_format, count: u32) {
        let described = Channels { bits, kind };
        assert_eq!(driver_format(described), Ok((format, count)));
        assert_eq!(channels(format, count), described);
    }

    #[test]
    fn formats_go_both_ways() {
        check_both([32, 0, 0, 0], FLOAT, 0x20, 1);
        check_both([8, 8, 8, 8], UNSIGNED, 0x01, 4);
        check_both([16, 16, 0, 0], SIGNED, 0x09, 2);
        check_both([16, 16, 16, 16], FLOAT, 0x10, 4);
        check_both([8, 8, 0, 0], 6, 0xc1, 2);
    }

    #[test]
    fn what_no_format_has_is_refused() {
        for (bits, kind) in [
            ([32, 32, 32, 0], FLOAT),
            ([8, 16, 0, 0], UNSIGNED),
            ([64, 0, 0, 0], UNSIGNED),
            ([0; 4], FLOAT),
            ([8, 0, 8, 0], SIGNED),
            ([32, 0, 0, 0], 99),
        ] {
            let refused = driver_format(Channels { bits, kind });
            assert_eq!(refused, Err(cudaErrorInvalidChannelDescriptor), "{bits:?} {kind}");
        }
    }
}
