//! Launches: checked as the driver checks them, counted, and not run.
//!
//! A launch outside a capture takes no lock, makes no system call and allocates
//! nothing: what it costs is what a driver that does nothing would cost, so apex's
//! own cost can be measured against it. In a capture the arguments are copied,
//! because the program's are gone when the call returns.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use apex_cuda::types::*;

use crate::arguments::{Arguments, Launch};
use crate::border::{Answer, get, list};
use crate::context::current;
use crate::device::{MULTIPROCESSORS, THREADS_PER_BLOCK};
use crate::kernel::{Entry, entry};
use crate::object::lock;
use crate::occupancy::blocks_per_multiprocessor;
use crate::session::append;
use crate::stream::{Stream, for_work};
use crate::work::Work;

/// A launch put together one setting at a time.
pub(crate) struct Shape {
    block: [u32; 3],
    shared_bytes: u32,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { block: [1; 3], shared_bytes: 0 }
    }
}

static LAUNCHES: AtomicU64 = AtomicU64::new(0);

const GRID_LIMIT: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const BLOCK_LIMIT: [u32; 3] = [1024, 1024, 64];
/// The size of the argument buffer of a kernel.
pub(crate) const ARGUMENT_BYTES: usize = 32_764;
/// How many kernels were launched.
pub(crate) fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Counts one.
#[inline]
pub(crate) fn count() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

#[inline(always)]
pub(crate) fn check(entry: &Entry, grid: [u32; 3], block: [u32; 3], shared_bytes: u32) -> Answer {
    let inside = |size: [u32; 3], limit: [u32; 3]| {
        (1..=limit[0]).contains(&size[0])
            && (1..=limit[1]).contains(&size[1])
            && (1..=limit[2]).contains(&size[2])
    };
    let fits = inside(grid, GRID_LIMIT)
        && inside(block, BLOCK_LIMIT)
        && block[0] * block[1] * block[2] <= THREADS_PER_BLOCK
        && shared_bytes <= entry.dynamic_shared_bytes() as u32;
    if fits { Ok(()) } else { Err(CUDA_ERROR_INVALID_VALUE) }
}

/// # Safety
///
/// The pointers and handles are the program's.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "a launch is as wide as the driver's")]
unsafe fn launch(
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    let context = current()?;
    // SAFETY: the caller vouches for pointers and handles.
    unsafe {
        let entry = entry(function)?;
        check(entry, grid, block, shared_bytes)?;
        let needs_arguments = entry.parameters.as_ref().is_some_and(|known| !known.is_empty());
        let has_both = !params.is_null() && !extra.is_null();
        if has_both || (needs_arguments && params.is_null() && extra.is_null()) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        match for_work(context, stream)? {
            Some(stream) if stream.capture_status() != 0 => {
                let arguments = Arc::default();
                let launch = Launch { function, grid, block, shared_bytes, arguments };
                capture(stream, &launch, params, extra)
            }
            _ => {
                count();
                Ok(())
            }
        }
    }
}

/// # Safety
///
/// As for [`launch`].
#[cold]
#[inline(never)]
unsafe fn capture(
    stream: &Stream,
    launch: &Launch,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    // SAFETY: the caller vouches for pointers and handles.
    let arguments = unsafe { Arguments::copy(entry(launch.function)?, params, extra) }?;
    let kept = Launch { arguments: Arc::new(arguments), ..launch.clone() };
    append(Some(stream), Work::Kernel(kept))
}

/// A grid whose blocks wait for each other must fit on the device at once.
///
/// # Safety
///
/// The handle is the program's.
unsafe fn check_cooperative(
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
) -> Answer {
    // SAFETY: the caller vouches for the handle.
    let entry = unsafe { entry(function) }?;
    check(entry, grid, block, shared_bytes)?;
    let threads = (block[0] * block[1] * block[2]) as i32;
    let room = blocks_per_multiprocessor(threads, shared_bytes as usize) * MULTIPROCESSORS;
    let blocks = grid.iter().fold(1_u64, |product, &size| product.saturating_mul(size.into()));
    if blocks > room as u64 { Err(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE) } else { Ok(()) }
}

