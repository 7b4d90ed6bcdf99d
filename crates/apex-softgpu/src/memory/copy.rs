//! Copies.
//!
//! Every form becomes one [`Copy`] of rows between two sides, which can be given to a
//! stream or kept in a graph. A device side must be memory that the driver knows; a
//! host side is the program's own affair; a "unified" side may be either.

use core::ptr::with_exposed_provenance_mut;

use apex_cuda::types::*;

use crate::border::{Answer, get};
use crate::memory::array::array;
use crate::memory::hold::Hold;
use crate::memory::range::range_of;

/// Where a copy reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    memory: CUmemorytype,
    address: u64,
    array: CUarray,
    pub(crate) start: [usize; 3],
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// A copy of `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    pub(crate) source: Side,
    pub(crate) destination: Side,
    width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

// SAFETY: the handle inside is an address that any thread may use.
unsafe impl Send for Side {}

const HOST: CUmemorytype = 1;
pub(crate) const DEVICE: CUmemorytype = 2;
const ARRAY: CUmemorytype = 3;
pub(crate) const UNIFIED: CUmemorytype = 4;

/// A side laid out: its first byte and the steps from row to row and slice to slice.
struct Rows {
    first: u64,
    row_step: usize,
    slice_step: usize,
    /// Keeps memory that the driver knows from being freed meanwhile.
    _held: Option<Hold>,
}

impl Side {
    pub(crate) fn flat(memory: CUmemorytype, address: u64) -> Side {
        Side { memory, address, array: core::ptr::null_mut(), start: [0; 3], pitch: 0, height: 0 }
    }

    pub(crate) fn host(pointer: *const c_void) -> Side {
        Side::flat(HOST, pointer.expose_provenance() as u64)
    }

    pub(crate) fn of_array(array: CUarray, offset: usize) -> Side {
        Side { array, start: [offset, 0, 0], ..Side::flat(ARRAY, 0) }
    }

    /// # Safety
    ///
    /// The array's handle is the program's.
    unsafe fn rows(&self, copy: &Copy) -> Result<Rows, CUresult> {
        let (base, row_step, height, limit) = if self.memory == ARRAY {
            // SAFETY: the caller vouches for the handle.
            let array = unsafe { array(self.array) }?;
            (array.address, array.row_bytes, array.height.max(1), Some(array.bytes()))
        } else {
            (self.address, self.pitch.max(copy.width), self.height.max(copy.height), None)
        };
        // Any number may come from the program: none may wrap.
        let steps = |slices: usize, rows: usize, bytes: usize| {
            let slices = slices.checked_mul(row_step.checked_mul(height)?)?;
            slices.checked_add(rows.checked_mul(row_step)?)?.checked_add(bytes)
        };
        let slice_step = steps(1, 0, 0).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let offset = steps(self.start[2], self.start[1], self.start[0]);
        let offset = offset.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let extent = steps(copy.depth - 1, copy.height - 1, copy.width);
        let extent = extent.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let first = base.checked_add(offset as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let hold = || Hold::on(first, extent as u64).ok_or(CUDA_ERROR_INVALID_VALUE).map(Some);
        let held = match self.memory {
            HOST if base != 0 => None,
            DEVICE => hold()?,
            ARRAY => {
                let end = offset.checked_add(extent);
                if end.zip(limit).is_none_or(|(end, limit)| end > limit) {
                    return Err(CUDA_ERROR_INVALID_VALUE);
                }
                hold()?
            }
            // What the driver does not know is taken for plain host memory.
            UNIFIED if base != 0 && range_of(first).is_none() => None,
            UNIFIED => hold()?,
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        };
        Ok(Rows { first, row_step, slice_step, _held: held })
    }
}

impl Copy {
    pub(crate) fn flat(destination: Side, source: Side, bytes: usize) -> Copy {
        Copy { source, destination, width: bytes, height: 1, depth: 1 }
    }

