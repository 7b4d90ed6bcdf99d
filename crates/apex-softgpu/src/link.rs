//! The linker: gathers PTX texts into one image that can be loaded.
//!
//! The image is a fatbin with one entry per text; the loader links its entries. It
//! is loaded once on completion, so that errors come out in the linker's own log.

use core::ptr::null_mut;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, list, put, put_if_wanted, text};
use crate::context::current;
use crate::device::Device;
use crate::fatbin::{container_of, texts_in, texts_inside};
use crate::jit::Options;
use crate::module::{Code, Image};
use crate::object::{create, destroy, live, lock, object};

/// One link in progress.
pub(crate) struct Link {
    device: &'static Device,
    texts: Mutex<Vec<String>>,
    result: Mutex<Vec<u8>>,
    options: Options,
}
object!(Link, b"link----");

const INPUT_CUBIN: CUjitInputType = 0;
const INPUT_PTX: CUjitInputType = 1;
const INPUT_FATBIN: CUjitInputType = 2;
const INPUT_OBJECT: CUjitInputType = 3;
const INPUT_LIBRARY: CUjitInputType = 4;

impl Link {
    fn add(&self, kind: CUjitInputType, bytes: &[u8]) -> Answer {
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

answers! {
    fn cuLinkCreate_v2(
        count: u32,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
        out: *mut CUlinkState,
    ) {
        let device = current()?.device;
        // The program keeps the buffers until the link is destroyed.
        let options = Options::read(count, options, values)?;
        put(out, create(Link { device, texts: Mutex::default(), result: Mutex::default(), options }))
    }

    #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
    fn cuLinkAddData_v2(
        state: CUlinkState,
        kind: CUjitInputType,
        data: *mut c_void,
        bytes: usize,
        _name: *const c_char,
        _count: u32,
        _options: *mut CUjit_option,
        _values: *mut *mut c_void,
    ) {
        live::<Link, _>(state)?.add(kind, list(data.cast::<u8>(), bytes)?)
    }

    fn cuLinkAddFile_v2(
        state: CUlinkState,
        kind: CUjitInputType,
        path: *const c_char,
        _count: u32,
        _options: *mut CUjit_option,
        _values: *mut *mut c_void,
    ) {
        let link: &Link = live(state)?;
        let path = Path::new(std::ffi::OsStr::from_bytes(text(path)?.to_bytes()));
        link.add(kind, &std::fs::read(path).map_err(|_| CUDA_ERROR_FILE_NOT_FOUND)?)
    }

    fn cuLinkComplete(state: CUlinkState, image: *mut *mut c_void, bytes: *mut usize) {
        let link: &Link = live(state)?;
        put(image, null_mut())?;
        let texts = lock(&link.texts).clone();
        if texts.is_empty() {
            return Err(CUDA_ERROR_INVALID_IMAGE);
        }
        let (major, minor) = link.device.identity.capability;
        let mut result = lock(&link.result);
        *result = container_of(&texts, 10 * major + minor);
        drop(Code::load(&Image(texts), link.device, &link.options)?);
        put_if_wanted(bytes, result.len());
        put(image, result.as_mut_ptr().cast())
    }

    fn cuLinkDestroy(state: CUlinkState) {
        destroy::<Link, _>(state)
    }
}

pub(crate) use self::{
    cuLinkAddData_v2 as cuLinkAddData, cuLinkAddFile_v2 as cuLinkAddFile,
    cuLinkCreate_v2 as cuLinkCreate,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::tests::with_context;
    use crate::module::{cuModuleGetFunction, cuModuleLoadData};

    const FIRST: &str =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry first() { ret; }";
    const SECOND: &str =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry second() { ret; }";

    #[test]
    fn texts_become_one_module() {
        with_context(|| {
            let (mut state, mut image, mut module) = (null_mut(), null_mut(), null_mut());
            let (mut bytes, mut function, none) = (0, null_mut(), null_mut());
            // SAFETY: the texts are as long as said.
            unsafe {
                let values = null_mut();
                assert_eq!(cuLinkCreate_v2(0, none, values, &raw mut state), CUDA_SUCCESS);
                for text in [FIRST, SECOND] {
                    let data = text.as_ptr().cast_mut().cast();
                    let name = core::ptr::null();
                    let added =
                        cuLinkAddData_v2(state, INPUT_PTX, data, text.len(), name, 0, none, values);
                    assert_eq!(added, CUDA_SUCCESS);
                }
                assert_eq!(cuLinkComplete(state, &raw mut image, &raw mut bytes), CUDA_SUCCESS);
                assert_eq!(cuModuleLoadData(&raw mut module, image), CUDA_SUCCESS);
                for name in [c"first", c"second"] {
                    let found = cuModuleGetFunction(&raw mut function, module, name.as_ptr());
                    assert_eq!(found, CUDA_SUCCESS);
                }
                assert_eq!(cuLinkDestroy(state), CUDA_SUCCESS);
                assert_eq!(cuLinkDestroy(state), CUDA_ERROR_INVALID_HANDLE);
            }
        });
    }
}
