//! Code being loaded that the driver may have to compile.

use super::code;
use crate::aspects::{self, Code, JitOptions, Note};
use crate::driver::driver;
use crate::state::inside;
use apex_core::event::What;
use apex_core::time;
use apex_cuda::types::*;
use apex_cuda::{Function, foreign};
use core::ffi::CStr;
use std::fs::File;

const NO_OPTIONS: JitOptions = (0, core::ptr::null_mut(), core::ptr::null_mut());

pub(crate) unsafe fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult {
    let started = time::ticks();
    // SAFETY: the program's own arguments, passed on once more if the first time was refused.
    let result = unsafe {
        aspects::load_code(
            (Function::cuModuleLoadData, started),
            image,
            NO_OPTIONS,
            |image, options| load_module(module, image, options),
            || made(module).map(Code::Module),
            || (driver().cuModuleLoadData)(module, image),
        )
    };
    aspects::call(Function::cuModuleLoadData, false, started, result, || {
        // SAFETY: the same arguments; what they point to is valid if the driver took it.
        unsafe { code::cuModuleLoadData(result, module, image) }
    });
    result
}

pub(crate) unsafe fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    count: u32,
    words: *mut CUjit_option,
    values: *mut *mut c_void,
) -> CUresult {
    let started = time::ticks();
    // SAFETY: as above.
    let result = unsafe {
        aspects::load_code(
            (Function::cuModuleLoadDataEx, started),
            image,
            (count, words, values),
            |image, options| load_module(module, image, options),
            || made(module).map(Code::Module),
            || (driver().cuModuleLoadDataEx)(module, image, count, words, values),
        )
    };
    aspects::call(Function::cuModuleLoadDataEx, false, started, result, || {
        // SAFETY: as above.
        unsafe { code::cuModuleLoadData(result, module, image) }
    });
    result
}

pub(crate) unsafe fn cuModuleLoadFatBinary(
    module: *mut CUmodule,
    image: *const c_void,
) -> CUresult {
    let started = time::ticks();
    // SAFETY: as above.
    let result = unsafe {
        aspects::load_code(
            (Function::cuModuleLoadFatBinary, started),
            image,
            NO_OPTIONS,
            |image, options| load_module(module, image, options),
            || made(module).map(Code::Module),
            || (driver().cuModuleLoadFatBinary)(module, image),
        )
    };
    aspects::call(Function::cuModuleLoadFatBinary, false, started, result, || {
        // SAFETY: as above.
        unsafe { code::cuModuleLoadData(result, module, image) }
    });
    result
}

pub(crate) unsafe fn cuModuleLoad(module: *mut CUmodule, file: *const c_char) -> CUresult {
    let started = time::ticks();
    // SAFETY: as above; the path is looked at as memory that may not be there.
    let result = unsafe {
        aspects::load_file(
            (Function::cuModuleLoad, started),
            open(file).as_ref(),
            NO_OPTIONS,
            |image, options| load_module(module, image, options),
            || made(module).map(Code::Module),
            || (driver().cuModuleLoad)(module, file),
        )
    };
    aspects::call(Function::cuModuleLoad, false, started, result, || {
        // SAFETY: as above.
        unsafe { code::cuModuleLoad(result, module, file) }
    });
    result
}

/// What the driver has written at the program's place for a handle.
fn made<T>(place: *const *mut T) -> Option<usize> {
    // SAFETY: asked after the driver took the call and wrote here.
    unsafe { place.as_ref() }.map(|handle| *handle as usize)
}

/// # Safety
///
/// `module` is the program's own place for its answer, the image and the options are whole.
unsafe fn load_module(
    module: *mut CUmodule,
    image: *const c_void,
    (count, words, values): JitOptions,
) -> CUresult {
    // SAFETY: the caller vouches for the arguments.
    unsafe { (driver().cuModuleLoadDataEx)(module, image, count, words, values) }
}

pub(crate) unsafe fn cuLibraryLoadData(
    library: *mut CUlibrary,
    image: *const c_void,
    words: *mut CUjit_option,
    values: *mut *mut c_void,
    count: u32,
    library_words: *mut CUlibraryOption,
    library_values: *mut *mut c_void,
    library_count: u32,
) -> CUresult {
    let started = time::ticks();
    let forward = |image: *const c_void, (count, words, values): JitOptions| {
        // SAFETY: the program's own arguments, and a list of options that is whole.
        unsafe {
            (driver().cuLibraryLoadData)(
                library,
                image,
                words,
                values,
                count,
                library_words,
                library_values,
                library_count,
            )
        }
    };
    let options = (count, words, values);
    let called = (Function::cuLibraryLoadData, started);
    // SAFETY: as above.
    let result = unsafe {
        aspects::load_code(
            called,
            image,
            options,
            forward,
            || made(library).map(Code::Library),
            || forward(image, options),
        )
    };
    aspects::call(Function::cuLibraryLoadData, false, started, result, || {
        // SAFETY: as above.
        unsafe { code::cuLibraryLoadData(result, library, image) }
    });
    result
}

