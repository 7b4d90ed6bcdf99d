// Forks again and again while other threads launch, load code and unload it.
//
// Whatever another thread held at the moment of the fork stays held in the child for ever; the child
// calls all the same, is told that it has no driver, and does not wait: none takes longer than a few seconds.
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, CHILDREN = 300, LAUNCHES = 2, MOST_SECONDS = 5 };

static Gpu gpu;
static atomic_int over;

static void *busy(void *unused) {
    (void)unused;
    CHECK(cuCtxSetCurrent(gpu.context));
    while (!atomic_load(&over)) {
        CUmodule module;
        CUfunction nothing;
        CHECK(cuModuleLoadData(&module, KERNELS));
        CHECK(cuModuleGetFunction(&nothing, module, "nothing"));
        CHECK(cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        CHECK(cuModuleUnload(module));
    }
    return NULL;
}

int main(void) {
    gpu = start();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, busy, NULL) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        time_t begun = time(NULL);
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            for (int launch = 0; launch < LAUNCHES; launch++)
                EXPECT(cuLaunchKernel(gpu.nothing, 2, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) ==
                       CUDA_ERROR_NOT_INITIALIZED);
            _exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        EXPECT(time(NULL) - begun <= MOST_SECONDS);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("expected processes=%d refused=%d\n", CHILDREN + 1, CHILDREN * LAUNCHES);
    return 0;
}
