//! The driver's functions that fill memory.
//!
//! One that names no stream fills in the order of the legacy stream, or of the thread's own
//! where its name ends with `_ptds`.

use apex_cuda::types::*;

use crate::border::Answer;
use crate::memory::fill::Fill;
use crate::memory::range::range_of;
use crate::run::capture_rules::for_work;
use crate::run::context::current;
use crate::run::scheduler::wait;
use crate::run::stream::{LEGACY_STREAM, own_stream, queue_of};
use crate::run::work::{Work, give};
use crate::submit::submit;

/// Fills in the order of a stream. The call returns before it is done, as the
/// driver's does, unless the program could look at the memory itself.
///
/// # Safety
///
/// No other thread frees the memory meanwhile.
unsafe fn now(set: Fill, stream: CUstream) -> Answer {
    let context = current()?;
    context.captures.refuse_unsafe()?;
    set.check()?;
    // SAFETY: the caller vouches for the memory; the stream is one of the driver's own.
    unsafe {
        let stream = for_work(context, stream)?;
        let (domain, queue) = queue_of(context, stream);
        let Some(task) = give(domain, queue, Work::Fill(set))? else { return Ok(()) };
        let on_host = range_of(set.address).is_some_and(|(_, range)| range.is_seen_by_host());
        if on_host {
            wait(&task, context.spins());
            return domain.check();
        }
        Ok(())
    }
}

answers! {
    fn cuMemsetD8_v2(address: CUdeviceptr, value: u8, count: usize) {
        now(Fill::flat(address, value.into(), 1, count), LEGACY_STREAM)
    }

    fn cuMemsetD16_v2(address: CUdeviceptr, value: u16, count: usize) {
        now(Fill::flat(address, value.into(), 2, count), LEGACY_STREAM)
    }

    fn cuMemsetD32_v2(address: CUdeviceptr, value: u32, count: usize) {
        now(Fill::flat(address, value, 4, count), LEGACY_STREAM)
    }

    fn cuMemsetD8Async(address: CUdeviceptr, value: u8, count: usize, stream: CUstream) {
        submit(stream, Work::Fill(Fill::flat(address, value.into(), 1, count)))
    }

    fn cuMemsetD16Async(address: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        submit(stream, Work::Fill(Fill::flat(address, value.into(), 2, count)))
    }

    fn cuMemsetD32Async(address: CUdeviceptr, value: u32, count: usize, stream: CUstream) {
        submit(stream, Work::Fill(Fill::flat(address, value, 4, count)))
    }

    fn cuMemsetD2D8_v2(address: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        now(Fill { pitch, height, ..Fill::flat(address, value.into(), 1, width) }, LEGACY_STREAM)
    }

    fn cuMemsetD2D16_v2(address: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        now(Fill { pitch, height, ..Fill::flat(address, value.into(), 2, width) }, LEGACY_STREAM)
    }

    fn cuMemsetD2D32_v2(address: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize) {
        now(Fill { pitch, height, ..Fill::flat(address, value, 4, width) }, LEGACY_STREAM)
    }

    fn cuMemsetD2D8Async(
        address: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream,
    ) {
        let row = Fill::flat(address, value.into(), 1, width);
        submit(stream, Work::Fill(Fill { pitch, height, ..row }))
    }

    fn cuMemsetD2D16Async(
        address: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream,
    ) {
        let row = Fill::flat(address, value.into(), 2, width);
        submit(stream, Work::Fill(Fill { pitch, height, ..row }))
    }

    fn cuMemsetD2D32Async(
        address: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize, stream: CUstream,
    ) {
        let row = Fill::flat(address, value, 4, width);
        submit(stream, Work::Fill(Fill { pitch, height, ..row }))
    }

    fn cuMemsetD8_v2_ptds(address: CUdeviceptr, value: u8, count: usize) {
        now(Fill::flat(address, value.into(), 1, count), own_stream())
    }

    fn cuMemsetD16_v2_ptds(address: CUdeviceptr, value: u16, count: usize) {
        now(Fill::flat(address, value.into(), 2, count), own_stream())
    }

    fn cuMemsetD32_v2_ptds(address: CUdeviceptr, value: u32, count: usize) {
        now(Fill::flat(address, value, 4, count), own_stream())
    }

    fn cuMemsetD2D8_v2_ptds(address: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        now(Fill { pitch, height, ..Fill::flat(address, value.into(), 1, width) }, own_stream())
    }

    fn cuMemsetD2D16_v2_ptds(address: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        now(Fill { pitch, height, ..Fill::flat(address, value.into(), 2, width) }, own_stream())
    }

    fn cuMemsetD2D32_v2_ptds(address: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize) {
        now(Fill { pitch, height, ..Fill::flat(address, value, 4, width) }, own_stream())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::context::tests::with_context;

    #[test]
    fn elements_are_filled_row_by_row() {
        with_context(|| {
            let mut address = 0;
            // SAFETY: reads stay inside the memory just taken.
            unsafe {
                assert_eq!(crate::api::memory::cuMemAlloc_v2(&raw mut address, 16), CUDA_SUCCESS);
                assert_eq!(cuMemsetD8_v2(address, 0, 16), CUDA_SUCCESS);
                assert_eq!(cuMemsetD2D16_v2(address, 8, 0x0102, 2, 2), CUDA_SUCCESS);
                let bytes = core::ptr::with_exposed_provenance::<[u8; 16]>(address as usize).read();
                assert_eq!(bytes, [2, 1, 2, 1, 0, 0, 0, 0, 2, 1, 2, 1, 0, 0, 0, 0]);
                assert_eq!(cuMemsetD32_v2(address, 0, 5), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(cuMemsetD32_v2(address + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
            }
        });
    }
}