    /// How many bytes are copied.
    pub(crate) fn bytes(&self) -> u64 {
        self.width.saturating_mul(self.height).saturating_mul(self.depth) as u64
    }

    /// Refuses sides that are not there.
    ///
    /// # Safety
    ///
    /// The handles of arrays are the program's.
    pub(crate) unsafe fn check(&self) -> Answer {
        if self.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: the caller vouches for the handles.
        unsafe {
            self.source.rows(self)?;
            self.destination.rows(self).map(|_| ())
        }
    }

    /// A copy of what is to be copied, for when the program changes it.
    ///
    /// # Safety
    ///
    /// The source is there.
    pub(crate) unsafe fn set_aside(&self) -> Result<(Box<[u8]>, Copy), CUresult> {
        let mut kept = vec![0_u8; self.bytes() as usize].into_boxed_slice();
        let address = kept.as_mut_ptr().expose_provenance() as u64;
        let aside = Side { pitch: self.width, height: self.height, ..Side::flat(HOST, address) };
        // SAFETY: the caller vouches for the source; `kept` has room for all rows.
        unsafe { Copy { destination: aside, ..*self }.run()? };
        Ok((kept, Copy { source: aside, ..*self }))
    }

    /// Copies.
    ///
    /// # Safety
    ///
    /// The host sides are there.
    pub(crate) unsafe fn run(&self) -> Answer {
        if self.bytes() == 0 {
            return Ok(());
        }
        // SAFETY: device and array sides were found in the map just now; the caller
        // vouches for host sides. Rows may overlap, which `copy` allows.
        unsafe {
            let (source, destination) = (self.source.rows(self)?, self.destination.rows(self)?);
            for slice in 0..self.depth {
                for row in 0..self.height {
                    let from = source.row(slice, row);
                    destination.row(slice, row).copy_from(from, self.width);
                }
            }
        }
        Ok(())
    }

    /// Copies from bytes that were set aside.
    ///
    /// # Safety
    ///
    /// As for [`Copy::run`].
    pub(crate) unsafe fn run_from(&self, kept: &[u8]) -> Answer {
        debug_assert_eq!(kept.as_ptr().addr() as u64, self.source.address);
        // SAFETY: the caller vouches for the destination.
        unsafe { self.run() }
    }

    /// # Safety
    ///
    /// `copy` is null or holds a C copy description.
    pub(crate) unsafe fn read(copy: *const CUDA_MEMCPY3D) -> Result<Copy, CUresult> {
        if copy.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null; the memory types are read as the numbers they are.
        unsafe {
            Ok(Copy {
                source: Side {
                    memory: get((&raw const (*copy).srcMemoryType).cast())?,
                    array: (*copy).srcArray,
                    start: [(*copy).srcXInBytes, (*copy).srcY, (*copy).srcZ],
                    pitch: (*copy).srcPitch,
                    height: (*copy).srcHeight,
                    address: 0,
                }
                .with_address((*copy).srcHost, (*copy).srcDevice),
                destination: Side {
                    memory: get((&raw const (*copy).dstMemoryType).cast())?,
                    array: (*copy).dstArray,
                    start: [(*copy).dstXInBytes, (*copy).dstY, (*copy).dstZ],
                    pitch: (*copy).dstPitch,
                    height: (*copy).dstHeight,
                    address: 0,
                }
                .with_address((*copy).dstHost, (*copy).dstDevice),
                width: (*copy).WidthInBytes,
                height: (*copy).Height,
                depth: (*copy).Depth,
            })
        }
    }

