// A kernel works on more than there is.
//
// The driver answers with an illegal address, and to everything after it in this context too. One argument:
// how many bytes after the end of the memory the kernel goes to work.
#include "program.h"

enum { COUNT = 64 };

int main(int count, char **words) {
    EXPECT(count == 2);
    Gpu gpu = start();
    CUdeviceptr memory;
    CHECK(cuMemAlloc_v2(&memory, COUNT * sizeof(float)));
    CUdeviceptr beyond = memory + COUNT * sizeof(float) + strtoull(words[1], NULL, 10);
    unsigned n = 3;
    float by = 2;
    void *for_scale[] = {&beyond, &by, &n};
    CHECK(cuLaunchKernel(gpu.scale, 1, 1, 1, 32, 1, 1, 0, NULL, for_scale, NULL));
    printf("the wait: %d\n", cuCtxSynchronize());
    printf("an allocation: %d\n", cuMemAlloc_v2(&memory, 4));
    return 0;
}
