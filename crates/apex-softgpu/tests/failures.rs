//! What goes wrong is told by the right error, stays told, and never ends the process.

mod support;

use core::ptr::null_mut;
use std::time::{Duration, Instant};

use apex_cuda::types::*;
use support::{Gpu, ok, run_as_program};

#[test]
fn a_fault_stays_with_its_context() {
    let gpu = Gpu::start();
    let memory = gpu.memory(4);
    assert_eq!(gpu.launch(c"fault", 1, null_mut(), &[]), CUDA_SUCCESS);
    assert_eq!(gpu.synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    let (mut address, mut stream) = (0, null_mut());
    // SAFETY: plain calls.
    unsafe {
        let driver = &gpu.driver;
        assert_eq!((driver.cuMemAlloc_v2)(&raw mut address, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_eq!((driver.cuStreamCreate)(&raw mut stream, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_eq!((driver.cuMemFree_v2)(memory), CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_eq!((driver.cuCtxDestroy_v2)(gpu.context), CUDA_SUCCESS);
    }
    let another = Gpu::start();
    assert_eq!(another.launch(c"nothing", 1, null_mut(), &[]), CUDA_SUCCESS);
    assert_eq!(another.synchronize(), CUDA_SUCCESS);
}

#[test]
fn a_reset_primary_context_works_again() {
    let driver = apex_softgpu::driver();
    let mut context = null_mut();
    ok!((driver.cuInit)(0));
    for _ in 0..2 {
        ok!((driver.cuDevicePrimaryCtxRetain)(&raw mut context, 0));
        ok!((driver.cuCtxSetCurrent)(context));
        let mut module = null_mut();
        let text = std::ffi::CString::new(support::KERNELS).unwrap();
        ok!((driver.cuModuleLoadData)(&raw mut module, text.as_ptr().cast()));
        let gpu = Gpu { driver: apex_softgpu::driver(), context, module };
        assert_eq!(gpu.launch(c"fault", 1, null_mut(), &[]), CUDA_SUCCESS);
        assert_eq!(gpu.synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
        ok!((driver.cuDevicePrimaryCtxReset_v2)(0));
    }
}

#[test]
fn memory_that_is_not_there_is_refused() {
    let gpu = Gpu::start();
    let (mut free, mut total) = (0, 0);
    ok!((gpu.driver.cuMemGetInfo_v2)(&raw mut free, &raw mut total));
    assert!(free > 0 && free <= total);
    let mut taken = Vec::new();
    let result = loop {
        let mut address = 0;
        // SAFETY: a plain call.
        match unsafe { (gpu.driver.cuMemAlloc_v2)(&raw mut address, total / 7) } {
            CUDA_SUCCESS => taken.push(address),
            error => break error,
        }
    };
    assert_eq!(result, CUDA_ERROR_OUT_OF_MEMORY);
    assert!((1..=7).contains(&taken.len()), "{}", taken.len());
    let mut left = 0;
    ok!((gpu.driver.cuMemGetInfo_v2)(&raw mut left, null_mut()));
    assert!(left < total / 7);
    for address in taken {
        ok!((gpu.driver.cuMemFree_v2)(address));
    }
}

#[test]
fn what_a_program_did_not_take_it_cannot_free() {
    let gpu = Gpu::start();
    for name in [c"counter", c"seen"] {
        let (mut address, mut bytes) = (0, 0);
        ok!((gpu.driver.cuModuleGetGlobal_v2)(
            &raw mut address,
            &raw mut bytes,
            gpu.module,
            name.as_ptr()
        ));
        // SAFETY: plain calls.
        unsafe {
            assert_eq!((gpu.driver.cuMemFree_v2)(address), CUDA_ERROR_INVALID_VALUE);
            assert_eq!((gpu.driver.cuMemFreeAsync)(address, null_mut()), CUDA_ERROR_INVALID_VALUE);
        }
        assert_eq!(gpu.word(address), 0);
    }
    ok!((gpu.driver.cuModuleUnload)(gpu.module));
}

#[test]
fn a_bad_text_says_why_in_the_log() {
    let gpu = Gpu::start();
    let mut log = [0_u8; 256];
    let mut module = null_mut();
    let mut options = [5_u32, 6];
    let mut values = [log.as_mut_ptr().cast(), core::ptr::without_provenance_mut(256)];
    let text = c".version 8.0\n.target sm_90\n.address_size 64\nsyntax error here\n";
    // SAFETY: the log is as long as said.
    let result = unsafe {
        let image = text.as_ptr().cast();
        let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
        (gpu.driver.cuModuleLoadDataEx)(&raw mut module, image, 2, options, values)
    };
    assert_eq!(result, CUDA_ERROR_INVALID_PTX);
    let length = values[1].addr();
    assert!(length > 1 && log[length - 1] == 0, "{length}");
    let said = String::from_utf8_lossy(&log[..length - 1]).into_owned();
    assert!(said.contains("syntax"), "{said}");
}

#[test]
fn a_child_made_by_fork_has_no_driver() {
    let gpu = Gpu::start();
    assert_eq!(gpu.launch(c"nothing", 1, null_mut(), &[]), CUDA_SUCCESS);
    // SAFETY: the child makes plain calls and ends without returning here.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let (mut address, mut count) = (0, 0);
            let refused = (gpu.driver.cuInit)(0) == CUDA_ERROR_NOT_INITIALIZED
                && (gpu.driver.cuDeviceGetCount)(&raw mut count) == CUDA_ERROR_NOT_INITIALIZED
                && (gpu.driver.cuMemAlloc_v2)(&raw mut address, 4) == CUDA_ERROR_NOT_INITIALIZED
                && (gpu.driver.cuCtxSynchronize)() == CUDA_ERROR_NOT_INITIALIZED;
            libc::_exit(i32::from(!refused));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    }
    assert_eq!(gpu.synchronize(), CUDA_SUCCESS);
}

#[test]
fn a_program_can_end_while_a_kernel_runs() {
    let began = Instant::now();
    let output = run_as_program("ends_while_a_kernel_runs", &[]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(240));
}

#[test]
#[ignore = "run by another test"]
fn ends_while_a_kernel_runs() {
    let gpu = Gpu::start();
    for blocks in [1, 64] {
        let stream = gpu.stream(1);
        assert_eq!(gpu.launch(c"forever", blocks, stream, &[]), CUDA_SUCCESS);
        assert_eq!(gpu.launch(c"nothing", blocks, stream, &[]), CUDA_SUCCESS);
    }
    std::thread::sleep(Duration::from_millis(20));
    std::process::exit(7);
}
