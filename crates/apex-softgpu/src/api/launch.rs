//! Launches: checked as the driver checks them, and given to their stream.
//!
//! The arguments are copied, because the program's are gone when the call returns.

use core::ptr::null_mut;

use apex_cuda::types::*;

use crate::border::{Answer, get, list};
use crate::module::kernel::{Entry, LibraryKernel, entry};
use crate::module::library::module_of;
use crate::object::{is, live, lock};
use crate::run::context::{current, current_device};
use crate::run::launch::{ARGUMENT_BYTES, Launch, check};
use crate::run::launch_attributes::LaunchAttributes;
use crate::run::work::Work;
use crate::submit::submit;

/// # Safety
///
/// The pointers and handles are the program's.
pub(crate) unsafe fn launch(
    function: CUfunction,
    (grid, block): ([u32; 3], [u32; 3]),
    shared_bytes: u32,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    settings: &LaunchAttributes,
) -> Answer {
    // SAFETY: the caller vouches for pointers and handles.
    unsafe {
        let function = on_current_device(function)?;
        let entry = entry(function)?;
        let launch = Launch::checked(function, entry, grid, block, shared_bytes)?;
        let launch = settings.apply(launch.with_arguments(params, extra)?, entry)?;
        if entry.is_first_launch() {
            // Within the call, as the driver loads a kernel: what is compiled later looks like the kernel's own time.
            apex_engine::prepare(&launch.for_engine(), &current()?.domain.engine());
        }
        submit(stream, Work::Kernel(launch))?;
        for &event in &settings.events {
            submit(stream, Work::Record(event))?;
        }
    }
    Ok(())
}

/// What to launch on the current device: a kernel of a library has one handle for all.
///
/// # Safety
///
/// The handle is the program's.
unsafe fn on_current_device(function: CUfunction) -> Result<CUfunction, CUresult> {
    let device = current()?.device;
    // SAFETY: the caller vouches for the handle.
    unsafe {
        if !is::<LibraryKernel, _>(function) {
            return Ok(function);
        }
        let kernel: &LibraryKernel = live(function)?;
        if core::ptr::eq(kernel.entry.device, device) {
            return Ok(function);
        }
        let other = crate::module::loaded::function(
            module_of(kernel.library, current_device)?,
            &kernel.entry.name,
        )?;
        kernel.entry.lend_settings(crate::module::kernel::entry(other)?);
        Ok(other)
    }
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
        let shape = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, shape, shared_bytes, stream, params, extra, &LaunchAttributes::default())
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
        launch_with(&config, function, crate::run::stream::per_thread(config.hStream), params, extra)
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
        let shape = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, shape, shared_bytes, stream, params, null_mut(), &LaunchAttributes::cooperative())
    }

    fn cuLaunchCooperativeKernelMultiDevice(all: *mut CUDA_LAUNCH_PARAMS, count: u32, _flags: u32) {
        for one in list(all, count as usize)? {
            let grid = [one.gridDimX, one.gridDimY, one.gridDimZ];
            let block = [one.blockDimX, one.blockDimY, one.blockDimZ];
            let (shared_bytes, params) = (one.sharedMemBytes, one.kernelParams);
            let settings = LaunchAttributes::cooperative();
            launch(one.function, (grid, block), shared_bytes, one.hStream, params, null_mut(), &settings)?;
        }
        Ok(())
    }

    fn cuFuncSetBlockShape(function: CUfunction, x: i32, y: i32, z: i32) {
        let entry = entry(function)?;
        let block = [x as u32, y as u32, z as u32];
        check(entry, [1; 3], block, 0)?;
        lock(&entry.staged).block = block;
        Ok(())
    }

    fn cuFuncSetSharedSize(function: CUfunction, bytes: u32) {
        lock(&entry(function)?.staged).shared_bytes = bytes;
        Ok(())
    }

    fn cuParamSetSize(function: CUfunction, bytes: u32) {
        let entry = entry(function)?;
        if bytes as usize > ARGUMENT_BYTES {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        lock(&entry.staged).arguments.resize(bytes as usize, 0);
        Ok(())
    }

    fn cuParamSeti(function: CUfunction, offset: i32, value: u32) {
        set_argument(entry(function)?, offset, &value.to_le_bytes())
    }

    fn cuParamSetf(function: CUfunction, offset: i32, value: f32) {
        set_argument(entry(function)?, offset, &value.to_le_bytes())
    }

    fn cuParamSetv(function: CUfunction, offset: i32, value: *mut c_void, bytes: u32) {
        set_argument(entry(function)?, offset, list(value.cast::<u8>(), bytes as usize)?)
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
    unsafe {
        let settings = LaunchAttributes::read(config.attrs, config.numAttrs as usize)?;
        launch(function, (grid, block), config.sharedMemBytes, stream, params, extra, &settings)
    }
}

/// Puts a value into the arguments that are set one by one.
fn set_argument(entry: &Entry, offset: i32, value: &[u8]) -> Answer {
    let offset = usize::try_from(offset).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let end = offset.checked_add(value.len()).filter(|&end| end <= ARGUMENT_BYTES);
    let end = end.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let mut shape = lock(&entry.staged);
    if shape.arguments.len() < end {
        shape.arguments.resize(end, 0);
    }
    shape.arguments[offset..end].copy_from_slice(value);
    Ok(())
}

/// # Safety
///
/// The handles are the program's.
unsafe fn launch_shaped(function: CUfunction, width: i32, height: i32, stream: CUstream) -> Answer {
    current()?;
    // SAFETY: the caller vouches for the handles.
    unsafe {
        let entry = entry(function)?;
        let shape = lock(&entry.staged);
        let grid = [width as u32, height as u32, 1];
        let launch = Launch::checked(function, entry, grid, shape.block, shape.shared_bytes)?;
        let launch = launch.with_block(&shape.arguments);
        drop(shape);
        submit(stream, Work::Kernel(launch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::capture::{cuStreamBeginCapture_v2, cuStreamEndCapture};
    use crate::api::context::tests::with_context;
    use crate::api::graph::cuGraphGetNodes;
    use crate::api::module::tests::ptx_function;
    use crate::api::node::cuGraphKernelNodeGetParams_v2;
    use crate::api::stream::{cuStreamCreate, cuStreamQuery};
    use crate::run::launch::launches;

    fn check_shape(grid: [u32; 3], block: [u32; 3], shared_bytes: u32, expected: CUresult) {
        // SAFETY: a handle that was given just now.
        let entry = unsafe { entry(ptx_function(c"other")) }.unwrap();
        let answer = check(entry, grid, block, shared_bytes);
        assert_eq!(
            answer.err().unwrap_or(CUDA_SUCCESS),
            expected,
            "{grid:?} {block:?} {shared_bytes}"
        );
    }

    #[test]
    fn shapes_are_checked() {
        with_context(|| {
            check_shape([1, 1, 1], [1, 1, 1], 0, CUDA_SUCCESS);
            check_shape([i32::MAX as u32, 65_535, 1], [1024, 1, 1], 48 << 10, CUDA_SUCCESS);
            check_shape([0, 1, 1], [1, 1, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_shape([1, 65_536, 1], [1, 1, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_shape([1, 1, 1], [0, 1, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_shape([1, 1, 1], [1025, 1, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_shape([1, 1, 1], [32, 33, 1], 0, CUDA_ERROR_INVALID_VALUE);
            check_shape([1, 1, 1], [1, 1, 65], 0, CUDA_ERROR_INVALID_VALUE);
            check_shape([1, 1, 1], [1, 1, 1], 49 << 10, CUDA_ERROR_INVALID_VALUE);
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
