//! Kernels touch no memory of the program that the driver was not told of, and all that it was.

mod support;

use core::ptr::{null_mut, with_exposed_provenance_mut};

use apex_cuda::types::*;
use support::{Gpu, ok, run_as_program};

/// Blocks of one thread, interpreted; and of 32, as many as are compiled.
const SHAPES: [(u32, u32); 2] = [(1, 1), (64, 32)];

/// Launches `touch`: each thread adds 1 to one of 32 words.
fn touch(gpu: &Gpu, (blocks, threads): (u32, u32), address: u64) -> CUresult {
    let mut address = address;
    let mut params = [(&raw mut address).cast()];
    let function = gpu.kernel(c"touch");
    // SAFETY: the argument is the kernel's.
    unsafe {
        let params = params.as_mut_ptr();
        let launched = (gpu.driver.cuLaunchKernel)(
            function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            0,
            null_mut(),
            params,
            null_mut(),
        );
        assert_eq!(launched, CUDA_SUCCESS);
    }
    gpu.synchronize()
}

static mut GLOBAL: [u32; 32] = [5; 32];

#[test]
fn memory_of_the_program_is_illegal_and_untouched() {
    for shape in SHAPES {
        let mut heap = vec![5_u32; 32];
        let mut stack = [5_u32; 32];
        let global = (&raw mut GLOBAL).cast::<u32>();
        for words in [heap.as_mut_ptr(), stack.as_mut_ptr(), global] {
            let gpu = Gpu::start();
            let result = touch(&gpu, shape, words.expose_provenance() as u64);
            assert_eq!(result, CUDA_ERROR_ILLEGAL_ADDRESS, "{shape:?}");
            // SAFETY: memory of this test.
            let kept = unsafe { (0..32).all(|at| words.add(at).read_volatile() == 5) };
            assert!(kept, "{shape:?}");
            let mut address = 0;
            // SAFETY: plain calls.
            unsafe {
                let again = (gpu.driver.cuMemAlloc_v2)(&raw mut address, 4);
                assert_eq!(again, CUDA_ERROR_ILLEGAL_ADDRESS, "it stays");
                assert_eq!((gpu.driver.cuCtxDestroy_v2)(gpu.context), CUDA_SUCCESS);
            }
        }
    }
}

#[test]
fn memory_that_the_driver_knows_is_reached() {
    let gpu = Gpu::start();
    let (mut pinned, mut managed, mut mapped) = (null_mut(), 0, 0);
    ok!((gpu.driver.cuMemAllocHost_v2)(&raw mut pinned, 128));
    ok!((gpu.driver.cuMemAllocManaged)(&raw mut managed, 128, 1));
    // A registered range counts as whole pages: these words lie behind it in its last page.
    let mut own = vec![0_u32; 4096];
    let page = own.as_mut_ptr().map_addr(|address| address.next_multiple_of(4096));
    ok!((gpu.driver.cuMemHostRegister_v2)(page.cast(), 100, 0));
    let mut handle = 0;
    let mut properties = [0_u32; size_of::<CUmemAllocationProp>() / 4];
    (properties[0], properties[2]) = (1, 1);
    let access = [1_u32, 0, 3];
    ok!((gpu.driver.cuMemAddressReserve)(&raw mut mapped, 2 << 20, 0, 0, 0));
    ok!((gpu.driver.cuMemCreate)(&raw mut handle, 2 << 20, properties.as_ptr().cast(), 0));
    ok!((gpu.driver.cuMemMap)(mapped, 2 << 20, 0, handle, 0));
    ok!((gpu.driver.cuMemSetAccess)(mapped, 2 << 20, access.as_ptr().cast(), 1));
    let places = [
        ("device", gpu.memory(128)),
        ("pinned", pinned.expose_provenance() as u64),
        ("managed", managed),
        ("registered", page.expose_provenance() as u64),
        ("mapped", mapped),
    ];
    for (name, address) in places {
        ok!((gpu.driver.cuMemsetD32_v2)(address, 0, 25));
        for (times, shape) in [(1, SHAPES[0]), (65, SHAPES[1])] {
            assert_eq!(touch(&gpu, shape, address), CUDA_SUCCESS, "{name} {shape:?}");
            assert_eq!(gpu.word(address), times, "{name} {shape:?}");
        }
        let word = with_exposed_provenance_mut::<u32>(address as usize);
        // SAFETY: all of it is memory of this process.
        assert_eq!(unsafe { word.add(24).read_volatile() }, 64, "{name}");
    }
    ok!((gpu.driver.cuMemHostUnregister)(page.cast()));
    let result = touch(&gpu, SHAPES[1], page.expose_provenance() as u64);
    assert_eq!(result, CUDA_ERROR_ILLEGAL_ADDRESS, "no longer registered");
    ok!((gpu.driver.cuCtxDestroy_v2)(gpu.context));
}

