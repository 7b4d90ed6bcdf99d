//! Copies of bytes and of rows.
//!
//! The runtime says with each copy which way it goes; the driver has a function for
//! each way. `cudaMemcpyDefault` leaves it to the addresses, and so does a copy within
//! the host, which the driver then does in the order of the stream.

use core::ffi::c_void;

use apex_cuda::Driver;
use apex_cuda::types::{CUdeviceptr, CUmemcpyAttributes, CUresult, CUstream};

use crate::border::{Answer, check, put_if_wanted};
use crate::context::{current, primary};
use crate::errors::{Error, cudaErrorInvalidMemcpyDirection, cudaErrorInvalidPitchValue};
use crate::layouts::{DEVICE, DriverCopy2D, HOST, Side2D, UNIFIED};

/// `cudaMemcpyKind`.
pub(crate) const HOST_TO_HOST: u32 = 0;
pub(crate) const HOST_TO_DEVICE: u32 = 1;
pub(crate) const DEVICE_TO_HOST: u32 = 2;
pub(crate) const DEVICE_TO_DEVICE: u32 = 3;
pub(crate) const DEFAULT: u32 = 4;

/// How a copy is ordered.
#[derive(Clone, Copy)]
pub(crate) enum StreamOrder {
    /// After all work of the legacy stream; the caller waits.
    Waiting,
    /// After the work of the thread's own stream; the caller waits.
    WaitingOwn,
    /// In a stream.
    Stream(CUstream),
}

/// Where source and target are.
pub(crate) fn places(kind: u32) -> Result<(u32, u32), Error> {
    match kind {
        HOST_TO_HOST => Ok((HOST, HOST)),
        HOST_TO_DEVICE => Ok((HOST, DEVICE)),
        DEVICE_TO_HOST => Ok((DEVICE, HOST)),
        DEVICE_TO_DEVICE => Ok((DEVICE, DEVICE)),
        DEFAULT => Ok((UNIFIED, UNIFIED)),
        _ => Err(cudaErrorInvalidMemcpyDirection),
    }
}

/// Copies bytes from address to address.
///
/// # Safety
///
/// Both places hold as many bytes, where `kind` says.
pub(crate) unsafe fn copy(
    target: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
    kind: u32,
    order: StreamOrder,
) -> Answer {
    places(kind)?;
    let driver = current()?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller vouches for both places.
    check(unsafe {
        match kind {
            HOST_TO_DEVICE => to_device(driver, target, pointer(source), bytes, order),
            DEVICE_TO_HOST => to_host(driver, pointer(target), source, bytes, order),
            DEVICE_TO_DEVICE => within(driver, target, source, bytes, order),
            _ => by_address(driver, target, source, bytes, order),
        }
    })
}

fn pointer(address: CUdeviceptr) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(address as usize)
}

/// # Safety
///
/// As for [`copy`].
unsafe fn to_device(
    driver: &Driver,
    target: CUdeviceptr,
    source: *const c_void,
    bytes: usize,
    order: StreamOrder,
) -> CUresult {
    // SAFETY: the caller vouches for both places.
    unsafe {
        match order {
            StreamOrder::Waiting => (driver.cuMemcpyHtoD_v2)(target, source, bytes),
            StreamOrder::WaitingOwn => (driver.cuMemcpyHtoD_v2_ptds)(target, source, bytes),
            StreamOrder::Stream(stream) => {
                (driver.cuMemcpyHtoDAsync_v2)(target, source, bytes, stream)
            }
        }
    }
}

/// # Safety
///
/// As for [`copy`].
unsafe fn to_host(
    driver: &Driver,
    target: *mut c_void,
    source: CUdeviceptr,
    bytes: usize,
    order: StreamOrder,
) -> CUresult {
    // SAFETY: the caller vouches for both places.
    unsafe {
        match order {
            StreamOrder::Waiting => (driver.cuMemcpyDtoH_v2)(target, source, bytes),
            StreamOrder::WaitingOwn => (driver.cuMemcpyDtoH_v2_ptds)(target, source, bytes),
            StreamOrder::Stream(stream) => {
                (driver.cuMemcpyDtoHAsync_v2)(target, source, bytes, stream)
            }
        }
    }
}

