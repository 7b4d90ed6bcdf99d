//! What a launch of an empty kernel costs, with its wait and without.

use core::ptr::null_mut;
use std::time::Instant;

use apex_cuda::types::*;

const KERNEL: &core::ffi::CStr =
    c".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry empty()\n{\n ret;\n}\n";

fn main() {
    let driver = apex_softgpu::driver();
    let (mut context, mut module, mut function) = (null_mut(), null_mut(), null_mut());
    // SAFETY: plain calls of the driver's own kind; the text is a whole image.
    let results = unsafe {
        [
            (driver.cuInit)(0),
            (driver.cuDevicePrimaryCtxRetain)(&raw mut context, 0),
            (driver.cuCtxSetCurrent)(context),
            (driver.cuModuleLoadData)(&raw mut module, KERNEL.as_ptr().cast()),
            (driver.cuModuleGetFunction)(&raw mut function, module, c"empty".as_ptr()),
        ]
    };
    assert_eq!(results, [CUDA_SUCCESS; 5], "the driver begins");
    let none = null_mut();
    // SAFETY: the kernel takes no arguments.
    let launch = |blocks: u32| unsafe {
        (driver.cuLaunchKernel)(function, blocks, 1, 1, 32, 1, 1, 0, null_mut(), none, none)
    };
    // SAFETY: a plain call.
    let wait = || unsafe { (driver.cuStreamSynchronize)(null_mut()) };
    for blocks in [1, 8, 256] {
        let mut waited = Vec::new();
        for _ in 0..20_000 {
            let began = Instant::now();
            launch(blocks);
            wait();
            waited.push(began.elapsed().as_nanos());
        }
        let began = Instant::now();
        (0..20_000).for_each(|_| {
            launch(blocks);
        });
        let launched = began.elapsed().as_nanos() / 20_000;
        wait();
        waited.sort_unstable();
        println!(
            "{blocks:>4} blocks: launch and wait {} ns (p99 {} ns), launch alone {launched} ns",
            waited[waited.len() / 2],
            waited[waited.len() * 99 / 100],
        );
    }
}