answers! {
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: u32, grid_y: u32, grid_z: u32,
        block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32,
        stream: CUstream,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, grid, block, shared_bytes, stream, params, extra)
    }

    #[inline]
    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let config = get(config)?;
        launch_with(&config, function, config.hStream, params, extra)
    }

    #[inline]
    fn cuLaunchKernelEx_ptsz(
        config: *const CUlaunchConfig,
        function: CUfunction,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let config = get(config)?;
        launch_with(&config, function, crate::stream::per_thread(config.hStream), params, extra)
    }

    #[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
    fn cuLaunchCooperativeKernel(
        function: CUfunction,
        grid_x: u32, grid_y: u32, grid_z: u32,
        block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32,
        stream: CUstream,
        params: *mut *mut c_void,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        check_cooperative(function, grid, block, shared_bytes)?;
        launch(function, grid, block, shared_bytes, stream, params, null_mut())
    }

    fn cuLaunchCooperativeKernelMultiDevice(all: *mut CUDA_LAUNCH_PARAMS, count: u32, _flags: u32) {
        for one in list(all, count as usize)? {
            let grid = [one.gridDimX, one.gridDimY, one.gridDimZ];
            let block = [one.blockDimX, one.blockDimY, one.blockDimZ];
            check_cooperative(one.function, grid, block, one.sharedMemBytes)?;
            let (shared_bytes, params) = (one.sharedMemBytes, one.kernelParams);
            launch(one.function, grid, block, shared_bytes, one.hStream, params, null_mut())?;
        }
        Ok(())
    }

    fn cuFuncSetBlockShape(function: CUfunction, x: i32, y: i32, z: i32) {
        let entry = entry(function)?;
        let block = [x as u32, y as u32, z as u32];
        check(entry, [1; 3], block, 0)?;
        lock(&entry.shape).block = block;
        Ok(())
    }

    fn cuFuncSetSharedSize(function: CUfunction, bytes: u32) {
        lock(&entry(function)?.shape).shared_bytes = bytes;
        Ok(())
    }

    fn cuParamSetSize(function: CUfunction, bytes: u32) {
        entry(function)?;
        argument(0, bytes as usize)
    }

    fn cuParamSeti(function: CUfunction, offset: i32, _value: u32) {
        entry(function)?;
        argument(offset, 4)
    }

    fn cuParamSetf(function: CUfunction, offset: i32, _value: f32) {
        entry(function)?;
        argument(offset, 4)
    }

    fn cuParamSetv(function: CUfunction, offset: i32, value: *mut c_void, bytes: u32) {
        entry(function)?;
        list(value.cast::<u8>(), bytes as usize)?;
        argument(offset, bytes as usize)
    }

    fn cuLaunch(function: CUfunction) {
        launch_shaped(function, 1, 1, null_mut())
    }

    fn cuLaunchGrid(function: CUfunction, width: i32, height: i32) {
        launch_shaped(function, width, height, null_mut())
    }

    fn cuLaunchGridAsync(function: CUfunction, width: i32, height: i32, stream: CUstream) {
        launch_shaped(function, width, height, stream)
    }
}

/// # Safety
///
/// The pointers and handles are the program's.
#[inline]
unsafe fn launch_with(
    config: &CUlaunchConfig,
    function: CUfunction,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    if config.numAttrs > 0 && config.attrs.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let grid = [config.gridDimX, config.gridDimY, config.gridDimZ];
    let block = [config.blockDimX, config.blockDimY, config.blockDimZ];
    // SAFETY: the caller vouches for pointers and handles.
    unsafe { launch(function, grid, block, config.sharedMemBytes, stream, params, extra) }
}

/// An argument set by itself is checked and dropped: no kernel will read it.
fn argument(offset: i32, bytes: usize) -> Answer {
    let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes));
    if end.is_some_and(|end| end <= ARGUMENT_BYTES) {
        Ok(())
    } else {
        Err(CUDA_ERROR_INVALID_VALUE)
    }
}

