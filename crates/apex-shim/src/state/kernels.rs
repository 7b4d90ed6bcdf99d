//! Knows the kernels of this process: a number each, and their facts, looked up once.
//!
//! A launch asks with the handle it was given. The first time, the driver is asked for everything
//! about the kernel, the facts are written and the handle is kept in a table that is read without a
//! lock. The handle may be a `CUfunction` or, with a newer runtime, a `CUkernel` in its place: where
//! the driver refuses the one form it is asked in the other.

use crate::driver::driver;
use crate::state::{
    handles::Handles,
    images::within_object,
    lock::{Lock, locked},
    process::{self, tell},
};
use apex_core::KernelId;
use apex_core::facts::{self, Fact};
use apex_cuda::image::ImageKind;
use apex_cuda::types::{
    CUDA_ERROR_INVALID_HANDLE, CUDA_SUCCESS, CUdevice, CUfunction, CUkernel, c_char, c_void,
};
use core::ffi::CStr;
use std::collections::HashMap;

static KERNELS: Handles = Handles::new();
static REGISTER: Lock<Option<Register>> = Lock::new(None);

#[derive(Default)]
struct Register {
    /// Number of each kernel by name, image and registers.
    kernels: HashMap<(String, u64, u64), u32>,
    /// Number of a kernel by its name alone; of several that share it, the last.
    names: HashMap<String, u32>,
    /// Handles that the table could not hold.
    odd: HashMap<u64, u32>,
    /// Image of each module and library.
    images: HashMap<u64, (u64, u64)>,
    /// Number of each image by hash and length.
    image_ids: HashMap<(u64, u64), u64>,
}

/// The number of the kernel behind a handle, if it was seen before.
#[inline(always)]
pub(crate) fn known(function: CUfunction) -> Option<KernelId> {
    KERNELS.get(function as u64).map(KernelId)
}

/// Where an image was loaded from.
pub(crate) enum Source {
    /// A file of its own.
    File(String),
    /// The program's memory.
    Memory(*const c_void),
}

/// An image of code was loaded under this handle. Returns its number in this process.
pub(crate) fn loaded(handle: u64, kind: ImageKind, bytes: u64, hash: u64, source: Source) -> u32 {
    let known = with_register(|register| {
        let next = register.image_ids.len() as u64 + 1;
        let id = *register.image_ids.entry((hash, bytes)).or_insert(next);
        register.images.insert(handle, (id, hash));
        (id, id == next)
    });
    let Some((id, is_new)) = known else { return 0 };
    if !is_new {
        return u32::try_from(id).unwrap_or(0);
    }
    let kind = match kind {
        ImageKind::Cubin => "cubin",
        ImageKind::Fatbin | ImageKind::Wrapper => "fatbin",
        ImageKind::Ptx => "ptx",
    };
    let (file, (object, within)) = match source {
        Source::File(file) => (file, Default::default()),
        Source::Memory(image) => (String::new(), within_object(image).unwrap_or_default()),
    };
    tell(&Fact::Image(facts::Image { id, kind: kind.into(), bytes, hash, file, object, within }));
    u32::try_from(id).unwrap_or(0)
}

/// Two handles stand for the same image.
pub(crate) fn same_image(handle: u64, known: u64) {
    with_register(|register| {
        if let Some(&image) = register.images.get(&known) {
            register.images.insert(handle, image);
        }
    });
}

/// Code was unloaded: its handles may come back as others'.
pub(crate) fn unloaded(handle: u64) {
    with_register(|register| {
        register.images.remove(&handle);
        register.odd.clear();
    });
    KERNELS.clear();
}

/// In a forked child: its facts file is its own, so every kernel is written again.
pub(crate) fn forget() {
    with_register(|register| {
        register.kernels.clear();
        register.names.clear();
        register.odd.clear();
        register.image_ids.clear();
    });
    KERNELS.clear();
}

/// The number of a kernel by its mangled name, for records that carry nothing else.
pub(crate) fn number_by_name(name: &str) -> KernelId {
    let found = with_register(|register| register.names.get(name).copied());
    KernelId(found.flatten().unwrap_or(0))
}

fn with_register<T>(part: impl FnOnce(&mut Register) -> T) -> Option<T> {
    Some(part(locked(&REGISTER)?.get_or_insert_default()))
}

/// A handle that got its number.
pub(crate) struct Named<'a> {
    /// The number.
    pub(crate) number: u32,
    /// Whether the kernel was never seen before, under this handle or another.
    pub(crate) is_new: bool,
    /// What the driver says of it.
    pub(crate) facts: &'a facts::Kernel,
}

