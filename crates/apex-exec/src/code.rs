//! Modules and functions of the driver: loaded, looked up, asked about themselves.

use crate::calls::{Handle, call, check};
use crate::context::Context;
use crate::error::{Error, Result};
use apex_cuda::types::*;
use core::ffi::CStr;
use cudarc::driver::sys;
use std::sync::Arc;

/// A function of the driver; whoever has one holds its [`Code`] too.
pub(crate) type FunctionHandle = Handle<sys::CUfunc_st>;

/// A module of the driver, unloaded when nobody holds it any more.
pub(crate) struct Code {
    raw: Handle<sys::CUmod_st>,
    context: Arc<Context>,
}

impl Code {
    /// Loads an image: PTX with its NUL, or a whole image of another kind. An error comes with the driver's log.
    pub(crate) fn load(
        context: &Arc<Context>,
        image: &[u8],
    ) -> core::result::Result<Code, (Error, String)> {
        context.bind().map_err(|error| (error, String::new()))?;
        let mut raw = core::ptr::null_mut();
        let mut log = vec![0_u8; 8192];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER as u32,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as u32,
        ];
        let mut values =
            [log.as_mut_ptr().cast(), core::ptr::without_provenance_mut(log.len() - 1)];
        // SAFETY: the image is whole, as its kind says; the log has as many bytes as the driver is told, and
        // one more that stays 0.
        let result = unsafe {
            (context.driver.cuModuleLoadDataEx)(
                &raw mut raw,
                image.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        check("cuModuleLoadDataEx", result).map_err(|error| {
            let text = CStr::from_bytes_until_nul(&log).unwrap_or_default();
            (error, text.to_string_lossy().trim().to_owned())
        })?;
        Ok(Code { raw: Handle(raw), context: context.clone() })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// A kernel by its name, if there is one.
    pub(crate) fn function(&self, name: &CStr) -> Result<Option<FunctionHandle>> {
        self.context.bind()?;
        let mut raw = core::ptr::null_mut();
        // SAFETY: an out-pointer to a local; the module is loaded and the name ends with a NUL.
        let result = unsafe {
            (self.context.driver.cuModuleGetFunction)(&raw mut raw, self.raw.0, name.as_ptr())
        };
        match result {
            CUDA_ERROR_NOT_FOUND => Ok(None),
            result => check("cuModuleGetFunction", result).map(|()| Some(Handle(raw))),
        }
    }

    /// One attribute of a kernel.
    pub(crate) fn attribute(
        &self,
        function: FunctionHandle,
        attribute: sys::CUfunction_attribute,
    ) -> Result<u32> {
        self.context.bind()?;
        let mut value = 0;
        // SAFETY: an out-pointer to a local; the function is of this module.
        unsafe {
            call!(
                self.context.driver,
                cuFuncGetAttribute(&raw mut value, attribute as u32, function.0)
            )?;
        }
        Ok(value.cast_unsigned())
    }

    /// Bytes of each parameter; none where the driver does not say.
    pub(crate) fn parameter_bytes(&self, function: FunctionHandle) -> Result<Option<Vec<u32>>> {
        self.context.bind()?;
        let mut sizes = Vec::new();
        loop {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: out-pointers to locals; the function is of this module.
            let result = unsafe {
                (self.context.driver.cuFuncGetParamInfo)(
                    function.0,
                    sizes.len(),
                    &raw mut offset,
                    &raw mut size,
                )
            };
            match result {
                CUDA_SUCCESS => sizes.push(u32::try_from(size).unwrap_or(u32::MAX)),
                CUDA_ERROR_INVALID_VALUE => return Ok(Some(sizes)),
                CUDA_ERROR_NOT_FOUND | CUDA_ERROR_NOT_SUPPORTED => return Ok(None),
                other => return check("cuFuncGetParamInfo", other).map(|()| None),
            }
        }
    }

    /// Blocks that a multiprocessor holds at once.
    pub(crate) fn occupancy(
        &self,
        function: FunctionHandle,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<u32> {
        self.context.bind()?;
        let mut blocks = 0;
        // SAFETY: an out-pointer to a local; the function is of this module.
        unsafe {
            call!(
                self.context.driver,
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &raw mut blocks,
                    function.0,
                    threads.cast_signed(),
                    shared_bytes as usize,
                )
            )?;
        }
        Ok(blocks.cast_unsigned())
    }

    /// Lets launches of a kernel have so many bytes of dynamic shared memory.
    pub(crate) fn allow_shared(&self, function: FunctionHandle, bytes: u32) -> Result<()> {
        self.context.bind()?;
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is of this module.
        unsafe {
            call!(
                self.context.driver,
                cuFuncSetAttribute(function.0, which as u32, bytes.cast_signed())
            )
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // A kernel of it may still be in a stream. Where the wait fails the context is lost, and nothing runs.
        let _ = self.context.synchronize();
        // SAFETY: nobody else has the handle, and nothing of it runs any more.
        unsafe { (self.context.driver.cuModuleUnload)(self.raw.0) };
    }
}
