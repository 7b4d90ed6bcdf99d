//! Memory filled with a value of one, two or four bytes.

use core::ptr::with_exposed_provenance_mut;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::context::current;
use crate::memory::is_known;
use crate::work::{Work, submit};

/// Rows of elements to be filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) element_bytes: u32,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Set {
    fn flat(address: u64, value: u32, element_bytes: u32, width: usize) -> Set {
        Set { address, pitch: 0, value, element_bytes, width, height: 1 }
    }

    /// Fills.
    ///
    /// # Safety
    ///
    /// No other thread frees the memory meanwhile.
    pub(crate) unsafe fn run(&self) -> Answer {
        let element = self.element_bytes as usize;
        if !matches!(element, 1 | 2 | 4) || !self.address.is_multiple_of(element as u64) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if self.width == 0 || self.height == 0 {
            return Ok(());
        }
        let row_bytes = self.width.checked_mul(element).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let pitch = self.pitch.max(row_bytes);
        if !is_known(self.address, ((self.height - 1) * pitch + row_bytes) as u64) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let value = self.value.to_le_bytes();
        for row in 0..self.height {
            let start: *mut u8 = with_exposed_provenance_mut(self.address as usize + row * pitch);
            // SAFETY: the whole extent is known memory, found just now.
            let bytes = unsafe { core::slice::from_raw_parts_mut(start, row_bytes) };
            if element == 1 {
                bytes.fill(value[0]);
            } else {
                bytes
                    .chunks_exact_mut(element)
                    .for_each(|chunk| chunk.copy_from_slice(&value[..element]));
            }
        }
        Ok(())
    }
}

unsafe fn now(set: Set) -> Answer {
    current()?.captures.refuse_unsafe()?;
    // SAFETY: as for `run`, the caller vouches.
    unsafe { set.run() }
}

answers! {
    fn cuMemsetD8_v2(address: CUdeviceptr, value: u8, count: usize) {
        now(Set::flat(address, value.into(), 1, count))
    }

    fn cuMemsetD16_v2(address: CUdeviceptr, value: u16, count: usize) {
        now(Set::flat(address, value.into(), 2, count))
    }

    fn cuMemsetD32_v2(address: CUdeviceptr, value: u32, count: usize) {
        now(Set::flat(address, value, 4, count))
    }

    fn cuMemsetD8Async(address: CUdeviceptr, value: u8, count: usize, stream: CUstream) {
        submit(stream, Work::Set(Set::flat(address, value.into(), 1, count)))
    }

    fn cuMemsetD16Async(address: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        submit(stream, Work::Set(Set::flat(address, value.into(), 2, count)))
    }

    fn cuMemsetD32Async(address: CUdeviceptr, value: u32, count: usize, stream: CUstream) {
        submit(stream, Work::Set(Set::flat(address, value, 4, count)))
    }

    fn cuMemsetD2D8_v2(address: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        now(Set { pitch, height, ..Set::flat(address, value.into(), 1, width) })
    }

    fn cuMemsetD2D16_v2(address: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        now(Set { pitch, height, ..Set::flat(address, value.into(), 2, width) })
    }

    fn cuMemsetD2D32_v2(address: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize) {
        now(Set { pitch, height, ..Set::flat(address, value, 4, width) })
    }

    fn cuMemsetD2D8Async(
        address: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream,
    ) {
        let row = Set::flat(address, value.into(), 1, width);
        submit(stream, Work::Set(Set { pitch, height, ..row }))
    }

    fn cuMemsetD2D16Async(
        address: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream,
    ) {
        let row = Set::flat(address, value.into(), 2, width);
        submit(stream, Work::Set(Set { pitch, height, ..row }))
    }

    fn cuMemsetD2D32Async(
        address: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize, stream: CUstream,
    ) {
        let row = Set::flat(address, value, 4, width);
        submit(stream, Work::Set(Set { pitch, height, ..row }))
    }
}

// Work is done at once, so a synchronous set is the same on a thread's own stream.
pub(crate) use self::{
    cuMemsetD2D8_v2 as cuMemsetD2D8_v2_ptds, cuMemsetD2D16_v2 as cuMemsetD2D16_v2_ptds,
    cuMemsetD2D32_v2 as cuMemsetD2D32_v2_ptds, cuMemsetD8_v2 as cuMemsetD8_v2_ptds,
    cuMemsetD16_v2 as cuMemsetD16_v2_ptds, cuMemsetD32_v2 as cuMemsetD32_v2_ptds,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::with_context;

    #[test]
    fn elements_are_filled_row_by_row() {
        with_context(|| {
            let mut address = 0;
            // SAFETY: reads stay inside the memory just taken.
            unsafe {
                assert_eq!(crate::memory::cuMemAlloc_v2(&raw mut address, 16), CUDA_SUCCESS);
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
