//! Code being loaded that the driver may have to compile.

use super::code;
use crate::aspects;
use crate::driver::driver;
use apex_core::time;
use apex_cuda::Function;
use apex_cuda::types::*;

const NO_OPTIONS: (u32, *mut CUjit_option, *mut *mut c_void) =
    (0, core::ptr::null_mut(), core::ptr::null_mut());

pub(crate) unsafe fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult {
    let started = time::ticks();
    // SAFETY: the program's own arguments, passed on once more if the first time was refused.
    let result = unsafe {
        aspects::load_code(
            (Function::cuModuleLoadData, started),
            image,
            NO_OPTIONS,
            |count, words, values| {
                (driver().cuModuleLoadDataEx)(module, image, count, words, values)
            },
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
            |count, words, values| {
                (driver().cuModuleLoadDataEx)(module, image, count, words, values)
            },
            || (driver().cuModuleLoadDataEx)(module, image, count, words, values),
        )
    };
    aspects::call(Function::cuModuleLoadDataEx, false, started, result, || {
        // SAFETY: as above.
        unsafe { code::cuModuleLoadData(result, module, image) }
    });
    result
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
    let forward = |words: *mut CUjit_option, values: *mut *mut c_void, count: u32| {
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
    // SAFETY: as above.
    let result = unsafe {
        aspects::load_code(
            (Function::cuLibraryLoadData, started),
            image,
            (count, words, values),
            |count, words, values| forward(words, values, count),
            || forward(words, values, count),
        )
    };
    aspects::call(Function::cuLibraryLoadData, false, started, result, || {
        // SAFETY: as above.
        unsafe { code::cuLibraryLoadData(result, library, image) }
    });
    result
}
