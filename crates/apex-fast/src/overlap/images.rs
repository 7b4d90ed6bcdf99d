//! The images of code that the program has loaded, by the handles that they have.
//!
//! An image is copied when it is loaded, for its memory is the program's. Its text is read when a kernel of it is asked for
//! the first time.

use apex_cuda::image::{ImageKind, copy_at};
use apex_ptx::tree::{Function, Module};
use apex_ptx::{container, parse};
use core::ffi::c_void;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bytes of an image that is kept at most.
const LARGEST: usize = 8 << 20;
/// Bytes of a text that is read at most.
const LONGEST: usize = 2 << 20;

/// An image.
pub(super) struct Image {
    kind: ImageKind,
    bytes: Vec<u8>,
    module: OnceLock<Option<Module>>,
    /// Variables of the device's memory that its kernels name, with the numbers they were given.
    variables: Mutex<HashMap<String, u64>>,
}

static IMAGES: Mutex<Option<HashMap<u64, Arc<Image>>>> = Mutex::new(None);
static VARIABLES: AtomicU64 = AtomicU64::new(0);

/// An image was loaded from the program's memory under this handle.
pub(super) fn loaded(handle: u64, at: *const c_void) {
    if let Some((kind, bytes)) = copy_at(at, LARGEST) {
        keep(handle, kind, bytes);
    }
}

/// An image was loaded from a file.
pub(super) fn loaded_file(handle: u64, path: &std::path::Path) {
    let is_small = std::fs::metadata(path).is_ok_and(|file| file.len() <= LARGEST as u64);
    if let Some(bytes) = is_small.then(|| std::fs::read(path).ok()).flatten() {
        let mut ended = bytes;
        ended.push(0);
        loaded(handle, ended.as_ptr().cast());
    }
}

fn keep(handle: u64, kind: ImageKind, bytes: Vec<u8>) {
    let variables = Mutex::default();
    let image = Arc::new(Image { kind, bytes, module: OnceLock::new(), variables });
    with(|images| images.insert(handle, image));
}

/// Another handle stands for the same image.
pub(super) fn same(handle: u64, known: u64) {
    with(|images| {
        if let Some(image) = images.get(&known).cloned() {
            images.insert(handle, image);
        }
    });
}

/// A handle has ended.
pub(super) fn unloaded(handle: u64) {
    with(|images| images.remove(&handle));
}

/// The image of a handle.
pub(super) fn find(handle: u64) -> Option<Arc<Image>> {
    with(|images| images.get(&handle).cloned())
}

fn with<T>(look: impl FnOnce(&mut HashMap<u64, Arc<Image>>) -> T) -> T {
    let mut images = IMAGES.lock().unwrap_or_else(PoisonError::into_inner);
    look(images.get_or_insert_with(HashMap::new))
}

impl Image {
    /// The text that a device of this capability runs, and a kernel in it.
    pub(super) fn kernel(&self, name: &str, capability: u32) -> Option<(&Module, &Function)> {
        let module = self.module.get_or_init(|| self.read(capability)).as_ref()?;
        let kernel = module.functions().find(|function| &*function.name == name)?;
        Some((module, kernel))
    }

    /// The one text that says what runs. Several that were linked with each other share variables under other names.
    fn read(&self, capability: u32) -> Option<Module> {
        let text = match self.kind {
            ImageKind::Ptx => String::from_utf8_lossy(&self.bytes).into_owned(),
            ImageKind::Fatbin => {
                let mut texts = container::running(&self.bytes, capability);
                let [_] = texts[..] else { return None };
                texts.pop()?
            }
            ImageKind::Cubin | ImageKind::Wrapper => return None,
        };
        (text.len() <= LONGEST).then(|| parse(text.trim_end_matches('\0')).ok()).flatten()
    }

    /// Where a variable of the device's memory is thought to lie: nowhere that memory is, and the same for all kernels.
    pub(super) fn variable(&self, name: &str) -> u64 {
        let mut variables = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        let next = || VARIABLES.fetch_add(1, Ordering::Relaxed);
        (1 << 62) + (*variables.entry(name.to_owned()).or_insert_with(next) << 40)
    }
}
