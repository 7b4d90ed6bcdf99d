//! The driver's functions of the linker.

use core::ptr::null_mut;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use apex_cuda::types::*;

use crate::border::{list, put, put_if_wanted, text};
use crate::module::code::{Code, Image};
use crate::module::link::Link;
use crate::module::load_options::Options;
use crate::object::{create, destroy, live, lock};
use crate::run::context::current;

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
        let mut texts = lock(&link.texts).clone();
        link.options.ask(&mut texts);
        if texts.is_empty() {
            return Err(CUDA_ERROR_INVALID_IMAGE);
        }
        let (major, minor) = link.device.identity.capability;
        let mut result = lock(&link.result);
        *result = apex_ptx::container::of_texts(&texts, 10 * major + minor);
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
    use crate::api::context::tests::with_context;
    use crate::api::module::tests::busy;
    use crate::api::module::{cuModuleGetFunction, cuModuleLoadData};
    use crate::module::link::INPUT_PTX;

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

    #[test]
    fn what_a_link_asks_for_stands_in_its_image() {
        with_context(|| {
            let (mut state, mut image, mut module) = (null_mut(), null_mut(), null_mut());
            let (mut bytes, mut function, mut registers) = (0, null_mut(), 0);
            let most_registers: CUjit_option = 0;
            let mut asked = core::ptr::without_provenance_mut::<c_void>(32);
            let text = busy(60, "");
            // SAFETY: the text is as long as said, and there is one option.
            unsafe {
                let options = (&raw const most_registers).cast_mut();
                assert_eq!(
                    cuLinkCreate_v2(1, options, &raw mut asked, &raw mut state),
                    CUDA_SUCCESS
                );
                let (data, none, values) =
                    (text.as_ptr().cast_mut().cast(), null_mut(), null_mut());
                let name = core::ptr::null();
                let added = cuLinkAddData_v2(
                    state,
                    INPUT_PTX,
                    data,
                    text.count_bytes(),
                    name,
                    0,
                    none,
                    values,
                );
                assert_eq!(added, CUDA_SUCCESS);
                assert_eq!(cuLinkComplete(state, &raw mut image, &raw mut bytes), CUDA_SUCCESS);
                assert_eq!(cuModuleLoadData(&raw mut module, image), CUDA_SUCCESS);
                assert_eq!(
                    cuModuleGetFunction(&raw mut function, module, c"k".as_ptr()),
                    CUDA_SUCCESS
                );
                let read = crate::api::kernel::cuFuncGetAttribute(&raw mut registers, 4, function);
                assert_eq!((read, registers), (CUDA_SUCCESS, 32));
                assert_eq!(cuLinkDestroy(state), CUDA_SUCCESS);
            }
        });
    }
}
