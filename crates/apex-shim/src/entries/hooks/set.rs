//! Memory being set to a value.

use crate::aspects::Note;
use apex_core::event::{Set, What};
use apex_cuda::types::*;

macro_rules! sets {
    ($($flat:ident, $flat_async:ident, $rows:ident, $rows_async:ident: $value:ty;)*) => { $(
        pub(crate) unsafe fn $flat(_: CUresult, to: CUdeviceptr, value: $value, n: usize) -> Note {
            set(to, value.into(), size_of::<$value>().saturating_mul(n), None)
        }
        pub(crate) unsafe fn $flat_async(_: CUresult, to: CUdeviceptr, value: $value, n: usize, stream: CUstream) -> Note {
            set(to, value.into(), size_of::<$value>().saturating_mul(n), Some(stream))
        }
        pub(crate) unsafe fn $rows(_: CUresult, to: CUdeviceptr, _pitch: usize, value: $value, width: usize, height: usize) -> Note {
            set(to, value.into(), size_of::<$value>().saturating_mul(width).saturating_mul(height), None)
        }
        pub(crate) unsafe fn $rows_async(_: CUresult, to: CUdeviceptr, _pitch: usize, value: $value, width: usize, height: usize, stream: CUstream) -> Note {
            set(to, value.into(), size_of::<$value>().saturating_mul(width).saturating_mul(height), Some(stream))
        }
    )* };
}

sets! {
    cuMemsetD8_v2, cuMemsetD8Async, cuMemsetD2D8_v2, cuMemsetD2D8Async: u8;
    cuMemsetD16_v2, cuMemsetD16Async, cuMemsetD2D16_v2, cuMemsetD2D16Async: u16;
    cuMemsetD32_v2, cuMemsetD32Async, cuMemsetD2D32_v2, cuMemsetD2D32Async: u32;
}

pub(crate) use {
    cuMemsetD2D8_v2 as cuMemsetD2D8_v2_ptds, cuMemsetD2D8Async as cuMemsetD2D8Async_ptsz,
    cuMemsetD2D16_v2 as cuMemsetD2D16_v2_ptds, cuMemsetD2D16Async as cuMemsetD2D16Async_ptsz,
    cuMemsetD2D32_v2 as cuMemsetD2D32_v2_ptds, cuMemsetD2D32Async as cuMemsetD2D32Async_ptsz,
    cuMemsetD8_v2 as cuMemsetD8_v2_ptds, cuMemsetD8Async as cuMemsetD8Async_ptsz,
    cuMemsetD16_v2 as cuMemsetD16_v2_ptds, cuMemsetD16Async as cuMemsetD16Async_ptsz,
    cuMemsetD32_v2 as cuMemsetD32_v2_ptds, cuMemsetD32Async as cuMemsetD32Async_ptsz,
};

#[inline(always)]
fn set(to: CUdeviceptr, value: u32, bytes: usize, stream: Option<CUstream>) -> Note {
    let set =
        Set { asynchronous: stream.is_some(), captured: false, to, value, bytes: bytes as u64 };
    Note::on(stream.unwrap_or(core::ptr::null_mut()), What::Set(set))
}
