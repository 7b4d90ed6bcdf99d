//! A launch, checked as the driver checks it, with copies of its arguments.
//!
//! The program's own arguments are gone when its call returns. So they are copied by the
//! sizes that the kernel declares, into one block as the engine wants it.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use apex_cuda::types::*;
use apex_engine::Kernel;
use apex_policy::launchable::{BLOCK_LIMIT, GRID_LIMIT};

use crate::border::{Answer, get, list, put};
use crate::module::kernel::{Entry, LibraryKernel, entry};
use crate::object::is;
use crate::run::context::current;

/// A launch kept for later.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) function: CUfunction,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) cluster: [u32; 3],
    pub(crate) cooperative: bool,
    pub(crate) arguments: Arc<Arguments>,
}

/// Copies of a launch's arguments, and the pointers to them that C wants.
#[derive(Default)]
pub(crate) struct Arguments {
    pointers: Box<[*mut c_void]>,
    bytes: Box<[u8]>,
}

// SAFETY: the pointers lead into `bytes`, and neither changes once made.
unsafe impl Send for Arguments {}
// SAFETY: as above.
unsafe impl Sync for Arguments {}

const EXTRA_END: usize = 0;
const EXTRA_BUFFER: usize = 1;
const EXTRA_SIZE: usize = 2;
/// The size of the argument buffer of a kernel.
pub(crate) const ARGUMENT_BYTES: usize = 32_764;

static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// How many kernels were launched in this process, graph nodes included.
pub fn launches() -> u64 {
    LAUNCHES.load(Ordering::Relaxed)
}

/// Counts one.
#[inline]
pub(crate) fn count() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

impl Launch {
    /// # Safety
    ///
    /// `params` is null or holds the parameters of a kernel node.
    pub(crate) unsafe fn read(params: *const CUDA_KERNEL_NODE_PARAMS) -> Result<Launch, CUresult> {
        // SAFETY: the caller vouches for `params`; the shorter form is its beginning.
        unsafe {
            let short = get(params.cast::<CUDA_KERNEL_NODE_PARAMS_v1>())?;
            let function = if short.func.is_null() { (*params).kern.cast() } else { short.func };
            Launch::of(function, &short)
        }
    }

