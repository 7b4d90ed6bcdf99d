// Bursts on the thread's own default stream, waited for by the stream and by an event.
#include "program.h"

enum { BURSTS = 20, BYTES = 4096 };

int main(void) {
    Gpu gpu = start();
    static char sent[BYTES];
    CUdeviceptr memory;
    CUevent event;
    CHECK(cuMemAlloc_v2(&memory, BYTES));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2 * BURSTS; i++) {
        CHECK(cuMemcpyHtoDAsync_v2_ptsz(memory, sent, BYTES, NULL));
        for (int launch = 0; launch < 3; launch++)
            CHECK(cuLaunchKernel_ptsz(gpu.nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        if (i < BURSTS) {
            CHECK(cuStreamSynchronize_ptsz(NULL));
        } else {
            CHECK(cuEventRecord_ptsz(event, NULL));
            CHECK(cuEventSynchronize(event));
        }
    }
    printf("expected launches=%d sync=%d\n", 6 * BURSTS, 2 * BURSTS);
    return 0;
}
