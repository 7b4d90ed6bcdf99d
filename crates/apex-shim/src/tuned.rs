//! Runs kernels with what a tuning says instead of what the program says.
//!
//! A tuning names kernels by name and code, and one device; whatever does not match runs unchanged. Hints are set
//! before a kernel's first launch, limits of registers when its image is loaded, another block at every launch
//! that it divides. If the driver refuses something of ours, the program's own call is made, a counter rises
//! and the reason is told once. Without a tuning nothing here is on the way of a launch.

use crate::exports::driver;
use crate::handles::Handles;
use crate::process::{guard, knobs, tell};
use crate::{kernels, outputs};
use apex_core::event::LaunchShape;
use apex_core::facts::{Fact, Failure};
use apex_core::tuning::{Kernel, Tuning};
use apex_cuda::types::*;
use apex_policy::tune::reshaped;
use core::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static TUNING: OnceLock<Option<Tuning>> = OnceLock::new();
/// Kernels that were looked at: one more than their place in the tuning, or 0.
static KERNELS: Handles = Handles::new();
static RESHAPED: AtomicU64 = AtomicU64::new(0);

const PREFERRED_CARVEOUT: u32 = 9;

/// The tuning, read once.
#[cold]
pub(crate) fn tuning() -> Option<&'static Tuning> {
    let tuning = TUNING.get_or_init(|| {
        let path = knobs().tuning.as_deref().filter(|_| knobs().enabled)?;
        // A program may outlive the session and its files: then there is nothing to apply.
        let text = std::fs::read_to_string(path).ok()?;
        let tuning = Tuning::read(&text);
        if tuning.is_none() {
            complain(&format!(
                "the tuning {} is not understood: nothing is changed",
                path.display()
            ));
        }
        tuning.filter(|tuning| !tuning.is_empty())
    });
    tuning.as_ref()
}

/// The shape that a launch gets instead of its own.
#[cold]
pub(crate) fn shape(kernel: CUfunction, shape: &LaunchShape, plain: bool) -> Option<LaunchShape> {
    guard(|| other_shape(kernel, shape, plain)).flatten()
}

fn other_shape(kernel: CUfunction, shape: &LaunchShape, plain: bool) -> Option<LaunchShape> {
    let handle = kernel as u64;
    let place = KERNELS.get(handle).unwrap_or_else(|| {
        let place = prepare(kernel);
        KERNELS.insert(handle, place);
        place
    });
    let tuned = tuning()?.kernels.get((place as usize).checked_sub(1)?)?;
    let side = |list: &[u64], nth: usize| u32::try_from(*list.get(nth)?).ok();
    let block = |list: &[u64]| Some([side(list, 0)?, side(list, 1)?, side(list, 2)?]);
    let (from, to) = (block(&tuned.from)?, block(&tuned.to)?);
    // What was proved holds for plain launches without shared memory.
    if !plain || shape.block.map(u32::from) != from || shape.dynamic_shared != 0 {
        return None;
    }
    let own = apex_policy::LaunchShape { grid: shape.grid, block: from };
    let mut grid = reshaped(&own, to)?.grid;
    if knobs().fault.as_deref() == Some("short-grid") {
        grid[0] = (grid[0] - 1).max(1);
    }
    let block = to.map(|side| side as u16);
    Some(LaunchShape { grid, block, ..*shape })
}

/// A launch went down with another shape.
#[cold]
pub(crate) fn was_reshaped() {
    let nth = RESHAPED.fetch_add(1, Ordering::Relaxed) + 1;
    // Every launch would be a system call more.
    if nth.is_power_of_two() {
        outputs::count(|outputs| outputs.reshaped = nth);
    }
}

/// The driver refused something of ours: told, once for each thing of this sort.
#[cold]
pub(crate) fn was_refused(what: &str, result: CUresult) {
    outputs::count(|outputs| outputs.refused += 1);
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        complain(&format!(
            "the driver refused {what} of the tuning ({result}): the program's own is used"
        ));
    }
}

/// Code was unloaded: its handles may come back as others'.
pub(crate) fn forget() {
    KERNELS.clear();
}

/// The place of a kernel in the tuning, counted from one; its hints are set.
#[cold]
fn prepare(kernel: CUfunction) -> u32 {
    let Some(tuning) = tuning() else { return 0 };
    if kernel.is_null() {
        return 0;
    }
    let (name, hash) = kernels::identity(kernel);
    let Some(nth) = tuning.kernels.iter().position(|tuned| tuned.name == name) else { return 0 };
    let tuned = &tuning.kernels[nth];
    if tuned.image_hash != hash {
        complain(&format!("the tuning of {name} is for other code: it is ignored"));
        return 0;
    }
    if !is_device(&tuning.device) {
        complain(&format!("the tuning is for another device, {}: it is ignored", tuning.device));
        return 0;
    }
    hint(kernel, tuned);
    u32::try_from(nth + 1).unwrap_or(0)
}

fn hint(kernel: CUfunction, tuned: &Kernel) {
    let mut device: CUdevice = 0;
    // SAFETY: a valid place for the answer.
    unsafe { (driver().cuCtxGetDevice)(&raw mut device) };
    let told = |what: &str, result: CUresult| match result {
        CUDA_SUCCESS => outputs::count(|outputs| outputs.hinted += 1),
        refused => was_refused(what, refused),
    };
    if let Some(&percent) = tuned.carveout.first() {
        let percent = i32::try_from(percent).unwrap_or(-1);
        // SAFETY: a kernel that the program is about to launch; a newer runtime gives it in the other form.
        let result = unsafe {
            match (driver().cuFuncSetAttribute)(kernel, PREFERRED_CARVEOUT, percent) {
                CUDA_ERROR_INVALID_HANDLE => (driver().cuKernelSetAttribute)(
                    PREFERRED_CARVEOUT,
                    percent,
                    kernel as CUkernel,
                    device,
                ),
                answer => answer,
            }
        };
        told("a carve-out", result);
    }
    if let Some(&cache) = tuned.cache.first() {
        let cache = u32::try_from(cache).unwrap_or(0);
        // SAFETY: as above.
        let result = unsafe {
            match (driver().cuFuncSetCacheConfig)(kernel, cache) {
                CUDA_ERROR_INVALID_HANDLE => {
                    (driver().cuKernelSetCacheConfig)(kernel as CUkernel, cache, device)
                }
                answer => answer,
            }
        };
        told("a cache preference", result);
    }
}

/// Whether the current device has this name.
pub(crate) fn is_device(wanted: &str) -> bool {
    let mut device: CUdevice = 0;
    let mut name = [0; 256];
    // SAFETY: valid places of the sizes given; the last byte of `name` stays NUL.
    let name = unsafe {
        let result = (driver().cuCtxGetDevice)(&raw mut device);
        // A library may be loaded before there is a context: then the first device is meant.
        if result != CUDA_SUCCESS {
            (driver().cuDeviceGet)(&raw mut device, 0);
        }
        (driver().cuDeviceGetName)(name.as_mut_ptr(), 255, device);
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    };
    name == wanted
}

fn complain(sentence: &str) {
    tell(&Fact::Failure(Failure { sentence: sentence.into() }));
}
