//! The 128 bytes that describe a tensor in global memory, and boxes of it that are copied.
//!
//! Where hardware keeps the fields is not disclosed, so the places are our own. Programs have the map made by the
//! driver, and change it by `tensormap.replace`; both come here. Numbers of element types are those of
//! `tensormap.replace`, the rank is kept less one, as it takes it.

use crate::code::Ty;

/// Bytes of a map.
pub(crate) const BYTES: usize = 128;

/// Dimensions at most.
pub const DIMENSIONS: usize = 5;

/// Where a field begins, the type it is kept as, and how many there are of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) at: u32,
    pub(crate) ty: Ty,
    pub(crate) count: u64,
}

/// The fields, named as `tensormap.replace` does. Of each dimension there are five; stride 0 is that of dimension 1.
pub(crate) const FIELDS: [(&str, Field); 11] = [
    ("rank", Field { at: 0, ty: Ty::B32, count: 1 }),
    ("global_address", Field { at: 8, ty: Ty::B64, count: 1 }),
    ("box_dim", Field { at: 16, ty: Ty::B32, count: 5 }),
    ("global_dim", Field { at: 36, ty: Ty::B32, count: 5 }),
    ("global_stride", Field { at: 56, ty: Ty::B64, count: 5 }),
    ("element_stride", Field { at: 96, ty: Ty::B32, count: 5 }),
    ("elemtype", Field { at: 116, ty: Ty::B8, count: 1 }),
    ("interleave_layout", Field { at: 117, ty: Ty::B8, count: 1 }),
    ("swizzle_mode", Field { at: 118, ty: Ty::B8, count: 1 }),
    ("fill_mode", Field { at: 119, ty: Ty::B8, count: 1 }),
    ("swizzle_atomicity", Field { at: 120, ty: Ty::B8, count: 1 }),
];

/// The element types by their number.
const ELEMENTS: [Ty; 13] = [
    Ty::U8,
    Ty::U16,
    Ty::U32,
    Ty::S32,
    Ty::U64,
    Ty::S64,
    Ty::F16,
    Ty::F32,
    Ty::F32,
    Ty::F64,
    Ty::Bf16,
    Ty::F32,
    Ty::F32,
];

/// A tensor and a box of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TensorMap {
    /// Dimensions, less one.
    pub rank: u32,
    /// Of the first element.
    pub global_address: u64,
    /// Elements of the box.
    pub box_dim: [u32; DIMENSIONS],
    /// Elements of the tensor; 0 stands for `1 << 32`.
    pub global_dim: [u32; DIMENSIONS],
    /// Bytes between elements of dimension 1 and on.
    pub global_stride: [u64; DIMENSIONS],
    /// Of so many elements of the box one is copied.
    pub element_stride: [u32; DIMENSIONS],
    /// The number of the element type.
    pub element: u8,
    /// 0 for none.
    pub interleave: u8,
    /// 0 for none, then 32, 64 and 128 bytes.
    pub swizzle: u8,
    /// What lies outside: 0 for zeros, 1 for NaN.
    pub fill: u8,
}

impl TensorMap {
    /// Bytes in the order of [`FIELDS`].
    #[must_use]
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut at = 0;
        let mut put = |from: &[u8]| {
            bytes[at..at + from.len()].copy_from_slice(from);
            at += from.len();
        };
        put(&self.rank.to_le_bytes());
        put(&[0; 4]);
        put(&self.global_address.to_le_bytes());
        self.box_dim.iter().for_each(|size| put(&size.to_le_bytes()));
        self.global_dim.iter().for_each(|size| put(&size.to_le_bytes()));
        self.global_stride.iter().for_each(|stride| put(&stride.to_le_bytes()));
        self.element_stride.iter().for_each(|stride| put(&stride.to_le_bytes()));
        put(&[self.element, self.interleave, self.swizzle, self.fill]);
        bytes
    }

    /// The same, read.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; BYTES]) -> TensorMap {
        let four = |at: usize| std::array::from_fn(|n| bytes[at + n]);
        let eight = |at: usize| std::array::from_fn(|n| bytes[at + n]);
        let words = |at: usize| std::array::from_fn(|n| u32::from_le_bytes(four(at + 4 * n)));
        TensorMap {
            rank: u32::from_le_bytes(four(0)),
            global_address: u64::from_le_bytes(eight(8)),
            box_dim: words(16),
            global_dim: words(36),
            global_stride: std::array::from_fn(|n| u64::from_le_bytes(eight(56 + 8 * n))),
            element_stride: words(96),
            element: bytes[116],
            interleave: bytes[117],
            swizzle: bytes[118],
            fill: bytes[119],
        }
    }

    /// The type of the elements, where it is known here.
    #[must_use]
    pub fn element_type(&self) -> Option<Ty> {
        ELEMENTS.get(usize::from(self.element)).copied()
    }

    /// Elements of a dimension that are copied.
    #[must_use]
    pub fn copied(&self, dimension: usize) -> u32 {
        self.box_dim[dimension].div_ceil(self.step(dimension))
    }

    /// From one element that is copied to the next; always 1 in dimension 0.
    #[must_use]
    pub fn step(&self, dimension: usize) -> u32 {
        if dimension == 0 { 1 } else { self.element_stride[dimension].max(1) }
    }

    /// Whether a coordinate lies inside the tensor.
    #[must_use]
    pub fn holds(&self, dimension: usize, coordinate: i64) -> bool {
        let size = match self.global_dim[dimension] {
            0 => 1 << 32,
            size => i64::from(size),
        };
        (0..size).contains(&coordinate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_kept_where_its_fields_are() {
        let map = TensorMap {
            rank: 1,
            global_address: 2,
            box_dim: [3, 4, 5, 6, 7],
            global_dim: [8, 9, 10, 11, 12],
            global_stride: [13, 14, 15, 16, 17],
            element_stride: [18, 19, 20, 21, 22],
            element: 23,
            interleave: 24,
            swizzle: 25,
            fill: 26,
        };
        let bytes = map.to_bytes();
        assert_eq!(TensorMap::from_bytes(&bytes), map);
        let mut values = Vec::new();
        for (_, Field { at, ty, count }) in FIELDS {
            let step = ty.bits() / 8;
            values.extend((0..count as u32).map(|nth| bytes[(at + nth * step) as usize]));
        }
        let in_order: Vec<u8> = (1..=26).chain([0]).collect();
        assert_eq!(values, in_order);
    }
}
