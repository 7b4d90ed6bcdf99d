//! Copies in three dimensions.
//!
//! The runtime counts in elements of the array that takes part, in bytes where none
//! does; the driver counts in bytes always. [`to_driver`] and [`from_driver`] are each
//! other's reverse, for graphs give back what they were given.

use core::ptr::null_mut;

use apex_cuda::Driver;
use apex_cuda::types::{CUDA_MEMCPY3D_BATCH_OP, CUarray, CUstream};

use crate::array::{descriptor, element_bytes};
use crate::border::{Answer, check, get, put_if_wanted};
use crate::context::{current, primary};
use crate::copy::{
    DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST, StreamOrder, places,
};
use crate::errors::{Error, cudaErrorInvalidValue};
use crate::layouts::{
    ARRAY, Copy3D, DriverCopy3D, Extent, HOST, PeerCopy3D, PitchedPointer, Position, Side3D,
    UNIFIED,
};

/// Bytes of an element of an array; 1 where there is none.
fn unit(driver: &Driver, array: CUarray) -> Result<usize, Error> {
    if array.is_null() {
        return Ok(1);
    }
    Ok(element_bytes(&descriptor(driver, array)?).max(1))
}

fn side(
    array: CUarray,
    position: Position,
    place: PitchedPointer,
    memory: u32,
    unit: usize,
) -> Result<Side3D, Error> {
    let x_bytes = position.x.checked_mul(unit).ok_or(cudaErrorInvalidValue)?;
    let Position { y, z, .. } = position;
    if !array.is_null() {
        return Ok(Side3D { x_bytes, y, z, memory: ARRAY, array, ..Side3D::NOTHING });
    }
    let address = place.address;
    let is_host = memory == HOST;
    Ok(Side3D {
        x_bytes,
        y,
        z,
        memory,
        host: if is_host {
            core::ptr::with_exposed_provenance_mut(address as usize)
        } else {
            null_mut()
        },
        device: if is_host { 0 } else { address },
        pitch: place.pitch,
        height: place.rows,
        ..Side3D::NOTHING
    })
}

/// The driver's form of a copy.
pub(crate) fn to_driver(driver: &Driver, copy: &Copy3D) -> Result<DriverCopy3D, Error> {
    let (from, to) = places(copy.kind)?;
    let units = (unit(driver, copy.source_array)?, unit(driver, copy.target_array)?);
    let source = side(copy.source_array, copy.source_position, copy.source, from, units.0)?;
    let target = side(copy.target_array, copy.target_position, copy.target, to, units.1)?;
    let Extent { width, height, depth } = copy.extent;
    // Two arrays have elements of one size.
    let width_bytes = width.checked_mul(units.0.max(units.1)).ok_or(cudaErrorInvalidValue)?;
    Ok(DriverCopy3D { source, target, width_bytes, height, depth })
}

/// The runtime's form of a copy.
pub(crate) fn from_driver(driver: &Driver, copy: &DriverCopy3D) -> Result<Copy3D, Error> {
    let array = |side: &Side3D| if side.memory == ARRAY { side.array } else { null_mut() };
    let units = (unit(driver, array(&copy.source))?, unit(driver, array(&copy.target))?);
    let position =
        |side: &Side3D, unit: usize| Position { x: side.x_bytes / unit, y: side.y, z: side.z };
    let place = |side: &Side3D| match side.memory {
        ARRAY => PitchedPointer::default(),
        memory => PitchedPointer {
            address: if memory == HOST {
                side.host.expose_provenance() as u64
            } else {
                side.device
            },
            pitch: side.pitch,
            row_bytes: side.pitch,
            rows: side.height,
        },
    };
    let is_host = |side: &Side3D| side.memory == HOST;
    let kind = if copy.source.memory == UNIFIED || copy.target.memory == UNIFIED {
        DEFAULT
    } else {
        match (is_host(&copy.source), is_host(&copy.target)) {
            (true, true) => HOST_TO_HOST,
            (true, false) => HOST_TO_DEVICE,
            (false, true) => DEVICE_TO_HOST,
            (false, false) => DEVICE_TO_DEVICE,
        }
    };
    Ok(Copy3D {
        source_array: array(&copy.source),
        source_position: position(&copy.source, units.0),
        source: place(&copy.source),
        target_array: array(&copy.target),
        target_position: position(&copy.target, units.1),
        target: place(&copy.target),
        extent: Extent {
            width: copy.width_bytes / units.0.max(units.1),
            height: copy.height,
            depth: copy.depth,
        },
        kind,
    })
}

