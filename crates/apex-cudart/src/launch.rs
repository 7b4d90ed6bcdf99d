//! Kernels given to a stream.
//!
//! `kernel<<<…>>>(…)` is compiled to a push of the configuration, a call of the
//! kernel's host function, and there a pop and a launch: by host function in CUDA 12
//! and with clang, by kernel handle in CUDA 13. Evaluating the arguments may launch
//! other kernels in between, so configurations are stacked, per thread.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr::null_mut;

use apex_cuda::Driver;
use apex_cuda::types::{
    CUDA_ERROR_INVALID_VALUE, CUDA_LAUNCH_PARAMS, CUdevice_attribute, CUfunction, CUkernel,
    CUlaunchAttribute, CUlaunchConfig, CUresult, CUstream,
};

use crate::border::{Answer, check, get, guarded, own_stream, put};
use crate::context::{current, device, device_of};
use crate::errors::{
    Error, cudaErrorInvalidConfiguration, cudaErrorInvalidDeviceFunction, cudaErrorInvalidValue,
    cudaErrorMissingConfiguration,
};
use crate::registry::{self, Code, Handle};

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

/// `cudaLaunchConfig_t`. The attributes are laid out like the driver's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: CUstream,
    attributes: *mut CUlaunchAttribute,
    attribute_count: u32,
}

/// `cudaLaunchParams`, of launches on several devices at once.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchParams {
    func: *const c_void,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared_bytes: usize,
    stream: CUstream,
}

/// What stands between `<<<` and `>>>`.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: CUstream,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// The handle as the driver's launching functions take it: they know a kernel's from
/// a function's.
pub(crate) fn launchable(code: Code) -> CUfunction {
    match code {
        Code::Kernel(kernel) => kernel.cast(),
        Code::Function(function) => function,
    }
}

/// The driver's `u32` for a count of bytes.
fn narrow(bytes: usize) -> Result<u32, Error> {
    u32::try_from(bytes).map_err(|_| cudaErrorInvalidValue)
}

/// The driver calls every bad argument invalid; the runtime tells a bad shape apart.
fn shape_checked(driver: &Driver, result: CUresult, grid: Dim3, block: Dim3) -> Answer {
    if result == CUDA_ERROR_INVALID_VALUE && !fits(driver, grid, block) {
        return Err(cudaErrorInvalidConfiguration);
    }
    check(result)
}

/// Whether the device can run such a shape at all.
fn fits(driver: &Driver, grid: Dim3, block: Dim3) -> bool {
    let Ok(device) = device(driver).and_then(|ordinal| device_of(driver, ordinal)) else {
        return true;
    };
    let limit = |attribute: CUdevice_attribute| {
        let mut value = i32::MAX;
        // SAFETY: the value can be written; an unknown attribute leaves it as it is.
        unsafe { (driver.cuDeviceGetAttribute)(&raw mut value, attribute, device) };
        u64::try_from(value).unwrap_or(0)
    };
    let sides = [block.x, block.y, block.z, grid.x, grid.y, grid.z].map(u64::from);
    let threads = sides[..3].iter().product::<u64>();
    let is_within = |(side, attribute): (&u64, u32)| (1..=limit(attribute)).contains(side);
    threads <= limit(1) && sides.iter().zip(2..=7).all(is_within)
}

/// # Safety
///
/// `arguments` is what the kernel's parameters ask for.
unsafe fn launch(
    driver: &Driver,
    code: Code,
    Configuration { grid, block, shared_bytes, stream }: Configuration,
    arguments: *mut *mut c_void,
) -> Answer {
    let shared = narrow(shared_bytes)?;
    // SAFETY: the caller vouches for the arguments.
    let result = unsafe {
        (driver.cuLaunchKernel)(
            launchable(code),
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            shared,
            stream,
            arguments,
            null_mut(),
        )
    };
    shape_checked(driver, result, grid, block)
}

/// The driver's form of a launch configuration.
pub(crate) fn driver_config(config: &LaunchConfig) -> Result<CUlaunchConfig, Error> {
    Ok(CUlaunchConfig {
        gridDimX: config.grid.x,
        gridDimY: config.grid.y,
        gridDimZ: config.grid.z,
        blockDimX: config.block.x,
        blockDimY: config.block.y,
        blockDimZ: config.block.z,
        sharedMemBytes: narrow(config.shared_bytes)?,
        hStream: config.stream,
        attrs: config.attributes,
        numAttrs: config.attribute_count,
    })
}

/// # Safety
///
/// As for the exported functions that come here.
unsafe fn launch_with(
    config: LaunchConfig,
    func: *const c_void,
    arguments: *mut *mut c_void,
) -> Answer {
    let driver = current()?;
    let function = launchable(registry::code(driver, func)?);
    let given = driver_config(&config)?;
    // SAFETY: the caller vouches for attributes and arguments.
    let result =
        unsafe { (driver.cuLaunchKernelEx)(&raw const given, function, arguments, null_mut()) };
    shape_checked(driver, result, config.grid, config.block)
}

