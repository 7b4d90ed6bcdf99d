// Launches in every form the driver has: plain, described (with a cluster, cooperative), cooperative,
// the forms of CUDA 2, per-thread twins, and host functions.
//
// Each launch is one event with its own grid, block, cluster, shared memory and stream; a host function is
// a call and no kernel; a launch that the driver refuses is recorded with its error and counts as none.
#include "program.h"

static void count_up(void *data) {
    *(int *)data += 1;
}

int main(void) {
    Gpu gpu = start();
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    CHECK(cuLaunchKernel(gpu.nothing, 3, 2, 1, 64, 2, 1, 1024, stream, NULL, NULL));
    CHECK(cuLaunchKernel_ptsz(gpu.nothing, 5, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));

    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    cluster.value.clusterDim.x = 2;
    cluster.value.clusterDim.y = 1;
    cluster.value.clusterDim.z = 1;
    CUlaunchConfig config = {8, 1, 1, 128, 1, 1, 0, stream, &cluster, 1};
    CHECK(cuLaunchKernelEx(&config, gpu.nothing, NULL, NULL));
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
    cooperative.value.cooperative = 1;
    config = (CUlaunchConfig){7, 1, 1, 32, 1, 1, 0, NULL, &cooperative, 1};
    CHECK(cuLaunchKernelEx_ptsz(&config, gpu.nothing, NULL, NULL));

    CHECK(cuLaunchCooperativeKernel(gpu.nothing, 6, 1, 1, 32, 1, 1, 0, stream, NULL));
    CHECK(cuLaunchCooperativeKernel_ptsz(gpu.nothing, 9, 1, 1, 32, 1, 1, 0, NULL, NULL));

    CHECK(cuFuncSetBlockShape(gpu.nothing, 16, 4, 2));
    CHECK(cuFuncSetSharedSize(gpu.nothing, 256));
    CHECK(cuLaunch(gpu.nothing));
    CHECK(cuLaunchGrid(gpu.nothing, 10, 11));
    CHECK(cuLaunchGridAsync(gpu.nothing, 12, 13, stream));

    int calls = 0;
    CHECK(cuLaunchHostFunc(stream, count_up, &calls));
    CHECK(cuLaunchHostFunc_ptsz(stream, count_up, &calls));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxSynchronize());
    EXPECT(calls == 2);

    EXPECT(cuLaunchKernel(gpu.nothing, 1, 1, 1, 4096, 1, 1, 0, stream, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);

    puts("expected launches=9 refused=1 cuLaunchKernel=2 cuLaunchKernel_ptsz=1 cuLaunchKernelEx=1"
         " cuLaunchKernelEx_ptsz=1 cuLaunchCooperativeKernel=1 cuLaunchCooperativeKernel_ptsz=1 cuLaunch=1"
         " cuLaunchGrid=1 cuLaunchGridAsync=1 cuLaunchHostFunc=1 cuLaunchHostFunc_ptsz=1");
    return 0;
}
