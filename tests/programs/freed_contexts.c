// Frees memory that a stream has yet to write, and has another context meanwhile: that one's wait says nothing of the first
// one's work. What another stream of the first context writes into memory obtained later stays.
#include "program.h"

#include <string.h>
#include <time.h>

enum { N = 1 << 10 };

static void sleeps(void *unused) {
    (void)unused;
    struct timespec moment = {0, 300 * 1000 * 1000};
    nanosleep(&moment, NULL);
}

// `created`: the other context is made while the work is under way; `set`: it was made before.
int main(int count, char **words) {
    int is_created = count > 1 && strcmp(words[1], "created") == 0;
    Gpu gpu = start();
    CUcontext other;
    if (!is_created) {
        CHECK(cuCtxCreate_v2(&other, 0, gpu.device));
        CHECK(cuCtxSetCurrent(gpu.context));
    }
    CUstream slow, quick;
    CHECK(cuStreamCreate(&slow, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&quick, CU_STREAM_NON_BLOCKING));
    CUdeviceptr freed, memory;
    CHECK(cuMemAlloc_v2(&freed, 4 * N));
    CHECK(cuLaunchHostFunc(slow, sleeps, NULL));
    CHECK(cuMemsetD32Async(freed, 1, N, slow));
    CHECK(cuMemFree_v2(freed));
    CHECK(cuMemAlloc_v2(&memory, 4 * N));
    if (is_created)
        CHECK(cuCtxCreate_v2(&other, 0, gpu.device));
    else
        CHECK(cuCtxSetCurrent(other));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(gpu.context));
    CHECK(cuMemsetD32Async(memory, 2, N, quick));
    CHECK(cuStreamSynchronize(quick));
    CHECK(cuStreamSynchronize(slow));
    unsigned word = 0;
    CHECK(cuMemcpyDtoH_v2(&word, memory + 4 * (N - 1), 4));
    printf("holds %u\n", word);
    CHECK(cuMemFree_v2(memory));
    return 0;
}
