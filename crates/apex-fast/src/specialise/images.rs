//! The code that the program loaded, kept for the PTX in it.
//!
//! The driver gives no text back, and a program may free what it has loaded. So a copy is kept of every image that is
//! not too large. Its texts are read by this layer's thread, when a kernel of it is studied.

use apex_core::outputs::hash;
use apex_cuda::image::{self, ImageKind};
use apex_cuda::types::{CUlibrary, CUmodule};
use apex_ptx::tree::Module;
use apex_ptx::{container, parse};
use core::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// Larger images are libraries of kernels that are tuned already; to copy them would be felt.
const MOST_BYTES: usize = 8 << 20;
/// Bytes of all kept images.
const MOST_BYTES_TOGETHER: usize = 64 << 20;

/// Under which handle code was loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A module.
    Module(u64),
    /// A library.
    Library(u64),
}

impl Owner {
    pub(super) fn module(module: CUmodule) -> Owner {
        Owner::Module(module as u64)
    }

    pub(super) fn library(library: CUlibrary) -> Owner {
        Owner::Library(library as u64)
    }
}

/// An image and what was read of it.
struct Image {
    owner: Owner,
    kind: ImageKind,
    bytes: Arc<[u8]>,
    /// Their hash, once somebody has asked.
    digest: Option<u64>,
    /// Its modules, once somebody has asked.
    modules: Option<Arc<[Arc<Module>]>>,
}

static IMAGES: Mutex<Vec<Image>> = Mutex::new(Vec::new());

fn with<T>(look: impl FnOnce(&mut Vec<Image>) -> T) -> T {
    look(&mut IMAGES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Code at an address was loaded.
pub(super) fn loaded(owner: Owner, address: *const c_void) {
    if let Some((kind, bytes)) = image::copy_at(address, MOST_BYTES) {
        keep(owner, kind, bytes);
    }
}

/// Code from a file was loaded.
pub(super) fn loaded_file(owner: Owner, path: *const c_char) {
    if path.is_null() {
        return;
    }
    // SAFETY: the driver has just read a file of this name.
    let Ok(path) = unsafe { CStr::from_ptr(path) }.to_str() else { return };
    let is_small = std::fs::metadata(path).is_ok_and(|file| file.len() <= MOST_BYTES as u64);
    if let (true, Ok(bytes)) = (is_small, std::fs::read(path))
        && let Some(found) = image::identify(&bytes)
    {
        keep(owner, found.kind, bytes);
    }
}

fn keep(owner: Owner, kind: ImageKind, bytes: Vec<u8>) {
    if kind == ImageKind::Cubin {
        return;
    }
    with(|images| {
        images.retain(|image| image.owner != owner);
        let together: usize = images.iter().map(|image| image.bytes.len()).sum();
        if together + bytes.len() <= MOST_BYTES_TOGETHER {
            images.push(Image { owner, kind, bytes: bytes.into(), digest: None, modules: None });
        }
    });
}

/// Code was unloaded.
pub(super) fn unloaded(owner: Owner) {
    with(|images| images.retain(|image| image.owner != owner));
}

/// The owner of a kernel's code and the module of PTX that has it; the reason where there is none, or none for sure.
///
/// `owner` is what the driver says. It may be the module that the driver keeps of a library in a context, which this
/// process never saw: then a library that alone has a kernel of this name is the one.
pub(super) fn find(
    owner: Owner,
    kernel: &str,
    device: u32,
) -> Result<(Owner, Arc<Module>), String> {
    let owners: Vec<Owner> = with(|images| images.iter().map(|image| image.owner).collect());
    let candidates: Vec<Owner> = if owners.contains(&owner) {
        vec![owner]
    } else {
        owners.into_iter().filter(|owner| matches!(owner, Owner::Library(_))).collect()
    };
    let mut found = Vec::new();
    for owner in candidates {
        for module in modules(owner, device).iter() {
            if apex_ptx::specialise::entry(module, kernel).is_some() {
                found.push((owner, module.clone()));
            }
        }
    }
    match (found.len(), found.pop()) {
        (1, Some(found)) => Ok(found),
        (0, _) => Err("its program carries no PTX of it that says what runs".to_owned()),
        _ => Err("several texts of its program have a kernel of this name".to_owned()),
    }
}

/// The hash of an image, if it is kept.
pub(super) fn digest(owner: Owner) -> Option<u64> {
    with(|images| {
        let image = images.iter_mut().find(|image| image.owner == owner)?;
        Some(*image.digest.get_or_insert_with(|| hash(&image.bytes)))
    })
}

fn modules(owner: Owner, device: u32) -> Arc<[Arc<Module>]> {
    let image = with(|images| {
        let image = images.iter().find(|image| image.owner == owner)?;
        Some((image.kind, image.bytes.clone(), image.modules.clone()))
    });
    let Some((kind, bytes, known)) = image else { return Arc::new([]) };
    if let Some(known) = known {
        return known;
    }
    let texts = match kind {
        ImageKind::Ptx => vec![String::from_utf8_lossy(&bytes).into_owned()],
        _ => container::running(&bytes, device),
    };
    let read: Arc<[Arc<Module>]> =
        texts.iter().filter_map(|text| Some(Arc::new(parse(text).ok()?))).collect();
    with(|images| {
        if let Some(image) = images.iter_mut().find(|image| image.owner == owner) {
            image.modules = Some(read.clone());
        }
    });
    read
}
