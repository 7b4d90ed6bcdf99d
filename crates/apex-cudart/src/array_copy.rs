//! Copies to, from and between arrays, by bytes and by rows.
//!
//! Here the runtime counts in bytes, as the driver does. The oldest functions take a
//! count of bytes that may begin within a row and go on through the next ones.

use core::ffi::c_void;

use apex_cuda::types::{CUarray, CUstream};

use crate::array::{descriptor, element_bytes};
use crate::border::Answer;
use crate::context::current;
use crate::copy::{StreamOrder, copy_rows, places, rows};
use crate::errors::{Error, cudaErrorInvalidValue};
use crate::layouts::{ARRAY, DriverCopy2D, Side2D};

/// One side of a copy of rows that is an array, from a byte in a row on.
fn array_side(array: CUarray, x_bytes: usize, y: usize) -> Side2D {
    Side2D { x_bytes, y, memory: ARRAY, array, ..Side2D::NOTHING }
}

/// Copies bytes to or from an array as if its rows followed each other: the rest of
/// the first row, whole rows, the beginning of the last.
///
/// # Safety
///
/// Both sides hold as many bytes.
unsafe fn copy_through_rows(
    array: CUarray,
    (x_bytes, y): (usize, usize),
    (memory, address): (u32, u64),
    bytes: usize,
    is_to_array: bool,
    order: StreamOrder,
) -> Answer {
    let found = descriptor(current()?, array)?;
    let row_bytes = found.extent.width * element_bytes(&found);
    if row_bytes == 0 || x_bytes >= row_bytes {
        return Err(cudaErrorInvalidValue);
    }
    let (mut done, mut x_bytes, mut y) = (0, x_bytes, y);
    while done < bytes {
        let left = bytes - done;
        let is_whole = x_bytes == 0 && left >= row_bytes;
        let (width_bytes, height) = if is_whole {
            (row_bytes, left / row_bytes)
        } else {
            (left.min(row_bytes - x_bytes), 1)
        };
        let linear = rows(memory, address + done as u64, row_bytes);
        let within = array_side(array, x_bytes, y);
        let (source, target) = if is_to_array { (linear, within) } else { (within, linear) };
        // SAFETY: the caller vouches for both sides.
        unsafe { copy_rows(DriverCopy2D { source, target, width_bytes, height }, order) }?;
        done += width_bytes * height;
        (x_bytes, y) = (0, y + height);
    }
    Ok(())
}

/// # Safety
///
/// The source has as many bytes.
unsafe fn to_array(
    array: CUarray,
    place: (usize, usize),
    source: *const c_void,
    bytes: usize,
    kind: u32,
    order: StreamOrder,
) -> Answer {
    let linear = (linear_memory(kind, true)?, source.expose_provenance() as u64);
    // SAFETY: the caller vouches for the source.
    unsafe { copy_through_rows(array, place, linear, bytes, true, order) }
}

/// # Safety
///
/// The target has room for as many bytes.
unsafe fn from_array(
    target: *mut c_void,
    array: CUarray,
    place: (usize, usize),
    bytes: usize,
    kind: u32,
    order: StreamOrder,
) -> Answer {
    let linear = (linear_memory(kind, false)?, target.expose_provenance() as u64);
    // SAFETY: the caller vouches for the target.
    unsafe { copy_through_rows(array, place, linear, bytes, false, order) }
}

/// Where the side is that is no array.
fn linear_memory(kind: u32, is_to_array: bool) -> Result<u32, Error> {
    let (from, to) = places(kind)?;
    Ok(if is_to_array { from } else { to })
}

/// # Safety
///
/// The source has as many rows.
unsafe fn to_array_2d(
    array: CUarray,
    (x_bytes, y): (usize, usize),
    (source, pitch): (*const c_void, usize),
    (width_bytes, height): (usize, usize),
    kind: u32,
    order: StreamOrder,
) -> Answer {
    let memory = linear_memory(kind, true)?;
    let source = rows(memory, source.expose_provenance() as u64, pitch);
    let target = array_side(array, x_bytes, y);
    // SAFETY: the caller vouches for the source.
    unsafe { copy_rows(DriverCopy2D { source, target, width_bytes, height }, order) }
}

/// # Safety
///
/// The target has room for as many rows.
unsafe fn from_array_2d(
    (target, pitch): (*mut c_void, usize),
    array: CUarray,
    (x_bytes, y): (usize, usize),
    (width_bytes, height): (usize, usize),
    kind: u32,
    order: StreamOrder,
) -> Answer {
    let memory = linear_memory(kind, false)?;
    let target = rows(memory, target.expose_provenance() as u64, pitch);
    let source = array_side(array, x_bytes, y);
    // SAFETY: the caller vouches for the target.
    unsafe { copy_rows(DriverCopy2D { source, target, width_bytes, height }, order) }
}

/// Copies rows from array to array.
fn between_arrays(
    target: (CUarray, usize, usize),
    source: (CUarray, usize, usize),
    width_bytes: usize,
    height: usize,
    order: StreamOrder,
) -> Answer {
    let source = array_side(source.0, source.1, source.2);
    let target = array_side(target.0, target.1, target.2);
    // SAFETY: the driver knows how large arrays are.
    unsafe { copy_rows(DriverCopy2D { source, target, width_bytes, height }, order) }
}

/// Copies bytes from array to array; only within one row of each, as more has no
/// meaning for rows of different lengths.
fn bytes_between_arrays(
    target: (CUarray, usize, usize),
    source: (CUarray, usize, usize),
    bytes: usize,
    order: StreamOrder,
) -> Answer {
    between_arrays(target, source, bytes, 1, order)
}

