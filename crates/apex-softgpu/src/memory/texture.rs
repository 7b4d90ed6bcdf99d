//! Texture and surface objects: what kernels read and write through handles.
//!
//! A handle is the address of a descriptor of the engine, which lives until the
//! object is destroyed. The descriptions of the program are kept beside it, to be
//! given back when they are asked for. C's descriptions are read as the words that
//! they are: their enums may hold numbers that a Rust enum does not know.

use std::collections::HashMap;
use std::sync::Mutex;

use apex_cuda::types::*;
use apex_engine::{AddressMode, Filter, Image, Surface, Texture};

use crate::border::Answer;
use crate::memory::array::{Mipmap, array, format_of};
use crate::memory::range::is_known;
use crate::memory::texel::{TexelFormat, TextureLevel};
use crate::object::{live, lock};

/// A description of memory to be read, as C has it.
pub(crate) type ResourceWords = [u64; 18];
/// A description of how it is read, as C has it.
pub(crate) type TextureWords = [u32; 26];
/// A description of the part that is read, as C has it.
pub(crate) type ViewWords = [u64; 14];

const _: () = assert!(size_of::<CUDA_RESOURCE_DESC>() == size_of::<ResourceWords>());
const _: () = assert!(size_of::<CUDA_TEXTURE_DESC>() == size_of::<TextureWords>());
const _: () = assert!(size_of::<CUDA_RESOURCE_VIEW_DESC>() == size_of::<ViewWords>());

/// A texture and what it was made from. Boxed: its address is the handle.
pub(crate) struct TextureObject {
    pub(crate) texture: Texture,
    pub(crate) resource: ResourceWords,
    pub(crate) sampling: TextureWords,
    pub(crate) view: Option<ViewWords>,
}

pub(crate) struct SurfaceObject {
    pub(crate) surface: Surface,
    pub(crate) resource: ResourceWords,
}

pub(crate) static TEXTURES: Mutex<Option<HashMap<u64, Box<TextureObject>>>> = Mutex::new(None);
pub(crate) static SURFACES: Mutex<Option<HashMap<u64, Box<SurfaceObject>>>> = Mutex::new(None);

pub(crate) const RESOURCE_ARRAY: u64 = 0;
const RESOURCE_MIPMAP: u64 = 1;
const RESOURCE_LINEAR: u64 = 2;
const RESOURCE_PITCH: u64 = 3;
pub(crate) const READ_AS_INTEGER: u32 = 1;
pub(crate) const NORMALIZED_COORDINATES: u32 = 2;
pub(crate) const SRGB: u32 = 0x10;
const LINEAR_ALIGNMENT: u64 = 16;

/// Memory that a texture or surface reads: its element and its levels.
pub(crate) struct Resource {
    pub(crate) format: TexelFormat,
    pub(crate) channels: u32,
    pub(crate) levels: Vec<TextureLevel>,
    /// Plain memory in one dimension: outside it hardware reads zeros, whatever the address mode.
    pub(crate) is_linear: bool,
}

impl Resource {
    /// # Safety
    ///
    /// The handles in the words are the program's.
    pub(crate) unsafe fn read(words: &ResourceWords) -> Result<Resource, CUresult> {
        let [kind, first, element, width, height, pitch, ..] = *words;
        let handle = core::ptr::with_exposed_provenance_mut::<c_void>(first as usize);
        // SAFETY: the caller vouches for the handles.
        unsafe {
            match kind & u64::from(u32::MAX) {
                RESOURCE_ARRAY => Resource::of_array(handle.cast()),
                RESOURCE_MIPMAP => Resource::of_mipmap(handle.cast()),
                RESOURCE_LINEAR => {
                    Resource::linear(first, element as u32, (element >> 32) as u32, width)
                }
                RESOURCE_PITCH => {
                    let (format, channels) = (element as u32, (element >> 32) as u32);
                    Resource::pitched(first, format, channels, (width, height), pitch)
                }
                _ => Err(CUDA_ERROR_INVALID_VALUE),
            }
        }
    }