    /// As [`Launch::read`], for the form without kernels.
    ///
    /// # Safety
    ///
    /// `params` is null or holds the parameters of a kernel node.
    pub(crate) unsafe fn read_short(
        params: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> Result<Launch, CUresult> {
        // SAFETY: the caller vouches for `params`.
        unsafe {
            let params = get(params)?;
            Launch::of(params.func, &params)
        }
    }

    unsafe fn of(
        function: CUfunction,
        params: &CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> Result<Launch, CUresult> {
        let grid = [params.gridDimX, params.gridDimY, params.gridDimZ];
        let block = [params.blockDimX, params.blockDimY, params.blockDimZ];
        // SAFETY: the caller vouches for the handle and the arguments.
        unsafe {
            let entry = entry(function)?;
            let launch = Launch::checked(function, entry, grid, block, params.sharedMemBytes)?;
            launch.with_arguments(params.kernelParams, params.extra)
        }
    }

    /// A launch without its arguments, checked as the driver checks it.
    pub(crate) fn checked(
        function: CUfunction,
        entry: &Entry,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
    ) -> Result<Launch, CUresult> {
        check(entry, grid, block, shared_bytes)?;
        Ok(Launch {
            function,
            kernel: Arc::clone(&entry.kernel),
            grid,
            block,
            shared_bytes,
            cluster: entry.cluster().unwrap_or([1; 3]),
            cooperative: false,
            arguments: Arc::default(),
        })
    }

    /// # Safety
    ///
    /// The pointers are those of a launch of that kernel.
    pub(crate) unsafe fn with_arguments(
        self,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Result<Launch, CUresult> {
        // SAFETY: the caller vouches for the pointers.
        let arguments = unsafe { Arguments::copy(&self.kernel, params, extra) }?;
        Ok(Launch { arguments: Arc::new(arguments), ..self })
    }

    /// With arguments that were put together before.
    pub(crate) fn with_block(self, block: &[u8]) -> Launch {
        let mut bytes = vec![0; self.kernel.param_bytes as usize].into_boxed_slice();
        let kept = block.len().min(bytes.len());
        bytes[..kept].copy_from_slice(&block[..kept]);
        Launch { arguments: Arc::new(Arguments { pointers: Box::default(), bytes }), ..self }
    }

    /// The launch as the engine wants it.
    pub(crate) fn for_engine(&self) -> apex_engine::Launch {
        apex_engine::Launch {
            kernel: Arc::clone(&self.kernel),
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.shared_bytes,
            params: self.arguments.bytes.to_vec(),
            cooperative: self.cooperative,
            cluster: self.cluster,
        }
    }

    /// # Safety
    ///
    /// `out` is null or can be written. The pointers given live as long as the node.
    pub(crate) unsafe fn write(&self, out: *mut CUDA_KERNEL_NODE_PARAMS) -> Answer {
        // SAFETY: the caller vouches for `out`; the shorter form is its beginning.
        unsafe {
            self.write_short(out.cast())?;
            let is_kernel = is::<LibraryKernel, _>(self.function);
            (*out).func = if is_kernel { null_mut() } else { self.function };
            (*out).kern = if is_kernel { self.function.cast() } else { null_mut() };
            (*out).ctx = current().map_or(null_mut(), |context| context.handle());
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for [`Launch::write`].
    pub(crate) unsafe fn write_short(&self, out: *mut CUDA_KERNEL_NODE_PARAMS_v1) -> Answer {
        let pointers = &self.arguments.pointers;
        let params = if pointers.is_empty() { null_mut() } else { pointers.as_ptr().cast_mut() };
        debug_assert!(pointers.is_empty() || !self.arguments.bytes.is_empty());
        // SAFETY: the caller vouches for `out`.
        unsafe {
            put(
                out,
                CUDA_KERNEL_NODE_PARAMS_v1 {
                    func: self.function,
                    gridDimX: self.grid[0],
                    gridDimY: self.grid[1],
                    gridDimZ: self.grid[2],
                    blockDimX: self.block[0],
                    blockDimY: self.block[1],
                    blockDimZ: self.block[2],
                    sharedMemBytes: self.shared_bytes,
                    kernelParams: params,
                    extra: null_mut(),
                },
            )
        }
    }
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
    if threads > entry.threads_by_registers {
        return Err(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    }
    entry.check_supported()
}

/// What every launch may have, even where the program set a lower limit.
fn usual_shared(entry: &Entry) -> u32 {
    entry.device.chip.max_shared_per_block.saturating_sub(entry.kernel.static_shared)
}

impl Arguments {
    /// # Safety
    ///
    /// The pointers are those of a launch of that entry.
    pub(crate) unsafe fn copy(
        kernel: &Kernel,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Result<Arguments, CUresult> {
        let parameters = &kernel.params;
        let length = kernel.param_bytes as usize;
        let mut bytes = vec![0_u8; length].into_boxed_slice();
        let (has_params, has_extra) = (!params.is_null(), !extra.is_null());
        if (has_params && has_extra) || (!parameters.is_empty() && !has_params && !has_extra) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller vouches that the arguments are as the parameters say.
        unsafe {
            if has_params {
                for (parameter, &value) in parameters.iter().zip(list(params, parameters.len())?) {
                    let (offset, size) = (parameter.offset as usize, parameter.bytes as usize);
                    let value = list(value.cast::<u8>(), size)?;
                    let place = bytes.get_mut(offset..offset + size);
                    place.ok_or(CUDA_ERROR_INVALID_VALUE)?.copy_from_slice(value);
                }
            } else if has_extra {
                let buffer = packed(extra)?;
                let kept = buffer.len().min(length);
                bytes[..kept].copy_from_slice(&buffer[..kept]);
            }
        }
        let start = bytes.as_mut_ptr();
        let pointers =
            parameters.iter().map(|one| start.wrapping_add(one.offset as usize).cast()).collect();
        Ok(Arguments { pointers, bytes })
    }
}

/// The argument buffer that a list of extra options names.
///
/// # Safety
///
/// `extra` is such a list, ended as C demands.
unsafe fn packed<'a>(extra: *mut *mut c_void) -> Result<&'a [u8], CUresult> {
    let (mut buffer, mut size) = (core::ptr::null::<u8>(), 0);
    let mut at = extra;
    // SAFETY: the caller vouches for the list; each option but the last has a value.
    unsafe {
        loop {
            match at.read().addr() {
                EXTRA_END => break,
                EXTRA_BUFFER => buffer = at.add(1).read().cast(),
                EXTRA_SIZE => size = get(at.add(1).read().cast::<usize>())?,
                _ => return Err(CUDA_ERROR_INVALID_VALUE),
            }
            at = at.add(2);
        }
        list(buffer, size.min(ARGUMENT_BYTES))
    }
}
