//! Loads the real driver at the first CUDA call and learns its addresses.
//!
//! The driver is opened by its absolute path only: by name it would be this library. Where none is
//! found every function answers `CUDA_ERROR_NO_DEVICE`, and where the driver is older than a name of
//! the table that function answers `CUDA_ERROR_NOT_FOUND`, as `cuGetProcAddress` would.
//!
//! The map from a real address to our entry makes the answers of `cuGetProcAddress` ours without
//! knowing anything about names and versions: all exports of a driver have distinct addresses, and
//! every address it hands out is one of them (checked on drivers 535, 550 and 580).

use super::own::own_path;
use super::table::{driver, set_driver};
use super::{capability, stand_ins};
use crate::settings::{knobs, log_line};
use apex_core::knobs::{Fast, Knobs};
use apex_cuda::types::{
    CUDA_ERROR_NO_DEVICE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_INITIALIZED, CUresult,
};
use apex_cuda::{Function, Library};
use core::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A loaded driver, or the lack of one.
pub(crate) struct Loaded {
    /// The library; none where no driver could be opened.
    pub(crate) library: Option<Library>,
    /// Its path, for the facts.
    pub(crate) path: PathBuf,
    /// Real address and own entry of each function that is seen, sorted by the former.
    translation: Vec<(usize, usize)>,
}

/// Our own entry for a function.
pub(crate) type OwnEntry = fn(Function) -> *const c_void;

static LOADED: OnceLock<Loaded> = OnceLock::new();

/// Process and thread that are loading; 0 when nobody is.
static LOADING: AtomicU64 = AtomicU64::new(0);

/// The loaded driver, once it is.
pub(crate) fn loaded() -> Option<&'static Loaded> {
    LOADED.get()
}

/// Where the stub of function `number` jumps on to. Loads the driver if nobody has.
/// `own_entry` says which function of ours takes its calls.
pub(crate) fn real_address(number: usize, own_entry: OwnEntry) -> *const c_void {
    let function = u16::try_from(number).ok().and_then(Function::from_index);
    match (function, load_once(own_entry)) {
        (Some(function), true) => driver().address(function),
        // The driver's own loading called us: it is not there yet.
        _ => not_initialized as *const c_void,
    }
}

/// The driver's answer to a question about its own export; ours where we see the function.
pub(crate) fn translate(real: *mut c_void) -> *mut c_void {
    let Some(loaded) = loaded().filter(|_| !real.is_null()) else { return real };
    match loaded.translation.binary_search_by_key(&(real as usize), |&(address, _)| address) {
        Ok(nth) => loaded.translation[nth].1 as *mut c_void,
        Err(_) => {
            // What the table does not name cannot be told to wait for its turn.
            apex_fast::unknown_function();
            real
        }
    }
}

/// `false` if this very thread is in the middle of loading.
fn load_once(own_entry: OwnEntry) -> bool {
    let me = own_number();
    loop {
        if loaded().is_some() {
            return true;
        }
        match LOADING.compare_exchange(0, me, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => break,
            Err(owner) if owner == me => return false,
            // The thread that was loading stayed behind in the parent of a fork.
            Err(owner) if owner >> 32 != me >> 32 => {
                LOADING.compare_exchange(owner, 0, Ordering::Relaxed, Ordering::Relaxed).ok();
            }
            // SAFETY: gives up the processor until the other thread is done.
            Err(_) => unsafe {
                libc::sched_yield();
            },
        }
    }
    if loaded().is_none() {
        load(own_entry);
    }
    LOADING.store(0, Ordering::Release);
    true
}

