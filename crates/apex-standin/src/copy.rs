//! Copies.
//!
//! Every form becomes one [`Copy`] of rows between two sides, which can be done at
//! once or kept in a graph. A device side must be memory that the driver knows; a
//! host side is the program's own affair; a "unified" side may be either.

use core::ptr::with_exposed_provenance_mut;

use apex_cuda::types::*;

use crate::array::array;
use crate::border::{Answer, get, list};
use crate::context::{context, current};
use crate::memory::{is_known, range_of};
use crate::work::{Work, submit};

/// Where a copy reads or writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    memory: CUmemorytype,
    address: u64,
    array: CUarray,
    start: [usize; 3],
    pitch: usize,
    height: usize,
}

/// A copy of `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    source: Side,
    destination: Side,
    width: usize,
    height: usize,
    depth: usize,
}

const HOST: CUmemorytype = 1;
const DEVICE: CUmemorytype = 2;
const ARRAY: CUmemorytype = 3;
const UNIFIED: CUmemorytype = 4;

/// A side laid out: its first byte and the steps from row to row and slice to slice.
struct Rows {
    first: u64,
    row_step: usize,
    slice_step: usize,
}

impl Side {
    fn flat(memory: CUmemorytype, address: u64) -> Side {
        Side { memory, address, array: core::ptr::null_mut(), start: [0; 3], pitch: 0, height: 0 }
    }

    fn host(pointer: *const c_void) -> Side {
        Side::flat(HOST, pointer.expose_provenance() as u64)
    }

    fn of_array(array: CUarray, offset: usize) -> Side {
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
        let slice_step = row_step * height;
        let offset = self.start[0] + self.start[1] * row_step + self.start[2] * slice_step;
        let extent = (copy.depth - 1) * slice_step + (copy.height - 1) * row_step + copy.width;
        let first = base.checked_add(offset as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let fits = match self.memory {
            HOST => base != 0,
            DEVICE => is_known(first, extent as u64),
            ARRAY => limit.is_some_and(|limit| offset + extent <= limit),
            // What the driver does not know is taken for plain host memory.
            UNIFIED => base != 0 && (range_of(first).is_none() || is_known(first, extent as u64)),
            _ => false,
        };
        if fits { Ok(Rows { first, row_step, slice_step }) } else { Err(CUDA_ERROR_INVALID_VALUE) }
    }
}

impl Copy {
    fn flat(destination: Side, source: Side, bytes: usize) -> Copy {
        Copy { source, destination, width: bytes, height: 1, depth: 1 }
    }

    /// Copies.
    ///
    /// # Safety
    ///
    /// The host sides are there.
    pub(crate) unsafe fn run(&self) -> Answer {
        if self.width == 0 || self.height == 0 || self.depth == 0 {
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
    unsafe fn read_flat(copy: *const CUDA_MEMCPY2D) -> Result<Copy, CUresult> {
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

/// Copies before anything else happens.
///
/// # Safety
///
/// As for [`Copy::run`].
unsafe fn now(copy: Copy) -> Answer {
    current()?.captures.refuse_unsafe()?;
    // SAFETY: the caller vouches for the host sides.
    unsafe { copy.run() }
}

fn device(address: u64) -> Side {
    Side::flat(DEVICE, address)
}

fn unified(address: u64) -> Side {
    Side::flat(UNIFIED, address)
}

answers! {
    fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(unified(to), unified(from), bytes))
    }

    fn cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        submit(stream, Work::Copy(Copy::flat(unified(to), unified(from), bytes)))
    }

    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) {
        now(Copy::flat(device(to), Side::host(from), bytes))
    }

    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) {
        submit(stream, Work::Copy(Copy::flat(device(to), Side::host(from), bytes)))
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(Side::host(to), device(from), bytes))
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        submit(stream, Work::Copy(Copy::flat(Side::host(to), device(from), bytes)))
    }

    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(device(to), device(from), bytes))
    }

    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        submit(stream, Work::Copy(Copy::flat(device(to), device(from), bytes)))
    }

    fn cuMemcpyPeer(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
    ) {
        context(to_context)?;
        context(from_context)?;
        now(Copy::flat(device(to), device(from), bytes))
    }

    fn cuMemcpyPeerAsync(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
        stream: CUstream,
    ) {
        context(to_context)?;
        context(from_context)?;
        submit(stream, Work::Copy(Copy::flat(device(to), device(from), bytes)))
    }

    fn cuMemcpyHtoA_v2(to: CUarray, offset: usize, from: *const c_void, bytes: usize) {
        now(Copy::flat(Side::of_array(to, offset), Side::host(from), bytes))
    }

    fn cuMemcpyHtoAAsync_v2(to: CUarray, offset: usize, from: *const c_void, bytes: usize, stream: CUstream) {
        submit(stream, Work::Copy(Copy::flat(Side::of_array(to, offset), Side::host(from), bytes)))
    }

    fn cuMemcpyAtoH_v2(to: *mut c_void, from: CUarray, offset: usize, bytes: usize) {
        now(Copy::flat(Side::host(to), Side::of_array(from, offset), bytes))
    }

    fn cuMemcpyAtoHAsync_v2(to: *mut c_void, from: CUarray, offset: usize, bytes: usize, stream: CUstream) {
        submit(stream, Work::Copy(Copy::flat(Side::host(to), Side::of_array(from, offset), bytes)))
    }

    fn cuMemcpyDtoA_v2(to: CUarray, offset: usize, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(Side::of_array(to, offset), device(from), bytes))
    }

    fn cuMemcpyAtoD_v2(to: CUdeviceptr, from: CUarray, offset: usize, bytes: usize) {
        now(Copy::flat(device(to), Side::of_array(from, offset), bytes))
    }

    fn cuMemcpyAtoA_v2(to: CUarray, to_offset: usize, from: CUarray, from_offset: usize, bytes: usize) {
        now(Copy::flat(Side::of_array(to, to_offset), Side::of_array(from, from_offset), bytes))
    }

    fn cuMemcpy2D_v2(copy: *const CUDA_MEMCPY2D) {
        now(Copy::read_flat(copy)?)
    }

    fn cuMemcpy2DUnaligned_v2(copy: *const CUDA_MEMCPY2D) {
        now(Copy::read_flat(copy)?)
    }

    fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream) {
        submit(stream, Work::Copy(Copy::read_flat(copy)?))
    }

    fn cuMemcpy3D_v2(copy: *const CUDA_MEMCPY3D) {
        now(Copy::read(copy)?)
    }

    fn cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, stream: CUstream) {
        submit(stream, Work::Copy(Copy::read(copy)?))
    }

    // The form for peers has contexts where the other has reserved words.
    fn cuMemcpy3DPeer(copy: *const CUDA_MEMCPY3D_PEER) {
        now(Copy::read(copy.cast())?)
    }

    fn cuMemcpy3DPeerAsync(copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream) {
        submit(stream, Work::Copy(Copy::read(copy.cast())?))
    }

    fn cuMemcpyBatchAsync_v2(
        destinations: *mut CUdeviceptr,
        sources: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        _attributes: *mut CUmemcpyAttributes,
        _attribute_starts: *mut usize,
        _attribute_count: usize,
        stream: CUstream,
    ) {
        let destinations = list(destinations, count)?;
        let sources = list(sources, count)?;
        for ((&to, &from), &bytes) in destinations.iter().zip(sources).zip(list(sizes, count)?) {
            submit(stream, Work::Copy(Copy::flat(unified(to), unified(from), bytes)))?;
        }
        Ok(())
    }

    fn cuMemcpyWithAttributesAsync(
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        _attributes: *mut CUmemcpyAttributes,
        stream: CUstream,
    ) {
        submit(stream, Work::Copy(Copy::flat(unified(to), unified(from), bytes)))
    }
}

