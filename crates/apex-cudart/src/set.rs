//! Memory filled with a byte.

use core::ffi::c_void;

use apex_cuda::types::CUstream;

use crate::border::{Answer, check};
use crate::context::current;
use crate::copy::StreamOrder;
use crate::errors::{cudaErrorInvalidPitchValue, cudaErrorInvalidValue};
use crate::layouts::{Extent, PitchedPointer};

/// # Safety
///
/// The device has as many bytes there.
unsafe fn fill(address: u64, value: i32, bytes: usize, order: StreamOrder) -> Answer {
    let driver = current()?;
    if bytes == 0 {
        return Ok(());
    }
    // Only the low byte counts, as for `memset`.
    let value = value as u8;
    // SAFETY: the caller vouches for the place.
    check(unsafe {
        match order {
            StreamOrder::Waiting => (driver.cuMemsetD8_v2)(address, value, bytes),
            StreamOrder::WaitingOwn => (driver.cuMemsetD8_v2_ptds)(address, value, bytes),
            StreamOrder::Stream(stream) => (driver.cuMemsetD8Async)(address, value, bytes, stream),
        }
    })
}

/// # Safety
///
/// The device has as many rows there.
unsafe fn fill_rows(
    address: u64,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
    order: StreamOrder,
) -> Answer {
    let driver = current()?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    if height > 1 && width > pitch {
        return Err(cudaErrorInvalidPitchValue);
    }
    let value = value as u8;
    // SAFETY: the caller vouches for the place.
    check(unsafe {
        match order {
            StreamOrder::Waiting => (driver.cuMemsetD2D8_v2)(address, pitch, value, width, height),
            StreamOrder::WaitingOwn => {
                (driver.cuMemsetD2D8_v2_ptds)(address, pitch, value, width, height)
            }
            StreamOrder::Stream(stream) => {
                (driver.cuMemsetD2D8Async)(address, pitch, value, width, height, stream)
            }
        }
    })
}

/// Layers that follow each other without a gap are filled as one.
///
/// # Safety
///
/// The device has as many layers there.
unsafe fn fill_layers(
    place: PitchedPointer,
    value: i32,
    extent: Extent,
    order: StreamOrder,
) -> Answer {
    let Extent { width, height, depth } = extent;
    let PitchedPointer { address, pitch, rows, .. } = place;
    // SAFETY: the caller vouches for the place.
    unsafe {
        if depth <= 1 || height == rows {
            let height = height.checked_mul(depth).ok_or(cudaErrorInvalidValue)?;
            return fill_rows(address, pitch, value, width, height, order);
        }
        let layer_bytes = pitch.checked_mul(rows).ok_or(cudaErrorInvalidValue)?;
        for layer in 0..depth {
            let layer = address + (layer * layer_bytes) as u64;
            fill_rows(layer, pitch, value, width, height, order)?;
        }
        Ok(())
    }
}

fn number(address: *mut c_void) -> u64 {
    address.expose_provenance() as u64
}

runtime! {
    fn cudaMemset(address: *mut c_void, value: i32, bytes: usize) {
        fill(number(address), value, bytes, StreamOrder::Waiting)
    }

    fn cudaMemset_ptds(address: *mut c_void, value: i32, bytes: usize) {
        fill(number(address), value, bytes, StreamOrder::WaitingOwn)
    }

    fn cudaMemsetAsync / cudaMemsetAsync_ptsz(
        address: *mut c_void,
        value: i32,
        bytes: usize,
        stream: CUstream,
    ) {
        fill(number(address), value, bytes, StreamOrder::Stream(stream))
    }

    fn cudaMemset2D(address: *mut c_void, pitch: usize, value: i32, width: usize, height: usize) {
        fill_rows(number(address), pitch, value, width, height, StreamOrder::Waiting)
    }

    fn cudaMemset2D_ptds(
        address: *mut c_void,
        pitch: usize,
        value: i32,
        width: usize,
        height: usize,
    ) {
        fill_rows(number(address), pitch, value, width, height, StreamOrder::WaitingOwn)
    }

    fn cudaMemset2DAsync / cudaMemset2DAsync_ptsz(
        address: *mut c_void,
        pitch: usize,
        value: i32,
        width: usize,
        height: usize,
        stream: CUstream,
    ) {
        fill_rows(number(address), pitch, value, width, height, StreamOrder::Stream(stream))
    }

    fn cudaMemset3D(place: PitchedPointer, value: i32, extent: Extent) {
        fill_layers(place, value, extent, StreamOrder::Waiting)
    }

    fn cudaMemset3D_ptds(place: PitchedPointer, value: i32, extent: Extent) {
        fill_layers(place, value, extent, StreamOrder::WaitingOwn)
    }

    fn cudaMemset3DAsync / cudaMemset3DAsync_ptsz(
        place: PitchedPointer,
        value: i32,
        extent: Extent,
        stream: CUstream,
    ) {
        fill_layers(place, value, extent, StreamOrder::Stream(stream))
    }
}
