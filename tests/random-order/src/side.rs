//! One side of the comparison: the functions of a driver, and what programs need of it: contexts, kernels, memory.
//!
//! Both sides have the same software GPU beneath them and contexts of their own.

#![allow(unsafe_code, reason = "calls a driver by its C functions")]

use crate::kernels::{Kernel, TEXT, WORDS};
use crate::program::{MOST_LANES, MOST_THREADS};
use anyhow::{Result, bail};
use apex_cuda::Driver;
use apex_cuda::types::*;
use std::ffi::CString;
use std::ptr::null_mut;

/// Words of device memory that a lane has; programs use the first [`WORDS`].
const ROOM: usize = 256;
/// Places in which threads hand over their words.
pub(crate) const MEETINGS: usize = 16;
/// Words of the host's memory that a lane has.
pub(crate) const PINNED: usize = 4096;

/// A driver made ready for programs.
pub(crate) struct Side {
    pub(crate) driver: Driver,
    /// One side hands out freed memory again. So there is one context, and nobody uses memory that was freed: the pool
    /// steps aside for a second context, and does not see such a use.
    pub(crate) is_for_pool: bool,
    pub(crate) context: CUcontext,
    pub(crate) other_context: CUcontext,
    kernels: Vec<CUfunction>,
    handles: Vec<CUkernel>,
    pub(crate) other_mix: CUfunction,
    memory: CUdeviceptr,
    other_memory: CUdeviceptr,
    pinned: *mut u32,
    pinned_address: CUdeviceptr,
}

// SAFETY: the pointers lead to memory of which each thread has a part of its own; handles may be used by any thread.
unsafe impl Sync for Side {}

fn check(what: &str, result: CUresult) -> Result<()> {
    if result == CUDA_SUCCESS { Ok(()) } else { bail!("{what} answers {result}") }
}

impl Side {
    /// Makes contexts, kernels and memory. The calling thread has the first context afterwards.
    pub(crate) fn new(driver: Driver, is_for_pool: bool) -> Result<Side> {
        let mut side = Side {
            driver,
            is_for_pool,
            context: null_mut(),
            other_context: null_mut(),
            kernels: Vec::new(),
            handles: Vec::new(),
            other_mix: null_mut(),
            memory: 0,
            other_memory: 0,
            pinned: null_mut(),
            pinned_address: 0,
        };
        side.begin()?;
        Ok(side)
    }

    fn begin(&mut self) -> Result<()> {
        let lanes = MOST_THREADS * MOST_LANES;
        let driver = &self.driver;
        let mut pinned = null_mut();
        // SAFETY: valid places for the answers, and handles just made.
        unsafe {
            check("cuInit", (driver.cuInit)(0))?;
            check("cuCtxCreate", (driver.cuCtxCreate_v2)(&raw mut self.other_context, 0, 0))?;
            let bytes = 4 * MOST_THREADS * WORDS;
            check("cuMemAlloc", (driver.cuMemAlloc_v2)(&raw mut self.other_memory, bytes))?;
        }
        self.other_mix = self.load()?[Kernel::Mix as usize];
        let driver = &self.driver;
        // SAFETY: as above.
        unsafe {
            if self.is_for_pool {
                self.context = self.other_context;
            } else {
                check("cuCtxCreate", (driver.cuCtxCreate_v2)(&raw mut self.context, 0, 0))?;
            }
            let bytes = 4 * (lanes * ROOM + MEETINGS * WORDS);
            check("cuMemAlloc", (driver.cuMemAlloc_v2)(&raw mut self.memory, bytes))?;
            const PORTABLE_AND_MAPPED: u32 = 3;
            let bytes = 4 * lanes * PINNED;
            check(
                "cuMemHostAlloc",
                (driver.cuMemHostAlloc)(&raw mut pinned, bytes, PORTABLE_AND_MAPPED),
            )?;
            let found =
                (driver.cuMemHostGetDevicePointer_v2)(&raw mut self.pinned_address, pinned, 0);
            check("cuMemHostGetDevicePointer", found)?;
            self.pinned = pinned.cast();
            self.pinned.write_bytes(0, lanes * PINNED);
        }
        self.kernels = self.load()?;
        self.handles = self.load_library()?;
        Ok(())
    }

