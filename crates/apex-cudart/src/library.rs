//! Libraries that a program loads itself. Their kernels' handles are remembered, so
//! that they are known where a function is asked for.

use core::ffi::{c_char, c_void};
use core::ptr::null;

use apex_cuda::types::{CUjit_option, CUkernel, CUlibrary, CUlibraryOption};

use crate::border::{check, get, wanted};
use crate::context::current;
use crate::registry::{Handle, add_handle};

runtime! {
    fn cudaLibraryLoadData(
        out: *mut CUlibrary,
        image: *const c_void,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
        count: u32,
        library_options: *mut CUlibraryOption,
        library_values: *mut *mut c_void,
        library_count: u32,
    ) {
        wanted(image.cast_mut())?;
        check((current()?.cuLibraryLoadData)(
            wanted(out)?,
            image,
            options,
            values,
            count,
            library_options,
            library_values,
            library_count,
        ))
    }

    fn cudaLibraryLoadFromFile(
        out: *mut CUlibrary,
        path: *const c_char,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
        count: u32,
        library_options: *mut CUlibraryOption,
        library_values: *mut *mut c_void,
        library_count: u32,
    ) {
        wanted(path.cast_mut())?;
        check((current()?.cuLibraryLoadFromFile)(
            wanted(out)?,
            path,
            options,
            values,
            count,
            library_options,
            library_values,
            library_count,
        ))
    }

    fn cudaLibraryUnload(library: CUlibrary) {
        check((current()?.cuLibraryUnload)(library))
    }

    fn cudaLibraryGetKernel(out: *mut CUkernel, library: CUlibrary, name: *const c_char) {
        wanted(name.cast_mut())?;
        check((current()?.cuLibraryGetKernel)(wanted(out)?, library, name))?;
        add_handle(*out, Handle::Kernel, null());
        Ok(())
    }

    fn cudaLibraryGetKernelCount(out: *mut u32, library: CUlibrary) {
        check((current()?.cuLibraryGetKernelCount)(wanted(out)?, library))
    }

    fn cudaLibraryEnumerateKernels(out: *mut CUkernel, count: u32, library: CUlibrary) {
        let driver = current()?;
        let mut there = 0;
        check((driver.cuLibraryGetKernelCount)(&raw mut there, library))?;
        check((driver.cuLibraryEnumerateKernels)(wanted(out)?, count, library))?;
        for index in 0..count.min(there) as usize {
            add_handle(get(out.wrapping_add(index).cast_const())?, Handle::Kernel, null());
        }
        Ok(())
    }

    fn cudaLibraryGetGlobal(
        out: *mut *mut c_void,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        wanted(name.cast_mut())?;
        check((current()?.cuLibraryGetGlobal)(out.cast(), bytes, library, name))
    }

    fn cudaLibraryGetManaged(
        out: *mut *mut c_void,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) {
        wanted(name.cast_mut())?;
        check((current()?.cuLibraryGetManaged)(out.cast(), bytes, library, name))
    }

    fn cudaLibraryGetUnifiedFunction(
        out: *mut *mut c_void,
        library: CUlibrary,
        name: *const c_char,
    ) {
        wanted(name.cast_mut())?;
        check((current()?.cuLibraryGetUnifiedFunction)(wanted(out)?, library, name))
    }
}
