"""Asks NVIDIA's own Python package for the devices, with a kernel at work beside it."""
import ctypes
import os
import threading

import pynvml

pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
print("devices:", pynvml.nvmlDeviceGetCount())
print("name:", pynvml.nvmlDeviceGetName(device))
print("capability:", *pynvml.nvmlDeviceGetCudaComputeCapability(device))
place = pynvml.nvmlDeviceGetPciInfo(device).busId
uuid = pynvml.nvmlDeviceGetUUID(device)
for found in pynvml.nvmlDeviceGetHandleByPciBusId(place), pynvml.nvmlDeviceGetHandleByUUID(uuid):
    assert pynvml.nvmlDeviceGetIndex(found) == 0
for ask in pynvml.nvmlDeviceGetPowerUsage, pynvml.nvmlDeviceGetFanSpeed:
    try:
        print("answered:", ask(device))
    except pynvml.NVMLError_NotSupported:
        print("not supported:", ask.__name__)


def own_processes():
    """Others on this machine may use the software GPU too."""
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
    return [process for process in processes if process.pid == os.getpid()]


assert own_processes() == []

# The library has not started the driver: what is used is told once it is.
before = pynvml.nvmlDeviceGetMemoryInfo(device)
driver = ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, result


context, address = ctypes.c_void_p(), ctypes.c_uint64()
check(driver.cuInit(0))
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver.cuCtxSetCurrent(context))
check(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)))
after = pynvml.nvmlDeviceGetMemoryInfo(device, pynvml.nvmlMemory_v2)
print("used:", (after.used - before.used) >> 20, "MiB")
assert after.free + after.used == after.total

SPIN = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 stop) {
    .reg .b64 %d<3>; .reg .b32 %r<2>; .reg .pred %p<2>;
    ld.param.u64 %d1, [stop];
again:
    ld.volatile.global.u32 %r1, [%d1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
    ret;
}
"""
module, kernel, stop = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
check(driver.cuModuleLoadData(ctypes.byref(module), SPIN))
check(driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin"))
check(driver.cuMemHostAlloc(ctypes.byref(stop), ctypes.c_size_t(4), 0))
ctypes.memset(stop, 0, 4)
argument = ctypes.c_uint64(stop.value)
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
check(driver.cuLaunchKernel(kernel, *[1] * 6, 0, None, parameters, None))
busy = threading.Event()
for _ in range(300):
    if pynvml.nvmlDeviceGetUtilizationRates(device).gpu > 0:
        break
    busy.wait(0.1)
else:
    raise SystemExit("a kernel that runs is not seen")
(process,) = own_processes()
print("own process has:", process.usedGpuMemory >> 20, "MiB")
ctypes.memset(stop, 1, 1)
check(driver.cuCtxSynchronize())
pynvml.nvmlShutdown()
