//! Launches of a latency program with the highest priority, where the GPU's own scheduler can use it.
//!
//! Under MPS blocks of several programs compete for the multiprocessors, and those of a higher priority are
//! placed first. A stream's priority cannot be changed, and the default stream has none; a launch's own can be
//! said with the launch. So the driver's entry for a plain launch is replaced, in the table that all calls go
//! through, by one that says the same launch in its longer form. Where the driver refuses that form once, the
//! old entry comes back and the launch is made by it.

use crate::driver::{self, driver, load};
use crate::settings::knobs;
use apex_cuda::Function;
use apex_cuda::types::*;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The kind of attribute that is a priority.
const PRIORITY: u32 = 8;

static HIGHEST: AtomicI32 = AtomicI32::new(0);
/// The driver's own entries: plain, and for the per-thread default stream.
static PLAIN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// From here on launches of this process are of the highest priority.
pub(super) fn raise() {
    let longer = |name| load::loaded().is_some_and(|loaded| loaded.has(name));
    if !knobs().launch_priority || !longer(c"cuLaunchKernelEx") || !longer(c"cuLaunchKernelEx_ptsz")
    {
        return;
    }
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: valid places for the answers.
    unsafe { (driver().cuCtxGetStreamPriorityRange)(&raw mut least, &raw mut greatest) };
    if greatest >= least {
        return;
    }
    HIGHEST.store(greatest, Ordering::Relaxed);
    let entries = [
        (Function::cuLaunchKernel, launch as *const c_void),
        (Function::cuLaunchKernel_ptsz, launch_ptsz as *const c_void),
    ];
    for ((function, ours), plain) in entries.into_iter().zip(&PLAIN) {
        let there = driver().address(function) as usize;
        if plain.compare_exchange(0, there, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: a function of the same signature.
            unsafe { driver::replace(function, ours) };
        }
    }
}

macro_rules! launches {
    ($($name:ident, $function:ident, $longer:ident, $place:literal;)*) => { $(
        #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
        unsafe extern "C" fn $name(
            kernel: CUfunction,
            grid_x: u32, grid_y: u32, grid_z: u32,
            block_x: u32, block_y: u32, block_z: u32,
            shared_bytes: u32,
            stream: CUstream,
            arguments: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CUresult {
            // SAFETY: all-zero attributes and configs are valid.
            let mut attribute: CUlaunchAttribute = unsafe { core::mem::zeroed() };
            // SAFETY: as above.
            let mut config: CUlaunchConfig = unsafe { core::mem::zeroed() };
            // SAFETY: the kind is written as the number it is, and the value that belongs to it.
            unsafe { (&raw mut attribute.id).cast::<u32>().write(PRIORITY) };
            attribute.value.priority = HIGHEST.load(Ordering::Relaxed);
            (config.gridDimX, config.gridDimY, config.gridDimZ) = (grid_x, grid_y, grid_z);
            (config.blockDimX, config.blockDimY, config.blockDimZ) = (block_x, block_y, block_z);
            config.sharedMemBytes = shared_bytes;
            config.hStream = stream;
            config.attrs = &raw mut attribute;
            config.numAttrs = 1;
            // SAFETY: the program's own arguments, in a config that outlives the call.
            let result = unsafe {
                (driver().$longer)(&raw const config, kernel, arguments, extra)
            };
            if !matches!(result, CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_NOT_SUPPORTED) {
                return result;
            }
            // SAFETY: the address that stood in the table; what was refused was not launched.
            unsafe {
                let plain = PLAIN[$place].load(Ordering::Acquire) as *const c_void;
                driver::replace(Function::$function, plain);
                (driver().$function)(
                    kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                    arguments, extra,
                )
            }
        }
    )* };
}

launches! {
    launch, cuLaunchKernel, cuLaunchKernelEx, 0;
    launch_ptsz, cuLaunchKernel_ptsz, cuLaunchKernelEx_ptsz, 1;
}