/// # Safety
///
/// Both sides hold what is copied.
unsafe fn copy_3d(given: *const Copy3D, order: StreamOrder) -> Answer {
    let driver = current()?;
    // SAFETY: the caller vouches for `given`.
    let given = unsafe { get(given) }?;
    let Extent { width, height, depth } = given.extent;
    let copy = to_driver(driver, &given)?;
    if width == 0 || height == 0 || depth == 0 {
        return Ok(());
    }
    let copy = (&raw const copy).cast();
    // SAFETY: the caller vouches for both sides; the layout is the driver's.
    check(unsafe {
        match order {
            StreamOrder::Waiting => (driver.cuMemcpy3D_v2)(copy),
            StreamOrder::WaitingOwn => (driver.cuMemcpy3D_v2_ptds)(copy),
            StreamOrder::Stream(stream) => (driver.cuMemcpy3DAsync_v2)(copy, stream),
        }
    })
}

/// # Safety
///
/// Both sides hold what is copied.
unsafe fn copy_3d_peer(given: *const PeerCopy3D, order: StreamOrder) -> Answer {
    let driver = current()?;
    // SAFETY: the caller vouches for `given`.
    let given = unsafe { get(given) }?;
    let mut copy = to_driver(
        driver,
        &Copy3D {
            source_array: given.source_array,
            source_position: given.source_position,
            source: given.source,
            target_array: given.target_array,
            target_position: given.target_position,
            target: given.target,
            extent: given.extent,
            kind: DEVICE_TO_DEVICE,
        },
    )?;
    copy.source.context = primary(driver, given.source_device)?;
    copy.target.context = primary(driver, given.target_device)?;
    let copy = (&raw const copy).cast();
    // SAFETY: the caller vouches for both sides; the layout is the driver's.
    check(unsafe {
        match order {
            StreamOrder::Waiting => (driver.cuMemcpy3DPeer)(copy),
            StreamOrder::WaitingOwn => (driver.cuMemcpy3DPeer_ptds)(copy),
            StreamOrder::Stream(stream) => (driver.cuMemcpy3DPeerAsync)(copy, stream),
        }
    })
}

runtime! {
    fn cudaMemcpy3D(copy: *const Copy3D) {
        copy_3d(copy, StreamOrder::Waiting)
    }

    fn cudaMemcpy3D_ptds(copy: *const Copy3D) {
        copy_3d(copy, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpy3DAsync / cudaMemcpy3DAsync_ptsz(copy: *const Copy3D, stream: CUstream) {
        copy_3d(copy, StreamOrder::Stream(stream))
    }

    fn cudaMemcpy3DPeer(copy: *const PeerCopy3D) {
        copy_3d_peer(copy, StreamOrder::Waiting)
    }

    fn cudaMemcpy3DPeer_ptds(copy: *const PeerCopy3D) {
        copy_3d_peer(copy, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpy3DPeerAsync / cudaMemcpy3DPeerAsync_ptsz(
        copy: *const PeerCopy3D,
        stream: CUstream,
    ) {
        copy_3d_peer(copy, StreamOrder::Stream(stream))
    }

    fn cudaMemcpy3DWithAttributesAsync / cudaMemcpy3DWithAttributesAsync_ptsz(
        copy: *mut CUDA_MEMCPY3D_BATCH_OP,
        flags: u64,
        stream: CUstream,
    ) {
        check((current()?.cuMemcpy3DWithAttributesAsync)(copy, flags, stream))
    }

    fn cudart13_cudaMemcpy3DBatchAsync / cudart13_cudaMemcpy3DBatchAsync_ptsz(
        count: usize,
        list: *mut CUDA_MEMCPY3D_BATCH_OP,
        flags: u64,
        stream: CUstream,
    ) {
        check((current()?.cuMemcpy3DBatchAsync_v2)(count, list, flags, stream))
    }

    fn cudart12_cudaMemcpy3DBatchAsync / cudart12_cudaMemcpy3DBatchAsync_ptsz(
        count: usize,
        list: *mut CUDA_MEMCPY3D_BATCH_OP,
        failed_index: *mut usize,
        flags: u64,
        stream: CUstream,
    ) {
        put_if_wanted(failed_index, usize::MAX);
        check((current()?.cuMemcpy3DBatchAsync_v2)(count, list, flags, stream))
    }
}