/// # Safety
///
/// As for [`copy`].
unsafe fn within(
    driver: &Driver,
    target: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
    order: StreamOrder,
) -> CUresult {
    // SAFETY: the caller vouches for both places.
    unsafe {
        match order {
            StreamOrder::Waiting => (driver.cuMemcpyDtoD_v2)(target, source, bytes),
            StreamOrder::WaitingOwn => (driver.cuMemcpyDtoD_v2_ptds)(target, source, bytes),
            StreamOrder::Stream(stream) => {
                (driver.cuMemcpyDtoDAsync_v2)(target, source, bytes, stream)
            }
        }
    }
}

/// # Safety
///
/// As for [`copy`].
unsafe fn by_address(
    driver: &Driver,
    target: CUdeviceptr,
    source: CUdeviceptr,
    bytes: usize,
    order: StreamOrder,
) -> CUresult {
    // SAFETY: the caller vouches for both places.
    unsafe {
        match order {
            StreamOrder::Waiting => (driver.cuMemcpy)(target, source, bytes),
            StreamOrder::WaitingOwn => (driver.cuMemcpy_ptds)(target, source, bytes),
            StreamOrder::Stream(stream) => (driver.cuMemcpyAsync)(target, source, bytes, stream),
        }
    }
}

/// One side of a copy of rows in linear memory.
pub(crate) fn rows(memory: u32, address: u64, pitch: usize) -> Side2D {
    let host = if memory == HOST { pointer(address) } else { core::ptr::null_mut() };
    let device = if memory == HOST { 0 } else { address };
    Side2D { memory, host, device, pitch, ..Side2D::NOTHING }
}

/// Copies rows.
///
/// # Safety
///
/// Both sides hold as many rows.
pub(crate) unsafe fn copy_rows(copy: DriverCopy2D, order: StreamOrder) -> Answer {
    let driver = current()?;
    if copy.width_bytes == 0 || copy.height == 0 {
        return Ok(());
    }
    let copy = (&raw const copy).cast();
    // SAFETY: the caller vouches for both sides; the layout is the driver's.
    check(unsafe {
        match order {
            // This one takes pitches that the plain one does not.
            StreamOrder::Waiting => (driver.cuMemcpy2DUnaligned_v2)(copy),
            StreamOrder::WaitingOwn => (driver.cuMemcpy2DUnaligned_v2_ptds)(copy),
            StreamOrder::Stream(stream) => (driver.cuMemcpy2DAsync_v2)(copy, stream),
        }
    })
}

/// # Safety
///
/// Both places hold as many rows.
unsafe fn copy_2d(
    (target, target_pitch): (*mut c_void, usize),
    (source, source_pitch): (*const c_void, usize),
    width_bytes: usize,
    height: usize,
    kind: u32,
    order: StreamOrder,
) -> Answer {
    let (from, to) = places(kind)?;
    if height > 1 && (width_bytes > target_pitch || width_bytes > source_pitch) {
        return Err(cudaErrorInvalidPitchValue);
    }
    let source = rows(from, source.expose_provenance() as u64, source_pitch);
    let target = rows(to, target.expose_provenance() as u64, target_pitch);
    // SAFETY: the caller vouches for both places.
    unsafe { copy_rows(DriverCopy2D { source, target, width_bytes, height }, order) }
}

/// # Safety
///
/// Both places hold as many bytes, where `kind` says.
unsafe fn copy_1d(
    target: *mut c_void,
    source: *const c_void,
    bytes: usize,
    kind: u32,
    order: StreamOrder,
) -> Answer {
    let (target, source) = (target.expose_provenance() as u64, source.expose_provenance() as u64);
    // SAFETY: the caller vouches for both places.
    unsafe { copy(target, source, bytes, kind, order) }
}