    /// Loads the kernels as a library's.
    fn load_library(&self) -> Result<Vec<CUkernel>> {
        let text = CString::new(TEXT)?;
        let (mut library, none) = (null_mut(), null_mut());
        // SAFETY: a whole text, a valid place for the answer, no options.
        let loaded = unsafe {
            (self.driver.cuLibraryLoadData)(
                &raw mut library,
                text.as_ptr().cast(),
                null_mut(),
                none,
                0,
                null_mut(),
                none,
                0,
            )
        };
        check("cuLibraryLoadData", loaded)?;
        let find = |kernel: Kernel| {
            let mut handle = null_mut();
            let name = kernel.name().as_ptr();
            // SAFETY: a library just loaded, a name and a valid place for the answer.
            let found = unsafe { (self.driver.cuLibraryGetKernel)(&raw mut handle, library, name) };
            check("cuLibraryGetKernel", found).map(|()| handle)
        };
        Kernel::ALL.into_iter().map(find).collect()
    }

    /// Loads the kernels into the calling thread's context.
    fn load(&self) -> Result<Vec<CUfunction>> {
        let text = CString::new(TEXT)?;
        let mut module = null_mut();
        // SAFETY: a whole text and a valid place for the answer.
        check("cuModuleLoadData", unsafe {
            (self.driver.cuModuleLoadData)(&raw mut module, text.as_ptr().cast())
        })?;
        let find = |kernel: Kernel| {
            let mut function = null_mut();
            let name = kernel.name().as_ptr();
            // SAFETY: a module just loaded, a name and a valid place for the answer.
            let found =
                unsafe { (self.driver.cuModuleGetFunction)(&raw mut function, module, name) };
            check("cuModuleGetFunction", found).map(|()| function)
        };
        Kernel::ALL.into_iter().map(find).collect()
    }

    /// Ends its contexts with all that is in them and begins again.
    pub(crate) fn again(self) -> Result<Side> {
        // SAFETY: contexts that this side made and nobody uses any more.
        unsafe {
            (self.driver.cuCtxDestroy_v2)(self.context);
            (self.driver.cuCtxDestroy_v2)(self.other_context);
        }
        Side::new(self.driver, self.is_for_pool)
    }

    pub(crate) fn kernel(&self, kernel: Kernel) -> CUfunction {
        self.kernels[kernel as usize]
    }

    /// The same kernel by a library's handle.
    pub(crate) fn handle(&self, kernel: Kernel) -> CUkernel {
        self.handles[kernel as usize]
    }

    /// Device memory of a lane.
    pub(crate) fn words(&self, thread: usize, lane: usize) -> CUdeviceptr {
        self.memory + 4 * ((thread * MOST_LANES + lane) * ROOM) as u64
    }

    /// Device memory for a meeting.
    pub(crate) fn meeting(&self, meeting: usize) -> CUdeviceptr {
        self.memory + 4 * (MOST_THREADS * MOST_LANES * ROOM + meeting % MEETINGS * WORDS) as u64
    }

    /// A thread's memory in the other context.
    pub(crate) fn elsewhere(&self, thread: usize) -> CUdeviceptr {
        self.other_memory + 4 * (thread * WORDS) as u64
    }

    /// The host's memory of a lane, and its address for kernels.
    pub(crate) fn pinned(&self, thread: usize, lane: usize) -> (*mut u32, CUdeviceptr) {
        let at = (thread * MOST_LANES + lane) * PINNED;
        (self.pinned.wrapping_add(at), self.pinned_address + 4 * at as u64)
    }
}
