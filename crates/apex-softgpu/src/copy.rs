//! Copies.
//!
//! Every form becomes one [`Copy`] of rows between two sides, which can be given to a
//! stream or kept in a graph. A device side must be memory that the driver knows; a
//! host side is the program's own affair; a "unified" side may be either.
//!
//! A call returns when the driver's would: a copy to host memory that is not pinned
//! when it is done; one from such memory when that may be changed again, for which
//! little of it is set aside and much of it waited for; a synchronous one when it is
//! done, unless it goes from device to device.

use core::ptr::with_exposed_provenance_mut;

use apex_cuda::types::*;

use crate::array::array;
use crate::border::{Answer, get, list, put_if_wanted};
use crate::context::{context, current};
use crate::memory::{Hold, range_of};
use crate::schedule::{Job, is_idle, submit as schedule, wait};
use crate::session::append;
use crate::stream::{LEGACY_STREAM, for_work, own_stream, place};
use crate::work::{Work, give, is_capturing};

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

// SAFETY: the handle inside is an address that any thread may use.
unsafe impl Send for Side {}

const HOST: CUmemorytype = 1;
const DEVICE: CUmemorytype = 2;
const ARRAY: CUmemorytype = 3;
const UNIFIED: CUmemorytype = 4;
/// Up to so many bytes of pageable memory are set aside rather than waited for.
const SET_ASIDE_BYTES: u64 = 1 << 20;