/// # Safety
///
/// The handles are the program's.
unsafe fn launch_shaped(function: CUfunction, width: i32, height: i32, stream: CUstream) -> Answer {
    let context = current()?;
    // SAFETY: the caller vouches for the handles.
    unsafe {
        let entry = entry(function)?;
        let shape = lock(&entry.shape);
        let (block, shared_bytes) = (shape.block, shape.shared_bytes);
        drop(shape);
        let grid = [width as u32, height as u32, 1];
        check(entry, grid, block, shared_bytes)?;
        match for_work(context, stream)? {
            Some(stream) if stream.capture_status() != 0 => {
                let arguments = Arc::default();
                let launch = Launch { function, grid, block, shared_bytes, arguments };
                append(Some(stream), Work::Kernel(launch))
            }
            _ => {
                count();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{cuStreamBeginCapture_v2, cuStreamEndCapture};
    use crate::context::tests::with_context;
    use crate::graph::cuGraphGetNodes;
    use crate::module::tests::ptx_function;
    use crate::node::cuGraphKernelNodeGetParams_v2;
    use crate::stream::{cuStreamCreate, cuStreamQuery};

    fn check_launch(grid: [u32; 3], block: [u32; 3], shared_bytes: u32, expected: CUresult) {
        let function = ptx_function(c"other");
        let none = null_mut();
        // SAFETY: the kernel takes no arguments.
        let result = unsafe {
            cuLaunchKernel(
                function,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shared_bytes,
                null_mut(),
                none,
                none,
            )
        };
        assert_eq!(result, expected, "{grid:?} {block:?} {shared_bytes}");
    }

    #[test]
    fn shapes_are_checked() {
        with_context(|| {
            check_launch([1, 1, 1], [1, 1, 1], 0, CUDA_SUCCESS);
            check_launch([i32::MAX as u32, 65_535, 1], [1024, 1, 1], 48 << 10, CUDA_SUCCESS);
            check_launch([0, 1, 1], [1, 1, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_launch([1, 65_536, 1], [1, 1, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_launch([1, 1, 1], [0, 1, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_launch([1, 1, 1], [1025, 1, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_launch([1, 1, 1], [32, 33, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_launch([1, 1, 1], [1, 1, 65], 0, CUDA_ERROR_INVALID_VALUE);
            check_launch([1, 1, 1], [1, 1, 1], 49 << 10, CUDA_ERROR_INVALID_VALUE);
        });
    }

    #[test]
    fn launches_are_counted_and_need_what_they_need() {
        with_context(|| {
            let function = ptx_function(c"add");
            let (mut address, mut number) = (7_u64, 9_u32);
            let mut params = [(&raw mut address).cast(), (&raw mut number).cast::<c_void>()];
            let none = null_mut();
            let before = launches();
            // SAFETY: the arguments are those of the kernel.
            unsafe {
                let go = |function, params| {
                    cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, null_mut(), params, none)
                };
                assert_eq!(go(function, params.as_mut_ptr()), CUDA_SUCCESS);
                assert_eq!(go(function, null_mut()), CUDA_ERROR_INVALID_VALUE);
                assert_eq!(go(null_mut(), null_mut()), CUDA_ERROR_INVALID_HANDLE);
            }
            assert!(launches() > before);
        });
    }

    #[test]
    fn a_captured_launch_keeps_its_arguments() {
        with_context(|| {
            let function = ptx_function(c"add");
            let (mut stream, mut graph, mut node) = (null_mut(), null_mut(), null_mut());
            let mut count = 1;
            // SAFETY: the arguments are those of the kernel and outlive the launch only.
            unsafe {
                assert_eq!(cuStreamCreate(&raw mut stream, 0), CUDA_SUCCESS);
                assert_eq!(cuStreamBeginCapture_v2(stream, 0), CUDA_SUCCESS);
                {
                    let (mut address, mut number) = (7_u64, 9_u32);
                    let mut params =
                        [(&raw mut address).cast(), (&raw mut number).cast::<c_void>()];
                    let launched = cuLaunchKernel(
                        function,
                        2,
                        1,
                        1,
                        32,
                        1,
                        1,
                        0,
                        stream,
                        params.as_mut_ptr(),
                        null_mut(),
                    );
                    assert_eq!(launched, CUDA_SUCCESS);
                }
                assert_eq!(cuStreamEndCapture(stream, &raw mut graph), CUDA_SUCCESS);
                assert_eq!(cuStreamQuery(stream), CUDA_SUCCESS);
                assert_eq!(cuGraphGetNodes(graph, &raw mut node, &raw mut count), CUDA_SUCCESS);
                let mut kept = core::mem::zeroed::<CUDA_KERNEL_NODE_PARAMS>();
                assert_eq!(cuGraphKernelNodeGetParams_v2(node, &raw mut kept), CUDA_SUCCESS);
                assert_eq!((kept.func, kept.gridDimX, kept.blockDimX), (function, 2, 32));
                assert_eq!((*kept.kernelParams).cast::<u64>().read_unaligned(), 7);
                assert_eq!((*kept.kernelParams.add(1)).cast::<u32>().read_unaligned(), 9);
            }
        });
    }
}
