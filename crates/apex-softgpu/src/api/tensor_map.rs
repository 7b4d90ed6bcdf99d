//! Maps of tensors, from which kernels copy boxes.
//!
//! The driver checks what it is told as its documentation says, and fills the 128 bytes; what they hold is the
//! engine's affair. Maps of images (im2col) are not known here.

use apex_cuda::types::*;
use apex_engine::{DIMENSIONS, TensorMap};

use crate::border::{get, list};
use crate::machine::device::initialized;

/// Numbers of element types as kernels give them, and bytes of an element, by the driver's number. Packed numbers of
/// fewer than eight bits are not known here.
const ELEMENTS: [(u8, u64); 13] = [
    (0, 1),
    (1, 2),
    (2, 4),
    (3, 4),
    (4, 8),
    (5, 8),
    (6, 2),
    (7, 4),
    (9, 8),
    (10, 2),
    (8, 4),
    (11, 4),
    (12, 4),
];

const MAP_ALIGNMENT: usize = 64;
const ROW_ALIGNMENT: u64 = 16;
const MOST_STRIDE: u64 = 1 << 40;
const MOST_ELEMENTS: u64 = 1 << 32;
const MOST_IN_BOX: u32 = 256;
const MOST_STEP: u32 = 8;
/// Widest rows of a box, by the number of the swizzle.
const WIDEST_ROW: [u64; 4] = [u64::MAX, 32, 64, 128];
const FILLS: u32 = 2;
const PROMOTIONS: u32 = 4;

answers! {
    fn cuTensorMapEncodeTiled(
        tensor_map: *mut CUtensorMap,
        tensor_data_type: CUtensorMapDataType,
        tensor_rank: u32,
        global_address: *mut c_void,
        global_dim: *const u64,
        global_strides: *const u64,
        box_dim: *const u32,
        element_strides: *const u32,
        interleave: CUtensorMapInterleave,
        swizzle: CUtensorMapSwizzle,
        l2_promotion: CUtensorMapL2promotion,
        oob_fill: CUtensorMapFloatOOBfill,
    ) {
        initialized()?;
        let rank = tensor_rank as usize;
        if !(1..=DIMENSIONS).contains(&rank) || l2_promotion >= PROMOTIONS {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // Interleaved tensors and packed types exist; they are only not known here.
        if interleave != 0 {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        let element = ELEMENTS.get(tensor_data_type as usize).ok_or(CUDA_ERROR_NOT_SUPPORTED)?;
        let tensor = Tensor {
            element: *element,
            address: global_address.expose_provenance() as u64,
            sizes: list(global_dim, rank)?,
            strides: list(global_strides, rank - 1)?,
            box_sizes: list(box_dim, rank)?,
            steps: list(element_strides, rank)?,
            swizzle,
            fill: oob_fill,
        };
        let map = tensor.map().ok_or(CUDA_ERROR_INVALID_VALUE)?;
        put_map(tensor_map, &map)
    }

    fn cuTensorMapReplaceAddress(tensor_map: *mut CUtensorMap, global_address: *mut c_void) {
        initialized()?;
        let bytes = get(tensor_map.cast::<[u8; 128]>().cast_const())?;
        let global_address = global_address.expose_provenance() as u64;
        if !global_address.is_multiple_of(ROW_ALIGNMENT) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        put_map(tensor_map, &TensorMap { global_address, ..TensorMap::from_bytes(&bytes) })
    }
}

/// What a program says of a tensor.
struct Tensor<'a> {
    element: (u8, u64),
    address: u64,
    sizes: &'a [u64],
    strides: &'a [u64],
    box_sizes: &'a [u32],
    steps: &'a [u32],
    swizzle: u32,
    fill: u32,
}

impl Tensor<'_> {
    /// Its map, unless something is not as documented.
    fn map(&self) -> Option<TensorMap> {
        let (element, bytes) = self.element;
        let aligned = self.address.is_multiple_of(ROW_ALIGNMENT);
        let sizes = self.sizes.iter().all(|size| (1..=MOST_ELEMENTS).contains(size));
        let strides = self
            .strides
            .iter()
            .all(|stride| stride.is_multiple_of(ROW_ALIGNMENT) && *stride < MOST_STRIDE);
        let boxes = self.box_sizes.iter().all(|size| (1..=MOST_IN_BOX).contains(size));
        let steps = self.steps.iter().all(|step| (1..=MOST_STEP).contains(step));
        let row = u64::from(*self.box_sizes.first()?) * bytes;
        let widest = *WIDEST_ROW.get(self.swizzle as usize)?;
        let row_fits = row.is_multiple_of(ROW_ALIGNMENT) && row <= widest;
        // Only floating numbers have a NaN.
        let fill = self.fill < FILLS && (self.fill == 0 || element >= 6);
        if !(aligned && sizes && strides && boxes && steps && row_fits && fill) {
            return None;
        }
        let mut map = TensorMap {
            rank: self.sizes.len() as u32 - 1,
            global_address: self.address,
            element,
            swizzle: self.swizzle as u8,
            fill: self.fill as u8,
            ..TensorMap::default()
        };
        // The largest size does not fit and becomes 0, which stands for it.
        map.global_dim.iter_mut().zip(self.sizes).for_each(|(to, &size)| *to = size as u32);
        map.global_stride.iter_mut().zip(self.strides).for_each(|(to, &stride)| *to = stride);
        map.box_dim.iter_mut().zip(self.box_sizes).for_each(|(to, &size)| *to = size);
        map.element_stride.iter_mut().zip(self.steps).for_each(|(to, &step)| *to = step);
        Some(map)
    }
}

/// Writes a map.
///
/// # Safety
///
/// `out` is null or has room for a map.
unsafe fn put_map(out: *mut CUtensorMap, map: &TensorMap) -> crate::border::Answer {
    if out.is_null() || !out.addr().is_multiple_of(MAP_ALIGNMENT) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, aligned, and the caller vouches for the room.
    unsafe { out.cast::<[u8; 128]>().write(map.to_bytes()) };
    Ok(())
}
