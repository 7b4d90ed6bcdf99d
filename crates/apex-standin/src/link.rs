//! The linker: keeps what it is given, so that the result can be loaded again.
//!
//! Nothing is compiled. PTX inputs are put one after the other; with a binary among
//! the inputs, the first binary is the result.

use core::ptr::null_mut;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{Answer, list, put, put_if_wanted, text};
use crate::context::current;
use crate::object::{create, destroy, live, lock, object};

/// One link in progress.
pub(crate) struct Link {
    text: Mutex<Vec<u8>>,
    binary: Mutex<Option<Vec<u8>>>,
}
object!(Link, b"link----");

const INPUT_PTX: CUjitInputType = 1;

impl Link {
    fn add(&self, kind: CUjitInputType, bytes: &[u8]) -> Answer {
        if bytes.is_empty() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if kind == INPUT_PTX {
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            let mut text = lock(&self.text);
            text.extend_from_slice(&bytes[..end]);
            text.push(b'\n');
        } else {
            lock(&self.binary).get_or_insert_with(|| bytes.to_vec());
        }
        Ok(())
    }
}

answers! {
    fn cuLinkCreate_v2(
        _count: u32,
        _options: *mut CUjit_option,
        _values: *mut *mut c_void,
        out: *mut CUlinkState,
    ) {
        current()?;
        put(out, create(Link { text: Mutex::default(), binary: Mutex::default() }))
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
        let mut binary = lock(&link.binary);
        let result = binary.get_or_insert_with(|| {
            let mut text = core::mem::take(&mut *lock(&link.text));
            text.push(0);
            text
        });
        put(image, null_mut())?;
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
