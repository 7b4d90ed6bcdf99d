//! Tensor maps: how the copy engine finds the tiles of a matrix.
//!
//! A map holds the address, so it is made for every launch; that takes about as long as the launch itself and
//! touches no device.

use super::kernels::Tiles;
use super::request::{Operands, Places, Stored};
use crate::calls::call;
use crate::context::Context;
use crate::error::Result;
use apex_cuda::types::CUtensorMap;
use cudarc::driver::sys;

/// The maps of A, B and C.
pub(crate) struct Maps {
    pub(crate) a: CUtensorMap,
    pub(crate) b: CUtensorMap,
    pub(crate) c: CUtensorMap,
}

impl Maps {
    pub(crate) fn new(
        context: &Context,
        element: &str,
        operands: &Operands,
        places: Places,
        (transpose_a, transpose_b): (bool, bool),
        tiles: Tiles,
    ) -> Result<Maps> {
        let rows_a = if transpose_a { 64 } else { 128 };
        let rows_b = if transpose_b { tiles.columns } else { 64 };
        let map =
            |stored, address, rows| encode(context, element, stored, operands.batch, address, rows);
        Ok(Maps {
            a: map(operands.a, places.a, rows_a)?,
            b: map(operands.b, places.b, rows_b)?,
            c: map(operands.c, places.c, 64)?,
        })
    }
}

/// How far the batch index of a map goes per product: a shared matrix has one.
pub(crate) fn batch_step(stored: Stored) -> i32 {
    i32::from(stored.batch_stride != 0)
}

/// Tiles of 64 columns (128 bytes) by `rows`.
fn encode(
    context: &Context,
    element: &str,
    stored: Stored,
    batch: u32,
    address: u64,
    rows: u32,
) -> Result<CUtensorMap> {
    use sys::CUtensorMapDataType_enum as Type;
    use sys::{CUtensorMapFloatOOBfill_enum as Fill, CUtensorMapInterleave_enum as Interleave};
    use sys::{CUtensorMapL2promotion_enum as Promotion, CUtensorMapSwizzle_enum as Swizzle};
    let kind = if element == "f16" {
        Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16
    } else {
        Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    };
    let matrices = if stored.batch_stride == 0 { 1 } else { u64::from(batch) };
    // A side of zero (k is 0) is never looked at, and no map may have one.
    let sizes = [(stored.columns as u64).max(1), (stored.rows as u64).max(1), matrices];
    let row_bytes = (stored.row_stride as u64 * 2).max(16);
    // One matrix has no next; the stride must still be a multiple of 16.
    let batch_bytes = if matrices == 1 { row_bytes } else { stored.batch_stride as u64 * 2 };
    let strides = [row_bytes, batch_bytes];
    let (tile, steps) = ([64, rows, 1], [1_u32; 3]);
    // SAFETY: a map's bytes may all be zero; the driver fills it.
    let mut map: CUtensorMap = unsafe { core::mem::zeroed() };
    // SAFETY: out-pointer to a local of the map's size and alignment; the arrays have as many numbers as the
    // rank says, the strides one fewer.
    unsafe {
        call!(
            context.driver,
            cuTensorMapEncodeTiled(
                &raw mut map,
                kind as u32,
                3,
                address as *mut _,
                sizes.as_ptr(),
                strides.as_ptr(),
                tile.as_ptr(),
                steps.as_ptr(),
                Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE as u32,
                Swizzle::CU_TENSOR_MAP_SWIZZLE_128B as u32,
                Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B as u32,
                Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE as u32,
            )
        )?;
    }
    Ok(map)
}
