// Bursts beside streams that are never waited for by name: one gets work once, before the first burst, as PyTorch
// sets up the capture of a graph; the other gets some in every burst and is a blocking one, which whoever waits for the
// default stream has waited for too.
#include "program.h"

#include <unistd.h>

enum { BURSTS = 60, BYTES = 4096 };

int main(void) {
    Gpu gpu = start();
    static char sent[BYTES], answer[BYTES];
    CUdeviceptr memory;
    CUstream forsaken, blocking;
    CHECK(cuMemAlloc_v2(&memory, BYTES));
    CHECK(cuStreamCreate(&forsaken, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&blocking, 0));
    CHECK(cuLaunchKernel(gpu.nothing, 1, 1, 1, 32, 1, 1, 0, forsaken, NULL, NULL));
    for (int i = 0; i < BURSTS; i++) {
        CHECK(cuMemcpyHtoDAsync_v2(memory, sent, BYTES, blocking));
        CHECK(cuLaunchKernel(gpu.nothing, 1, 1, 1, 32, 1, 1, 0, blocking, NULL, NULL));
        CHECK(cuLaunchKernel(gpu.nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        if (i % 2)
            CHECK(cuStreamSynchronize(NULL));
        else
            CHECK(cuMemcpyDtoH_v2(answer, memory, BYTES));
        usleep(2000);
    }
    printf("expected launches=%d sync=%d\n", 1 + 2 * BURSTS, BURSTS / 2);
    return 0;
}
