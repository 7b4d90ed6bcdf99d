// A program that always has work: launches on two streams, one after the other, and waits now and then.
//
// Arguments: launches (2000), launches between two waits (100). The words at the end are the same whoever
// shares the GPU and however long each launch was held.
#include "program.h"

#include <stdint.h>

enum { N = 1 << 12, BLOCK = 256 };

int main(int count, char **words) {
    int launches = count > 1 ? atoi(words[1]) : 2000;
    int between = count > 2 ? atoi(words[2]) : 100;
    Gpu gpu = start();
    static float x[2][N];
    CUdeviceptr memory[2];
    CUstream streams[2] = {NULL, NULL};
    CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < N; i++)
            x[s][i] = (float)(1 + i % 1000);
        CHECK(cuMemAlloc_v2(&memory[s], sizeof x[s]));
        CHECK(cuMemcpyHtoD_v2(memory[s], x[s], sizeof x[s]));
    }
    int syncs = 0;
    for (int i = 0; i < launches; i++) {
        float by = i % 4 < 2 ? 1.25f : 0.8f;
        unsigned n = N;
        void *parameters[] = {&memory[i % 2], &by, &n};
        CHECK(cuLaunchKernel(gpu.scale, N / BLOCK, 1, 1, BLOCK, 1, 1, 0, streams[i % 2], parameters, NULL));
        if ((i + 1) % between == 0) {
            CHECK(cuCtxSynchronize());
            syncs += 1;
        }
    }
    CHECK(cuCtxSynchronize());
    uint64_t hash = 0xcbf29ce484222325;
    for (int s = 0; s < 2; s++) {
        CHECK(cuMemcpyDtoH_v2(x[s], memory[s], sizeof x[s]));
        const unsigned char *bytes = (const unsigned char *)x[s];
        for (size_t i = 0; i < sizeof x[s]; i++)
            hash = (hash ^ bytes[i]) * 0x100000001b3;
    }
    printf("hash %016llx\n", (unsigned long long)hash);
    printf("expected launches=%d sync=%d\n", launches, syncs + 1);
    return 0;
}
