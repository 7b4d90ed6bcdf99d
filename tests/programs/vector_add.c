// A plain driver-API program: two streams add halves of two vectors again and again, tied by events.
//
// Every launch, copy and wait is seen, and the sums are right. One argument: how often to launch (200).
#include "program.h"

enum { N = 1 << 20, HALF = N / 2, BLOCK = 256, STREAMS = 2 };

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 200;
    Gpu gpu = start();

    float *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b), *c = calloc(N, sizeof *c);
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = (float)(2 * i % 1000);
    }
    CUdeviceptr device_a, device_b, device_c;
    CHECK(cuMemAlloc_v2(&device_a, N * sizeof *a));
    CHECK(cuMemAlloc_v2(&device_b, N * sizeof *b));
    CHECK(cuMemAlloc_v2(&device_c, N * sizeof *c));
    // Streams that do not wait for the default one would not wait for this either: the copies do.
    CHECK(cuMemsetD8_v2(device_c, 0, N * sizeof *c));
    CHECK(cuMemcpyHtoD_v2(device_a, a, N * sizeof *a));
    CHECK(cuMemcpyHtoD_v2(device_b, b, N * sizeof *b));

    CUstream streams[STREAMS];
    CUevent done[STREAMS];
    for (int s = 0; s < STREAMS; s++) {
        CHECK(cuStreamCreate(&streams[s], CU_STREAM_NON_BLOCKING));
        CHECK(cuEventCreate(&done[s], CU_EVENT_DISABLE_TIMING));
    }
    for (int round = 0; round < rounds; round++) {
        for (int s = 0; s < STREAMS; s++) {
            size_t offset = (size_t)s * HALF * sizeof(float);
            CUdeviceptr from_a = device_a + offset, from_b = device_b + offset, to = device_c + offset;
            unsigned n = HALF;
            void *parameters[] = {&from_a, &from_b, &to, &n};
            CHECK(cuLaunchKernel(gpu.add, HALF / BLOCK, 1, 1, BLOCK, 1, 1, 0, streams[s], parameters, NULL));
            CHECK(cuEventRecord(done[s], streams[s]));
        }
        // Each stream goes on when the other has finished this round.
        for (int s = 0; s < STREAMS; s++)
            CHECK(cuStreamWaitEvent(streams[s], done[1 - s], 0));
    }
    for (int s = 0; s < STREAMS; s++)
        CHECK(cuStreamSynchronize(streams[s]));
    CHECK(cuMemcpyDtoH_v2(c, device_c, N * sizeof *c));

    for (int i = 0; i < N && rounds > 0; i++)
        EXPECT(c[i] == a[i] + b[i]);
    printf("%d sums are right\n", N);
    for (int s = 0; s < STREAMS; s++) {
        CHECK(cuEventDestroy_v2(done[s]));
        CHECK(cuStreamDestroy_v2(streams[s]));
    }
    CHECK(cuMemFree_v2(device_a));
    CHECK(cuMemFree_v2(device_b));
    CHECK(cuMemFree_v2(device_c));
    CHECK(cuModuleUnload(gpu.module));
    CHECK(cuCtxDestroy_v2(gpu.context));
    printf("expected launches=%d alloc=3 free=3 copy=3 set=1 sync=2 load=1 cuEventRecord=%d cuStreamWaitEvent=%d\n",
           STREAMS * rounds, STREAMS * rounds, STREAMS * rounds);
    return 0;
}