// Work is done at once, so a synchronous copy is the same on a thread's own stream.
pub(crate) use self::{
    cuMemcpy as cuMemcpy_ptds, cuMemcpy2D_v2 as cuMemcpy2D_v2_ptds,
    cuMemcpy2DUnaligned_v2 as cuMemcpy2DUnaligned_v2_ptds, cuMemcpy3D_v2 as cuMemcpy3D_v2_ptds,
    cuMemcpy3DPeer as cuMemcpy3DPeer_ptds, cuMemcpyAtoA_v2 as cuMemcpyAtoA_v2_ptds,
    cuMemcpyAtoD_v2 as cuMemcpyAtoD_v2_ptds, cuMemcpyAtoH_v2 as cuMemcpyAtoH_v2_ptds,
    cuMemcpyDtoA_v2 as cuMemcpyDtoA_v2_ptds, cuMemcpyDtoD_v2 as cuMemcpyDtoD_v2_ptds,
    cuMemcpyDtoH_v2 as cuMemcpyDtoH_v2_ptds, cuMemcpyHtoA_v2 as cuMemcpyHtoA_v2_ptds,
    cuMemcpyHtoD_v2 as cuMemcpyHtoD_v2_ptds, cuMemcpyPeer as cuMemcpyPeer_ptds,
};

const _: () = assert!(size_of::<CUDA_MEMCPY3D>() == size_of::<CUDA_MEMCPY3D_PEER>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::with_context;
    use crate::memory::{cuMemAlloc_v2, cuMemFree_v2};

    #[test]
    fn bytes_go_there_and_back() {
        with_context(|| {
            let mut address = 0;
            let sent: Vec<u8> = (0..100).collect();
            let mut back = vec![0_u8; 100];
            // SAFETY: the vectors are as long as the copies.
            unsafe {
                assert_eq!(cuMemAlloc_v2(&raw mut address, 200), CUDA_SUCCESS);
                assert_eq!(cuMemcpyHtoD_v2(address, sent.as_ptr().cast(), 100), CUDA_SUCCESS);
                assert_eq!(cuMemcpyDtoD_v2(address + 100, address, 100), CUDA_SUCCESS);
                let stream = core::ptr::null_mut();
                let to = back.as_mut_ptr().cast();
                assert_eq!(cuMemcpyDtoHAsync_v2(to, address + 100, 100, stream), CUDA_SUCCESS);
                assert_eq!(back, sent);
                assert_eq!(cuMemcpyDtoH_v2(to, address + 101, 100), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(
                    cuMemcpyHtoD_v2(address, core::ptr::null(), 1),
                    CUDA_ERROR_INVALID_VALUE
                );
                assert_eq!(cuMemFree_v2(address), CUDA_SUCCESS);
                assert_eq!(cuMemcpyDtoH_v2(to, address, 1), CUDA_ERROR_INVALID_VALUE);
            }
        });
    }

    #[test]
    fn rows_are_copied_with_their_pitch() {
        let sent: Vec<u8> = (0..64).collect();
        let mut back = [0_u8; 8];
        let mut copy =
            Copy::flat(Side::host(back.as_mut_ptr().cast()), Side::host(sent.as_ptr().cast()), 2);
        copy.height = 2;
        copy.depth = 2;
        copy.source.pitch = 8;
        copy.source.height = 4;
        copy.source.start = [1, 1, 0];
        // SAFETY: the copy stays inside both vectors.
        assert_eq!(unsafe { copy.run() }, Ok(()));
        assert_eq!(back, [9, 10, 17, 18, 41, 42, 49, 50]);
    }
}
