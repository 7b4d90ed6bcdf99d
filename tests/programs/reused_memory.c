// Allocates and frees in loops, so that freed memory may be handed out again: on one stream, across two streams without
// a wait, after everything was full, and twice by mistake. What it says is the same with and without a pool.
#include "program.h"

enum { N = 1 << 12, TURNS = 500, BLOCKS = 8 };

static void scale(Gpu *gpu, CUdeviceptr memory, float by, CUstream stream) {
    unsigned n = N;
    void *parameters[] = {&memory, &by, &n};
    CHECK(cuLaunchKernel(gpu->scale, N / 256, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
}

// A block is freed behind work on one stream, and the next of its size is used on another one at once.
static unsigned across_streams(Gpu *gpu) {
    static float x[N], y[N];
    unsigned wrong = 0;
    CUstream streams[2];
    CHECK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    for (int turn = 0; turn < TURNS; turn++) {
        CUstream here = streams[turn & 1], there = streams[(turn + 1) & 1];
        CUdeviceptr first, second;
        for (int i = 0; i < N; i++)
            x[i] = (float)turn;
        CHECK(cuMemAlloc_v2(&first, sizeof x));
        CHECK(cuMemAlloc_v2(&second, sizeof x));
        CHECK(cuMemcpyHtoDAsync_v2(first, x, sizeof x, here));
        for (int i = 0; i < 3; i++)
            scale(gpu, first, 2, here);
        CHECK(cuMemcpyDtoDAsync_v2(second, first, sizeof x, here));
        CHECK(cuMemFree_v2(first));
        CHECK(cuMemAlloc_v2(&first, sizeof x));
        CHECK(cuMemsetD32Async(first, 0, N, there));
        CHECK(cuMemcpyDtoHAsync_v2(y, second, sizeof y, here));
        CHECK(cuStreamSynchronize(here));
        for (int i = 0; i < N; i++)
            wrong += y[i] != 8 * (float)turn;
        CHECK(cuMemFree_v2(first));
        CHECK(cuMemFree_v2(second));
    }
    CHECK(cuStreamDestroy_v2(streams[0]));
    CHECK(cuStreamDestroy_v2(streams[1]));
    return wrong;
}

int main(void) {
    Gpu gpu = start();
    static float x[N];
    CUdeviceptr memory;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < N; i++)
            x[i] = 1;
        CHECK(cuMemAlloc_v2(&memory, sizeof x));
        CHECK(cuMemcpyHtoD_v2(memory, x, sizeof x));
        scale(&gpu, memory, (float)turn, NULL);
        CHECK(cuMemcpyDtoH_v2(x, memory, sizeof x));
        EXPECT(x[0] == (float)turn && x[N - 1] == (float)turn);
        scale(&gpu, memory, 3, NULL);
        CHECK(cuMemFree_v2(memory));
    }
    EXPECT(across_streams(&gpu) == 0);
    EXPECT(cuMemFree_v2(memory) != CUDA_SUCCESS);

    // What was freed counts as free, and is there for a block of any size.
    size_t before, after, total;
    CUdeviceptr blocks[BLOCKS], base;
    CHECK(cuMemGetInfo_v2(&before, &total));
    size_t part = before / (BLOCKS + 1), size;
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemAlloc_v2(&blocks[i], part));
    EXPECT(cuMemAlloc_v2(&memory, 2 * part) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemGetAddressRange_v2(&base, &size, blocks[1] + 5));
    EXPECT(base == blocks[1] && size == part);
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemFree_v2(blocks[i]));
    CHECK(cuMemGetInfo_v2(&after, &total));
    EXPECT(after >= before);
    CHECK(cuMemAlloc_v2(&memory, BLOCKS * part));
    CHECK(cuMemFree_v2(memory));
    CHECK(cuModuleUnload(gpu.module));
    printf("right\n");
    return 0;
}