runtime! {
    fn cudaMemcpy(target: *mut c_void, source: *const c_void, bytes: usize, kind: u32) {
        copy_1d(target, source, bytes, kind, StreamOrder::Waiting)
    }

    fn cudaMemcpy_ptds(target: *mut c_void, source: *const c_void, bytes: usize, kind: u32) {
        copy_1d(target, source, bytes, kind, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpyAsync / cudaMemcpyAsync_ptsz(
        target: *mut c_void,
        source: *const c_void,
        bytes: usize,
        kind: u32,
        stream: CUstream,
    ) {
        copy_1d(target, source, bytes, kind, StreamOrder::Stream(stream))
    }

    fn cudaMemcpy2D(
        target: *mut c_void,
        target_pitch: usize,
        source: *const c_void,
        source_pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) {
        let (target, source) = ((target, target_pitch), (source, source_pitch));
        copy_2d(target, source, width, height, kind, StreamOrder::Waiting)
    }

    fn cudaMemcpy2D_ptds(
        target: *mut c_void,
        target_pitch: usize,
        source: *const c_void,
        source_pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) {
        let (target, source) = ((target, target_pitch), (source, source_pitch));
        copy_2d(target, source, width, height, kind, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpy2DAsync / cudaMemcpy2DAsync_ptsz(
        target: *mut c_void,
        target_pitch: usize,
        source: *const c_void,
        source_pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
        stream: CUstream,
    ) {
        let (target, source) = ((target, target_pitch), (source, source_pitch));
        copy_2d(target, source, width, height, kind, StreamOrder::Stream(stream))
    }

    fn cudaMemcpyPeer(
        target: *mut c_void,
        target_device: i32,
        source: *const c_void,
        source_device: i32,
        bytes: usize,
    ) {
        let driver = current()?;
        let (to, from) = (primary(driver, target_device)?, primary(driver, source_device)?);
        let (target, source) = (target.expose_provenance(), source.expose_provenance());
        check((driver.cuMemcpyPeer)(target as u64, to, source as u64, from, bytes))
    }

    fn cudaMemcpyPeerAsync(
        target: *mut c_void,
        target_device: i32,
        source: *const c_void,
        source_device: i32,
        bytes: usize,
        stream: CUstream,
    ) {
        let driver = current()?;
        let (to, from) = (primary(driver, target_device)?, primary(driver, source_device)?);
        let (target, source) = (target.expose_provenance(), source.expose_provenance());
        check((driver.cuMemcpyPeerAsync)(target as u64, to, source as u64, from, bytes, stream))
    }

    fn cudaMemcpyWithAttributesAsync / cudaMemcpyWithAttributesAsync_ptsz(
        target: *mut c_void,
        source: *const c_void,
        bytes: usize,
        attributes: *mut CUmemcpyAttributes,
        stream: CUstream,
    ) {
        let (target, source) = (target.expose_provenance(), source.expose_provenance());
        let copy = current()?.cuMemcpyWithAttributesAsync;
        check(copy(target as u64, source as u64, bytes, attributes, stream))
    }

    fn cudart13_cudaMemcpyBatchAsync / cudart13_cudaMemcpyBatchAsync_ptsz(
        targets: *mut CUdeviceptr,
        sources: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        attributes: *mut CUmemcpyAttributes,
        attribute_indices: *mut usize,
        attribute_count: usize,
        stream: CUstream,
    ) {
        check((current()?.cuMemcpyBatchAsync_v2)(
            targets, sources, sizes, count, attributes, attribute_indices, attribute_count, stream,
        ))
    }

    fn cudart12_cudaMemcpyBatchAsync / cudart12_cudaMemcpyBatchAsync_ptsz(
        targets: *mut CUdeviceptr,
        sources: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        attributes: *mut CUmemcpyAttributes,
        attribute_indices: *mut usize,
        attribute_count: usize,
        failed_index: *mut usize,
        stream: CUstream,
    ) {
        // What fails as a whole names no copy.
        put_if_wanted(failed_index, usize::MAX);
        check((current()?.cuMemcpyBatchAsync_v2)(
            targets, sources, sizes, count, attributes, attribute_indices, attribute_count, stream,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_says_where_both_sides_are() {
        assert_eq!(places(HOST_TO_DEVICE), Ok((HOST, DEVICE)));
        assert_eq!(places(DEFAULT), Ok((UNIFIED, UNIFIED)));
        assert_eq!(places(5), Err(cudaErrorInvalidMemcpyDirection));
    }

    #[test]
    fn a_row_wider_than_its_pitch_is_refused() {
        let nothing = core::ptr::null_mut();
        // SAFETY: refused before anything is read.
        let answer =
            unsafe { copy_2d((nothing, 8), (nothing, 16), 12, 2, DEFAULT, StreamOrder::Waiting) };
        assert_eq!(answer, Err(cudaErrorInvalidPitchValue));
    }
}
