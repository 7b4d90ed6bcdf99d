//! Memory as a program asks for it: plain calls of the driver's C functions, and kernels that use it.

#![allow(unsafe_code, reason = "calls a driver library by its C functions")]

use crate::libraries::{begin, check, driver_of};
use anyhow::Result;
use apex_cuda::Driver;
use apex_cuda::types::{CUdeviceptr, CUfunction};
use std::ffi::c_void;
use std::path::Path;
use std::ptr::null_mut;

const KERNELS: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
    concat!(include_str!("kernels.ptx"), "\0").as_bytes(),
) {
    Ok(text) => text,
    Err(_) => panic!("the text has a NUL in it"),
};

/// How a program asks for memory and gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum How {
    /// By `cuMemAlloc` and `cuMemFree`.
    Plain,
    /// In the order of a stream.
    Async,
}

/// A driver with a context and the kernels.
pub(super) struct Gpu {
    pub(super) driver: Driver,
    fill: CUfunction,
    advance: CUfunction,
    total: CUfunction,
    spin: CUfunction,
}

/// A pointer to a kernel's argument, as the driver wants it.
fn argument<T>(value: &mut T) -> *mut c_void {
    (&raw mut *value).cast()
}

impl Gpu {
    pub(super) fn open(library: Option<&Path>) -> Result<Gpu> {
        let driver = driver_of(library)?;
        begin(&driver)?;
        let null = null_mut();
        let mut gpu = Gpu { driver, fill: null, advance: null, total: null, spin: null };
        let mut module = null_mut();
        // SAFETY: valid places for the answers; the image is PTX text, the names end with NUL.
        unsafe {
            let image = KERNELS.as_ptr().cast();
            check("cuModuleLoadData", (gpu.driver.cuModuleLoadData)(&raw mut module, image))?;
            for (place, name) in [
                (&mut gpu.fill, c"fill"),
                (&mut gpu.advance, c"advance"),
                (&mut gpu.total, c"total"),
                (&mut gpu.spin, c"spin"),
            ] {
                let found =
                    (gpu.driver.cuModuleGetFunction)(&raw mut *place, module, name.as_ptr());
                check("cuModuleGetFunction", found)?;
            }
        }
        Ok(gpu)
    }

    #[inline(always)]
    pub(super) fn allocate(&self, how: How, bytes: u64) -> Result<CUdeviceptr> {
        let mut address = 0;
        // SAFETY: a valid place for the answer.
        let answer = unsafe {
            match how {
                How::Plain => (self.driver.cuMemAlloc_v2)(&raw mut address, bytes as usize),
                How::Async => {
                    (self.driver.cuMemAllocAsync)(&raw mut address, bytes as usize, null_mut())
                }
            }
        };
        check("an allocation", answer)?;
        Ok(address)
    }

    #[inline(always)]
    pub(super) fn free(&self, how: How, address: CUdeviceptr) -> Result<()> {
        // SAFETY: memory that `allocate` gave in the same way, and that nothing is given any more.
        let answer = unsafe {
            match how {
                How::Plain => (self.driver.cuMemFree_v2)(address),
                How::Async => (self.driver.cuMemFreeAsync)(address, null_mut()),
            }
        };
        check("a free", answer)
    }

    /// Waits for everything.
    pub(super) fn wait(&self) -> Result<()> {
        // SAFETY: takes nothing.
        check("cuCtxSynchronize", unsafe { (self.driver.cuCtxSynchronize)() })
    }

    /// Waits for the default stream.
    pub(super) fn wait_for_stream(&self) -> Result<()> {
        // SAFETY: the default stream.
        check("cuStreamSynchronize", unsafe { (self.driver.cuStreamSynchronize)(null_mut()) })
    }

    /// Word `i` becomes `i * factor`.
    pub(super) fn fill(&self, mut to: CUdeviceptr, mut count: u32, mut factor: u32) -> Result<()> {
        let arguments = [argument(&mut to), argument(&mut count), argument(&mut factor)];
        self.launch(self.fill, count.div_ceil(BLOCK), BLOCK, arguments)
    }

    /// Each word of `to` becomes one of `from`, and one more.
    pub(super) fn advance(
        &self,
        mut to: CUdeviceptr,
        mut from: CUdeviceptr,
        mut count: u32,
    ) -> Result<()> {
        let arguments = [argument(&mut to), argument(&mut from), argument(&mut count)];
        self.launch(self.advance, count.div_ceil(BLOCK), BLOCK, arguments)
    }

    /// The first word of `to` becomes so much larger as all words of `from` are together.
    pub(super) fn total(
        &self,
        mut to: CUdeviceptr,
        mut from: CUdeviceptr,
        mut count: u32,
    ) -> Result<()> {
        const MOST_BLOCKS: u32 = 264;
        let arguments = [argument(&mut to), argument(&mut from), argument(&mut count)];
        self.launch(self.total, count.div_ceil(BLOCK).min(MOST_BLOCKS), BLOCK, arguments)
    }

    /// A kernel of one thread that ends after so long.
    pub(super) fn spin(&self, mut nanos: u64) -> Result<()> {
        self.launch(self.spin, 1, 1, [argument(&mut nanos)])
    }

    /// The word at an address, when it is there.
    pub(super) fn read(&self, from: CUdeviceptr) -> Result<u32> {
        let mut word = 0_u32;
        // SAFETY: a valid place of four bytes.
        check("cuMemcpyDtoH", unsafe {
            (self.driver.cuMemcpyDtoH_v2)(argument(&mut word), from, 4)
        })?;
        Ok(word)
    }

    fn launch<const N: usize>(
        &self,
        kernel: CUfunction,
        grid: u32,
        block: u32,
        mut arguments: [*mut c_void; N],
    ) -> Result<()> {
        // SAFETY: as many arguments as the kernel has, in a current context.
        check("cuLaunchKernel", unsafe {
            (self.driver.cuLaunchKernel)(
                kernel,
                grid,
                1,
                1,
                block,
                1,
                1,
                0,
                null_mut(),
                arguments.as_mut_ptr(),
                null_mut(),
            )
        })
    }
}

/// Threads of a block.
const BLOCK: u32 = 256;
