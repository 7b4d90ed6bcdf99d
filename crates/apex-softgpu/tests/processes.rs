//! Memory and events shared between processes.

mod support;

use core::ptr::null_mut;

use apex_cuda::types::*;
use support::{Gpu, ok, run_as_program};

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn handle_from(variable: &str) -> [u8; 64] {
    let text = std::env::var(variable).expect("set by the other test");
    core::array::from_fn(|at| {
        u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal")
    })
}

#[test]
fn another_process_sees_the_memory_and_the_event() {
    let gpu = Gpu::start();
    let memory = gpu.memory(100);
    ok!((gpu.driver.cuMemsetD32_v2)(memory, 41, 25));
    let mut event = null_mut();
    ok!((gpu.driver.cuEventCreate)(&raw mut event, 6));
    // SAFETY: any bytes are a handle.
    let (mut of_memory, mut of_event): (CUipcMemHandle, CUipcEventHandle) =
        unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
    ok!((gpu.driver.cuIpcGetMemHandle)(&raw mut of_memory, memory));
    ok!((gpu.driver.cuIpcGetEventHandle)(&raw mut of_event, event));
    assert_eq!(gpu.word(memory), 41, "sharing changes nothing");
    let stream = gpu.stream(1);
    assert_eq!(gpu.launch(c"spin_20000", 1, stream, &[]), CUDA_SUCCESS);
    assert_eq!(gpu.launch(c"fill", 1, stream, &[memory, 42, 1]), CUDA_SUCCESS);
    ok!((gpu.driver.cuEventRecord)(event, stream));
    // SAFETY: handles are 64 bytes.
    let (of_memory, of_event) = unsafe {
        (
            core::mem::transmute::<CUipcMemHandle, [u8; 64]>(of_memory),
            core::mem::transmute::<CUipcEventHandle, [u8; 64]>(of_event),
        )
    };
    let output = run_as_program(
        "opens_what_another_process_shares",
        &[("MEMORY", &hexadecimal(&of_memory)), ("EVENT", &hexadecimal(&of_event))],
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(gpu.word(memory + 4), 43, "written by the other process");
}

#[test]
#[ignore = "run by another test"]
fn opens_what_another_process_shares() {
    let gpu = Gpu::start();
    // SAFETY: handles are 64 bytes.
    let (of_memory, of_event) = unsafe {
        (
            core::mem::transmute::<[u8; 64], CUipcMemHandle>(handle_from("MEMORY")),
            core::mem::transmute::<[u8; 64], CUipcEventHandle>(handle_from("EVENT")),
        )
    };
    let (mut memory, mut event) = (0, null_mut());
    ok!((gpu.driver.cuIpcOpenMemHandle_v2)(&raw mut memory, of_memory, 1));
    ok!((gpu.driver.cuIpcOpenEventHandle)(&raw mut event, of_event));
    let stream = gpu.stream(0);
    ok!((gpu.driver.cuStreamWaitEvent)(stream, event, 0));
    ok!((gpu.driver.cuMemsetD32Async)(memory + 4, 43, 1, stream));
    ok!((gpu.driver.cuStreamSynchronize)(stream));
    ok!((gpu.driver.cuEventSynchronize)(event));
    assert_eq!(gpu.word(memory), 42, "the event came after the kernel");
    ok!((gpu.driver.cuIpcCloseMemHandle)(memory));
    // SAFETY: a plain call.
    assert_eq!(unsafe { (gpu.driver.cuIpcCloseMemHandle)(memory) }, CUDA_ERROR_INVALID_VALUE);
}
