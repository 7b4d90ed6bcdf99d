//! Memory being copied. Where the call does not state a direction the reader of the events finds it
//! from the addresses; which host memory was pinned too.

use crate::aspects::{self, Copied, Form, Note};
use apex_core::event::{Copy, Direction, What};
use apex_cuda::types::*;

macro_rules! copies {
    ($($name:ident($($argument:ident: $type:ty),*) => $direction:ident, $to:expr, $from:expr, $bytes:expr $(, $stream:ident)?;)*) => { $(
        pub(crate) unsafe fn $name(result: CUresult, $($argument: $type),*) -> Note {
            let (direction, form) = (Direction::$direction, Form::Flat);
            let stream = stream!($($stream)?);
            copy(result, form, direction, $to as u64, $from as u64, $bytes as u64, stream)
        }
    )* };
}

macro_rules! stream {
    () => {
        None
    };
    ($stream:ident) => {
        Some($stream)
    };
}

copies! {
    cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) => Unstated, to, from, bytes;
    cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) => Unstated, to, from, bytes, stream;
    cuMemcpyWithAttributesAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, _attributes: *mut CUmemcpyAttributes, stream: CUstream) => Unstated, to, from, bytes, stream;
    cuMemcpyPeer(to: CUdeviceptr, _to_context: CUcontext, from: CUdeviceptr, _from_context: CUcontext, bytes: usize) => Peer, to, from, bytes;
    cuMemcpyPeerAsync(to: CUdeviceptr, _to_context: CUcontext, from: CUdeviceptr, _from_context: CUcontext, bytes: usize, stream: CUstream) => Peer, to, from, bytes, stream;
    cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) => HostToDevice, to, from, bytes;
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) => HostToDevice, to, from, bytes, stream;
    cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) => DeviceToHost, to, from, bytes;
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) => DeviceToHost, to, from, bytes, stream;
    cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) => DeviceToDevice, to, from, bytes;
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) => DeviceToDevice, to, from, bytes, stream;
    cuMemcpyDtoA_v2(to: CUarray, _offset: usize, from: CUdeviceptr, bytes: usize) => DeviceToDevice, to, from, bytes;
    cuMemcpyAtoD_v2(to: CUdeviceptr, from: CUarray, _offset: usize, bytes: usize) => DeviceToDevice, to, from, bytes;
    cuMemcpyAtoA_v2(to: CUarray, _to_offset: usize, from: CUarray, _from_offset: usize, bytes: usize) => DeviceToDevice, to, from, bytes;
    cuMemcpyHtoA_v2(to: CUarray, _offset: usize, from: *const c_void, bytes: usize) => HostToDevice, to, from, bytes;
    cuMemcpyHtoAAsync_v2(to: CUarray, _offset: usize, from: *const c_void, bytes: usize, stream: CUstream) => HostToDevice, to, from, bytes, stream;
    cuMemcpyAtoH_v2(to: *mut c_void, from: CUarray, _offset: usize, bytes: usize) => DeviceToHost, to, from, bytes;
    cuMemcpyAtoHAsync_v2(to: *mut c_void, from: CUarray, _offset: usize, bytes: usize, stream: CUstream) => DeviceToHost, to, from, bytes, stream;
}

// Copies of several dimensions describe themselves in a struct that the driver has read.
macro_rules! described {
    ($($name:ident($type:ty, $depth:expr) $($asynchronous:ident)?;)*) => { $(
        pub(crate) unsafe fn $name(result: CUresult, description: *const $type $(, $asynchronous: CUstream)?) -> Note {
            // A driver that refused may not have looked.
            let description = if result == CUDA_SUCCESS { description } else { core::ptr::null() };
            // SAFETY: the driver succeeded, so it has read what is here; kinds of memory are read as numbers.
            let Some(description) = (unsafe { description.as_ref() }) else {
                let form = Form::Rows { to_host: false };
                return copy(result, form, Direction::Unstated, 0, 0, 0, stream!($($asynchronous)?));
            };
            // SAFETY: enums of C, as the numbers they are.
            let (from_kind, to_kind) = unsafe {
                ((&raw const description.srcMemoryType).cast::<u32>().read(), (&raw const description.dstMemoryType).cast::<u32>().read())
            };
            let address = |kind: u32, host: u64, device: CUdeviceptr, array: CUarray| match kind {
                MEMORY_HOST => host,
                MEMORY_ARRAY => array as u64,
                _ => device,
            };
            let to = address(to_kind, description.dstHost as u64, description.dstDevice, description.dstArray);
            let from = address(from_kind, description.srcHost as u64, description.srcDevice, description.srcArray);
            let depth: fn(&$type) -> usize = $depth;
            let bytes = description.WidthInBytes * description.Height * depth(description);
            let form = Form::Rows { to_host: to_kind == MEMORY_HOST };
            let direction = direction(from_kind, to_kind);
            copy(result, form, direction, to, from, bytes as u64, stream!($($asynchronous)?))
        }
    )* };
}

