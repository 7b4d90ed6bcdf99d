//! What the tests of the driver share: a context of their own and the kernels of `kernels.ptx`.

#![allow(dead_code, reason = "each test file uses a part")]

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use std::ffi::CString;

use apex_cuda::Driver;
use apex_cuda::types::*;

/// The driver, a context of its own and the module with the kernels.
pub(crate) struct Gpu {
    /// The driver's functions.
    pub(crate) driver: Driver,
    /// Current on the thread that made it.
    pub(crate) context: CUcontext,
    /// Holds the kernels.
    pub(crate) module: CUmodule,
}

/// The text of the kernels.
pub(crate) const KERNELS: &str = include_str!("../kernels.ptx");

/// Asserts that a call succeeds.
macro_rules! ok {
    ($call:expr) => {
        // SAFETY: the test keeps the C contract of the function.
        assert_eq!(unsafe { $call }, apex_cuda::types::CUDA_SUCCESS, stringify!($call))
    };
}

#[allow(unused_imports, reason = "each test file uses a part")]
pub(crate) use ok;

impl Gpu {
    /// Begins.
    pub(crate) fn start() -> Gpu {
        let driver = apex_softgpu::driver();
        let (mut context, mut module) = (null_mut(), null_mut());
        ok!((driver.cuInit)(0));
        ok!((driver.cuCtxCreate_v2)(&raw mut context, 0, 0));
        let text = CString::new(KERNELS).expect("the text has no NUL");
        ok!((driver.cuModuleLoadData)(&raw mut module, text.as_ptr().cast()));
        Gpu { driver, context, module }
    }

    /// A kernel by name.
    pub(crate) fn kernel(&self, name: &CStr) -> CUfunction {
        let mut function = null_mut();
        ok!((self.driver.cuModuleGetFunction)(&raw mut function, self.module, name.as_ptr()));
        function
    }

    /// Launches a kernel with arguments of eight bytes.
    pub(crate) fn launch(
        &self,
        name: &CStr,
        blocks: u32,
        stream: CUstream,
        arguments: &[u64],
    ) -> CUresult {
        let mut kept = arguments.to_vec();
        let mut params: Vec<*mut c_void> =
            kept.iter_mut().map(|argument| (&raw mut *argument).cast()).collect();
        let params = if params.is_empty() { null_mut() } else { params.as_mut_ptr() };
        let function = self.kernel(name);
        // SAFETY: the arguments are those of the kernel.
        unsafe {
            (self.driver.cuLaunchKernel)(
                function,
                blocks,
                1,
                1,
                1,
                1,
                1,
                0,
                stream,
                params,
                null_mut(),
            )
        }
    }

    /// Device memory.
    pub(crate) fn memory(&self, bytes: usize) -> u64 {
        let mut address = 0;
        ok!((self.driver.cuMemAlloc_v2)(&raw mut address, bytes));
        address
    }

    /// A stream.
    pub(crate) fn stream(&self, flags: u32) -> CUstream {
        let mut stream = null_mut();
        ok!((self.driver.cuStreamCreate)(&raw mut stream, flags));
        stream
    }

    /// An event.
    pub(crate) fn event(&self) -> CUevent {
        let mut event = null_mut();
        ok!((self.driver.cuEventCreate)(&raw mut event, 0));
        event
    }

    /// A word of memory, read by a synchronous copy.
    pub(crate) fn word(&self, address: u64) -> u32 {
        let mut word = 0_u32;
        ok!((self.driver.cuMemcpyDtoH_v2)((&raw mut word).cast(), address, 4));
        word
    }

    /// Waits for everything.
    pub(crate) fn synchronize(&self) -> CUresult {
        // SAFETY: a plain call.
        unsafe { (self.driver.cuCtxSynchronize)() }
    }
}

/// Runs another test of this binary, one that is ignored otherwise, as a program of its own.
pub(crate) fn run_as_program(test: &str, variables: &[(&str, &str)]) -> std::process::Output {
    let mut command =
        std::process::Command::new(std::env::current_exe().expect("the test knows itself"));
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.envs(variables.iter().copied());
    command.output().expect("the test runs again")
}
