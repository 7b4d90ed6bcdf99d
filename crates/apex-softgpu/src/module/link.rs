//! The linker: gathers PTX texts into one image that can be loaded.
//!
//! The image is a fatbin with one entry per text; the loader links its entries. It
//! is loaded once on completion, so that errors come out in the linker's own log.

use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::Answer;
use crate::machine::device::Device;
use crate::module::fatbin::{texts_in, texts_inside};
use crate::module::load_options::Options;
use crate::object::{lock, object};

/// One link in progress.
pub(crate) struct Link {
    pub(crate) device: &'static Device,
    pub(crate) texts: Mutex<Vec<String>>,
    pub(crate) result: Mutex<Vec<u8>>,
    pub(crate) options: Options,
}
object!(Link, b"link----");

const INPUT_CUBIN: CUjitInputType = 0;
pub(crate) const INPUT_PTX: CUjitInputType = 1;
const INPUT_FATBIN: CUjitInputType = 2;
const INPUT_OBJECT: CUjitInputType = 3;
const INPUT_LIBRARY: CUjitInputType = 4;

impl Link {
    pub(crate) fn add(&self, kind: CUjitInputType, bytes: &[u8]) -> Answer {
        if bytes.is_empty() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let capability = self.device.identity.capability;
        let found = match kind {
            INPUT_PTX => {
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                vec![String::from_utf8_lossy(&bytes[..end]).into_owned()]
            }
            INPUT_FATBIN => texts_in(bytes, capability)?,
            INPUT_OBJECT => texts_inside(bytes, capability)?,
            // The device runtime library is machine code and nothing here needs it.
            INPUT_LIBRARY => texts_inside(bytes, capability).unwrap_or_default(),
            INPUT_CUBIN => return Err(CUDA_ERROR_NO_BINARY_FOR_GPU),
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        };
        lock(&self.texts).extend(found);
        Ok(())
    }
}
