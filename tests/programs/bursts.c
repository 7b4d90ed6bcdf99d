// A program that answers requests: bursts of an input copy, launches, an output copy and a wait, with pauses.
//
// Arguments: bursts (20), launches in each (10), pause between two in microseconds (2000), pause between
// two launches of a burst in microseconds (0). A burst of many launches with pauses between them stays open
// as long as it is wished. The words at the end are the same whoever shares the GPU.
#include "program.h"

#include <stdint.h>
#include <unistd.h>

enum { N = 1 << 12, BLOCK = 256 };

static int argument(int count, char **words, int nth, int otherwise) {
    return count > nth ? atoi(words[nth]) : otherwise;
}

int main(int count, char **words) {
    int bursts = argument(count, words, 1, 20), launches = argument(count, words, 2, 10);
    int pause = argument(count, words, 3, 2000), gap = argument(count, words, 4, 0);
    Gpu gpu = start();
    static float x[N];
    CUdeviceptr memory;
    CUstream stream;
    CHECK(cuMemAlloc_v2(&memory, sizeof x));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    uint64_t hash = 0xcbf29ce484222325;
    for (int burst = 0; burst < bursts; burst++) {
        for (int i = 0; i < N; i++)
            x[i] = (float)(i + burst);
        CHECK(cuMemcpyHtoDAsync_v2(memory, x, sizeof x, stream));
        float by = 1.0009765625f;
        unsigned n = N;
        void *parameters[] = {&memory, &by, &n};
        for (int i = 0; i < launches; i++) {
            CHECK(cuLaunchKernel(gpu.scale, N / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, parameters, NULL));
            if (gap > 0)
                usleep((unsigned)gap);
        }
        CHECK(cuMemcpyDtoHAsync_v2(x, memory, sizeof x, stream));
        CHECK(cuStreamSynchronize(stream));
        const unsigned char *bytes = (const unsigned char *)x;
        for (size_t i = 0; i < sizeof x; i++)
            hash = (hash ^ bytes[i]) * 0x100000001b3;
        if (pause > 0)
            usleep((unsigned)pause);
    }
    printf("hash %016llx\n", (unsigned long long)hash);
    printf("expected launches=%d sync=%d\n", bursts * launches, bursts);
    return 0;
}
