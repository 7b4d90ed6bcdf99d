// A host function and a callback of a stream call the driver themselves.
//
// The driver may run them on the thread that is in the middle of a call. What they call is recorded, and
// nothing of the outer call is lost or doubled. A driver that does not permit it answers 800 to the
// inner calls, which then count as refused.
#include "program.h"

typedef struct {
    Gpu *gpu;
    CUstream stream;
    int runs, asked, launched, refused;
} Inner;

static void inner(void *data) {
    Inner *inner = data;
    size_t free_bytes, total_bytes;
    inner->runs += 1;
    if (cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS)
        inner->asked += 1;
    CUresult result = cuLaunchKernel(inner->gpu->nothing, 2, 1, 1, 32, 1, 1, 0, inner->stream, NULL, NULL);
    if (result == CUDA_SUCCESS)
        inner->launched += 1;
    else
        inner->refused += 1;
    EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_PERMITTED);
}

static void callback(CUstream stream, CUresult status, void *data) {
    (void)stream;
    EXPECT(status == CUDA_SUCCESS);
    inner(data);
}

int main(void) {
    enum { ROUNDS = 500 };
    Gpu gpu = start();
    CUstream stream, other;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    Inner data = {.gpu = &gpu, .stream = other};
    for (int i = 0; i < ROUNDS; i++) {
        launch_nothing(&gpu, 1, stream);
        CHECK(cuLaunchHostFunc(stream, inner, &data));
        CHECK(cuStreamAddCallback(stream, callback, &data, 0));
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuCtxSynchronize());
    EXPECT(data.runs == 2 * ROUNDS && data.asked == data.launched);
    printf("expected launches=%d refused=%d cuLaunchHostFunc=%d sync=%d\n", ROUNDS + data.launched, data.refused,
           ROUNDS, ROUNDS + 1);
    return 0;
}