pub(crate) unsafe fn cuLibraryLoadFromFile(
    library: *mut CUlibrary,
    file: *const c_char,
    words: *mut CUjit_option,
    values: *mut *mut c_void,
    count: u32,
    library_words: *mut CUlibraryOption,
    library_values: *mut *mut c_void,
    library_count: u32,
) -> CUresult {
    let started = time::ticks();
    let called = (Function::cuLibraryLoadFromFile, started);
    // SAFETY: as above.
    let result = unsafe {
        aspects::load_file(
            called,
            open(file).as_ref(),
            (count, words, values),
            |image, (count, words, values)| {
                (driver().cuLibraryLoadData)(
                    library,
                    image,
                    words,
                    values,
                    count,
                    library_words,
                    library_values,
                    library_count,
                )
            },
            || made(library).map(Code::Library),
            || {
                (driver().cuLibraryLoadFromFile)(
                    library,
                    file,
                    words,
                    values,
                    count,
                    library_words,
                    library_values,
                    library_count,
                )
            },
        )
    };
    aspects::call(Function::cuLibraryLoadFromFile, false, started, result, || {
        // SAFETY: as above.
        unsafe { code::cuLibraryLoadFromFile(result, library, file) }
    });
    result
}

/// The file that the driver is about to read; nothing where it is no plain file.
fn open(path: *const c_char) -> Option<File> {
    const LONGEST: usize = 4096;
    let mut bytes = vec![0; LONGEST];
    let there = foreign::read(path as u64, &mut bytes);
    let path = CStr::from_bytes_until_nul(&bytes[..there]).ok()?;
    code::open_again(&path.to_string_lossy())
}

const PTX: CUjitInputType = 1;
const FATBIN: CUjitInputType = 2;
/// No piece that is brought down is longer.
const MOST_BYTES: usize = 256 << 20;

macro_rules! link {
    ($name:ident) => {
        pub(crate) unsafe fn $name(
            state: CUlinkState,
            kind: CUjitInputType,
            data: *mut c_void,
            size: usize,
            name: *const c_char,
            count: u32,
            words: *mut CUjit_option,
            values: *mut *mut c_void,
        ) -> CUresult {
            let started = time::ticks();
            let add = |kind, data: *mut c_void, size| {
                // SAFETY: the program's own arguments, or a piece of ours that stays.
                unsafe { (driver().$name)(state, kind, data, size, name, count, words, values) }
            };
            let called = (Function::$name, started);
            let own = || add(kind, data, size);
            let result = match piece(kind, data, size) {
                Some(piece) => aspects::link_code(
                    called,
                    &piece,
                    |image, is_text| {
                        let kind = if is_text { PTX } else { FATBIN };
                        add(kind, image.as_ptr().cast_mut().cast(), image.len())
                    },
                    own,
                ),
                None => inside::call(called.0, started, own),
            };
            aspects::call(called.0, false, started, result, || Note::plain(What::Other));
            result
        }
    };
}

link!(cuLinkAddData);
link!(cuLinkAddData_v2);

/// A copy of PTX or of a fatbin that is given to the linker; nothing of other pieces.
fn piece(kind: CUjitInputType, data: *mut c_void, size: usize) -> Option<Vec<u8>> {
    if !matches!(kind, PTX | FATBIN) || size > MOST_BYTES {
        return None;
    }
    let mut bytes = vec![0; size];
    let there = foreign::read(data as u64, &mut bytes);
    (there == size).then_some(bytes)
}

/// The attribute of a kernel that tells the chip its PTX is for.
const PTX_VERSION: CUfunction_attribute = 5;

pub(crate) unsafe fn cuFuncGetAttribute(
    value: *mut i32,
    attribute: CUfunction_attribute,
    function: CUfunction,
) -> CUresult {
    // SAFETY: the program's own arguments.
    let result = unsafe { (driver().cuFuncGetAttribute)(value, attribute, function) };
    if attribute == PTX_VERSION && result == CUDA_SUCCESS {
        let newer = aspects::newer_chip(|code| is_of(function, code));
        // SAFETY: the driver has written its answer here.
        unsafe { tell_chip(value, newer) };
    }
    result
}

pub(crate) unsafe fn cuKernelGetAttribute(
    value: *mut i32,
    attribute: CUfunction_attribute,
    kernel: CUkernel,
    device: CUdevice,
) -> CUresult {
    // SAFETY: the program's own arguments.
    let result = unsafe { (driver().cuKernelGetAttribute)(value, attribute, kernel, device) };
    if attribute == PTX_VERSION && result == CUDA_SUCCESS {
        let newer = aspects::newer_chip(|code| code == library_of(kernel));
        // SAFETY: the driver has written its answer here.
        unsafe { tell_chip(value, newer) };
    }
    result
}

/// Whether a function is of a module or library. A program may give a library's kernel as a function.
fn is_of(function: CUfunction, code: Code) -> bool {
    let (mut own, mut other): (CUmodule, CUmodule) = (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: a function that the driver has just answered for, and a valid place.
    if unsafe { (driver().cuFuncGetModule)(&raw mut own, function) } != CUDA_SUCCESS {
        return code == library_of(function as CUkernel);
    }
    match code {
        Code::Module(module) => own as usize == module,
        Code::Library(library) => {
            // SAFETY: a library that the driver made, and a valid place.
            unsafe { (driver().cuLibraryGetModule)(&raw mut other, library as CUlibrary) };
            own == other
        }
    }
}

fn library_of(kernel: CUkernel) -> Code {
    let mut library: CUlibrary = core::ptr::null_mut();
    // SAFETY: a kernel that the driver has just answered for, and a valid place.
    unsafe { (driver().cuKernelGetLibrary)(&raw mut library, kernel) };
    Code::Library(library as usize)
}

/// # Safety
///
/// The place holds the driver's answer.
unsafe fn tell_chip(value: *mut i32, newer: Option<u32>) {
    if let Some(newer) = newer.and_then(|newer| i32::try_from(newer).ok()) {
        // SAFETY: as the caller says.
        unsafe { value.write(newer) };
    }
}
