//! What is known of the program's kernels: asked once, answered by a thread that reads their texts.

use super::images::{self, Image};
use apex_cuda::Driver;
use apex_cuda::types::*;
use apex_ptx::touches::{Barrier, Touches};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A kernel whose launches can be followed.
pub(super) struct Followed {
    pub(super) touches: Touches,
    /// Where each variable of its module is thought to lie.
    pub(super) variables: Vec<u64>,
}

/// What is known of a kernel.
pub(super) type Answer = Result<Arc<Followed>, Barrier>;

/// A kernel that is asked for.
struct Question {
    handle: u64,
    image: Arc<Image>,
    name: String,
    capability: u32,
    parameters: Vec<(u32, u32)>,
    epoch: u64,
}

#[derive(Default)]
struct Kernels {
    /// `None` while the thread looks.
    known: HashMap<u64, Option<Answer>>,
    /// Kernels by the functions that were made of them.
    made_of: HashMap<u64, u64>,
    waiting: Vec<Question>,
    is_at_work: bool,
}

static KERNELS: Mutex<Option<Kernels>> = Mutex::new(None);
/// Rises when handles end.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Answers that were given so far.
static SETTLED: AtomicU64 = AtomicU64::new(0);
/// Bytes of the thread's stack: texts may be nested.
const STACK: usize = 4 << 20;

/// How many answers were given so far.
pub(crate) fn settled() -> u64 {
    SETTLED.load(Ordering::SeqCst)
}

/// Handles of functions may mean other kernels from now on.
pub(super) fn forget() {
    EPOCH.fetch_add(1, Ordering::SeqCst);
    with(|kernels| {
        kernels.known.clear();
        kernels.made_of.clear();
        kernels.waiting.clear();
    });
}

/// A function was made of a kernel.
pub(super) fn made_of(function: u64, kernel: u64) {
    with(|kernels| kernels.made_of.insert(function, kernel));
}

/// What is known of a kernel that was launched; `None` while it is not known yet. `node` is the function that it is launched
/// by in graphs, which may be another handle than the program's.
pub(super) fn ask(
    function: CUfunction,
    node: CUfunction,
    parameters: &[(u32, u32)],
    driver: &Driver,
) -> Option<Answer> {
    let handle = node as u64;
    if let Some(known) = with(|kernels| kernels.known.get(&handle).cloned()) {
        return known;
    }
    let epoch = EPOCH.load(Ordering::SeqCst);
    let question = question(function, node, driver).map(|(image, name)| {
        let (capability, parameters) = (capability(driver), parameters.to_vec());
        Question { handle, image, name, capability, parameters, epoch }
    });
    let Some(question) = question else {
        with(|kernels| kernels.known.insert(handle, Some(Err(Barrier::Text))));
        return Some(Err(Barrier::Text));
    };
    let must_begin = with(|kernels| {
        kernels.known.insert(handle, None);
        kernels.waiting.push(question);
        !std::mem::replace(&mut kernels.is_at_work, true)
    });
    if must_begin && !crate::threads::begin("apex-follow", STACK, work) {
        with(|kernels| kernels.is_at_work = false);
    }
    None
}

/// The image and the name of a kernel.
fn question(
    function: CUfunction,
    node: CUfunction,
    driver: &Driver,
) -> Option<(Arc<Image>, String)> {
    let mut name = core::ptr::null();
    let mut module = core::ptr::null_mut();
    // SAFETY: a function that the driver has launched, and a valid place for the answer.
    if unsafe { (driver.cuFuncGetModule)(&raw mut module, node) } == CUDA_SUCCESS
        && let Some(image) = images::find(module as u64)
    {
        // SAFETY: as above.
        let result = unsafe { (driver.cuFuncGetName)(&raw mut name, node) };
        return (result == CUDA_SUCCESS).then(|| text(name)).flatten().map(|name| (image, name));
    }
    let known = with(|kernels| kernels.made_of.get(&(node as u64)).copied());
    let kernel = known.unwrap_or(function as u64) as CUkernel;
    if known.is_none() && function == node {
        return None;
    }
    let mut library = core::ptr::null_mut();
    // SAFETY: a kernel's handle, by which the program launches or has asked for the function, and a valid place.
    let result = unsafe { (driver.cuKernelGetLibrary)(&raw mut library, kernel) };
    let image = (result == CUDA_SUCCESS).then(|| images::find(library as u64)).flatten()?;
    // SAFETY: as above.
    let result = unsafe { (driver.cuKernelGetName)(&raw mut name, kernel) };
    (result == CUDA_SUCCESS).then(|| text(name)).flatten().map(|name| (image, name))
}

fn text(name: *const core::ffi::c_char) -> Option<String> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the driver's own text, which lives as long as the function.
    let name = unsafe { core::ffi::CStr::from_ptr(name) };
    name.to_str().ok().map(str::to_owned)
}

/// The capability of the current device.
fn capability(driver: &Driver) -> u32 {
    const MAJOR: u32 = 75;
    const MINOR: u32 = 76;
    let mut device = 0;
    // SAFETY: valid places for the answers.
    unsafe {
        if (driver.cuCtxGetDevice)(&raw mut device) != CUDA_SUCCESS {
            return 0;
        }
        let attribute = |which: u32| {
            let mut value = 0;
            let result = (driver.cuDeviceGetAttribute)(&raw mut value, which, device);
            if result == CUDA_SUCCESS { value.unsigned_abs() } else { 0 }
        };
        10 * attribute(MAJOR) + attribute(MINOR)
    }
}

/// Answers until nobody asks any more.
fn work() {
    loop {
        let question = with(|kernels| {
            let question = kernels.waiting.pop();
            kernels.is_at_work = question.is_some();
            question
        });
        let Some(question) = question else { return };
        let answer = follow(&question);
        with(|kernels| {
            if question.epoch == EPOCH.load(Ordering::SeqCst) {
                kernels.known.insert(question.handle, Some(answer));
            }
        });
        SETTLED.fetch_add(1, Ordering::SeqCst);
    }
}

fn follow(question: &Question) -> Answer {
    let found = question.image.kernel(&question.name, question.capability);
    let (module, kernel) = found.ok_or(Barrier::Text)?;
    let touches = Touches::new(module, kernel)?;
    // What the driver runs has the parameters that the text has.
    if touches.parameters() != question.parameters {
        return Err(Barrier::Text);
    }
    let variables = touches.variables().map(|name| question.image.variable(name)).collect();
    Ok(Arc::new(Followed { touches, variables }))
}

fn with<T>(look: impl FnOnce(&mut Kernels) -> T) -> T {
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    look(kernels.get_or_insert_with(Kernels::default))
}
