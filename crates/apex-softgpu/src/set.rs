//! Memory filled with a value of one, two or four bytes.

use core::ptr::with_exposed_provenance_mut;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::context::current;
use crate::memory::{Hold, range_of};
use crate::schedule::wait;
use crate::stream::{LEGACY_STREAM, for_work, own_stream, place};
use crate::work::{Work, give, submit};

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

    /// How many bytes are filled.
    pub(crate) fn bytes(&self) -> u64 {
        let row = self.width.saturating_mul(self.element_bytes as usize);
        row.saturating_mul(self.height) as u64
    }

    /// Refuses what is no known memory.
    pub(crate) fn check(&self) -> Answer {
        self.extent().map(|_| ())
    }

    /// The bytes of a row and from row to row, and all of them held; none where nothing
    /// is to be filled.
    fn extent(&self) -> Result<Option<(usize, usize, Hold)>, CUresult> {
        let element = self.element_bytes as usize;
        let aligned = self.address.is_multiple_of(element.max(1) as u64)
            && (self.height <= 1 || self.pitch.is_multiple_of(element.max(1)));
        if !matches!(element, 1 | 2 | 4) || !aligned {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if self.width == 0 || self.height == 0 {
            return Ok(None);
        }
        let row_bytes = self.width.checked_mul(element).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let pitch = self.pitch.max(row_bytes);
        let rows = (self.height - 1).checked_mul(pitch).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let all = rows.checked_add(row_bytes).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let hold = Hold::on(self.address, all as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        Ok(Some((row_bytes, pitch, hold)))
    }

    /// Fills.
    ///
    /// # Safety
    ///
    /// No other thread frees the memory meanwhile.
    pub(crate) unsafe fn run(&self) -> Answer {
        let Some((row_bytes, pitch, _held)) = self.extent()? else { return Ok(()) };
        let element = self.element_bytes as usize;
        let value = self.value.to_le_bytes();
        for row in 0..self.height {
            let start: *mut u8 = with_exposed_provenance_mut(self.address as usize + row * pitch);
            // SAFETY: the whole extent is known memory, found just now.
            let bytes = unsafe { core::slice::from_raw_parts_mut(start, row_bytes) };
            // SAFETY: any bytes are integers; the address is a multiple of the element's
            // size, which was checked above, and so is the length.
            unsafe {
                match element {
                    1 => bytes.fill(value[0]),
                    2 => bytes.align_to_mut::<u16>().1.fill(self.value as u16),
                    _ => bytes.align_to_mut::<u32>().1.fill(self.value),
                }
            }
        }
        Ok(())
    }
}

/// Fills in the order of a stream. The call returns before it is done, as the
/// driver's does, unless the program could look at the memory itself.
///
/// # Safety
///
/// No other thread frees the memory meanwhile.
unsafe fn now(set: Set, stream: CUstream) -> Answer {
    let context = current()?;
    context.captures.refuse_unsafe()?;
    set.check()?;
    // SAFETY: the caller vouches for the memory; the stream is one of the driver's own.
    unsafe {
        let stream = for_work(context, stream)?;
        let (domain, queue) = place(context, stream);
        let Some(task) = give(domain, queue, Work::Set(set))? else { return Ok(()) };
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
        now(Set::flat(address, value.into(), 1, count), LEGACY_STREAM)
    }

    fn cuMemsetD16_v2(address: CUdeviceptr, value: u16, count: usize) {
        now(Set::flat(address, value.into(), 2, count), LEGACY_STREAM)
    }

    fn cuMemsetD32_v2(address: CUdeviceptr, value: u32, count: usize) {
        now(Set::flat(address, value, 4, count), LEGACY_STREAM)
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
        now(Set { pitch, height, ..Set::flat(address, value.into(), 1, width) }, LEGACY_STREAM)
    }

    fn cuMemsetD2D16_v2(address: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        now(Set { pitch, height, ..Set::flat(address, value.into(), 2, width) }, LEGACY_STREAM)
    }

    fn cuMemsetD2D32_v2(address: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize) {
        now(Set { pitch, height, ..Set::flat(address, value, 4, width) }, LEGACY_STREAM)
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

    fn cuMemsetD8_v2_ptds(address: CUdeviceptr, value: u8, count: usize) {
        now(Set::flat(address, value.into(), 1, count), own_stream())
    }

    fn cuMemsetD16_v2_ptds(address: CUdeviceptr, value: u16, count: usize) {
        now(Set::flat(address, value.into(), 2, count), own_stream())
    }

    fn cuMemsetD32_v2_ptds(address: CUdeviceptr, value: u32, count: usize) {
        now(Set::flat(address, value, 4, count), own_stream())
    }

    fn cuMemsetD2D8_v2_ptds(address: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        now(Set { pitch, height, ..Set::flat(address, value.into(), 1, width) }, own_stream())
    }

    fn cuMemsetD2D16_v2_ptds(address: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        now(Set { pitch, height, ..Set::flat(address, value.into(), 2, width) }, own_stream())
    }

    fn cuMemsetD2D32_v2_ptds(address: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize) {
        now(Set { pitch, height, ..Set::flat(address, value, 4, width) }, own_stream())
    }
}

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
