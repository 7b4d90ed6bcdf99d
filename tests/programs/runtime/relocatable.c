// A program of relocatable units, as `nvcc -rdc=true` makes it for PTX: the wrapper's own image is
// empty and a list names the units, which only together are a program.
#include "runtime.h"

static const char CALLER[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".extern .func (.param .b32 result) twice(.param .b32 value);\n"
    ".extern .global .align 4 .b8 start[4];\n"
    ".visible .entry apply(.param .u64 out)\n"
    "{\n"
    "  .reg .b32 %r<4>; .reg .b64 %d<3>;\n"
    "  ld.global.u32 %r1, [start];\n"
    "  {\n"
    "    .param .b32 argument; .param .b32 answer;\n"
    "    st.param.b32 [argument], %r1;\n"
    "    call.uni (answer), twice, (argument);\n"
    "    ld.param.b32 %r2, [answer];\n"
    "  }\n"
    "  ld.param.u64 %d1, [out];\n"
    "  cvta.to.global.u64 %d2, %d1;\n"
    "  st.global.u32 [%d2], %r2;\n"
    "  ret;\n"
    "}\n";
static const char CALLED[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .global .align 4 .u32 start = 21;\n"
    ".visible .func (.param .b32 result) twice(.param .b32 value)\n"
    "{\n"
    "  .reg .b32 %r<3>;\n"
    "  ld.param.b32 %r1, [value];\n"
    "  add.u32 %r2, %r1, %r1;\n"
    "  st.param.b32 [result], %r2;\n"
    "  ret;\n"
    "}\n";

static void apply(void) {}
static void **handle;

__attribute__((constructor)) static void begin(void) {
    static uint64_t empty[2] = {0x00100001ba55ed50, 0};
    static void *units[4];
    static struct wrapper wrapper = {WRAPPER_MAGIC, 2, empty, units};
    units[0] = fatbin_of(CALLER);
    units[1] = fatbin_of(CALLED);
    units[2] = empty;
    handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, (const char *)apply, (char *)"apply", "apply", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
}

int main(void) {
    int *out, answer = 0;
    CHECK(cudaMalloc((void **)&out, sizeof *out));
    void *arguments[] = {&out};
    CHECK(cudaLaunchKernel((void *)apply, shape(1), shape(1), arguments, 0, NULL));
    CHECK(cudaMemcpy(&answer, out, sizeof answer, DeviceToHost));
    EXPECT(answer == 42);
    __cudaUnregisterFatBinary(handle);
    GIVES(cudaErrorInvalidDeviceFunction, cudaLaunchKernel((void *)apply, shape(1), shape(1), arguments, 0, NULL));
    return 0;
}
