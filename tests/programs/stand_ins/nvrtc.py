"""Compiles for machine code, as CuPy and cuda.core do, and runs what comes."""
import ctypes
import glob
import os
import sys

folders = [os.path.join(folder, "nvidia/cu13/lib") for folder in sys.path]
folder = next(folder for folder in folders if os.path.isdir(folder))
# The compiler asks for this one by its name, which is found once it is loaded.
for builtins in glob.glob(os.path.join(folder, "libnvrtc-builtins.so.*")):
    ctypes.CDLL(builtins)
sources = ctypes.CDLL(os.path.join(folder, "libnvrtc.so.13"))
driver = ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, result


SOURCE = b'extern "C" __global__ void twice(int *values) { values[threadIdx.x] *= 2; }'


def compiled(architecture):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    check(sources.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"twice.cu", 0, None, None))
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=" + architecture)
    check(sources.nvrtcCompileProgram(program, 1, options))
    check(sources.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    code = ctypes.create_string_buffer(size.value + 1)
    check(sources.nvrtcGetCUBIN(program, code))
    return code.raw[: size.value]


print("without machine code:", len(compiled(b"compute_90")))
code = compiled(b"sm_90")
print("machine code begins with:", "ELF" if code[:4] == b"\x7fELF" else code[:2].decode())
context, module, kernel, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
check(driver.cuInit(0))
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver.cuCtxSetCurrent(context))
loaded = driver.cuModuleLoadData(ctypes.byref(module), code)
print("loaded:", loaded)
if loaded == 0:
    values = (ctypes.c_int * 32)(*range(32))
    check(driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"twice"))
    check(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(128)))
    check(driver.cuMemcpyHtoD_v2(address, values, ctypes.c_size_t(128)))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(address))
    check(driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, parameters, None))
    check(driver.cuMemcpyDtoH_v2(values, address, ctypes.c_size_t(128)))
    print("right:", list(values) == [2 * value for value in range(32)])