/// Asks the driver for everything about a kernel, once. `named` hears of it before the facts are written.
#[cold]
pub(crate) fn look_up(function: CUfunction, named: impl FnOnce(&Named)) -> KernelId {
    let handle = function as u64;
    if process::current().is_none() {
        return KernelId(0);
    }
    if let Some(Some(number)) = with_register(|register| register.odd.get(&handle).copied()) {
        return KernelId(number);
    }
    // The driver is asked before the lock is taken: it may call back.
    let mut facts = describe(function);
    let owner = owner(function);
    let kept = with_register(|register| {
        let (image, hash) = register.images.get(&owner).copied().unwrap_or_default();
        let next = u32::try_from(register.kernels.len() + 1).unwrap_or(0);
        let key = (facts.name.clone(), hash, facts.registers);
        let number = *register.kernels.entry(key).or_insert(next);
        register.names.insert(facts.name.clone(), number);
        if KERNELS.get(handle).is_none() {
            KERNELS.insert(handle, number);
        }
        if KERNELS.get(handle).is_none() {
            register.odd.insert(handle, number);
        }
        (facts.image, facts.image_hash, facts.id) = (image, hash, u64::from(number));
        (number, number == next)
    });
    let Some((number, is_new)) = kept else { return KernelId(0) };
    named(&Named { number, is_new, facts: &facts });
    if is_new {
        tell(&Fact::Kernel(facts));
    }
    KernelId(number)
}

/// The name of a kernel, and the hash of the image it came from; 0 if that was loaded unseen.
pub(crate) fn identity(function: CUfunction) -> (String, u64) {
    let (name, owner) = (name(function), owner(function));
    let image = with_register(|register| register.images.get(&owner).copied()).flatten();
    (name, image.map_or(0, |(_, hash)| hash))
}

/// The module or library that a kernel came from.
fn owner(function: CUfunction) -> u64 {
    let mut module = core::ptr::null_mut();
    let mut library = core::ptr::null_mut();
    // SAFETY: a handle the program has just launched, valid places for the answers.
    unsafe {
        if (driver().cuFuncGetModule)(&raw mut module, function) == CUDA_SUCCESS {
            return module as u64;
        }
        (driver().cuKernelGetLibrary)(&raw mut library, function as CUkernel);
    }
    library as u64
}

fn describe(function: CUfunction) -> facts::Kernel {
    let mut device: CUdevice = 0;
    // SAFETY: a valid place for the answer.
    unsafe { (driver().cuCtxGetDevice)(&raw mut device) };
    let attribute = |number: u32| {
        let mut value = 0;
        // SAFETY: a handle the program has just launched and a valid place; a refusal leaves it.
        let result = unsafe { (driver().cuFuncGetAttribute)(&raw mut value, number, function) };
        if result != CUDA_SUCCESS {
            // SAFETY: as above, the handle being a kernel.
            unsafe {
                (driver().cuKernelGetAttribute)(
                    &raw mut value,
                    number,
                    function as CUkernel,
                    device,
                )
            };
        }
        i64::from(value)
    };
    let size = |number| u64::try_from(attribute(number)).unwrap_or(0);
    facts::Kernel {
        id: 0,
        name: name(function),
        max_threads: size(0),
        static_shared: size(1),
        constant: size(2),
        local: size(3),
        registers: size(4),
        ptx_version: size(5),
        binary_version: size(6),
        max_dynamic_shared: size(8),
        carveout: attribute(9),
        parameters: parameters(function),
        image: 0,
        image_hash: 0,
    }
}

fn name(function: CUfunction) -> String {
    let mut text: *const c_char = core::ptr::null();
    // SAFETY: a handle the program has just launched and a valid place; the string is the driver's
    // and lives as long as the code, it is copied at once.
    unsafe {
        if (driver().cuFuncGetName)(&raw mut text, function) != CUDA_SUCCESS {
            (driver().cuKernelGetName)(&raw mut text, function as CUkernel);
        }
        if text.is_null() {
            String::new()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

/// Offset and size of each parameter, alternating.
fn parameters(function: CUfunction) -> Vec<u64> {
    const MOST: usize = 4096;
    let mut found = Vec::new();
    for nth in 0..MOST {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: a handle the program has just launched and valid places; past the last parameter
        // the driver answers with an error.
        let result = unsafe {
            match (driver().cuFuncGetParamInfo)(function, nth, &raw mut offset, &raw mut size) {
                CUDA_ERROR_INVALID_HANDLE => (driver().cuKernelGetParamInfo)(
                    function as CUkernel,
                    nth,
                    &raw mut offset,
                    &raw mut size,
                ),
                answer => answer,
            }
        };
        if result != CUDA_SUCCESS {
            break;
        }
        found.extend([offset as u64, size as u64]);
    }
    found
}
