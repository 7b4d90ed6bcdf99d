// Three thousand threads, sixteen at a time, each for a few launches.
//
// A thread's ring is given to another after its end, so all of them are recorded with far fewer rings than
// threads. Between the waves there is a moment, as any program has.
#include "program.h"

#include <pthread.h>
#include <unistd.h>

enum { WAVES = 188, WAVE = 16, LAUNCHES = 5, PAUSE_MICROSECONDS = 2000 };

static Gpu gpu;

static void *work(void *unused) {
    (void)unused;
    CHECK(cuCtxSetCurrent(gpu.context));
    for (int i = 0; i < LAUNCHES; i++)
        launch_nothing(&gpu, 1, NULL);
    return NULL;
}

int main(void) {
    gpu = start();
    for (int wave = 0; wave < WAVES; wave++) {
        pthread_t threads[WAVE];
        for (int i = 0; i < WAVE; i++)
            EXPECT(pthread_create(&threads[i], NULL, work, NULL) == 0);
        for (int i = 0; i < WAVE; i++)
            EXPECT(pthread_join(threads[i], NULL) == 0);
        usleep(PAUSE_MICROSECONDS);
    }
    printf("expected launches=%d threads=%d\n", WAVES * WAVE * LAUNCHES, WAVES * WAVE + 1);
    return 0;
}