described! {
    cuMemcpy2D_v2(CUDA_MEMCPY2D, |_| 1);
    cuMemcpy2DUnaligned_v2(CUDA_MEMCPY2D, |_| 1);
    cuMemcpy2DAsync_v2(CUDA_MEMCPY2D, |_| 1) stream;
    cuMemcpy3D_v2(CUDA_MEMCPY3D, |description| description.Depth);
    cuMemcpy3DAsync_v2(CUDA_MEMCPY3D, |description| description.Depth) stream;
    cuMemcpy3DPeer(CUDA_MEMCPY3D_PEER, |description| description.Depth);
    cuMemcpy3DPeerAsync(CUDA_MEMCPY3D_PEER, |description| description.Depth) stream;
}

// A batch is one event with the bytes of all its copies.
pub(crate) unsafe fn cuMemcpyBatchAsync_v2(
    result: CUresult,
    to: *mut CUdeviceptr,
    from: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    _attributes: *mut CUmemcpyAttributes,
    _attribute_indices: *mut usize,
    _attribute_count: usize,
    stream: CUstream,
) -> Note {
    if result != CUDA_SUCCESS || count == 0 {
        return copy(result, Form::Batch, Direction::Unstated, 0, 0, 0, Some(stream));
    }
    // SAFETY: the driver succeeded, so it has read `count` entries of each array.
    let (to, from, bytes) = unsafe {
        let sizes = core::slice::from_raw_parts(sizes, count);
        (to.read(), from.read(), sizes.iter().sum::<usize>())
    };
    copy(result, Form::Batch, Direction::Unstated, to, from, bytes as u64, Some(stream))
}

pub(crate) unsafe fn cuMemcpyBatchAsync(
    result: CUresult,
    to: *mut CUdeviceptr,
    from: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    attributes: *mut CUmemcpyAttributes,
    indices: *mut usize,
    attribute_count: usize,
    _failed: *mut usize,
    stream: CUstream,
) -> Note {
    // SAFETY: the same arguments.
    unsafe {
        cuMemcpyBatchAsync_v2(
            result,
            to,
            from,
            sizes,
            count,
            attributes,
            indices,
            attribute_count,
            stream,
        )
    }
}

pub(crate) unsafe fn cuMemcpy3DBatchAsync_v2(
    result: CUresult,
    count: usize,
    operations: *mut CUDA_MEMCPY3D_BATCH_OP,
    _flags: u64,
    stream: CUstream,
) -> Note {
    let mut bytes = 0;
    if result == CUDA_SUCCESS && count > 0 {
        // SAFETY: the driver succeeded, so it has read `count` operations.
        let operations = unsafe { core::slice::from_raw_parts(operations, count) };
        let volume = |description: &CUDA_MEMCPY3D_BATCH_OP| {
            description.extent.width
                * description.extent.height.max(1)
                * description.extent.depth.max(1)
        };
        bytes = operations.iter().map(volume).sum();
    }
    copy(result, Form::Batch, Direction::Unstated, 0, 0, bytes as u64, Some(stream))
}

pub(crate) unsafe fn cuMemcpy3DBatchAsync(
    result: CUresult,
    count: usize,
    operations: *mut CUDA_MEMCPY3D_BATCH_OP,
    _failed: *mut usize,
    flags: u64,
    stream: CUstream,
) -> Note {
    // SAFETY: the same arguments.
    unsafe { cuMemcpy3DBatchAsync_v2(result, count, operations, flags, stream) }
}

