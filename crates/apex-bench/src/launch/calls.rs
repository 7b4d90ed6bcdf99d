//! Launches as a program makes them: plain calls of the driver's C functions, with arguments that change.

#![allow(unsafe_code, reason = "calls a driver library by its C functions")]

use crate::libraries::{begin, check, driver_of};
use anyhow::{Result, bail};
use apex_core::time::monotonic_nanos;
use apex_cuda::Driver;
use apex_cuda::types::{CUDA_ERROR_NOT_SUPPORTED, CUdeviceptr, CUfunction, CUresult};
use std::ffi::c_void;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// One takes four arguments and does nothing; the other says to the host that it has begun.
const KERNELS: &std::ffi::CStr = c".version 7.0
.target sm_70
.address_size 64
.visible .entry four(.param .u64 place, .param .u64 number, .param .u32 count, .param .f32 factor)
{
    ret;
}
.visible .entry begins(.param .u64 flag, .param .u32 number)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [flag];
    ld.param.u32 %r1, [number];
    cvta.to.global.u64 %rd2, %rd1;
    st.volatile.global.u32 [%rd2], %r1;
    membar.sys;
    ret;
}
";

/// A kernel that has not begun by then never will.
const LONGEST_START: Duration = Duration::from_secs(5);

/// The arguments of the kernel `four`, all of which change from launch to launch.
#[derive(Clone, Copy)]
pub(super) struct Four {
    place: u64,
    number: u64,
    count: u32,
    factor: f32,
}

impl Four {
    pub(super) fn nth(nth: u64) -> Four {
        Four { place: nth << 8, number: nth, count: nth as u32, factor: nth as f32 }
    }

    /// Pointers to them, as the driver wants them.
    pub(super) fn pointers(&mut self) -> [*mut c_void; 4] {
        [
            (&raw mut self.place).cast(),
            (&raw mut self.number).cast(),
            (&raw mut self.count).cast(),
            (&raw mut self.factor).cast(),
        ]
    }
}

/// A driver with a context, the kernels and a word of memory that both sides see.
pub(super) struct Gpu {
    pub(super) driver: Driver,
    pub(super) four: CUfunction,
    begins: CUfunction,
    /// Null where the driver has no such memory.
    flag: *const AtomicU32,
    flag_on_device: CUdeviceptr,
    number: u32,
}

impl Gpu {
    pub(super) fn open(library: Option<&Path>) -> Result<Gpu> {
        let driver = driver_of(library)?;
        let null = core::ptr::null_mut();
        let mut gpu = Gpu {
            driver,
            four: null,
            begins: null,
            flag: null.cast(),
            flag_on_device: 0,
            number: 0,
        };
        gpu.prepare()?;
        Ok(gpu)
    }

    fn prepare(&mut self) -> Result<()> {
        let driver = &self.driver;
        let mut module = core::ptr::null_mut();
        begin(driver)?;
        // SAFETY: valid places for the answers; the image is PTX text, the names end with NUL.
        unsafe {
            let image = KERNELS.as_ptr().cast();
            check("cuModuleLoadData", (driver.cuModuleLoadData)(&raw mut module, image))?;
            for (place, name) in [(&mut self.four, c"four"), (&mut self.begins, c"begins")] {
                let found = (driver.cuModuleGetFunction)(&raw mut *place, module, name.as_ptr());
                check("cuModuleGetFunction", found)?;
            }
        }
        self.map_flag()
    }

    fn map_flag(&mut self) -> Result<()> {
        const DEVICE_MAP: u32 = 2;
        let mut place = core::ptr::null_mut();
        // SAFETY: valid places for the answers.
        let answer = unsafe { (self.driver.cuMemHostAlloc)(&raw mut place, 4096, DEVICE_MAP) };
        if answer == CUDA_ERROR_NOT_SUPPORTED {
            return Ok(());
        }
        check("cuMemHostAlloc", answer)?;
        // SAFETY: as above; memory of the call before.
        check("cuMemHostGetDevicePointer", unsafe {
            (self.driver.cuMemHostGetDevicePointer_v2)(&raw mut self.flag_on_device, place, 0)
        })?;
        self.flag = place.cast_const().cast();
        Ok(())
    }

    /// Launches the kernel of four arguments.
    #[inline(always)]
    pub(super) fn launch(&self, mut arguments: Four) -> CUresult {
        let (null, mut pointers) = (core::ptr::null_mut(), arguments.pointers());
        // SAFETY: as many arguments as the kernel has, in a current context.
        unsafe {
            (self.driver.cuLaunchKernel)(
                self.four,
                1,
                1,
                1,
                32,
                1,
                1,
                0,
                null,
                pointers.as_mut_ptr(),
                null.cast(),
            )
        }
    }

    /// So many launches, each after the other on the GPU.
    pub(super) fn chain(&self, from: u64, launches: u64) -> Result<()> {
        for nth in from..from + launches {
            check("cuLaunchKernel", self.launch(Four::nth(nth)))?;
        }
        Ok(())
    }

    /// Waits for everything; a driver that runs nothing has nothing to wait for.
    pub(super) fn wait(&self) -> Result<()> {
        // SAFETY: takes nothing.
        match unsafe { (self.driver.cuCtxSynchronize)() } {
            CUDA_ERROR_NOT_SUPPORTED => Ok(()),
            answer => check("cuCtxSynchronize", answer),
        }
    }

    /// Whether kernels run, so that they can say when they begin.
    pub(super) fn runs_kernels(&self) -> bool {
        !self.flag.is_null()
    }

    /// Launches so many kernels and then one that says when it begins: nanoseconds from the first call until it has.
    pub(super) fn start_behind(&mut self, kernels: u64) -> Result<u64> {
        self.number += 1;
        let (mut place, mut number) = (self.flag_on_device, self.number);
        let mut pointers: [*mut c_void; 2] = [(&raw mut place).cast(), (&raw mut number).cast()];
        let null = core::ptr::null_mut();
        let began = monotonic_nanos();
        self.chain(0, kernels)?;
        // SAFETY: as many arguments as the kernel has, in a current context; the memory it writes to stays.
        check("cuLaunchKernel", unsafe {
            (self.driver.cuLaunchKernel)(
                self.begins,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                null,
                pointers.as_mut_ptr(),
                null.cast(),
            )
        })?;
        // SAFETY: mapped memory of ours that is never freed, written by the kernel alone.
        let flag = unsafe { &*self.flag };
        loop {
            let now = monotonic_nanos();
            if flag.load(Ordering::Acquire) == number {
                return Ok(now - began);
            }
            if now - began > LONGEST_START.as_nanos() as u64 {
                bail!("a kernel did not begin within {} s", LONGEST_START.as_secs());
            }
            core::hint::spin_loop();
        }
    }
}