runtime! {
    fn cudaMemcpyToArray(
        array: CUarray,
        x_bytes: usize,
        y: usize,
        source: *const c_void,
        bytes: usize,
        kind: u32,
    ) {
        to_array(array, (x_bytes, y), source, bytes, kind, StreamOrder::Waiting)
    }

    fn cudaMemcpyToArray_ptds(
        array: CUarray,
        x_bytes: usize,
        y: usize,
        source: *const c_void,
        bytes: usize,
        kind: u32,
    ) {
        to_array(array, (x_bytes, y), source, bytes, kind, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpyToArrayAsync / cudaMemcpyToArrayAsync_ptsz(
        array: CUarray,
        x_bytes: usize,
        y: usize,
        source: *const c_void,
        bytes: usize,
        kind: u32,
        stream: CUstream,
    ) {
        to_array(array, (x_bytes, y), source, bytes, kind, StreamOrder::Stream(stream))
    }

    fn cudaMemcpyFromArray(
        target: *mut c_void,
        array: CUarray,
        x_bytes: usize,
        y: usize,
        bytes: usize,
        kind: u32,
    ) {
        from_array(target, array, (x_bytes, y), bytes, kind, StreamOrder::Waiting)
    }

    fn cudaMemcpyFromArray_ptds(
        target: *mut c_void,
        array: CUarray,
        x_bytes: usize,
        y: usize,
        bytes: usize,
        kind: u32,
    ) {
        from_array(target, array, (x_bytes, y), bytes, kind, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpyFromArrayAsync / cudaMemcpyFromArrayAsync_ptsz(
        target: *mut c_void,
        array: CUarray,
        x_bytes: usize,
        y: usize,
        bytes: usize,
        kind: u32,
        stream: CUstream,
    ) {
        from_array(target, array, (x_bytes, y), bytes, kind, StreamOrder::Stream(stream))
    }

    fn cudaMemcpy2DToArray(
        array: CUarray,
        x_bytes: usize,
        y: usize,
        source: *const c_void,
        pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) {
        let (place, source, size) = ((x_bytes, y), (source, pitch), (width, height));
        to_array_2d(array, place, source, size, kind, StreamOrder::Waiting)
    }

    fn cudaMemcpy2DToArray_ptds(
        array: CUarray,
        x_bytes: usize,
        y: usize,
        source: *const c_void,
        pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) {
        let (place, source, size) = ((x_bytes, y), (source, pitch), (width, height));
        to_array_2d(array, place, source, size, kind, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpy2DToArrayAsync / cudaMemcpy2DToArrayAsync_ptsz(
        array: CUarray,
        x_bytes: usize,
        y: usize,
        source: *const c_void,
        pitch: usize,
        width: usize,
        height: usize,
        kind: u32,
        stream: CUstream,
    ) {
        let (place, source, size) = ((x_bytes, y), (source, pitch), (width, height));
        to_array_2d(array, place, source, size, kind, StreamOrder::Stream(stream))
    }

    fn cudaMemcpy2DFromArray(
        target: *mut c_void,
        pitch: usize,
        array: CUarray,
        x_bytes: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) {
        let (target, place, size) = ((target, pitch), (x_bytes, y), (width, height));
        from_array_2d(target, array, place, size, kind, StreamOrder::Waiting)
    }

    fn cudaMemcpy2DFromArray_ptds(
        target: *mut c_void,
        pitch: usize,
        array: CUarray,
        x_bytes: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) {
        let (target, place, size) = ((target, pitch), (x_bytes, y), (width, height));
        from_array_2d(target, array, place, size, kind, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpy2DFromArrayAsync / cudaMemcpy2DFromArrayAsync_ptsz(
        target: *mut c_void,
        pitch: usize,
        array: CUarray,
        x_bytes: usize,
        y: usize,
        width: usize,
        height: usize,
        kind: u32,
        stream: CUstream,
    ) {
        let (target, place, size) = ((target, pitch), (x_bytes, y), (width, height));
        from_array_2d(target, array, place, size, kind, StreamOrder::Stream(stream))
    }

    fn cudaMemcpy2DArrayToArray(
        target: CUarray,
        target_x: usize,
        target_y: usize,
        source: CUarray,
        source_x: usize,
        source_y: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) {
        places(kind)?;
        let (target, source) = ((target, target_x, target_y), (source, source_x, source_y));
        between_arrays(target, source, width, height, StreamOrder::Waiting)
    }

    fn cudaMemcpy2DArrayToArray_ptds(
        target: CUarray,
        target_x: usize,
        target_y: usize,
        source: CUarray,
        source_x: usize,
        source_y: usize,
        width: usize,
        height: usize,
        kind: u32,
    ) {
        places(kind)?;
        let (target, source) = ((target, target_x, target_y), (source, source_x, source_y));
        between_arrays(target, source, width, height, StreamOrder::WaitingOwn)
    }

    fn cudaMemcpyArrayToArray(
        target: CUarray,
        target_x: usize,
        target_y: usize,
        source: CUarray,
        source_x: usize,
        source_y: usize,
        bytes: usize,
        kind: u32,
    ) {
        places(kind)?;
        let (target, source) = ((target, target_x, target_y), (source, source_x, source_y));
        bytes_between_arrays(target, source, bytes, StreamOrder::Waiting)
    }

    fn cudaMemcpyArrayToArray_ptds(
        target: CUarray,
        target_x: usize,
        target_y: usize,
        source: CUarray,
        source_x: usize,
        source_y: usize,
        bytes: usize,
        kind: u32,
    ) {
        places(kind)?;
        let (target, source) = ((target, target_x, target_y), (source, source_x, source_y));
        bytes_between_arrays(target, source, bytes, StreamOrder::WaitingOwn)
    }
}