pub(crate) unsafe fn cuMemcpy3DWithAttributesAsync(
    result: CUresult,
    operation: *mut CUDA_MEMCPY3D_BATCH_OP,
    flags: u64,
    stream: CUstream,
) -> Note {
    // SAFETY: a batch of one.
    unsafe { cuMemcpy3DBatchAsync_v2(result, 1, operation, flags, stream) }
}

pub(crate) use {
    cuMemcpy as cuMemcpy_ptds, cuMemcpy2D_v2 as cuMemcpy2D_v2_ptds,
    cuMemcpy2DAsync_v2 as cuMemcpy2DAsync_v2_ptsz,
    cuMemcpy2DUnaligned_v2 as cuMemcpy2DUnaligned_v2_ptds, cuMemcpy3D_v2 as cuMemcpy3D_v2_ptds,
    cuMemcpy3DAsync_v2 as cuMemcpy3DAsync_v2_ptsz,
    cuMemcpy3DBatchAsync as cuMemcpy3DBatchAsync_ptsz,
    cuMemcpy3DBatchAsync_v2 as cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DPeer as cuMemcpy3DPeer_ptds,
    cuMemcpy3DPeerAsync as cuMemcpy3DPeerAsync_ptsz,
    cuMemcpy3DWithAttributesAsync as cuMemcpy3DWithAttributesAsync_ptsz,
    cuMemcpyAsync as cuMemcpyAsync_ptsz, cuMemcpyAtoA_v2 as cuMemcpyAtoA_v2_ptds,
    cuMemcpyAtoD_v2 as cuMemcpyAtoD_v2_ptds, cuMemcpyAtoH_v2 as cuMemcpyAtoH_v2_ptds,
    cuMemcpyAtoHAsync_v2 as cuMemcpyAtoHAsync_v2_ptsz,
    cuMemcpyBatchAsync as cuMemcpyBatchAsync_ptsz,
    cuMemcpyBatchAsync_v2 as cuMemcpyBatchAsync_v2_ptsz, cuMemcpyDtoA_v2 as cuMemcpyDtoA_v2_ptds,
    cuMemcpyDtoD_v2 as cuMemcpyDtoD_v2_ptds, cuMemcpyDtoDAsync_v2 as cuMemcpyDtoDAsync_v2_ptsz,
    cuMemcpyDtoH_v2 as cuMemcpyDtoH_v2_ptds, cuMemcpyDtoHAsync_v2 as cuMemcpyDtoHAsync_v2_ptsz,
    cuMemcpyHtoA_v2 as cuMemcpyHtoA_v2_ptds, cuMemcpyHtoAAsync_v2 as cuMemcpyHtoAAsync_v2_ptsz,
    cuMemcpyHtoD_v2 as cuMemcpyHtoD_v2_ptds, cuMemcpyHtoDAsync_v2 as cuMemcpyHtoDAsync_v2_ptsz,
    cuMemcpyPeer as cuMemcpyPeer_ptds, cuMemcpyPeerAsync as cuMemcpyPeerAsync_ptsz,
    cuMemcpyWithAttributesAsync as cuMemcpyWithAttributesAsync_ptsz,
};

const MEMORY_HOST: u32 = 1;
const MEMORY_ARRAY: u32 = 3;
const MEMORY_UNIFIED: u32 = 4;

fn direction(from: u32, to: u32) -> Direction {
    match (from, to) {
        (MEMORY_UNIFIED, _) | (_, MEMORY_UNIFIED) => Direction::Unstated,
        (MEMORY_HOST, MEMORY_HOST) => Direction::HostToHost,
        (MEMORY_HOST, _) => Direction::HostToDevice,
        (_, MEMORY_HOST) => Direction::DeviceToHost,
        _ => Direction::DeviceToDevice,
    }
}

#[inline(always)]
fn copy(
    result: CUresult,
    form: Form,
    direction: Direction,
    to: u64,
    from: u64,
    bytes: u64,
    stream: Option<CUstream>,
) -> Note {
    let on = stream.map(|stream| stream as u64);
    aspects::copied(&Copied { result, direction, to, from, bytes, stream: on, form });
    let copy = Copy { direction, asynchronous: stream.is_some(), captured: false, to, from, bytes };
    Note::on(stream.unwrap_or(core::ptr::null_mut()), What::Copy(copy))
}