/// A side laid out: its first byte and the steps from row to row and slice to slice.
struct Rows {
    first: u64,
    row_step: usize,
    slice_step: usize,
    /// Keeps memory that the driver knows from being freed meanwhile.
    _held: Option<Hold>,
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
    fn flat(destination: Side, source: Side, bytes: usize) -> Copy {
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
    unsafe fn set_aside(&self) -> Result<(Box<[u8]>, Copy), CUresult> {
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
    unsafe fn run_from(&self, kept: &[u8]) -> Answer {
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
    /// Whether it is host memory that is not pinned.
    fn is_pageable(&self) -> bool {
        match self.memory {
            HOST => range_of(self.address).is_none_or(|(_, range)| !range.is_seen_by_host()),
            UNIFIED => range_of(self.address).is_none(),
            _ => false,
        }
    }

    /// Whether the program may look at it.
    fn is_seen_by_host(&self) -> bool {
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

/// Copies in the order of a stream and returns when the driver's synchronous copies do.
///
/// # Safety
///
/// As for [`Copy::run`].
unsafe fn now(copy: Copy, stream: CUstream) -> Answer {
    let context = current()?;
    context.captures.refuse_unsafe()?;
    // SAFETY: the caller vouches for the host sides; the stream is one of the driver's own.
    unsafe {
        copy.check()?;
        let stream = for_work(context, stream)?;
        let (domain, queue) = place(context, stream);
        let waits = copy.source.is_seen_by_host() || copy.destination.is_seen_by_host();
        if waits && !crate::clock::is_virtual() && is_idle(domain, queue) {
            crate::print::flush();
            return copy.run();
        }
        if let Some(task) = give(domain, queue, Work::Copy(copy))?
            && waits
        {
            wait(&task, context.spins());
            crate::print::flush();
        }
        domain.check()
    }
}

/// Gives a copy to a stream.
///
/// # Safety
///
/// As for [`Copy::run`], until the stream has done it where the driver demands so.
unsafe fn submit(stream: CUstream, copy: Copy) -> Answer {
    let context = current()?;
    // SAFETY: the caller vouches for the host sides and the stream.
    unsafe {
        let stream = for_work(context, stream)?;
        if is_capturing(stream) {
            return append(stream, Work::Copy(copy));
        }
        copy.check()?;
        let (domain, queue) = place(context, stream);
        let from_pageable = copy.source.is_pageable();
        let waits =
            copy.destination.is_pageable() || (from_pageable && copy.bytes() > SET_ASIDE_BYTES);
        if from_pageable && !waits && !is_idle(domain, queue) {
            let (kept, copy) = copy.set_aside()?;
            // The bytes live until the copy has run.
            let run = Box::new(move || copy.run_from(&kept));
            let job = Job::Once { run, bytes: copy.bytes() };
            domain.check()?;
            schedule(domain, queue, &[], job);
            return Ok(());
        }
        if let Some(task) = give(domain, queue, Work::Copy(copy))?
            && (waits || from_pageable)
        {
            wait(&task, context.spins());
            return domain.check();
        }
        Ok(())
    }
}

fn device(address: u64) -> Side {
    Side::flat(DEVICE, address)
}

fn unified(address: u64) -> Side {
    Side::flat(UNIFIED, address)
}

answers! {
    fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(unified(to), unified(from), bytes), LEGACY_STREAM)
    }

    fn cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        submit(stream, Copy::flat(unified(to), unified(from), bytes))
    }

    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) {
        now(Copy::flat(device(to), Side::host(from), bytes), LEGACY_STREAM)
    }

    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) {
        submit(stream, Copy::flat(device(to), Side::host(from), bytes))
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(Side::host(to), device(from), bytes), LEGACY_STREAM)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        submit(stream, Copy::flat(Side::host(to), device(from), bytes))
    }

    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(device(to), device(from), bytes), LEGACY_STREAM)
    }

    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        submit(stream, Copy::flat(device(to), device(from), bytes))
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
        now(Copy::flat(device(to), device(from), bytes), LEGACY_STREAM)
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
        submit(stream, Copy::flat(device(to), device(from), bytes))
    }

    fn cuMemcpyHtoA_v2(to: CUarray, offset: usize, from: *const c_void, bytes: usize) {
        now(Copy::flat(Side::of_array(to, offset), Side::host(from), bytes), LEGACY_STREAM)
    }

    fn cuMemcpyHtoAAsync_v2(to: CUarray, offset: usize, from: *const c_void, bytes: usize, stream: CUstream) {
        submit(stream, Copy::flat(Side::of_array(to, offset), Side::host(from), bytes))
    }

    fn cuMemcpyAtoH_v2(to: *mut c_void, from: CUarray, offset: usize, bytes: usize) {
        now(Copy::flat(Side::host(to), Side::of_array(from, offset), bytes), LEGACY_STREAM)
    }

    fn cuMemcpyAtoHAsync_v2(to: *mut c_void, from: CUarray, offset: usize, bytes: usize, stream: CUstream) {
        submit(stream, Copy::flat(Side::host(to), Side::of_array(from, offset), bytes))
    }

    fn cuMemcpyDtoA_v2(to: CUarray, offset: usize, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(Side::of_array(to, offset), device(from), bytes), LEGACY_STREAM)
    }

    fn cuMemcpyAtoD_v2(to: CUdeviceptr, from: CUarray, offset: usize, bytes: usize) {
        now(Copy::flat(device(to), Side::of_array(from, offset), bytes), LEGACY_STREAM)
    }

    fn cuMemcpyAtoA_v2(to: CUarray, to_offset: usize, from: CUarray, from_offset: usize, bytes: usize) {
        now(Copy::flat(Side::of_array(to, to_offset), Side::of_array(from, from_offset), bytes), LEGACY_STREAM)
    }

    fn cuMemcpy2D_v2(copy: *const CUDA_MEMCPY2D) {
        now(Copy::read_flat(copy)?, LEGACY_STREAM)
    }

    fn cuMemcpy2DUnaligned_v2(copy: *const CUDA_MEMCPY2D) {
        now(Copy::read_flat(copy)?, LEGACY_STREAM)
    }

    fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream) {
        submit(stream, Copy::read_flat(copy)?)
    }

    fn cuMemcpy3D_v2(copy: *const CUDA_MEMCPY3D) {
        now(Copy::read(copy)?, LEGACY_STREAM)
    }

    fn cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, stream: CUstream) {
        submit(stream, Copy::read(copy)?)
    }

    // The form for peers has contexts where the other has reserved words.
    fn cuMemcpy3DPeer(copy: *const CUDA_MEMCPY3D_PEER) {
        now(Copy::read(copy.cast())?, LEGACY_STREAM)
    }

    fn cuMemcpy3DPeerAsync(copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream) {
        submit(stream, Copy::read(copy.cast())?)
    }

    #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
    fn cuMemcpyBatchAsync(
        destinations: *mut CUdeviceptr,
        sources: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        _attributes: *mut CUmemcpyAttributes,
        _attribute_starts: *mut usize,
        _attribute_count: usize,
        failed: *mut usize,
        stream: CUstream,
    ) {
        let destinations = list(destinations, count)?;
        let sources = list(sources, count)?;
        let pairs = destinations.iter().zip(sources).zip(list(sizes, count)?);
        for (nth, ((&to, &from), &bytes)) in pairs.enumerate() {
            submit(stream, Copy::flat(unified(to), unified(from), bytes))
                .inspect_err(|_| put_if_wanted(failed, nth))?;
        }
        Ok(())
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
            submit(stream, Copy::flat(unified(to), unified(from), bytes))?;
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
        submit(stream, Copy::flat(unified(to), unified(from), bytes))
    }

    fn cuMemcpy_ptds(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(unified(to), unified(from), bytes), own_stream())
    }

    fn cuMemcpyHtoD_v2_ptds(to: CUdeviceptr, from: *const c_void, bytes: usize) {
        now(Copy::flat(device(to), Side::host(from), bytes), own_stream())
    }

    fn cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(Side::host(to), device(from), bytes), own_stream())
    }

    fn cuMemcpyDtoD_v2_ptds(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(device(to), device(from), bytes), own_stream())
    }

    fn cuMemcpyPeer_ptds(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
    ) {
        context(to_context)?;
        context(from_context)?;
        now(Copy::flat(device(to), device(from), bytes), own_stream())
    }

    fn cuMemcpyHtoA_v2_ptds(to: CUarray, offset: usize, from: *const c_void, bytes: usize) {
        now(Copy::flat(Side::of_array(to, offset), Side::host(from), bytes), own_stream())
    }

    fn cuMemcpyAtoH_v2_ptds(to: *mut c_void, from: CUarray, offset: usize, bytes: usize) {
        now(Copy::flat(Side::host(to), Side::of_array(from, offset), bytes), own_stream())
    }

    fn cuMemcpyDtoA_v2_ptds(to: CUarray, offset: usize, from: CUdeviceptr, bytes: usize) {
        now(Copy::flat(Side::of_array(to, offset), device(from), bytes), own_stream())
    }

    fn cuMemcpyAtoD_v2_ptds(to: CUdeviceptr, from: CUarray, offset: usize, bytes: usize) {
        now(Copy::flat(device(to), Side::of_array(from, offset), bytes), own_stream())
    }

    fn cuMemcpyAtoA_v2_ptds(to: CUarray, to_offset: usize, from: CUarray, from_offset: usize, bytes: usize) {
        now(Copy::flat(Side::of_array(to, to_offset), Side::of_array(from, from_offset), bytes), own_stream())
    }

    fn cuMemcpy2D_v2_ptds(copy: *const CUDA_MEMCPY2D) {
        now(Copy::read_flat(copy)?, own_stream())
    }

    fn cuMemcpy2DUnaligned_v2_ptds(copy: *const CUDA_MEMCPY2D) {
        now(Copy::read_flat(copy)?, own_stream())
    }

    fn cuMemcpy3D_v2_ptds(copy: *const CUDA_MEMCPY3D) {
        now(Copy::read(copy)?, own_stream())
    }

    fn cuMemcpy3DPeer_ptds(copy: *const CUDA_MEMCPY3D_PEER) {
        now(Copy::read(copy.cast())?, own_stream())
    }
}

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
