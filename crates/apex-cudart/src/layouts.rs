//! The runtime's own structs, and the driver's that are written and read as numbers.
//!
//! The driver's bindings hold Rust enums; what a program or another driver wrote need
//! not be one of their values. So the structs that are read back are laid out here
//! with plain numbers, and their sizes are compared with the bindings.

use apex_cuda::types::{CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUarray, CUcontext};
use core::ffi::c_void;
use core::ptr::null_mut;

/// `cudaExtent`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `cudaPos`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
}

/// `cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PitchedPointer {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) row_bytes: usize,
    pub(crate) rows: usize,
}

/// `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy3D {
    pub(crate) source_array: CUarray,
    pub(crate) source_position: Position,
    pub(crate) source: PitchedPointer,
    pub(crate) target_array: CUarray,
    pub(crate) target_position: Position,
    pub(crate) target: PitchedPointer,
    pub(crate) extent: Extent,
    pub(crate) kind: u32,
}

/// `cudaMemcpy3DPeerParms`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PeerCopy3D {
    pub(crate) source_array: CUarray,
    pub(crate) source_position: Position,
    pub(crate) source: PitchedPointer,
    pub(crate) source_device: i32,
    pub(crate) target_array: CUarray,
    pub(crate) target_position: Position,
    pub(crate) target: PitchedPointer,
    pub(crate) target_device: i32,
    pub(crate) extent: Extent,
}

/// One side of the driver's copy in two dimensions.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side2D {
    pub(crate) x_bytes: usize,
    pub(crate) y: usize,
    pub(crate) memory: u32,
    pub(crate) host: *mut c_void,
    pub(crate) device: u64,
    pub(crate) array: CUarray,
    pub(crate) pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriverCopy2D {
    pub(crate) source: Side2D,
    pub(crate) target: Side2D,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
}

/// One side of the driver's copy in three dimensions. Between two devices it also
/// names a context; in other copies that word is unused.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side3D {
    pub(crate) x_bytes: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level: usize,
    pub(crate) memory: u32,
    pub(crate) host: *mut c_void,
    pub(crate) device: u64,
    pub(crate) array: CUarray,
    pub(crate) context: CUcontext,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DriverCopy3D {
    pub(crate) source: Side3D,
    pub(crate) target: Side3D,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// Where memory is, for the driver's copies.
pub(crate) const HOST: u32 = 1;
pub(crate) const DEVICE: u32 = 2;
pub(crate) const ARRAY: u32 = 3;
pub(crate) const UNIFIED: u32 = 4;

impl Side2D {
    pub(crate) const NOTHING: Side2D = Side2D {
        x_bytes: 0,
        y: 0,
        memory: HOST,
        host: null_mut(),
        device: 0,
        array: null_mut(),
        pitch: 0,
    };
}

impl Side3D {
    pub(crate) const NOTHING: Side3D = Side3D {
        x_bytes: 0,
        y: 0,
        z: 0,
        level: 0,
        memory: HOST,
        host: null_mut(),
        device: 0,
        array: null_mut(),
        context: null_mut(),
        pitch: 0,
        height: 0,
    };
}

impl DriverCopy3D {
    pub(crate) const NOTHING: DriverCopy3D = DriverCopy3D {
        source: Side3D::NOTHING,
        target: Side3D::NOTHING,
        width_bytes: 0,
        height: 0,
        depth: 0,
    };
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArrayDescriptor {
    pub(crate) extent: Extent,
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

/// `cudaChannelFormatDesc`: bits of each channel, and what they mean.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Channels {
    pub(crate) bits: [i32; 4],
    pub(crate) kind: u32,
}

const _: () = {
    assert!(size_of::<DriverCopy2D>() == size_of::<CUDA_MEMCPY2D>());
    assert!(size_of::<DriverCopy3D>() == size_of::<CUDA_MEMCPY3D>());
    assert!(size_of::<ArrayDescriptor>() == size_of::<CUDA_ARRAY3D_DESCRIPTOR>());
    assert!(size_of::<Copy3D>() == 160);
    assert!(size_of::<PeerCopy3D>() == 168);
    assert!(size_of::<Channels>() == 20);
};
