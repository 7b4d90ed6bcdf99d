//! Where the code lies that a program loads, and a copy of what lies nowhere else, for who reads it outside the program.
//!
//! Most code lies in an executable or a library: the linker says in which and where, and nothing is copied. Of other images
//! a file each is kept, named by its hash, so that two processes with the same code keep it once. A file that was cut
//! short does not have the hash that its name says, so its reader sees it.

use crate::state::outputs::write;
use apex_core::facts::image_file;
use apex_cuda::image::{ImageKind, copy_at, place_of};
use apex_cuda::types::c_void;
use core::ffi::CStr;
use std::path::Path;

/// Keeps an image of at most so many bytes, if its kind is wanted; says how many were written.
#[cold]
pub(crate) fn keep(
    folder: &Path,
    image: *const c_void,
    hash: u64,
    most: usize,
    is_wanted: impl Fn(ImageKind) -> bool,
) -> usize {
    let path = folder.join(image_file(hash));
    if path.exists() {
        return 0;
    }
    match copy_at(image, most) {
        Some((kind, bytes)) if is_wanted(kind) => {
            write(&path, &bytes);
            bytes.len()
        }
        _ => 0,
    }
}

/// The executable or library that an image lies in, and where in it: bytes from where that begins in memory.
#[cold]
pub(crate) fn within_object(image: *const c_void) -> Option<(String, u64)> {
    let place = place_of(image)?;
    let address = core::ptr::with_exposed_provenance(usize::try_from(place).ok()?);
    // SAFETY: all zero is a valid answer, and any address may be asked about.
    let (found, about) = unsafe {
        let mut about: libc::Dl_info = core::mem::zeroed();
        (libc::dladdr(address, &raw mut about), about)
    };
    if found == 0 || about.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker's name of a loaded object, which lives as long as that.
    let name = unsafe { CStr::from_ptr(about.dli_fname) }.to_string_lossy().into_owned();
    let within = place.checked_sub(about.dli_fbase as u64)?;
    // The executable's name is what it was called, which a change of the directory makes wrong.
    if Path::new(&name).is_absolute() {
        return Some((name, within));
    }
    let own = std::env::current_exe()
        .ok()
        .filter(|own| own.file_name() == Path::new(&name).file_name())?;
    Some((own.to_string_lossy().into_owned(), within))
}
