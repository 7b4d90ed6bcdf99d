// Gives the driver descriptions that cannot be read. A driver that refuses a call before it looks answers with
// an error; whoever stands before it must not look either.
#include "cuda_driver.h"

#include <stdio.h>

int main(void) {
    void *nowhere = (void *)16;
    CUlaunchConfig no_list = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .numAttrs = 3};
    CUlaunchAttribute *list = nowhere;
    CUlaunchConfig bad_list = {.gridDimX = 1, .attrs = list, .numAttrs = ~0u};
    CUarray array;
    CUmodule module;
    printf("cuInit: %d\n", cuInit(0));
    printf("copies: %d %d %d\n", cuMemcpy2D_v2(nowhere), cuMemcpy2DAsync_v2(nowhere, NULL), cuMemcpy3D_v2(nowhere));
    printf("arrays: %d %d\n", cuArrayCreate_v2(&array, nowhere), cuArray3DCreate_v2(&array, nowhere));
    printf("images: %d %d\n", cuModuleLoad(&module, nowhere), cuModuleLoadData(&module, nowhere));
    for (int i = 0; i < 3; i++)
        printf("launches: %d %d %d\n", cuLaunchKernelEx(nowhere, nowhere, NULL, NULL),
               cuLaunchKernelEx(&no_list, nowhere, NULL, NULL), cuLaunchKernelEx_ptsz(&bad_list, nowhere, NULL, NULL));
    printf("expected cuInit=1\n");
    return 0;
}
