// Threads with streams of their own that come and go, while all of them free memory and get each other's: whoever gets it
// waits for streams of others, which may be about to end.
#include "program.h"

#include <pthread.h>

enum { THREADS = 4, TURNS = 1500, N = 1 << 10 };

static Gpu gpu;

static void *works(void *number) {
    unsigned value = (unsigned)(size_t)number;
    CUdeviceptr kept;
    CHECK(cuCtxSetCurrent(gpu.context));
    CHECK(cuMemAlloc_v2(&kept, 8 * N));
    for (unsigned turn = 0; turn < TURNS; turn++, value += THREADS) {
        CUstream stream;
        CUdeviceptr memory;
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int block = 0; block < 3; block++) {
            CHECK(cuMemAlloc_v2(&memory, 4 * N));
            CHECK(cuMemsetD32Async(memory, value, N, stream));
            CHECK(cuMemcpyDtoDAsync_v2(kept, memory, 4 * N, stream));
            CHECK(cuMemFree_v2(memory));
        }
        if (turn % 4 == 0)
            CHECK(cuCtxSynchronize());
        else
            CHECK(cuStreamSynchronize(stream));
        CHECK(cuStreamDestroy_v2(stream));
        if (turn % 4 == 0) {
            unsigned word = 0;
            CHECK(cuMemcpyDtoH_v2(&word, kept + 4 * (N - 1), 4));
            EXPECT(word == value);
        }
    }
    CHECK(cuMemFree_v2(kept));
    return NULL;
}

int main(void) {
    gpu = start();
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, works, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("right\n");
    return 0;
}