    /// # Safety
    ///
    /// `copy` is null or holds a C copy description of one slice.
    pub(crate) unsafe fn read_flat(copy: *const CUDA_MEMCPY2D) -> Result<Copy, CUresult> {
        if copy.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null; the memory types are read as the numbers they are.
        unsafe {
            Ok(Copy {
                source: Side {
                    memory: get((&raw const (*copy).srcMemoryType).cast())?,
                    array: (*copy).srcArray,
                    start: [(*copy).srcXInBytes, (*copy).srcY, 0],
                    pitch: (*copy).srcPitch,
                    height: 0,
                    address: 0,
                }
                .with_address((*copy).srcHost, (*copy).srcDevice),
                destination: Side {
                    memory: get((&raw const (*copy).dstMemoryType).cast())?,
                    array: (*copy).dstArray,
                    start: [(*copy).dstXInBytes, (*copy).dstY, 0],
                    pitch: (*copy).dstPitch,
                    height: 0,
                    address: 0,
                }
                .with_address((*copy).dstHost, (*copy).dstDevice),
                width: (*copy).WidthInBytes,
                height: (*copy).Height,
                depth: 1,
            })
        }
    }

    /// # Safety
    ///
    /// `out` is null or can be written.
    pub(crate) unsafe fn write(&self, out: *mut CUDA_MEMCPY3D) -> Answer {
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let (source, destination) = (&self.source, &self.destination);
        // SAFETY: not null; the memory types are written as the numbers they are,
        // and they came from the program.
        unsafe {
            out.write_bytes(0, 1);
            (&raw mut (*out).srcMemoryType).cast::<u32>().write(source.memory);
            (&raw mut (*out).dstMemoryType).cast::<u32>().write(destination.memory);
            (&raw mut (*out).srcHost).write(with_exposed_provenance_mut(source.host_address()));
            (&raw mut (*out).dstHost)
                .write(with_exposed_provenance_mut(destination.host_address()));
            (&raw mut (*out).srcDevice).write(source.device_address());
            (&raw mut (*out).dstDevice).write(destination.device_address());
            (&raw mut (*out).srcArray).write(source.array);
            (&raw mut (*out).dstArray).write(destination.array);
            (&raw mut (*out).srcXInBytes).write(source.start[0]);
            (&raw mut (*out).srcY).write(source.start[1]);
            (&raw mut (*out).srcZ).write(source.start[2]);
            (&raw mut (*out).dstXInBytes).write(destination.start[0]);
            (&raw mut (*out).dstY).write(destination.start[1]);
            (&raw mut (*out).dstZ).write(destination.start[2]);
            (&raw mut (*out).srcPitch).write(source.pitch);
            (&raw mut (*out).dstPitch).write(destination.pitch);
            (&raw mut (*out).srcHeight).write(source.height);
            (&raw mut (*out).dstHeight).write(destination.height);
            (&raw mut (*out).WidthInBytes).write(self.width);
            (&raw mut (*out).Height).write(self.height);
            (&raw mut (*out).Depth).write(self.depth);
        }
        Ok(())
    }
}

impl Side {
    /// Whether it is host memory that is not pinned.
    pub(crate) fn is_pageable(&self) -> bool {
        match self.memory {
            HOST => range_of(self.address).is_none_or(|(_, range)| !range.is_seen_by_host()),
            UNIFIED => range_of(self.address).is_none(),
            _ => false,
        }
    }

    /// Whether the program may look at it.
    pub(crate) fn is_seen_by_host(&self) -> bool {
        match self.memory {
            ARRAY => false,
            _ => range_of(self.address).is_none_or(|(_, range)| range.is_seen_by_host()),
        }
    }

    fn with_address(self, host: *const c_void, device: u64) -> Side {
        let address = if self.memory == HOST { host.expose_provenance() as u64 } else { device };
        Side { address, ..self }
    }

    fn host_address(&self) -> usize {
        if self.memory == HOST { self.address as usize } else { 0 }
    }

    fn device_address(&self) -> u64 {
        if self.memory == HOST { 0 } else { self.address }
    }
}

impl Rows {
    fn row(&self, slice: usize, row: usize) -> *mut u8 {
        let offset = slice * self.slice_step + row * self.row_step;
        with_exposed_provenance_mut(self.first as usize + offset)
    }
}
