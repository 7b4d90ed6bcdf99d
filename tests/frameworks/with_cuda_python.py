"""cuda.bindings and cuda.core: the driver's functions, NVRTC to PTX, launches, events, graphs, streams, managed memory."""

import ctypes

import numpy as np
from cases import case, run
from cuda.bindings import driver, nvrtc
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void saxpy(float a, const float *x, float *y, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void sums(const int *x, int *out) {
    __shared__ int part[256];
    part[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (!threadIdx.x) atomicAdd(out, part[0]);
}
"""


def check(answer):
    """What a call of the bindings gives besides its error."""
    error, *rest = answer
    assert int(error) == 0, error
    return rest[0] if len(rest) == 1 else rest


def ptx():
    """The kernels as the run-time compiler makes them."""
    program = check(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernels.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_90"]))
    text = b" " * check(nvrtc.nvrtcGetPTXSize(program))
    check(nvrtc.nvrtcGetPTX(program, text))
    return text


@case
def bindings_module_and_launch():
    check(driver.cuInit(0))
    context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
    check(driver.cuCtxSetCurrent(context))
    kernel = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(ptx())), b"saxpy"))
    x, y = np.arange(5000, dtype=np.float32), np.ones(5000, dtype=np.float32)
    on_device = [check(driver.cuMemAlloc(array.nbytes)) for array in (x, y)]
    for pointer, array in zip(on_device, (x, y)):
        check(driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
    values = (2.0, int(on_device[0]), int(on_device[1]), x.size)
    kinds = (ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    check(driver.cuLaunchKernel(kernel, 20, 1, 1, 256, 1, 1, 0, 0, (values, kinds), 0))
    out = np.empty_like(y)
    check(driver.cuMemcpyDtoH(out.ctypes.data, on_device[1], out.nbytes))
    np.testing.assert_array_equal(out, y + 2 * x)


def with_core(code_type):
    """Adds two arrays by cuda.core, with code of this type."""
    device = Device()
    device.set_current()
    stream = device.create_stream()
    options = ProgramOptions(std="c++17", arch="compute_90" if code_type == "ptx" else "sm_90")
    kernel = Program(SOURCE, "c++", options=options).compile(code_type).get_kernel("saxpy")
    memory = device.allocate(4 * 3000, stream=stream), device.allocate(4 * 3000, stream=stream)
    x = np.linspace(0, 1, 3000, dtype=np.float32)
    for buffer in memory:
        check(driver.cuMemcpyHtoDAsync(int(buffer.handle), x.ctypes.data, x.nbytes, stream.handle))
    launch(stream, LaunchConfig(grid=12, block=256), kernel, np.float32(3), memory[0], memory[1], np.uint64(3000))
    out = np.empty_like(x)
    check(driver.cuMemcpyDtoHAsync(out.ctypes.data, int(memory[1].handle), out.nbytes, stream.handle))
    stream.sync()
    np.testing.assert_allclose(out, 4 * x, rtol=1e-6)


@case
def core_ptx():
    with_core("ptx")


@case
def core_machine_code():
    with_core("cubin")


@case
def managed_memory_and_atomics():
    kernel = check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(ptx())), b"sums"))
    memory = int(check(driver.cuMemAllocManaged(4 * 1025, 1)))
    view = np.ctypeslib.as_array((ctypes.c_int * 1025).from_address(memory))
    view[:1024], view[1024] = np.arange(1024), 0
    values = (memory, memory + 4096)
    check(driver.cuLaunchKernel(kernel, 4, 1, 1, 256, 1, 1, 0, 0, (values, (ctypes.c_void_p,) * 2), 0))
    check(driver.cuCtxSynchronize())
    assert view[1024] == 1024 * 1023 // 2


@case
def events_and_capture():
    stream = check(driver.cuStreamCreate(0))
    begin, end = check(driver.cuEventCreate(0)), check(driver.cuEventCreate(0))
    memory = check(driver.cuMemAlloc(4096))
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    check(driver.cuStreamBeginCapture(stream, mode))
    check(driver.cuMemsetD32Async(memory, 7, 1024, stream))
    graph = check(driver.cuGraphInstantiate(check(driver.cuStreamEndCapture(stream)), 0))
    check(driver.cuEventRecord(begin, stream))
    check(driver.cuGraphLaunch(graph, stream))
    check(driver.cuEventRecord(end, stream))
    check(driver.cuEventSynchronize(end))
    assert check(driver.cuEventElapsedTime(begin, end)) >= 0
    out = np.empty(1024, dtype=np.int32)
    check(driver.cuMemcpyDtoH(out.ctypes.data, memory, 4096))
    assert (out == 7).all()


@case
def runtime_bindings():
    from cuda.bindings import runtime

    assert check(runtime.cudaGetDeviceCount()) >= 1
    memory = check(runtime.cudaMalloc(256))
    check(runtime.cudaMemset(memory, 5, 256))
    out = np.empty(256, dtype=np.uint8)
    check(runtime.cudaMemcpy(out.ctypes.data, memory, 256, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    assert (out == 5).all()


run()
