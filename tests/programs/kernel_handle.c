// Launches kernels of a library by handing over the CUkernel where a CUfunction is asked for, as newer
// runtimes do.
//
// Name, registers and parameters of such a kernel are found all the same, and a kernel of the same name from
// a module is the same kernel.
#include "program.h"

int main(void) {
    enum { N = 256 };
    Gpu gpu = start();
    CUlibrary library;
    CUkernel add, scale;
    CHECK(cuLibraryLoadData(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&add, library, "add"));
    CHECK(cuLibraryGetKernel(&scale, library, "scale"));
    CUdeviceptr memory;
    CHECK(cuMemAlloc_v2(&memory, N * sizeof(float)));
    CHECK(cuMemsetD32Async(memory, 0, N, NULL));
    unsigned n = N;
    float by = 2;
    void *for_add[] = {&memory, &memory, &memory, &n}, *for_scale[] = {&memory, &by, &n};
    for (int i = 0; i < 3; i++)
        CHECK(cuLaunchKernel((CUfunction)add, 2, 1, 1, 128, 1, 1, 0, NULL, for_add, NULL));
    for (int i = 0; i < 4; i++)
        CHECK(cuLaunchKernel((CUfunction)scale, 1, 1, 1, 256, 1, 1, 0, NULL, for_scale, NULL));
    for (int i = 0; i < 5; i++)
        CHECK(cuLaunchKernel(gpu.scale, 1, 1, 1, 256, 1, 1, 0, NULL, for_scale, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuLibraryUnload(library));
    puts("expected launches=12 kernel.add=3 kernel.scale=9 load=2 sync=1");
    return 0;
}