    /// # Safety
    ///
    /// The handle is the program's.
    pub(crate) unsafe fn of_array(handle: CUarray) -> Result<Resource, CUresult> {
        // SAFETY: the caller vouches for the handle.
        let array = unsafe { array(handle) }?;
        let (format, channels) = array.element()?;
        Ok(Resource { format, channels, levels: vec![array.level()], is_linear: false })
    }

    /// # Safety
    ///
    /// The handle is the program's.
    pub(crate) unsafe fn of_mipmap(handle: CUmipmappedArray) -> Result<Resource, CUresult> {
        // SAFETY: the caller vouches for the handle; the levels live as long as the whole.
        unsafe {
            let mipmap: &Mipmap = live(handle)?;
            let (format, channels) = mipmap.element()?;
            let levels = mipmap.levels.iter().map(|&level| Ok(array(level)?.level()));
            let levels = levels.collect::<Result<_, CUresult>>()?;
            Ok(Resource { format, channels, levels, is_linear: false })
        }
    }

    pub(crate) fn linear(
        address: u64,
        format: CUarray_format,
        channels: u32,
        bytes: u64,
    ) -> Result<Resource, CUresult> {
        let element = element_bytes(format, channels)?;
        let level = TextureLevel {
            address,
            width: u32::try_from(bytes / element).map_err(|_| CUDA_ERROR_INVALID_VALUE)?,
            height: 1,
            depth: 1,
            row_pitch: bytes,
            slice_pitch: bytes,
        };
        let plain = Resource::of_memory(level, format, channels, bytes)?;
        Ok(Resource { is_linear: true, ..plain })
    }

    pub(crate) fn pitched(
        address: u64,
        format: CUarray_format,
        channels: u32,
        (width, height): (u64, u64),
        pitch: u64,
    ) -> Result<Resource, CUresult> {
        let row = element_bytes(format, channels)?.checked_mul(width);
        let row = row.filter(|&row| row <= pitch).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let rows = height.checked_sub(1).and_then(|rows| rows.checked_mul(pitch));
        let bytes = rows.and_then(|rows| rows.checked_add(row)).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let side = |side: u64| u32::try_from(side).map_err(|_| CUDA_ERROR_INVALID_VALUE);
        let level = TextureLevel {
            address,
            width: side(width)?,
            height: side(height)?,
            depth: 1,
            row_pitch: pitch,
            slice_pitch: bytes,
        };
        Resource::of_memory(level, format, channels, bytes)
    }

    fn of_memory(
        level: TextureLevel,
        format: CUarray_format,
        channels: u32,
        bytes: u64,
    ) -> Result<Resource, CUresult> {
        let aligned = level.address.is_multiple_of(LINEAR_ALIGNMENT);
        if level.width == 0 || !aligned || !is_known(level.address, bytes) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let format = format_of(format).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        Ok(Resource { format, channels, levels: vec![level], is_linear: false })
    }

    /// The levels as the engine reads them.
    fn images(&self) -> Vec<Image> {
        self.levels.iter().map(|level| level.image(self.format, self.channels)).collect()
    }

    /// The part that a view names: some levels and some layers.
    pub(crate) fn seen_through(mut self, view: &ViewWords) -> Result<Resource, CUresult> {
        let (first, last) = (view[4] as u32 as usize, (view[4] >> 32) as usize);
        let (first_layer, last_layer) = (view[5] as u32, (view[5] >> 32) as u32);
        let last = last.min(self.levels.len() - 1);
        self.levels = self.levels.get(first..=last).ok_or(CUDA_ERROR_INVALID_VALUE)?.to_vec();
        if last_layer >= first_layer && last_layer > 0 {
            for level in &mut self.levels {
                if last_layer >= level.depth {
                    return Err(CUDA_ERROR_INVALID_VALUE);
                }
                level.address += u64::from(first_layer) * level.slice_pitch;
                level.depth = last_layer - first_layer + 1;
            }
        }
        Ok(self)
    }
}

