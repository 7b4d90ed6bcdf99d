// Forks twice: before the driver was touched (that child uses CUDA on its own), and after.
//
// Each process is recorded under its own number. The parent's ring is written by the parent alone, before
// and after the fork, also while the child still makes calls. A child forked from a process that used CUDA
// has no driver, as ever, and is told so; its calls are recorded as its own.
#include "program.h"

#include <sys/wait.h>
#include <unistd.h>

enum { EARLY = 10, BEFORE = 100, LATE = 30, AFTER = 200 };

static void finish(pid_t child) {
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    pid_t early = fork();
    if (early == 0) {
        Gpu gpu = start();
        for (int i = 0; i < EARLY; i++)
            launch_nothing(&gpu, 1, NULL);
        CHECK(cuCtxSynchronize());
        exit(0);
    }
    finish(early);

    Gpu gpu = start();
    for (int i = 0; i < BEFORE; i++)
        launch_nothing(&gpu, 2, NULL);
    pid_t late = fork();
    if (late == 0) {
        for (int i = 0; i < LATE; i++)
            EXPECT(cuLaunchKernel(gpu.nothing, 3, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) ==
                   CUDA_ERROR_NOT_INITIALIZED);
        exit(0);
    }
    for (int i = 0; i < AFTER; i++)
        launch_nothing(&gpu, 4, NULL);
    finish(late);
    CHECK(cuCtxSynchronize());
    printf("expected processes=3 launches=%d refused=%d sync=2\n", EARLY + BEFORE + AFTER, LATE);
    return 0;
}
