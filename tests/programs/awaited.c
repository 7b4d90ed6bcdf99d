// Launches that others wait for, and so are never held: a collective, and a stream behind which stands an event
// that other processes can open.
#include "program.h"

static const char COLLECTIVE[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry ncclDevKernel_AllReduce_Sum_f32() { ret; }\n";

enum { INTERPROCESS = 4, LAUNCHES = 1000 };

int main(void) {
    Gpu gpu = start();
    CUmodule module;
    CUfunction collective;
    CUstream stream;
    CUevent event;
    CHECK(cuModuleLoadData(&module, COLLECTIVE));
    CHECK(cuModuleGetFunction(&collective, module, "ncclDevKernel_AllReduce_Sum_f32"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, stream));
    for (int i = 0; i < LAUNCHES; i++) {
        CHECK(cuLaunchKernel(collective, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        launch_nothing(&gpu, 1, stream);
    }
    CHECK(cuCtxSynchronize());
    printf("expected launches=%d sync=1\n", 2 * LAUNCHES);
    return 0;
}