fn load(own_entry: OwnEntry) {
    let knobs = knobs();
    let (library, path) = match open(knobs.real_libcuda.as_deref()) {
        Ok((library, path)) => (Some(library), path),
        Err(sentence) => {
            log_line(&sentence);
            (None, PathBuf::new())
        }
    };
    let mut addresses = [no_device as *const c_void; Function::COUNT];
    let mut translation = Vec::new();
    if let Some(library) = &library {
        for (slot, &function) in addresses.iter_mut().zip(Function::ALL) {
            let Some(real) = library.symbol(function.c_name()) else {
                *slot = not_found as *const c_void;
                continue;
            };
            *slot = real;
            let is_seen = function.hooked().is_some() || knobs.fast.any();
            if knobs.enabled && is_seen {
                translation.push((real as usize, own_entry(function) as usize));
            }
        }
        if let Some(capability) = knobs.device_capability.filter(|_| knobs.enabled) {
            // SAFETY: the addresses come from the driver by the table's own names.
            translation.extend(unsafe { capability::claim(&mut addresses, capability) });
        }
        translation.sort_unstable();
    }
    // Read here: a child between `fork` and `exec` may only look.
    stand_ins::are_there();
    // SAFETY: the addresses come from the driver by the table's own names, or are functions that
    // return a result and look at no argument.
    unsafe {
        if knobs.enabled && library.is_some() {
            apex_fast::raise(&mut addresses, fast(knobs));
        }
        set_driver(&addresses);
    }
    LOADED.set(Loaded { library, path, translation }).ok();
}

/// The accelerators that the program is given. One that shares the GPU under the scheduler has no queue: the gate decides
/// at each launch, and what waits in a queue would go later than it said.
fn fast(knobs: &Knobs) -> Fast {
    let is_blocking = knobs.launch_blocking.as_deref().is_some_and(|value| value != "0");
    Fast {
        launch: knobs.fast.launch && knobs.class.is_none(),
        strict: knobs.fast.strict || is_blocking,
        ..knobs.fast
    }
}

fn open(named: Option<&Path>) -> Result<(Library, PathBuf), String> {
    const USUAL: [&str; 6] = [
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "/usr/lib64/libcuda.so.1",
        "/usr/lib/libcuda.so.1",
        "/usr/local/nvidia/lib64/libcuda.so.1",
        "/usr/local/cuda/compat/libcuda.so.1",
        "/usr/lib/wsl/lib/libcuda.so.1",
    ];
    let candidates = match named {
        Some(path) => vec![path.to_owned()],
        None => USUAL.iter().map(PathBuf::from).filter(|path| is_foreign(path)).collect(),
    };
    for path in candidates {
        // SAFETY: the user, or the place where the system keeps it, says that this is the driver.
        match unsafe { Library::open(&path) } {
            Ok(library) => return Ok((library, path)),
            Err(error) if named.is_some() => {
                return Err(format!("{error}; CUDA calls answer NO_DEVICE"));
            }
            Err(_) => {}
        }
    }
    Err("no NVIDIA driver was found; CUDA calls answer NO_DEVICE (see apex doctor)".into())
}

/// A file that exists and is not this library under another name.
fn is_foreign(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let found = identity(path);
    found.is_some()
        && found != own_path().and_then(|own| identity(Path::new(&*own.to_string_lossy())))
}

impl Loaded {
    /// Whether the real driver has this name.
    pub(crate) fn has(&self, name: &CStr) -> bool {
        self.library.as_ref().is_some_and(|library| library.symbol(name).is_some())
    }

    /// Whether the real driver is the software GPU.
    pub(crate) fn is_soft(&self) -> bool {
        self.has(c"apex_softgpu_function")
    }
}

/// Process and thread in one number.
fn own_number() -> u64 {
    // SAFETY: plain system calls.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    u64::from(process.cast_unsigned()) << 32 | u64::from(thread.cast_unsigned())
}

extern "C" fn no_device() -> CUresult {
    CUDA_ERROR_NO_DEVICE
}

extern "C" fn not_found() -> CUresult {
    CUDA_ERROR_NOT_FOUND
}

extern "C" fn not_initialized() -> CUresult {
    CUDA_ERROR_NOT_INITIALIZED
}
