// A kernel that reads where nothing is: its error comes with the next wait, stays whatever is asked,
// and ends with the device's reset.
#include "runtime.h"

enum { cudaErrorIllegalAddress = 700 };

static const char READS_NOTHING[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry reads_nothing(.param .u64 from)\n"
    "{\n"
    "  .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    "  ld.param.u64 %d1, [from];\n"
    "  ld.global.u32 %r1, [%d1];\n"
    "  st.global.u32 [%d1], %r1;\n"
    "  ret;\n"
    "}\n";

static void kernel(void) {}

__attribute__((constructor)) static void begin(void) {
    static struct wrapper wrapper = {WRAPPER_MAGIC, 1, NULL, NULL};
    wrapper.data = fatbin_of(READS_NOTHING);
    void **handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, (const char *)kernel, (char *)"reads_nothing", "reads_nothing", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
}

int main(void) {
    uint64_t nothing = 64;
    void *arguments[] = {&nothing}, *memory;
    CHECK(cudaLaunchKernel((void *)kernel, shape(1), shape(1), arguments, 0, NULL));
    GIVES(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    GIVES(cudaErrorIllegalAddress, cudaPeekAtLastError());
    GIVES(cudaErrorIllegalAddress, cudaGetLastError());
    GIVES(cudaErrorIllegalAddress, cudaGetLastError());
    GIVES(cudaErrorIllegalAddress, cudaMalloc(&memory, 64));
    CHECK(cudaDeviceReset());
    CHECK(cudaGetLastError());
    CHECK(cudaMalloc(&memory, 64));
    CHECK(cudaDeviceSynchronize());
    return 0;
}
