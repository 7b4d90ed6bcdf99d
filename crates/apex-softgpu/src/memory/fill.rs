//! Memory filled with a value of one, two or four bytes.

use core::ptr::with_exposed_provenance_mut;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::memory::hold::Hold;

/// Rows of elements to be filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) element_bytes: u32,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Fill {
    pub(crate) fn flat(address: u64, value: u32, element_bytes: u32, width: usize) -> Fill {
        Fill { address, pitch: 0, value, element_bytes, width, height: 1 }
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
