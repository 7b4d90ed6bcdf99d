//! A launch kept for later, with copies of its arguments.
//!
//! The program's own arguments are gone when its call returns, so they are copied by
//! the sizes that the kernel's PTX declares. Of a kernel whose parameters are not
//! known no argument is kept.

use core::ptr::null_mut;
use std::sync::Arc;

use apex_cuda::types::*;

use crate::border::{Answer, get, list, put};
use crate::context::current;
use crate::kernel::{Entry, LibraryKernel, entry};
use crate::launch::{ARGUMENT_BYTES, check};
use crate::object::is;

/// A launch kept for later.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) function: CUfunction,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) arguments: Arc<Arguments>,
}

/// Copies of a launch's arguments, and the pointers to them that C wants. None where
/// the kernel's parameters are not known.
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

impl Arguments {
    /// # Safety
    ///
    /// The pointers are those of a launch of that entry.
    pub(crate) unsafe fn copy(
        entry: &Entry,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Result<Arguments, CUresult> {
        let Some(parameters) = &entry.parameters else { return Ok(Arguments::default()) };
        let length = parameters.last().map_or(0, |last| last.offset + last.bytes);
        let mut bytes = vec![0_u8; length].into_boxed_slice();
        // SAFETY: the caller vouches that the arguments are as the parameters say.
        unsafe {
            if !params.is_null() {
                for (parameter, &value) in parameters.iter().zip(list(params, parameters.len())?) {
                    let value = list(value.cast::<u8>(), parameter.bytes)?;
                    bytes[parameter.offset..][..parameter.bytes].copy_from_slice(value);
                }
            } else if !extra.is_null() {
                let buffer = packed(extra)?;
                let kept = buffer.len().min(length);
                bytes[..kept].copy_from_slice(&buffer[..kept]);
            }
        }
        let start = bytes.as_mut_ptr();
        let pointers = parameters.iter().map(|one| start.wrapping_add(one.offset).cast()).collect();
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

impl Launch {
    /// # Safety
    ///
    /// `params` is null or holds the parameters of a kernel node.
    pub(crate) unsafe fn read(params: *const CUDA_KERNEL_NODE_PARAMS) -> Result<Launch, CUresult> {
        // SAFETY: the caller vouches for `params`.
        unsafe {
            let mut launch = Launch::read_parts(params.cast())?;
            if launch.function.is_null() {
                launch.function = (*params).kern.cast();
            }
            launch.checked(params.cast())
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
        unsafe { Launch::read_parts(params)?.checked(params) }
    }

    unsafe fn read_parts(params: *const CUDA_KERNEL_NODE_PARAMS_v1) -> Result<Launch, CUresult> {
        // SAFETY: the caller vouches for `params`.
        let params = unsafe { get(params) }?;
        Ok(Launch {
            function: params.func,
            grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
            block: [params.blockDimX, params.blockDimY, params.blockDimZ],
            shared_bytes: params.sharedMemBytes,
            arguments: Arc::default(),
        })
    }

    unsafe fn checked(self, params: *const CUDA_KERNEL_NODE_PARAMS_v1) -> Result<Launch, CUresult> {
        // SAFETY: the caller vouches for `params`, which was read before.
        unsafe {
            let entry = entry(self.function)?;
            check(entry, self.grid, self.block, self.shared_bytes)?;
            let arguments = Arguments::copy(entry, (*params).kernelParams, (*params).extra)?;
            Ok(Launch { arguments: Arc::new(arguments), ..self })
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