#[test]
fn one_sentence_names_kernel_line_and_thread() {
    for (threads, said) in [("1", "thread (0,0,0): changes"), ("32", "thread (0,0,0): changes")] {
        let output = run_as_program("touches_memory_of_the_program", &[("THREADS", threads)]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
        let lines: Vec<&str> = stderr.lines().filter(|line| line.starts_with("apex: ")).collect();
        let [line] = lines.as_slice() else { panic!("{stderr}") };
        assert!(line.starts_with("apex: kernel touch, line "), "{line}");
        assert!(line.contains(" of its PTX, block ("), "{line}");
        assert!(line.contains(&format!("{said} 4 bytes at 0x")), "{line}");
        assert!(line.ends_with("that is no memory of the device"), "{line}");
    }
}

#[test]
#[ignore = "run by another test"]
fn touches_memory_of_the_program() {
    let gpu = Gpu::start();
    let threads =
        std::env::var("THREADS").expect("set by the other test").parse().expect("a number");
    let mut words = vec![0_u32; 32];
    let address = words.as_mut_ptr().expose_provenance() as u64;
    assert_eq!(touch(&gpu, (64, threads), address), CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn a_deadlock_is_told_with_its_place() {
    let output = run_as_program("waits_for_ever", &[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let line = stderr.lines().find(|line| line.starts_with("apex: ")).unwrap_or_default();
    assert!(line.starts_with("apex: kernel halves, line "), "{stderr}");
    assert!(line.contains("block (0,0,0) thread ("), "{line}");
    assert!(line.ends_with("at a barrier that cannot complete"), "{line}");
}

#[test]
#[ignore = "run by another test"]
fn waits_for_ever() {
    let gpu = Gpu::start();
    let function = gpu.kernel(c"halves");
    let (none, nothing) = (null_mut(), null_mut());
    ok!((gpu.driver.cuLaunchKernel)(function, 1, 1, 1, 64, 1, 1, 0, null_mut(), none, nothing));
    assert_eq!(gpu.synchronize(), CUDA_ERROR_LAUNCH_TIMEOUT);
}

/// Less than the software GPU wants, and enough to run.
#[test]
fn few_addresses_are_enough() {
    let output = run_as_program("has_few_addresses", &[]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "run by another test"]
fn has_few_addresses() {
    // SAFETY: a limit of this process, which runs nothing else.
    unsafe {
        let mut limit = core::mem::zeroed::<libc::rlimit>();
        libc::getrlimit(libc::RLIMIT_AS, &raw mut limit);
        limit.rlim_cur = 24 << 30;
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit), 0);
    }
    let gpu = Gpu::start();
    let memory = gpu.memory(128);
    ok!((gpu.driver.cuMemsetD32_v2)(memory, 0, 32));
    assert_eq!(touch(&gpu, SHAPES[1], memory), CUDA_SUCCESS);
    assert_eq!(gpu.word(memory), 64);
    let mut words = vec![5_u32; 32];
    let address = words.as_mut_ptr().expose_provenance() as u64;
    assert_eq!(touch(&gpu, SHAPES[1], address), CUDA_ERROR_ILLEGAL_ADDRESS);
}
