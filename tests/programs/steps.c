// Works in steps, as training does: data goes to the device, kernels run on two streams, a result comes back, the host
// thinks. It is there to be looked at while it runs and to be compared with itself.
//
// Arguments: the file with the PTX of demo.cu; steps; microseconds that the host thinks in each step; matrix products in
// each step; how many numbers the vector add is about.
#include "program.h"

#include <unistd.h>

enum { MOST = 1 << 20, SIDE = 128, TILE = 16, BLOCK = 256 };

static CUdeviceptr memory(size_t bytes) {
    CUdeviceptr address;
    CHECK(cuMemAlloc_v2(&address, bytes));
    CHECK(cuMemsetD8_v2(address, 0, bytes));
    return address;
}

int main(int count, char **words) {
    EXPECT(count == 6);
    int steps = atoi(words[2]), pause = atoi(words[3]), products = atoi(words[4]);
    unsigned n = (unsigned)atoi(words[5]), side = SIDE;
    EXPECT(n <= MOST);
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction vector_add, matrix_product, reduction;
    CUstream first, second;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuCtxCreate_v2(&context, 0, device));
    CHECK(cuModuleLoad(&module, words[1]));
    CHECK(cuModuleGetFunction(&vector_add, module, "vector_add"));
    CHECK(cuModuleGetFunction(&matrix_product, module, "matrix_product"));
    CHECK(cuModuleGetFunction(&reduction, module, "reduction"));
    CHECK(cuStreamCreate(&first, 1));
    CHECK(cuStreamCreate(&second, 1));
    float *host = calloc(MOST, sizeof *host), total;
    EXPECT(host);
    CUdeviceptr a = memory(MOST * 4), b = memory(MOST * 4), c = memory(MOST * 4), sum = memory(4);
    for (int step = 0; step < steps; step++) {
        CHECK(cuMemcpyHtoDAsync_v2(a, host, n * 4, first));
        void *for_add[] = {&a, &b, &c, &n};
        for (int i = 0; i < 4; i++)
            CHECK(cuLaunchKernel(vector_add, n / BLOCK, 1, 1, BLOCK, 1, 1, 0, first, for_add, NULL));
        void *for_product[] = {&a, &b, &c, &side};
        for (int i = 0; i < products; i++)
            CHECK(cuLaunchKernel(matrix_product, SIDE / TILE, SIDE / TILE, 1, TILE, TILE, 1, 0, second, for_product,
                                 NULL));
        void *for_reduction[] = {&a, &sum, &n};
        CHECK(cuLaunchKernel(reduction, 16, 1, 1, BLOCK, 1, 1, 0, first, for_reduction, NULL));
        CHECK(cuStreamSynchronize(second));
        CHECK(cuMemcpyDtoHAsync_v2(&total, sum, 4, first));
        CHECK(cuStreamSynchronize(first));
        if (pause > 0)
            usleep((unsigned)pause);
    }
    printf("done %d steps\n", steps);
    return 0;
}