fn element_bytes(format: CUarray_format, channels: u32) -> Result<u64, CUresult> {
    let bytes = format_of(format).ok_or(CUDA_ERROR_INVALID_VALUE)?.bytes();
    if !matches!(channels, 1 | 2 | 4) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    Ok(bytes as u64 * u64::from(channels))
}

/// How texels are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sampling {
    pub(crate) address_modes: [u32; 3],
    pub(crate) filter: u32,
    pub(crate) flags: u32,
    pub(crate) anisotropy: u32,
    pub(crate) level_filter: u32,
    pub(crate) level_bias: f32,
    pub(crate) level_clamp: [f32; 2],
    pub(crate) border: [f32; 4],
}

impl Sampling {
    pub(crate) fn read(words: &TextureWords) -> Sampling {
        let float = |nth: usize| f32::from_bits(words[nth]);
        Sampling {
            address_modes: [words[0], words[1], words[2]],
            filter: words[3],
            flags: words[4],
            anisotropy: words[5],
            level_filter: words[6],
            level_bias: float(7),
            level_clamp: [float(8), float(9)],
            border: [float(10), float(11), float(12), float(13)],
        }
    }

    /// The texture that reads a resource so.
    pub(crate) fn over(&self, resource: &Resource) -> Result<Texture, CUresult> {
        let modes = self.address_modes.map(address_mode);
        let [Some(x), Some(y), Some(z)] = modes else { return Err(CUDA_ERROR_INVALID_VALUE) };
        let normalized = self.flags & NORMALIZED_COORDINATES != 0;
        // Without normalized coordinates there is no period to wrap or mirror at.
        let held = |mode| match mode {
            AddressMode::Wrap | AddressMode::Mirror if !normalized => AddressMode::Clamp,
            mode => mode,
        };
        let held = |mode| if resource.is_linear { AddressMode::Border } else { held(mode) };
        let mut images = resource.images();
        if images.is_empty() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let coarser = images.split_off(1);
        Ok(Texture {
            image: images[0],
            coarser,
            address: [held(x), held(y), held(z)],
            filter: filter(self.filter)?,
            level_filter: filter(self.level_filter)?,
            level_bias: self.level_bias,
            level_least: self.level_clamp[0],
            level_most: self.level_clamp[1],
            normalized,
            normalized_float: self.flags & READ_AS_INTEGER == 0,
            srgb: self.flags & SRGB != 0,
            border: if resource.is_linear { [0.0; 4] } else { self.border },
        })
    }
}

fn address_mode(mode: u32) -> Option<AddressMode> {
    Some(match mode {
        0 => AddressMode::Wrap,
        1 => AddressMode::Clamp,
        2 => AddressMode::Mirror,
        3 => AddressMode::Border,
        _ => return None,
    })
}

fn filter(filter: u32) -> Result<Filter, CUresult> {
    match filter {
        0 => Ok(Filter::Point),
        1 => Ok(Filter::Linear),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// Answers from a texture object.
pub(crate) fn with_texture<T>(
    handle: u64,
    answer: impl FnOnce(&TextureObject) -> T,
) -> Result<T, CUresult> {
    let textures = lock(&TEXTURES);
    let object = textures.as_ref().and_then(|textures| textures.get(&handle));
    object.map(|object| answer(object)).ok_or(CUDA_ERROR_INVALID_VALUE)
}

/// The surface over the first level of a resource.
pub(crate) fn surface_over(resource: &Resource) -> Result<Surface, CUresult> {
    let image = *resource.images().first().ok_or(CUDA_ERROR_INVALID_VALUE)?;
    Ok(Surface { image })
}

/// Keeps the word of a reference pointing at its descriptor.
pub(crate) fn point_at<T>(word: u64, descriptor: &T) -> Answer {
    if !is_known(word, 8) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let address = core::ptr::from_ref(descriptor).expose_provenance() as u64;
    let place = core::ptr::with_exposed_provenance_mut::<u64>(word as usize);
    // SAFETY: the word is known memory of a module, found just now.
    unsafe { place.write_unaligned(address) };
    Ok(())
}
