//! Memory taken and given back: on the device, on the host, and for both.

use core::ffi::c_void;
use core::ptr::null_mut;

use apex_cuda::types::{CUmemoryPool, CUstream};

use crate::border::{check, put, wanted};
use crate::context::current;
use crate::errors::cudaErrorInvalidValue;
use crate::layouts::{Extent, PitchedPointer};

/// Rows are aligned for loads of this many bytes.
const ELEMENT_BYTES: u32 = 4;

runtime! {
    fn cudaMalloc(out: *mut *mut c_void, bytes: usize) {
        let driver = current()?;
        put(out, null_mut())?;
        if bytes == 0 {
            return Ok(());
        }
        check((driver.cuMemAlloc_v2)(out.cast(), bytes))
    }

    fn cudaFree(address: *mut c_void) {
        // Programs call it with nothing to make the context appear.
        let driver = current()?;
        if address.is_null() {
            return Ok(());
        }
        check((driver.cuMemFree_v2)(address.expose_provenance() as u64))
    }

    fn cudaMallocPitch(out: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) {
        let driver = current()?;
        put(out, null_mut())?;
        put(pitch, 0)?;
        if width == 0 || height == 0 {
            return Ok(());
        }
        check((driver.cuMemAllocPitch_v2)(out.cast(), pitch, width, height, ELEMENT_BYTES))
    }

    fn cudaMalloc3D(out: *mut PitchedPointer, extent: Extent) {
        let driver = current()?;
        let Extent { width, height, depth } = extent;
        let rows = height.checked_mul(depth).ok_or(cudaErrorInvalidValue)?;
        let (mut address, mut pitch) = (0, 0);
        if width > 0 && rows > 0 {
            let allocate = driver.cuMemAllocPitch_v2;
            check(allocate(&raw mut address, &raw mut pitch, width, rows, ELEMENT_BYTES))?;
        }
        put(out, PitchedPointer { address, pitch, row_bytes: width, rows: height })
    }

    fn cudaMallocHost(out: *mut *mut c_void, bytes: usize) {
        let driver = current()?;
        put(out, null_mut())?;
        if bytes == 0 {
            return Ok(());
        }
        check((driver.cuMemAllocHost_v2)(out, bytes))
    }

    fn cudaHostAlloc(out: *mut *mut c_void, bytes: usize, flags: u32) {
        let driver = current()?;
        put(out, null_mut())?;
        if bytes == 0 {
            return Ok(());
        }
        check((driver.cuMemHostAlloc)(out, bytes, flags))
    }

    fn cudaFreeHost(address: *mut c_void) {
        let driver = current()?;
        if address.is_null() {
            return Ok(());
        }
        check((driver.cuMemFreeHost)(address))
    }

    fn cudaHostRegister(address: *mut c_void, bytes: usize, flags: u32) {
        check((current()?.cuMemHostRegister_v2)(wanted(address)?, bytes, flags))
    }

    fn cudaHostUnregister(address: *mut c_void) {
        check((current()?.cuMemHostUnregister)(wanted(address)?))
    }

    fn cudaHostGetDevicePointer(out: *mut *mut c_void, address: *mut c_void, flags: u32) {
        check((current()?.cuMemHostGetDevicePointer_v2)(wanted(out)?.cast(), address, flags))
    }

    fn cudaHostGetFlags(out: *mut u32, address: *mut c_void) {
        check((current()?.cuMemHostGetFlags)(wanted(out)?, address))
    }

    fn cudaMallocManaged(out: *mut *mut c_void, bytes: usize, flags: u32) {
        check((current()?.cuMemAllocManaged)(wanted(out)?.cast(), bytes, flags))
    }

    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        check((current()?.cuMemGetInfo_v2)(wanted(free)?, wanted(total)?))
    }

    fn cudaMallocAsync / cudaMallocAsync_ptsz(
        out: *mut *mut c_void,
        bytes: usize,
        stream: CUstream,
    ) {
        let driver = current()?;
        put(out, null_mut())?;
        if bytes == 0 {
            return Ok(());
        }
        check((driver.cuMemAllocAsync)(out.cast(), bytes, stream))
    }

    fn cudaFreeAsync / cudaFreeAsync_ptsz(address: *mut c_void, stream: CUstream) {
        let driver = current()?;
        if address.is_null() {
            return Ok(());
        }
        check((driver.cuMemFreeAsync)(address.expose_provenance() as u64, stream))
    }

    fn cudaMallocFromPoolAsync / cudaMallocFromPoolAsync_ptsz(
        out: *mut *mut c_void,
        bytes: usize,
        pool: CUmemoryPool,
        stream: CUstream,
    ) {
        let driver = current()?;
        put(out, null_mut())?;
        if bytes == 0 {
            return Ok(());
        }
        check((driver.cuMemAllocFromPoolAsync)(out.cast(), bytes, pool, stream))
    }
}
