//! Runs kernels with what a tuning says instead of what the program says.
//!
//! A tuning names kernels by name and code, and one device; whatever does not match runs unchanged. Hints are set
//! before a kernel's first launch, limits of registers when its image is loaded, another block at every launch
//! that it divides. If the driver refuses something of ours, the program's own call is made, a counter rises
//! and the reason is reported once. Without a tuning nothing here is on the way of a launch.

mod compile;
mod refusal;

use crate::driver::driver;
use crate::settings::knobs;
use crate::state::shape::grid_and_block;
use crate::state::tuning::{complain, is_device, tuning};
use crate::state::{handles::Handles, kernels, outputs, process::guard};
use apex_core::event::LaunchShape;
use apex_core::tuning::Kernel;
use apex_cuda::types::*;
use apex_policy::tune::reshaped;
pub(crate) use compile::load;
use refusal::was_refused;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kernels that were looked at: one more than their place in the tuning, or 0.
static LOOKED_AT: Handles = Handles::new();
static RESHAPED: AtomicU64 = AtomicU64::new(0);

const PREFERRED_CARVEOUT: u32 = 9;

/// The shape that a launch gets instead of its own.
#[cold]
pub(crate) fn shape(kernel: CUfunction, shape: &LaunchShape, plain: bool) -> Option<LaunchShape> {
    guard(|| other_shape(kernel, shape, plain)).flatten()
}

fn other_shape(kernel: CUfunction, shape: &LaunchShape, plain: bool) -> Option<LaunchShape> {
    let handle = kernel as u64;
    let place = LOOKED_AT.get(handle).unwrap_or_else(|| {
        let place = prepare(kernel);
        LOOKED_AT.insert(handle, place);
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
    let mut grid = reshaped(&grid_and_block(shape), to)?.grid;
    if knobs().fault.as_deref() == Some("short-grid") {
        grid[0] = (grid[0] - 1).max(1);
    }
    let block = to.map(|side| side as u16);
    Some(LaunchShape { grid, block, ..*shape })
}

/// Launches as the tuning says, or as the program says if the driver refuses that: a refused launch ran nothing.
#[cold]
pub(crate) fn either(other: impl FnOnce() -> CUresult, own: impl FnOnce() -> CUresult) -> CUresult {
    match other() {
        CUDA_SUCCESS => {
            was_reshaped();
            CUDA_SUCCESS
        }
        refused => {
            was_refused("a block", refused);
            own()
        }
    }
}

/// A launch went down with another shape.
#[cold]
fn was_reshaped() {
    let nth = RESHAPED.fetch_add(1, Ordering::Relaxed) + 1;
    // Every launch would be a system call more.
    if nth.is_power_of_two() {
        outputs::count(|outputs| outputs.reshaped = nth);
    }
}

/// Code was unloaded: its handles may come back as others'.
pub(crate) fn code_unloaded() {
    LOOKED_AT.clear();
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
    let count = |what: &str, result: CUresult| match result {
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
        count("a carve-out", result);
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
        count("a cache preference", result);
    }
}
