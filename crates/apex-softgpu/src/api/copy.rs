//! The driver's functions that copy memory.
//!
//! A call returns when the driver's would: a copy to host memory that is not pinned
//! when it is done; one from such memory when that may be changed again, for which
//! little of it is set aside and much of it waited for; a synchronous one when it is
//! done, unless it goes from device to device.

use apex_cuda::types::*;

use crate::border::{Answer, list, put_if_wanted};
use crate::graph::capturing::append;
use crate::memory::copy::{Copy, DEVICE, Side, UNIFIED};
use crate::run::capture_rules::for_work;
use crate::run::context::{context, current};
use crate::run::domain::Job;
use crate::run::scheduler::{enqueue, is_idle, wait};
use crate::run::stream::{LEGACY_STREAM, own_stream, queue_of};
use crate::run::work::{Work, give, is_capturing};

/// Up to so many bytes of pageable memory are set aside rather than waited for.
const SET_ASIDE_BYTES: u64 = 1 << 20;

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
        let (domain, queue) = queue_of(context, stream);
        let waits = copy.source.is_seen_by_host() || copy.destination.is_seen_by_host();
        if waits && !crate::machine::clock::is_virtual() && is_idle(domain, queue) {
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
        let (domain, queue) = queue_of(context, stream);
        let from_pageable = copy.source.is_pageable();
        let waits =
            copy.destination.is_pageable() || (from_pageable && copy.bytes() > SET_ASIDE_BYTES);
        if from_pageable && !waits && !is_idle(domain, queue) {
            let (kept, copy) = copy.set_aside()?;
            // The bytes live until the copy has run.
            let run = Box::new(move || copy.run_from(&kept));
            let job = Job::Once { run, bytes: copy.bytes() };
            domain.check()?;
            enqueue(domain, queue, &[], job);
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
    use crate::api::context::tests::with_context;
    use crate::api::memory::{cuMemAlloc_v2, cuMemFree_v2};

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
