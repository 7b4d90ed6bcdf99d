//! Code being loaded and unloaded. The time of a load holds the driver's just-in-time compilation.

use super::answer::answer;
use crate::aspects::{self, Code, Note};
use crate::state::kernels::{self, Source};
use apex_core::event::{Life, ObjectKind, What};
use apex_cuda::image::{self, Image};
use apex_cuda::types::*;
use core::ffi::CStr;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

pub(crate) unsafe fn cuModuleLoad(
    result: CUresult,
    module: *mut CUmodule,
    file: *const c_char,
) -> Note {
    // SAFETY: the driver's out-pointer and the path that it read.
    unsafe {
        let handle = answer(result, module, core::ptr::null_mut());
        loaded_file(result, ObjectKind::Module, handle as u64, file)
    }
}

pub(crate) unsafe fn cuModuleLoadData(
    result: CUresult,
    module: *mut CUmodule,
    image: *const c_void,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, module, core::ptr::null_mut()) };
    loaded_data(result, ObjectKind::Module, handle as u64, image)
}

pub(crate) unsafe fn cuModuleUnload(result: CUresult, module: CUmodule) -> Note {
    aspects::unloaded(Code::Module(module as usize));
    unloaded(result, ObjectKind::Module, module as u64)
}

pub(crate) unsafe fn cuLibraryLoadData(
    result: CUresult,
    library: *mut CUlibrary,
    image: *const c_void,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let handle = unsafe { answer(result, library, core::ptr::null_mut()) };
    loaded_data(result, ObjectKind::Library, handle as u64, image)
}

pub(crate) unsafe fn cuLibraryLoadFromFile(
    result: CUresult,
    library: *mut CUlibrary,
    file: *const c_char,
) -> Note {
    // SAFETY: the driver's out-pointer and the path that it read.
    unsafe {
        let handle = answer(result, library, core::ptr::null_mut());
        loaded_file(result, ObjectKind::Library, handle as u64, file)
    }
}

/// A module made of a library has the library's image: kernels found through it know where they came
/// from.
pub(crate) unsafe fn cuLibraryGetModule(
    result: CUresult,
    module: *mut CUmodule,
    library: CUlibrary,
) -> Note {
    // SAFETY: the driver's out-pointer.
    let module = unsafe { answer(result, module, core::ptr::null_mut()) };
    if !module.is_null() {
        kernels::same_image(module as u64, library as u64);
    }
    Note::plain(What::Other)
}

pub(crate) unsafe fn cuLibraryUnload(result: CUresult, library: CUlibrary) -> Note {
    aspects::unloaded(Code::Library(library as usize));
    unloaded(result, ObjectKind::Library, library as u64)
}

/// The driver may accept an image that claims to be longer than it is, and reads of it what it needs: it is
/// looked at as memory that may not be there.
fn loaded_data(result: CUresult, object: ObjectKind, handle: u64, image: *const c_void) -> Note {
    // An image that the driver refused has no handle to be known by.
    let known = (result == CUDA_SUCCESS).then(|| image::identify_at(image)).flatten();
    if let Some(known) = known {
        aspects::image_loaded(image, known.hash);
    }
    loaded(object, handle, known, Source::Memory(image))
}

/// # Safety
///
/// `file` is what the driver was given as a path.
unsafe fn loaded_file(
    result: CUresult,
    object: ObjectKind,
    handle: u64,
    file: *const c_char,
) -> Note {
    if result != CUDA_SUCCESS || file.is_null() {
        return loaded(object, handle, None, Source::File(String::new()));
    }
    // SAFETY: the driver has opened the file of this name.
    let path = unsafe { CStr::from_ptr(file) }.to_string_lossy().into_owned();
    let image = open_again(&path).and_then(|file| image::identify_file(&file));
    loaded(object, handle, image, Source::File(path))
}

/// Opens a file that the driver reads. What gives its bytes once (a pipe, a device) is left alone: to open
/// it again could wait for ever.
pub(super) fn open_again(path: &str) -> Option<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    file.metadata().is_ok_and(|about| about.is_file()).then_some(file)
}

fn loaded(object: ObjectKind, handle: u64, image: Option<Image>, source: Source) -> Note {
    let (bytes, hash) = image.map_or((0, 0), |image| (image.length as u64, image.hash));
    let image = image.map_or(0, |image| kernels::loaded(handle, image.kind, bytes, hash, source));
    Note::plain(What::Load { object, image, handle, bytes, hash })
}

fn unloaded(result: CUresult, object: ObjectKind, handle: u64) -> Note {
    if result == CUDA_SUCCESS {
        kernels::unloaded(handle);
        aspects::code_unloaded();
    }
    Note::plain(What::Life(Life { object, begins: false, handle, flags: 0, priority: 0 }))
}
