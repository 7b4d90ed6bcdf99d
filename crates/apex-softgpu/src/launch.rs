//! Launches: checked as the driver checks them, and given to their stream.
//!
//! The arguments are copied, because the program's are gone when the call returns.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};

use apex_cuda::types::*;
use apex_policy::occupancy;

use crate::arguments::Launch;
use crate::border::{Answer, get, list};
use crate::context::current;
use crate::kernel::{Entry, LibraryKernel, entry};
use crate::library::module_of;
use crate::object::{is, live, lock};
use crate::work::{Work, submit};

/// A launch put together one setting at a time.
pub(crate) struct Shape {
    block: [u32; 3],
    shared_bytes: u32,
    arguments: Vec<u8>,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { block: [1; 3], shared_bytes: 0, arguments: Vec::new() }
    }
}

static LAUNCHES: AtomicU64 = AtomicU64::new(0);

const GRID_LIMIT: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const BLOCK_LIMIT: [u32; 3] = [1024, 1024, 64];
/// The size of the argument buffer of a kernel.
pub(crate) const ARGUMENT_BYTES: usize = 32_764;

/// How many kernels were launched in this process, graph nodes included.
pub fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Counts one.
#[inline]
pub(crate) fn count() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

/// Refuses a shape that the device or the kernel does not allow.
pub(crate) fn check(entry: &Entry, grid: [u32; 3], block: [u32; 3], shared_bytes: u32) -> Answer {
    let inside = |size: [u32; 3], limit: [u32; 3]| {
        size.iter().zip(limit).all(|(size, limit)| (1..=limit).contains(size))
    };
    if !inside(grid, GRID_LIMIT) || !inside(block, BLOCK_LIMIT) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let (kernel, chip) = (&entry.kernel, &entry.device.chip);
    let threads = block[0] * block[1] * block[2];
    let fits = threads <= chip.max_threads_per_block
        && threads <= kernel.max_threads
        && kernel.required_block.is_none_or(|required| required == block)
        && shared_bytes <= entry.dynamic_shared_bytes().max(usual_shared(entry));
    if !fits {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let registers = kernel.registers.next_multiple_of(8) * threads.next_multiple_of(32);
    if registers > chip.max_registers_per_block {
        return Err(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    }
    entry.check_supported()
}

/// What every launch may have, even where the program set a lower limit.
fn usual_shared(entry: &Entry) -> u32 {
    entry.device.chip.max_shared_per_block.saturating_sub(entry.kernel.static_shared)
}

/// # Safety
///
/// The pointers and handles are the program's.
unsafe fn launch(
    function: CUfunction,
    (grid, block): ([u32; 3], [u32; 3]),
    shared_bytes: u32,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    settings: &Settings,
) -> Answer {
    // SAFETY: the caller vouches for pointers and handles.
    unsafe {
        let function = on_current_device(function)?;
        let entry = entry(function)?;
        let launch = Launch::checked(function, entry, grid, block, shared_bytes)?;
        let launch = settings.apply(launch.with_arguments(params, extra)?, entry)?;
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
        let other = crate::module::function(module_of(kernel.library)?, &kernel.entry.name)?;
        kernel.entry.lend_settings(crate::kernel::entry(other)?);
        Ok(other)
    }
}

/// What a launch can have beside its shape.
#[derive(Default)]
struct Settings {
    cooperative: bool,
    cluster: Option<[u32; 3]>,
    /// Events recorded once the kernel is through.
    events: Vec<CUevent>,
}

const ATTRIBUTE_COOPERATIVE: u32 = 2;
const ATTRIBUTE_CLUSTER: u32 = 4;
const ATTRIBUTE_PROGRAMMATIC_EVENT: u32 = 7;
const ATTRIBUTE_COMPLETION_EVENT: u32 = 12;
const ATTRIBUTES: u32 = 18;

const _: () = assert!(size_of::<CUlaunchAttribute>() == size_of::<[u32; 18]>());

impl Settings {
    fn cooperative() -> Settings {
        Settings { cooperative: true, ..Settings::default() }
    }

    /// # Safety
    ///
    /// `attributes` begins as many attributes of a launch.
    unsafe fn read(
        attributes: *const CUlaunchAttribute,
        count: usize,
    ) -> Result<Settings, CUresult> {
        let mut settings = Settings::default();
        // An attribute is its number, padding, and 64 bytes of value. The others are
        // hints: order, priority, caches and domains change no result here.
        // SAFETY: the caller vouches for the attributes.
        for words in unsafe { list(attributes.cast::<[u32; 18]>(), count) }? {
            let pointer = u64::from(words[3]) << 32 | u64::from(words[2]);
            match words[0] {
                ATTRIBUTE_COOPERATIVE => settings.cooperative = words[2] != 0,
                ATTRIBUTE_CLUSTER => settings.cluster = Some([words[2], words[3], words[4]]),
                ATTRIBUTE_PROGRAMMATIC_EVENT | ATTRIBUTE_COMPLETION_EVENT => {
                    let event = core::ptr::with_exposed_provenance_mut(pointer as usize);
                    settings.events.push(event);
                }
                0..ATTRIBUTES => {}
                _ => return Err(CUDA_ERROR_INVALID_VALUE),
            }
        }
        Ok(settings)
    }

    fn apply(&self, launch: Launch, entry: &Entry) -> Result<Launch, CUresult> {
        let cluster = match (self.cluster, entry.kernel.cluster) {
            (Some(wanted), Some(fixed)) if wanted != fixed && fixed != [0; 3] => {
                return Err(CUDA_ERROR_INVALID_CLUSTER_SIZE);
            }
            (Some(wanted), _) => wanted,
            (None, _) => launch.cluster,
        };
        check_cluster(entry, launch.grid, cluster)?;
        let launch = Launch { cluster, cooperative: self.cooperative, ..launch };
        if self.cooperative {
            check_cooperative(entry, &launch)?;
        }
        Ok(launch)
    }
}

/// The cluster that a configuration asks for.
///
/// # Safety
///
/// The attributes of the configuration are there.
pub(crate) unsafe fn cluster_of(config: &CUlaunchConfig) -> Result<Option<[u32; 3]>, CUresult> {
    // SAFETY: the caller vouches for the attributes.
    Ok(unsafe { Settings::read(config.attrs, config.numAttrs as usize) }?.cluster)
}

fn check_cluster(entry: &Entry, grid: [u32; 3], cluster: [u32; 3]) -> Answer {
    if cluster == [1; 3] {
        return Ok(());
    }
    let blocks = cluster.iter().fold(1_u32, |product, &side| product.saturating_mul(side));
    let divides = grid.iter().zip(cluster).all(|(grid, side)| side > 0 && grid % side == 0);
    let has_clusters = entry.device.identity.capability.0 >= 9;
    if has_clusters && divides && blocks <= entry.largest_cluster() {
        Ok(())
    } else {
        Err(CUDA_ERROR_INVALID_CLUSTER_SIZE)
    }
}

/// A grid whose blocks wait for each other must fit on the device at once.
fn check_cooperative(entry: &Entry, launch: &Launch) -> Answer {
    let threads = launch.block.iter().product();
    let (chip, needs) = (&entry.device.chip, entry.needs(launch.shared_bytes));
    let each = u64::from(occupancy(chip, &needs, threads).blocks_per_sm);
    let room = each * u64::from(entry.device.identity.multiprocessors);
    let blocks =
        launch.grid.iter().fold(1_u64, |product, &size| product.saturating_mul(size.into()));
    if blocks > room { Err(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE) } else { Ok(()) }
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
        launch(function, shape, shared_bytes, stream, params, extra, &Settings::default())
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
        let shape = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, shape, shared_bytes, stream, params, null_mut(), &Settings::cooperative())
    }

    fn cuLaunchCooperativeKernelMultiDevice(all: *mut CUDA_LAUNCH_PARAMS, count: u32, _flags: u32) {
        for one in list(all, count as usize)? {
            let grid = [one.gridDimX, one.gridDimY, one.gridDimZ];
            let block = [one.blockDimX, one.blockDimY, one.blockDimZ];
            let (shared_bytes, params) = (one.sharedMemBytes, one.kernelParams);
            let settings = Settings::cooperative();
            launch(one.function, (grid, block), shared_bytes, one.hStream, params, null_mut(), &settings)?;
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
        let entry = entry(function)?;
        if bytes as usize > ARGUMENT_BYTES {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        lock(&entry.shape).arguments.resize(bytes as usize, 0);
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
        let settings = Settings::read(config.attrs, config.numAttrs as usize)?;
        launch(function, (grid, block), config.sharedMemBytes, stream, params, extra, &settings)
    }
}

/// Puts a value into the arguments that are set one by one.
fn set_argument(entry: &Entry, offset: i32, value: &[u8]) -> Answer {
    let offset = usize::try_from(offset).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let end = offset.checked_add(value.len()).filter(|&end| end <= ARGUMENT_BYTES);
    let end = end.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let mut shape = lock(&entry.shape);
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
        let shape = lock(&entry.shape);
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
    use crate::capture::{cuStreamBeginCapture_v2, cuStreamEndCapture};
    use crate::context::tests::with_context;
    use crate::graph::cuGraphGetNodes;
    use crate::module::tests::ptx_function;
    use crate::node::cuGraphKernelNodeGetParams_v2;
    use crate::stream::{cuStreamCreate, cuStreamQuery};

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
