"""Links two texts with nvJitLink, opened by a path where it does not lie, and runs what comes."""
import ctypes

linker = ctypes.CDLL("/nowhere/nvidia/cu13/lib/libnvJitLink.so.13")
driver = ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, result


HEAD = b".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = HEAD + b"""
.extern .func (.param .b32 result) square(.param .b32 value);
.visible .entry squares(.param .u64 values) {
    .reg .b64 %d<5>; .reg .b32 %r<4>;
    ld.param.u64 %d1, [values];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.u64 %d3, %d1, %d2;
    { .param .b32 in; .param .b32 out;
      st.param.b32 [in], %r1;
      call (out), square, (in);
      ld.param.b32 %r2, [out]; }
    st.global.u32 [%d3], %r2;
    ret;
}
\0"""
SQUARE = HEAD + b"""
.visible .func (.param .b32 result) square(.param .b32 value) {
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [value];
    mul.lo.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
}
\0"""
PTX, LTOIR = 2, 3

major, minor = ctypes.c_uint(), ctypes.c_uint()
check(linker.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor)))
print("makes callers emit LTO-IR:", (major.value, minor.value) >= (12, 3))
link, size = ctypes.c_void_p(), ctypes.c_size_t()
options = (ctypes.c_char_p * 1)(b"-arch=sm_90")
# By the name of the newest header.
check(linker.__getattr__("__nvJitLinkCreate_13_0")(ctypes.byref(link), 1, options))
refused = linker.nvJitLinkAddData(link, LTOIR, b"BC\xc0\xde....", ctypes.c_size_t(8), b"code.ltoir")
check(linker.nvJitLinkGetErrorLogSize(link, ctypes.byref(size)))
log = ctypes.create_string_buffer(size.value)
check(linker.nvJitLinkGetErrorLog(link, log))
print("LTO-IR:", refused, log.value.decode().strip())
for text, name in (KERNEL, b"kernel.ptx"), (SQUARE, b"square.ptx"):
    check(linker.nvJitLinkAddData(link, PTX, text, ctypes.c_size_t(len(text)), name))
check(linker.nvJitLinkComplete(link))
check(linker.nvJitLinkGetLinkedCubinSize(link, ctypes.byref(size)))
code = ctypes.create_string_buffer(size.value)
check(linker.nvJitLinkGetLinkedCubin(link, code))
check(linker.nvJitLinkDestroy(ctypes.byref(link)))

context, module, kernel, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
check(driver.cuInit(0))
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver.cuCtxSetCurrent(context))
check(driver.cuModuleLoadData(ctypes.byref(module), code))
check(driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"squares"))
check(driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(128)))
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(address))
check(driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, parameters, None))
values = (ctypes.c_int * 32)()
check(driver.cuMemcpyDtoH_v2(values, address, ctypes.c_size_t(128)))
print("right:", list(values) == [value * value for value in range(32)])
