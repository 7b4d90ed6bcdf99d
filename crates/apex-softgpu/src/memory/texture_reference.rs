//! Texture and surface references: textures that a module declares by name.
//!
//! A module has eight bytes for each reference, which hold the address of the
//! engine's descriptor. Whatever is set for a reference makes its descriptor anew
//! once memory is bound to it. A reference made by itself has no such word and only
//! remembers.

use std::sync::Mutex;

use apex_cuda::types::*;
use apex_engine::{Surface, Texture};

use crate::border::Answer;
use crate::memory::texture::{Resource, Sampling, point_at};
use crate::object::{create, object};

/// One texture reference.
pub(crate) struct TextureReference {
    /// The module's word; 0 for a reference of no module.
    pub(crate) word: u64,
    pub(crate) state: Mutex<State>,
}
object!(TextureReference, b"texref--");

/// What was set for a reference.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) sampling: Sampling,
    pub(crate) format: CUarray_format,
    pub(crate) channels: u32,
    pub(crate) bound: Bound,
    /// Boxed: kernels under way may still read the one before until it is dropped.
    texture: Option<Box<Texture>>,
}

/// What memory a reference reads.
#[derive(Clone, Copy, Default)]
pub(crate) enum Bound {
    #[default]
    Nothing,
    Array(CUarray),
    Mipmap(CUmipmappedArray),
    Linear {
        address: u64,
        bytes: u64,
    },
    Pitched {
        address: u64,
        size: (u64, u64),
        pitch: u64,
    },
}

// SAFETY: the handles inside are addresses that any thread may use.
unsafe impl Send for State {}

/// One surface reference.
pub(crate) struct SurfaceReference {
    pub(crate) word: u64,
    pub(crate) bound: Mutex<(CUarray, Option<Box<Surface>>)>,
}
object!(SurfaceReference, b"surfref-");

// SAFETY: the handle inside is an address that any thread may use.
unsafe impl Sync for SurfaceReference {}

const FORMAT_FLOAT: CUarray_format = 0x20;

pub(crate) fn make(word: u64) -> CUtexref {
    let state = State { format: FORMAT_FLOAT, channels: 1, ..State::default() };
    create(TextureReference { word, state: Mutex::new(state) })
}

impl State {
    /// # Safety
    ///
    /// The handles that were bound are the program's.
    pub(crate) unsafe fn renew(&mut self, word: u64) -> Answer {
        // SAFETY: the caller vouches for the handles.
        let resource = unsafe {
            match self.bound {
                Bound::Nothing => return Ok(()),
                Bound::Array(array) => Resource::of_array(array)?,
                Bound::Mipmap(mipmap) => Resource::of_mipmap(mipmap)?,
                Bound::Linear { address, bytes } => {
                    Resource::linear(address, self.format, self.channels, bytes)?
                }
                Bound::Pitched { address, size, pitch } => {
                    Resource::pitched(address, self.format, self.channels, size, pitch)?
                }
            }
        };
        let texture = Box::new(self.sampling.over(&resource)?);
        if word != 0 {
            point_at(word, &*texture)?;
        }
        self.texture = Some(texture);
        Ok(())
    }
}
