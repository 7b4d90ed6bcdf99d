// Two hundred threads launch at the same time, two thousand kernels each.
//
// Every launch is recorded or counted as lost: the two add up.
#include "program.h"

#include <pthread.h>

enum { THREADS = 200, LAUNCHES = 2000 };

static Gpu gpu;
static pthread_barrier_t all_there;

static void *work(void *unused) {
    (void)unused;
    CHECK(cuCtxSetCurrent(gpu.context));
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < LAUNCHES; i++)
        launch_nothing(&gpu, 1, stream);
    CHECK(cuStreamSynchronize(stream));
    pthread_barrier_wait(&all_there);
    CHECK(cuStreamDestroy_v2(stream));
    return NULL;
}

int main(void) {
    gpu = start();
    pthread_t threads[THREADS];
    EXPECT(pthread_barrier_init(&all_there, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("expected launches=%d threads=%d sync=%d\n", THREADS * LAUNCHES, THREADS + 1, THREADS);
    return 0;
}
