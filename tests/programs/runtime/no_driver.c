// Where there is no driver every question has one answer, and the program can ask what it means.
#include "runtime.h"

static void kernel(void) {}

__attribute__((constructor)) static void begin(void) {
    static struct wrapper wrapper = {WRAPPER_MAGIC, 1, NULL, NULL};
    wrapper.data = fatbin_of(KERNELS);
    void **handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, (const char *)kernel, (char *)"count", "count", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
}

int main(void) {
    int version = -1, count = -1;
    void *memory;
    CHECK(cudaRuntimeGetVersion(&version));
    EXPECT(version / 1000 == CUDART);
    CHECK(cudaDriverGetVersion(&version));
    EXPECT(version == 0);
    GIVES(cudaErrorInsufficientDriver, cudaGetLastError());
    GIVES(cudaErrorInsufficientDriver, cudaGetDeviceCount(&count));
    GIVES(cudaErrorInsufficientDriver, cudaSetDevice(0));
    GIVES(cudaErrorInsufficientDriver, cudaMalloc(&memory, 4));
    GIVES(cudaErrorInsufficientDriver, cudaFree(NULL));
    GIVES(cudaErrorInsufficientDriver, cudaLaunchKernel((void *)kernel, shape(1), shape(1), NULL, 0, NULL));
    cudaKernel_t handle = NULL;
    GIVES(cudaErrorInsufficientDriver, __cudaGetKernel(&handle, (void *)kernel));
    GIVES(cudaErrorInsufficientDriver, __cudaLaunchKernel(handle, shape(1), shape(1), NULL, 0, NULL));
    GIVES(cudaErrorInsufficientDriver, cudaGetLastError());
    GIVES(cudaErrorInsufficientDriver, cudaPeekAtLastError());
    EXPECT(strcmp(cudaGetErrorName(35), "cudaErrorInsufficientDriver") == 0);
    EXPECT(strstr(cudaGetErrorString(35), "driver version is insufficient") != NULL);
    EXPECT(strcmp(cudaGetErrorName(12345), "unrecognized error code") == 0);
    return 0;
}
