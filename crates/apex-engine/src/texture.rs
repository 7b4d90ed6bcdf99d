//! Textures and surfaces, as the driver describes them.
//!
//! A handle that a kernel holds is the address of one of these; the driver keeps it alive
//! as long as the handle may be used. Both begin with an image, which is what `txq` and
//! `suq` ask about without knowing which of them they have.

/// How a channel's bits are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Signed integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Floats: f16 or f32 by the channel's bits.
    Float,
}

/// Texels in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Image {
    /// Address of the first texel.
    pub data: u64,
    /// Texels in x.
    pub width: u32,
    /// Texels in y; 1 for one dimension.
    pub height: u32,
    /// Slices in z, layers, or faces of cubes (six each); 1 where there are none.
    pub depth: u32,
    /// Bytes between rows.
    pub row_bytes: u64,
    /// Bytes between slices, layers and faces.
    pub slice_bytes: u64,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// Bits of a channel: 8, 16 or 32.
    pub bits: u32,
    /// How they are read.
    pub channel: Channel,
}

impl Image {
    /// Bytes of a texel.
    pub fn texel_bytes(&self) -> u32 {
        self.channels * self.bits / 8
    }
}

/// What a coordinate outside becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressMode {
    /// Begins again; only for normalized coordinates.
    Wrap,
    /// The nearest texel.
    Clamp,
    /// Goes back; only for normalized coordinates.
    Mirror,
    /// The border's colour.
    Border,
}

/// How a value between texels is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// The nearest texel.
    Point,
    /// Between the neighbours.
    Linear,
}

/// A texture object: images and how they are sampled.
#[derive(Debug, Clone, PartialEq)]
#[repr(C)]
pub struct Texture {
    /// The finest level.
    pub image: Image,
    /// The other levels, each coarser than the one before.
    pub coarser: Vec<Image>,
    /// For x, y and z.
    pub address: [AddressMode; 3],
    /// Between texels of a level.
    pub filter: Filter,
    /// Between levels.
    pub level_filter: Filter,
    /// Coordinates run from 0 to 1.
    pub normalized: bool,
    /// Integers of 8 and 16 bits are read as numbers up to 1.
    pub normalized_float: bool,
    /// 8-bit colours are converted from sRGB.
    pub srgb: bool,
    /// Colour outside.
    pub border: [f32; 4],
    /// Added to a level.
    pub level_bias: f32,
    /// The finest level that may be taken.
    pub level_least: f32,
    /// The coarsest level that may be taken.
    pub level_most: f32,
}

impl Texture {
    /// Number of the coarsest level.
    pub(crate) fn last_level(&self) -> usize {
        self.coarser.len()
    }

    /// A level, or the coarsest.
    pub(crate) fn level(&self, number: usize) -> &Image {
        match number.checked_sub(1) {
            None => &self.image,
            Some(_) if self.coarser.is_empty() => &self.image,
            Some(index) => &self.coarser[index.min(self.coarser.len() - 1)],
        }
    }
}

/// A surface object.
#[derive(Debug, Clone, PartialEq)]
#[repr(C)]
pub struct Surface {
    /// What it reads and writes.
    pub image: Image,
}
