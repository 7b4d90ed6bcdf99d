// Bursts whose end is asked for again and again, never waited for: of the stream, of its thread's own default one, and
// of an event.
#include "program.h"

enum { BURSTS = 20, BYTES = 4096, WAYS = 3 };

static CUresult ask(int way, CUstream stream, CUevent event) {
    return way == 0 ? cuStreamQuery(stream) : way == 1 ? cuStreamQuery_ptsz(NULL) : cuEventQuery(event);
}

int main(void) {
    Gpu gpu = start();
    static char sent[BYTES];
    CUdeviceptr memory;
    CUstream stream;
    CUevent event;
    CHECK(cuMemAlloc_v2(&memory, BYTES));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < WAYS * BURSTS; i++) {
        int way = i % WAYS;
        CUresult result;
        if (way == 1) {
            CHECK(cuMemcpyHtoDAsync_v2_ptsz(memory, sent, BYTES, NULL));
            CHECK(cuLaunchKernel_ptsz(gpu.nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        } else {
            CHECK(cuMemcpyHtoDAsync_v2(memory, sent, BYTES, stream));
            CHECK(cuLaunchKernel(gpu.nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
        }
        if (way == 2)
            CHECK(cuEventRecord(event, stream));
        while ((result = ask(way, stream, event)) == CUDA_ERROR_NOT_READY)
            ;
        CHECK(result);
    }
    printf("expected launches=%d sync=0\n", WAYS * BURSTS);
    return 0;
}
