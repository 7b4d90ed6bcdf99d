//! Arrays and mipmapped arrays: plain rows of elements, without the device's own layout.
//!
//! Layers and the faces of cubes are slices. The levels of a mipmapped array are
//! arrays of their own, each half the size of the one before.

use apex_cuda::types::*;

use crate::border::{Answer, get};
use crate::machine::device::Device;
use crate::memory::allocation::{allocate, free};
use crate::memory::range::MemoryKind;
use crate::memory::texel::{TexelFormat, TextureLevel};
use crate::object::{create, destroy, live, object};

/// One array; its rows lie one after the other.
pub(crate) struct Array {
    pub(crate) address: u64,
    pub(crate) row_bytes: usize,
    pub(crate) height: usize,
    pub(crate) size: Size,
    /// Whether it is a level of a mipmapped array, who owns its memory.
    pub(crate) is_level: bool,
}
object!(Array, b"array---");

/// A mipmapped array: its levels, the largest first.
pub(crate) struct Mipmap {
    pub(crate) levels: Vec<CUarray>,
    pub(crate) size: Size,
}
object!(Mipmap, b"mipmap--");

// SAFETY: the handles inside are addresses that any thread may use.
unsafe impl Send for Mipmap {}
// SAFETY: as above.
unsafe impl Sync for Mipmap {}

/// What an array is made of.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: CUarray_format,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

const LAYERED: u32 = 1;
const CUBEMAP: u32 = 4;
const FACES: usize = 6;

/// The type of an element, where it is one that textures can read.
pub(crate) fn format_of(format: CUarray_format) -> Option<TexelFormat> {
    Some(match format {
        0x01 => TexelFormat::U8,
        0x02 => TexelFormat::U16,
        0x03 => TexelFormat::U32,
        0x08 => TexelFormat::S8,
        0x09 => TexelFormat::S16,
        0x0a => TexelFormat::S32,
        0x10 => TexelFormat::F16,
        0x20 => TexelFormat::F32,
        _ => return None,
    })
}

impl Array {
    /// How many bytes the array holds.
    pub(crate) fn bytes(&self) -> usize {
        self.row_bytes * self.height.max(1) * self.size.depth.max(1)
    }

    /// Type and channels of an element.
    pub(crate) fn element(&self) -> Result<(TexelFormat, u32), CUresult> {
        let format = format_of(self.size.format).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        Ok((format, self.size.channels))
    }

    /// The array as textures see it.
    pub(crate) fn level(&self) -> TextureLevel {
        TextureLevel {
            address: self.address,
            width: self.size.width as u32,
            height: self.height.max(1) as u32,
            depth: self.size.depth.max(1) as u32,
            row_pitch: self.row_bytes as u64,
            slice_pitch: (self.row_bytes * self.height.max(1)) as u64,
        }
    }
}

/// The array behind a handle.
///
/// # Safety
///
/// As for [`live`].
pub(crate) unsafe fn array<'a>(handle: CUarray) -> Result<&'a Array, CUresult> {
    // SAFETY: the caller vouches for the handle.
    unsafe { live(handle) }
}

impl Size {
    /// # Safety
    ///
    /// `description` is null or holds a description.
    pub(crate) unsafe fn read(
        description: *const CUDA_ARRAY3D_DESCRIPTOR,
    ) -> Result<Size, CUresult> {
        if description.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null; the format is read as the number that it is.
        unsafe {
            Ok(Size {
                width: (*description).Width,
                height: (*description).Height,
                depth: (*description).Depth,
                format: get((&raw const (*description).Format).cast::<u32>())?,
                channels: (*description).NumChannels,
                flags: (*description).Flags,
            })
        }
    }

    /// An array of this size in a context's memory.
    pub(crate) fn make(
        self,
        device: &Device,
        context: CUcontext,
        is_level: bool,
    ) -> Result<CUarray, CUresult> {
        let element = format_of(self.format).ok_or(CUDA_ERROR_INVALID_VALUE)?.bytes();
        let is_cube = self.flags & CUBEMAP != 0;
        let cubes = self.depth.is_multiple_of(FACES) && self.width == self.height && self.depth > 0;
        if self.width == 0 || !matches!(self.channels, 1 | 2 | 4) || (is_cube && !cubes) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let row_bytes = self.width.checked_mul(element * self.channels as usize);
        let row_bytes = row_bytes.ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let rows = self.height.max(1).checked_mul(self.depth.max(1));
        let rows = rows.ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let bytes = row_bytes.checked_mul(rows).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        let none = core::ptr::null_mut();
        let address = allocate(device, context, bytes, MemoryKind::Device, 0, none)?;
        Ok(create(Array { address, row_bytes, height: self.height, size: self, is_level }))
    }

    /// The size of the next smaller level.
    pub(crate) fn halved(self) -> Size {
        let half = |side: usize| if side > 1 { side / 2 } else { side };
        let layered = self.flags & (LAYERED | CUBEMAP) != 0;
        Size {
            width: half(self.width),
            height: half(self.height),
            depth: if layered { self.depth } else { half(self.depth) },
            ..self
        }
    }

    /// # Safety
    ///
    /// `out` is null or can be written.
    pub(crate) unsafe fn write(&self, out: *mut CUDA_ARRAY3D_DESCRIPTOR) -> Answer {
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null; the format is written as the number that it is.
        unsafe {
            (&raw mut (*out).Width).write(self.width);
            (&raw mut (*out).Height).write(self.height);
            (&raw mut (*out).Depth).write(self.depth);
            (&raw mut (*out).Format).cast::<u32>().write(self.format);
            (&raw mut (*out).NumChannels).write(self.channels);
            (&raw mut (*out).Flags).write(self.flags);
        }
        Ok(())
    }
}

/// # Safety
///
/// The handle is the program's, and nobody uses the array.
pub(crate) unsafe fn destroy_array(handle: CUarray) -> Answer {
    // SAFETY: the caller vouches for the handle.
    unsafe {
        let address = array(handle)?.address;
        destroy::<Array, _>(handle)?;
        free(address, |_| true)
    }
}

impl Mipmap {
    /// Type and channels of an element.
    pub(crate) fn element(&self) -> Result<(TexelFormat, u32), CUresult> {
        let format = format_of(self.size.format).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        Ok((format, self.size.channels))
    }
}
