//! One level of memory as textures and surfaces see it, and its element.

use apex_engine::{Channel, Image};

/// The type of one channel of a texel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TexelFormat {
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    F32,
}

impl TexelFormat {
    /// Bytes of one channel.
    pub(crate) fn bytes(self) -> usize {
        match self {
            TexelFormat::U8 | TexelFormat::S8 => 1,
            TexelFormat::U16 | TexelFormat::S16 | TexelFormat::F16 => 2,
            TexelFormat::U32 | TexelFormat::S32 | TexelFormat::F32 => 4,
        }
    }

    fn channel(self) -> Channel {
        match self {
            TexelFormat::U8 | TexelFormat::U16 | TexelFormat::U32 => Channel::Unsigned,
            TexelFormat::S8 | TexelFormat::S16 | TexelFormat::S32 => Channel::Signed,
            TexelFormat::F16 | TexelFormat::F32 => Channel::Float,
        }
    }
}

/// One level of a mipmap, or the only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextureLevel {
    /// The first texel.
    pub(crate) address: u64,
    /// Texels of a row.
    pub(crate) width: u32,
    /// Rows; 1 in one dimension.
    pub(crate) height: u32,
    /// Slices in three dimensions, layers of arrays, faces of cubes (six per cube); else 1.
    pub(crate) depth: u32,
    /// Bytes from row to row.
    pub(crate) row_pitch: u64,
    /// Bytes from slice to slice.
    pub(crate) slice_pitch: u64,
}

impl TextureLevel {
    /// The level as the engine reads it.
    pub(crate) fn image(&self, format: TexelFormat, channels: u32) -> Image {
        Image {
            data: self.address,
            width: self.width,
            height: self.height,
            depth: self.depth,
            row_bytes: self.row_pitch,
            slice_bytes: self.slice_pitch,
            channels,
            bits: 8 * format.bytes() as u32,
            channel: format.channel(),
        }
    }
}
