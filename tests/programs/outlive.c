// Ends at once and leaves a child behind that goes on using CUDA, begins a thread, and says in a file (the
// argument) that all went well.
//
// Whoever watched the parent goes when it ends; the child does not notice.
#include "program.h"

#include <pthread.h>
#include <unistd.h>

enum { LAUNCHES = 300 };

static Gpu gpu;

static void *work(void *unused) {
    (void)unused;
    CHECK(cuCtxSetCurrent(gpu.context));
    for (int i = 0; i < LAUNCHES; i++)
        launch_nothing(&gpu, 1, NULL);
    return NULL;
}

int main(int count, char **words) {
    EXPECT(count == 2);
    int between[2];
    EXPECT(pipe(between) == 0);
    if (fork() != 0) {
        // Until the child has begun.
        char byte;
        EXPECT(read(between[0], &byte, 1) == 1);
        puts("the parent ends");
        return 0;
    }
    gpu = start();
    EXPECT(write(between[1], "x", 1) == 1);
    for (int i = 0; i < LAUNCHES; i++) {
        launch_nothing(&gpu, 1, NULL);
        usleep(1000);
    }
    // Another kernel and another thread: both would be told to whoever is there no more.
    unsigned n = 0;
    float by = 1;
    CUdeviceptr memory = 0;
    void *for_scale[] = {&memory, &by, &n};
    CHECK(cuLaunchKernel(gpu.scale, 1, 1, 1, 32, 1, 1, 0, NULL, for_scale, NULL));
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    CHECK(cuCtxSynchronize());
    FILE *file = fopen(words[1], "w");
    EXPECT(file != NULL && fputs("all went well\n", file) >= 0 && fclose(file) == 0);
    return 0;
}
