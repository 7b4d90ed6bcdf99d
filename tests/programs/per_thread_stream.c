// Works on the per-thread default stream, through the twin functions that a program gets when it is
// built for it.
//
// In a twin a null stream is the calling thread's own: it is recorded as 2. In the plain forms null stays 0,
// and the special handles 1 and 2 stay what they are.
#include "program.h"

#include <pthread.h>

static Gpu gpu;

static void *work(void *unused) {
    (void)unused;
    enum { BYTES = 4096 };
    CUdeviceptr memory;
    CUevent event;
    char sent[BYTES] = {1}, back[BYTES] = {0};
    CHECK(cuCtxSetCurrent(gpu.context));
    CHECK(cuMemAlloc_v2(&memory, BYTES));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuMemcpyHtoD_v2_ptds(memory, sent, BYTES));
    CHECK(cuMemcpyHtoDAsync_v2_ptsz(memory, sent, BYTES, NULL));
    CHECK(cuLaunchKernel_ptsz(gpu.nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuMemsetD32Async_ptsz(memory + BYTES / 2, 7, 1, NULL));
    CHECK(cuEventRecord_ptsz(event, NULL));
    CHECK(cuStreamSynchronize_ptsz(NULL));
    CHECK(cuMemcpyDtoH_v2_ptds(back, memory, BYTES));
    EXPECT(back[0] == 1 && back[BYTES / 2] == 7);
    // The plain form, given the per-thread stream by its handle, and the legacy stream by both its names.
    CHECK(cuLaunchKernel(gpu.nothing, 2, 1, 1, 32, 1, 1, 0, (CUstream)2, NULL, NULL));
    CHECK(cuLaunchKernel(gpu.nothing, 3, 1, 1, 32, 1, 1, 0, (CUstream)1, NULL, NULL));
    CHECK(cuLaunchKernel(gpu.nothing, 4, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuEventDestroy_v2(event));
    CHECK(cuMemFree_v2(memory));
    return NULL;
}

int main(void) {
    gpu = start();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    puts("expected launches=8 copy=6 set=2 sync=2 cuLaunchKernel_ptsz=2 cuMemcpyHtoD_v2_ptds=2 cuMemcpyDtoH_v2_ptds=2"
         " cuMemcpyHtoDAsync_v2_ptsz=2 cuMemsetD32Async_ptsz=2 cuEventRecord_ptsz=2 cuStreamSynchronize_ptsz=2");
    return 0;
}
