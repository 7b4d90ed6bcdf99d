// Many processes that all want the whole GPU for a while.
//
// Arguments: processes (16), milliseconds (2000). Each launches as fast as it may and counts; the parent
// prints the smallest and the largest count, and how many had none.
#include "program.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 1 << 12, BLOCK = 256, MOST = 64 };

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void child(volatile long *count, volatile long *begun, int processes, long length) {
    Gpu gpu = start();
    CUdeviceptr memory;
    float by = 1;
    unsigned n = N;
    void *parameters[] = {&memory, &by, &n};
    CHECK(cuMemAlloc_v2(&memory, N * sizeof(float)));
    CHECK(cuLaunchKernel(gpu.scale, N / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cuCtxSynchronize());
    __sync_fetch_and_add(begun, 1);
    while (*begun < processes)
        usleep(1000);
    long end = milliseconds() + length;
    while (milliseconds() < end) {
        CHECK(cuLaunchKernel(gpu.scale, N / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, parameters, NULL));
        if (++*count % 16 == 0)
            CHECK(cuCtxSynchronize());
    }
    CHECK(cuCtxSynchronize());
    _exit(0);
}

int main(int argument_count, char **words) {
    int processes = argument_count > 1 ? atoi(words[1]) : 16;
    long length = argument_count > 2 ? atoi(words[2]) : 2000;
    EXPECT(processes > 0 && processes <= MOST);
    volatile long *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    for (int i = 0; i < processes; i++)
        if (fork() == 0)
            child(&shared[1 + i], &shared[0], processes, length);
    for (int i = 0; i < processes; i++) {
        int status;
        EXPECT(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    long least = shared[1], most = shared[1], none = 0;
    for (int i = 0; i < processes; i++) {
        long one = shared[1 + i];
        least = one < least ? one : least;
        most = one > most ? one : most;
        none += one == 0;
    }
    printf("least=%ld most=%ld none=%ld\n", least, most, none);
    return 0;
}
