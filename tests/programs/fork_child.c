// Forks twice: before the driver was touched (that child uses CUDA on its own), and after.
//
// Each process is recorded under its own number. The parent's ring is written by the parent alone, before
// and after the fork, also while the child still makes calls; a child forked from a process that used
// CUDA finds the driver as it was, and what it calls is its own.
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
            launch_nothing(&gpu, 3, NULL);
        exit(0);
    }
    for (int i = 0; i < AFTER; i++)
        launch_nothing(&gpu, 4, NULL);
    finish(late);
    CHECK(cuCtxSynchronize());
    printf("expected processes=3 launches=%d sync=2\n", EARLY + BEFORE + LATE + AFTER);
    return 0;
}
