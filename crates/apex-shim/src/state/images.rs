//! Keeps the code that a program loads, for whoever reads it when the program has ended.
//!
//! A file of each image, named by its hash, so that two processes with the same code keep it once. Machine code is left
//! out: nobody here reads it. A file that was cut short does not have the hash that its name says, so its reader sees it.

use crate::state::outputs::write;
use apex_core::facts::image_file;
use apex_cuda::image::{ImageKind, copy_at};
use apex_cuda::types::c_void;
use std::path::Path;

/// Keeps an image of at most so many bytes; says how many were written.
#[cold]
pub(crate) fn keep(folder: &Path, image: *const c_void, hash: u64, most: usize) -> usize {
    let path = folder.join(image_file(hash));
    if path.exists() {
        return 0;
    }
    match copy_at(image, most) {
        Some((kind, bytes)) if kind != ImageKind::Cubin => {
            write(&path, &bytes);
            bytes.len()
        }
        _ => 0,
    }
}
