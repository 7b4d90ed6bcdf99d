//! Graphs run in the order of their dependencies, whether built or captured.

mod support;

use core::ffi::c_void;
use core::ptr::null_mut;

use apex_cuda::types::*;
use support::{Gpu, ok};

impl Gpu {
    fn run(&self, graph: CUgraph, stream: CUstream) -> CUgraphExec {
        let mut exec = null_mut();
        ok!((self.driver.cuGraphInstantiateWithFlags)(&raw mut exec, graph, 0));
        ok!((self.driver.cuGraphLaunch)(exec, stream));
        ok!((self.driver.cuStreamSynchronize)(stream));
        exec
    }
}

#[test]
fn a_captured_fork_and_join_keeps_its_order() {
    let gpu = Gpu::start();
    let (first, second) = (gpu.stream(1), gpu.stream(1));
    let (fork, join, memory) = (gpu.event(), gpu.event(), gpu.memory(12));
    ok!((gpu.driver.cuMemsetD32_v2)(memory, 0, 3));
    ok!((gpu.driver.cuStreamBeginCapture_v2)(first, 0));
    assert_eq!(gpu.launch(c"fill", 1, first, &[memory, 5, 1]), CUDA_SUCCESS);
    ok!((gpu.driver.cuEventRecord)(fork, first));
    ok!((gpu.driver.cuStreamWaitEvent)(second, fork, 0));
    assert_eq!(gpu.launch(c"spin_20000", 1, second, &[]), CUDA_SUCCESS);
    ok!((gpu.driver.cuMemcpyDtoDAsync_v2)(memory + 4, memory, 4, second));
    ok!((gpu.driver.cuEventRecord)(join, second));
    ok!((gpu.driver.cuStreamWaitEvent)(first, join, 0));
    ok!((gpu.driver.cuMemcpyDtoDAsync_v2)(memory + 8, memory + 4, 4, first));
    let mut graph = null_mut();
    ok!((gpu.driver.cuStreamEndCapture)(first, &raw mut graph));
    assert_eq!(gpu.word(memory), 0, "nothing ran yet");
    let exec = gpu.run(graph, first);
    assert_eq!((gpu.word(memory + 4), gpu.word(memory + 8)), (5, 5));
    ok!((gpu.driver.cuGraphDestroy)(graph));
    ok!((gpu.driver.cuMemsetD32_v2)(memory, 0, 3));
    // Launches of one executable follow each other, and a destroyed one ends its last.
    ok!((gpu.driver.cuGraphLaunch)(exec, first));
    ok!((gpu.driver.cuGraphLaunch)(exec, second));
    ok!((gpu.driver.cuGraphExecDestroy)(exec));
    assert_eq!(gpu.synchronize(), CUDA_SUCCESS);
    assert_eq!(gpu.word(memory + 8), 5);
}

#[test]
fn the_arguments_of_a_kernel_are_changed() {
    let gpu = Gpu::start();
    let (memory, function) = (gpu.memory(8), gpu.kernel(c"fill"));
    let (mut graph, mut node) = (null_mut(), null_mut());
    ok!((gpu.driver.cuGraphCreate)(&raw mut graph, 0));
    let mut arguments = [memory, 1, 1];
    let mut pointers: Vec<*mut c_void> =
        arguments.iter_mut().map(|argument| (&raw mut *argument).cast()).collect();
    // SAFETY: zeros are parameters.
    let mut params: CUDA_KERNEL_NODE_PARAMS = unsafe { core::mem::zeroed() };
    params.func = function;
    (params.gridDimX, params.gridDimY, params.gridDimZ) = (1, 1, 1);
    (params.blockDimX, params.blockDimY, params.blockDimZ) = (1, 1, 1);
    params.kernelParams = pointers.as_mut_ptr();
    let none = core::ptr::null();
    ok!((gpu.driver.cuGraphAddKernelNode_v2)(&raw mut node, graph, none, 0, &raw const params));
    let exec = gpu.run(graph, null_mut());
    assert_eq!(gpu.word(memory), 1);
    arguments = [memory + 4, 2, 1];
    ok!((gpu.driver.cuGraphExecKernelNodeSetParams_v2)(exec, node, &raw const params));
    ok!((gpu.driver.cuGraphLaunch)(exec, null_mut()));
    assert_eq!((gpu.word(memory), gpu.word(memory + 4)), (1, 2));
    assert_eq!(arguments[1], 2);
}

#[test]
fn memory_of_a_graph_is_the_same_in_every_launch() {
    let gpu = Gpu::start();
    let (stream, out) = (gpu.stream(1), gpu.memory(4));
    let mut address = 0;
    ok!((gpu.driver.cuStreamBeginCapture_v2)(stream, 0));
    ok!((gpu.driver.cuMemAllocAsync)(&raw mut address, 4096, stream));
    assert_eq!(gpu.launch(c"fill", 1, stream, &[address, 6, 1024]), CUDA_SUCCESS);
    ok!((gpu.driver.cuMemcpyDtoDAsync_v2)(out, address + 4092, 4, stream));
    ok!((gpu.driver.cuMemFreeAsync)(address, stream));
    let mut graph = null_mut();
    ok!((gpu.driver.cuStreamEndCapture)(stream, &raw mut graph));
    for _ in 0..3 {
        ok!((gpu.driver.cuMemsetD32_v2)(out, 0, 1));
        gpu.run(graph, stream);
        assert_eq!(gpu.word(out), 6);
    }
}