runtime! {
    fn cudaLaunchKernel / cudaLaunchKernel_ptsz(
        func: *const c_void,
        grid: Dim3,
        block: Dim3,
        arguments: *mut *mut c_void,
        shared_bytes: usize,
        stream: CUstream,
    ) {
        let driver = current()?;
        let code = registry::code(driver, func)?;
        launch(driver, code, Configuration { grid, block, shared_bytes, stream }, arguments)
    }

    fn __cudaLaunchKernel / __cudaLaunchKernel_ptsz(
        kernel: CUkernel,
        grid: Dim3,
        block: Dim3,
        arguments: *mut *mut c_void,
        shared_bytes: usize,
        stream: CUstream,
    ) {
        let driver = current()?;
        let code = registry::code(driver, kernel.cast_const().cast())?;
        launch(driver, code, Configuration { grid, block, shared_bytes, stream }, arguments)
    }

    fn __cudaGetKernel(out: *mut CUkernel, host: *const c_void) {
        // The compiler's code asks once and launches what it got, whatever the answer
        // was. With the host function for a handle, each launch tries again and fails
        // with the true reason.
        put(out, host.cast_mut().cast())?;
        put(out, kernel(host)?)
    }

    fn cudaGetKernel(out: *mut CUkernel, host: *const c_void) {
        put(out, kernel(host)?)
    }

    fn cudaGetFuncBySymbol(out: *mut CUfunction, host: *const c_void) {
        let driver = current()?;
        let function = crate::function::function(driver, registry::code(driver, host)?)?;
        registry::add_handle(function, Handle::Function, host);
        put(out, function)
    }

    fn cudaLaunchKernelExC(
        config: *const LaunchConfig,
        func: *const c_void,
        arguments: *mut *mut c_void,
    ) {
        launch_with(get(config)?, func, arguments)
    }

    fn cudaLaunchKernelExC_ptsz(
        config: *const LaunchConfig,
        func: *const c_void,
        arguments: *mut *mut c_void,
    ) {
        let config = get(config)?;
        launch_with(LaunchConfig { stream: own_stream(config.stream), ..config }, func, arguments)
    }

    fn cudaLaunchCooperativeKernel / cudaLaunchCooperativeKernel_ptsz(
        func: *const c_void,
        grid: Dim3,
        block: Dim3,
        arguments: *mut *mut c_void,
        shared_bytes: usize,
        stream: CUstream,
    ) {
        let driver = current()?;
        let function = launchable(registry::code(driver, func)?);
        let result = (driver.cuLaunchCooperativeKernel)(
            function,
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            narrow(shared_bytes)?,
            stream,
            arguments,
        );
        shape_checked(driver, result, grid, block)
    }

    fn cudaLaunchCooperativeKernelMultiDevice(list: *mut LaunchParams, count: u32, flags: u32) {
        let driver = current()?;
        let mut launches = Vec::with_capacity(count as usize);
        for index in 0..count as usize {
            let LaunchParams { func, grid, block, arguments, shared_bytes, stream } =
                get(list.wrapping_add(index).cast_const())?;
            launches.push(CUDA_LAUNCH_PARAMS {
                function: launchable(registry::code(driver, func)?),
                gridDimX: grid.x,
                gridDimY: grid.y,
                gridDimZ: grid.z,
                blockDimX: block.x,
                blockDimY: block.y,
                blockDimZ: block.z,
                sharedMemBytes: narrow(shared_bytes)?,
                hStream: stream,
                kernelParams: arguments,
            });
        }
        check((driver.cuLaunchCooperativeKernelMultiDevice)(launches.as_mut_ptr(), count, flags))
    }

    fn __cudaPopCallConfiguration(
        grid: *mut Dim3,
        block: *mut Dim3,
        shared_bytes: *mut usize,
        stream_out: *mut c_void,
    ) {
        let popped = CONFIGURATIONS.try_with(|stack| stack.try_borrow_mut().ok()?.pop());
        let configuration = popped.ok().flatten().ok_or(cudaErrorMissingConfiguration)?;
        put(grid, configuration.grid)?;
        put(block, configuration.block)?;
        put(shared_bytes, configuration.shared_bytes)?;
        put(stream_out.cast::<CUstream>(), configuration.stream)
    }
}

fn kernel(host: *const c_void) -> Result<CUkernel, Error> {
    match registry::code(current()?, host)? {
        Code::Kernel(kernel) => Ok(kernel),
        Code::Function(_) => Err(cudaErrorInvalidDeviceFunction),
    }
}

/// Answers 0 when the configuration was taken and the kernel may be called.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: CUstream,
) -> u32 {
    let push = || {
        let configuration = Configuration { grid, block, shared_bytes, stream };
        let pushed = CONFIGURATIONS
            .try_with(|stack| stack.try_borrow_mut().map(|mut stack| stack.push(configuration)));
        u32::from(!matches!(pushed, Ok(Ok(()))))
    };
    guarded(push, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::cudaSuccess;
    use crate::last_error;

    const ONE: Dim3 = Dim3 { x: 1, y: 2, z: 3 };

    fn pop() -> (Error, usize) {
        let (mut grid, mut block, mut bytes) = (ONE, ONE, 0);
        let mut stream: CUstream = null_mut();
        // SAFETY: all four can be written.
        let error = unsafe {
            __cudaPopCallConfiguration(
                &raw mut grid,
                &raw mut block,
                &raw mut bytes,
                (&raw mut stream).cast(),
            )
        };
        (error, bytes)
    }

    #[test]
    fn configurations_are_stacked() {
        assert_eq!(__cudaPushCallConfiguration(ONE, ONE, 10, null_mut()), 0);
        assert_eq!(__cudaPushCallConfiguration(ONE, ONE, 20, null_mut()), 0);
        assert_eq!(pop(), (cudaSuccess, 20));
        assert_eq!(pop(), (cudaSuccess, 10));
        assert_eq!(pop().0, cudaErrorMissingConfiguration);
        last_error::clear();
    }

    #[test]
    fn a_launch_configuration_keeps_its_layout() {
        assert_eq!(size_of::<LaunchConfig>(), size_of::<CUlaunchConfig>());
        assert_eq!(size_of::<LaunchParams>(), 56);
        assert!(narrow(1 << 32).is_err());
    }
}
