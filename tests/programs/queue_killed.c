// Starts children that launch in bursts, and kills each at a random moment.
//
// Arguments: children (200), seed (1). A child counts each launch in shared memory when its call has returned; so
// what was recorded of all children is at least what they counted, and at most one launch a child more.
#include "program.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 3000 };

static void child(volatile unsigned long *made) {
    Gpu gpu = start();
    for (;;) {
        for (int i = 0; i < BURST; i++) {
            launch_nothing(&gpu, 1, NULL);
            ++*made;
        }
        CHECK(cuCtxSynchronize());
    }
}

int main(int count, char **words) {
    int children = count > 1 ? atoi(words[1]) : 200;
    srand(count > 2 ? (unsigned)atoi(words[2]) : 1);
    volatile unsigned long *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(made != MAP_FAILED);
    unsigned long all = 0;
    for (int i = 0; i < children; i++) {
        *made = 0;
        pid_t pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0)
            child(made);
        // Every eighth is killed while it begins.
        for (int waited = 0; i % 8 != 0 && *made == 0 && waited < 100000; waited++)
            usleep(100);
        usleep((unsigned)(rand() % 6000));
        EXPECT(kill(pid, SIGKILL) == 0);
        int status;
        EXPECT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        all += *made;
    }
    printf("killed=%d made=%lu\n", children, all);
    return 0;
}
