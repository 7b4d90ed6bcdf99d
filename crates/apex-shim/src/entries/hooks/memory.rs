//! Memory obtained and given back, of every kind.

use super::answer::answer;
use crate::aspects::{self, Note};
use apex_core::event::{AllocKind, Life, ObjectKind, What};
use apex_cuda::types::*;

pub(crate) unsafe fn cuMemAlloc_v2(
    result: CUresult,
    place: *mut CUdeviceptr,
    bytes: usize,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let address = unsafe { answer(result, place, 0) };
    alloc(AllocKind::Plain, address, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuMemAllocPitch_v2(
    result: CUresult,
    place: *mut CUdeviceptr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    _element: u32,
) -> Note {
    // SAFETY: the driver's out-pointers.
    let (address, pitch) = unsafe { (answer(result, place, 0), answer(result, pitch, width)) };
    alloc(AllocKind::Plain, address, pitch.saturating_mul(height), NO_STREAM)
}

pub(crate) unsafe fn cuMemAllocManaged(
    result: CUresult,
    place: *mut CUdeviceptr,
    bytes: usize,
    _flags: u32,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let address = unsafe { answer(result, place, 0) };
    alloc(AllocKind::Managed, address, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuMemAllocAsync(
    result: CUresult,
    place: *mut CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let address = unsafe { answer(result, place, 0) };
    alloc(AllocKind::Async, address, bytes, stream)
}

pub(crate) unsafe fn cuMemAllocFromPoolAsync(
    result: CUresult,
    place: *mut CUdeviceptr,
    bytes: usize,
    _pool: CUmemoryPool,
    stream: CUstream,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let address = unsafe { answer(result, place, 0) };
    alloc(AllocKind::Pool, address, bytes, stream)
}

pub(crate) unsafe fn cuMemAllocHost_v2(
    result: CUresult,
    place: *mut *mut c_void,
    bytes: usize,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let address = unsafe { answer(result, place, core::ptr::null_mut()) };
    alloc(AllocKind::Host, address as u64, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuMemHostAlloc(
    result: CUresult,
    place: *mut *mut c_void,
    bytes: usize,
    _flags: u32,
) -> Note {
    // SAFETY: the driver's out-pointer.
    unsafe { cuMemAllocHost_v2(result, place, bytes) }
}

pub(crate) unsafe fn cuMemHostRegister(
    _: CUresult,
    address: *mut c_void,
    bytes: usize,
    _flags: u32,
) -> Note {
    alloc(AllocKind::Registered, address as u64, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuMemAddressReserve(
    result: CUresult,
    place: *mut CUdeviceptr,
    bytes: usize,
    _alignment: usize,
    _wanted: CUdeviceptr,
    _flags: u64,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let address = unsafe { answer(result, place, 0) };
    alloc(AllocKind::Reserved, address, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuMemCreate(
    result: CUresult,
    place: *mut CUmemGenericAllocationHandle,
    bytes: usize,
    _properties: *const CUmemAllocationProp,
    _flags: u64,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, place, 0) };
    alloc(AllocKind::Physical, handle, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuMemMap(
    _: CUresult,
    address: CUdeviceptr,
    bytes: usize,
    _offset: usize,
    _handle: CUmemGenericAllocationHandle,
    _flags: u64,
) -> Note {
    alloc(AllocKind::Mapped, address, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuArrayCreate_v2(
    result: CUresult,
    place: *mut CUarray,
    description: *const CUDA_ARRAY_DESCRIPTOR,
) -> Note {
    // SAFETY: the driver's out-pointer and the description that it read.
    let (handle, bytes) = unsafe {
        let handle = answer(result, place, core::ptr::null_mut());
        let bytes = match if_taken(result, description).as_ref() {
            Some(given) => {
                let element =
                    element_bytes((&raw const given.Format).cast()) * given.NumChannels as usize;
                given.Width * given.Height.max(1) * element
            }
            None => 0,
        };
        (handle, bytes)
    };
    alloc(AllocKind::Array, handle as u64, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuArray3DCreate_v2(
    result: CUresult,
    place: *mut CUarray,
    description: *const CUDA_ARRAY3D_DESCRIPTOR,
) -> Note {
    // SAFETY: the driver's out-pointer and the description that it read.
    let (handle, bytes) =
        unsafe { (answer(result, place, core::ptr::null_mut()), array_bytes(result, description)) };
    alloc(AllocKind::Array, handle as u64, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuMipmappedArrayCreate(
    result: CUresult,
    place: *mut CUmipmappedArray,
    description: *const CUDA_ARRAY3D_DESCRIPTOR,
    _levels: u32,
) -> Note {
    // SAFETY: the driver's out-pointer and the description that it read; the finer levels add less
    // than a third and are left out.
    let (handle, bytes) =
        unsafe { (answer(result, place, core::ptr::null_mut()), array_bytes(result, description)) };
    alloc(AllocKind::Array, handle as u64, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuMemFree_v2(_: CUresult, address: CUdeviceptr) -> Note {
    free(AllocKind::Plain, address, 0, NO_STREAM)
}

pub(crate) unsafe fn cuMemFreeAsync(_: CUresult, address: CUdeviceptr, stream: CUstream) -> Note {
    free(AllocKind::Async, address, 0, stream)
}

pub(crate) unsafe fn cuMemFreeHost(_: CUresult, address: *mut c_void) -> Note {
    free(AllocKind::Host, address as u64, 0, NO_STREAM)
}

pub(crate) unsafe fn cuMemHostUnregister(_: CUresult, address: *mut c_void) -> Note {
    free(AllocKind::Registered, address as u64, 0, NO_STREAM)
}

pub(crate) unsafe fn cuMemAddressFree(_: CUresult, address: CUdeviceptr, bytes: usize) -> Note {
    free(AllocKind::Reserved, address, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuMemRelease(_: CUresult, handle: CUmemGenericAllocationHandle) -> Note {
    free(AllocKind::Physical, handle, 0, NO_STREAM)
}

pub(crate) unsafe fn cuMemUnmap(_: CUresult, address: CUdeviceptr, bytes: usize) -> Note {
    free(AllocKind::Mapped, address, bytes, NO_STREAM)
}

pub(crate) unsafe fn cuArrayDestroy(_: CUresult, array: CUarray) -> Note {
    free(AllocKind::Array, array as u64, 0, NO_STREAM)
}

pub(crate) unsafe fn cuMipmappedArrayDestroy(_: CUresult, array: CUmipmappedArray) -> Note {
    free(AllocKind::Array, array as u64, 0, NO_STREAM)
}

pub(crate) unsafe fn cuMemPoolCreate(
    result: CUresult,
    pool: *mut CUmemoryPool,
    _properties: *const CUmemPoolProps,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, pool, core::ptr::null_mut()) } as u64;
    let life = Life { object: ObjectKind::Pool, begins: true, handle, flags: 0, priority: 0 };
    Note::plain(What::Life(life))
}

pub(crate) unsafe fn cuMemPoolDestroy(_: CUresult, pool: CUmemoryPool) -> Note {
    let handle = pool as u64;
    let life = Life { object: ObjectKind::Pool, begins: false, handle, flags: 0, priority: 0 };
    Note::plain(What::Life(life))
}

pub(crate) use {
    cuMemAllocAsync as cuMemAllocAsync_ptsz,
    cuMemAllocFromPoolAsync as cuMemAllocFromPoolAsync_ptsz, cuMemFreeAsync as cuMemFreeAsync_ptsz,
    cuMemHostRegister as cuMemHostRegister_v2,
};

const NO_STREAM: CUstream = core::ptr::null_mut();

#[inline(always)]
fn alloc(kind: AllocKind, address: u64, bytes: usize, stream: CUstream) -> Note {
    Note::on(stream, What::Alloc { kind, address, bytes: bytes as u64 })
}

#[inline(always)]
fn free(kind: AllocKind, address: u64, bytes: usize, stream: CUstream) -> Note {
    aspects::freed(kind, address, stream as u64);
    Note::on(stream, What::Free { kind, address, bytes: bytes as u64 })
}

/// What the program gave the driver, which may not have looked at it if it refused.
fn if_taken<T>(result: CUresult, given: *const T) -> *const T {
    if result == CUDA_SUCCESS { given } else { core::ptr::null() }
}

/// Bytes of an array.
///
/// # Safety
///
/// `description` is what the driver was given, and has read if it succeeded.
unsafe fn array_bytes(result: CUresult, description: *const CUDA_ARRAY3D_DESCRIPTOR) -> usize {
    // SAFETY: the caller's promise; the format is read as the number it is.
    unsafe {
        match if_taken(result, description).as_ref() {
            Some(given) => {
                let element =
                    element_bytes((&raw const given.Format).cast()) * given.NumChannels as usize;
                given.Width * given.Height.max(1) * given.Depth.max(1) * element
            }
            None => 0,
        }
    }
}

/// Bytes of one channel of a `CUarray_format`; block-compressed and video formats count as one byte.
///
/// # Safety
///
/// `format` can be read.
unsafe fn element_bytes(format: *const u32) -> usize {
    // SAFETY: the caller's promise.
    match unsafe { format.read() } {
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => 1,
    }
}
