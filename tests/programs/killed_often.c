// Starts children that use the GPU and kills each at a random moment.
//
// Arguments: children (100), seed (1), launches in a burst of a child (5; a burst ends with a wait, then a
// short pause), allocations and frees in a burst (0). Each child is killed between 0 and 20 milliseconds after its first launch, or before it. The
// parent uses no GPU itself.
#include "program.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void child(int launches, int allocations, volatile int *begun) {
    Gpu gpu = start();
    *begun = 1;
    for (;;) {
        for (int i = 0; i < launches; i++)
            launch_nothing(&gpu, 64, NULL);
        for (int i = 0; i < allocations; i++) {
            CUdeviceptr memory;
            CHECK(cuMemAlloc_v2(&memory, (size_t)4096 << i % 8));
            CHECK(cuMemsetD32Async(memory, 1, 1024, NULL));
            CHECK(cuMemFree_v2(memory));
        }
        CHECK(cuCtxSynchronize());
        usleep(200);
    }
}

int main(int count, char **words) {
    int children = count > 1 ? atoi(words[1]) : 100;
    srand(count > 2 ? (unsigned)atoi(words[2]) : 1);
    int launches = count > 3 ? atoi(words[3]) : 5;
    int allocations = count > 4 ? atoi(words[4]) : 0;
    volatile int *begun = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(begun != MAP_FAILED);
    for (int i = 0; i < children; i++) {
        *begun = 0;
        pid_t pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0)
            child(launches, allocations, begun);
        // Every eighth is killed while it begins.
        for (int waited = 0; i % 8 != 0 && !*begun && waited < 20000; waited++)
            usleep(100);
        usleep((unsigned)(rand() % 20000));
        EXPECT(kill(pid, SIGKILL) == 0);
        int status;
        EXPECT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    }
    printf("killed=%d\n", children);
    return 0;
}
