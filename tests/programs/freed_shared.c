// Shows memory to another process, frees it and allocates as much again: the other process goes on seeing what it was shown.
#include "program.h"

#include <sys/wait.h>
#include <unistd.h>

enum { N = 1 << 12, TURNS = 8 };

static int to_child[2], to_parent[2];

static void say(int where, const void *data, size_t bytes) { EXPECT(write(where, data, bytes) == (ssize_t)bytes); }
static void hear(int where, void *data, size_t bytes) { EXPECT(read(where, data, bytes) == (ssize_t)bytes); }

static unsigned first_word(CUdeviceptr memory) {
    unsigned word = 0;
    CHECK(cuMemcpyDtoH_v2(&word, memory, sizeof word));
    return word;
}

// Looks at what it is shown, twice: the second time the owner has freed it.
static int watches(void) {
    Gpu gpu = start();
    unsigned seen[2];
    for (int turn = 0; turn < TURNS; turn++) {
        CUipcMemHandle handle;
        CUdeviceptr memory;
        hear(to_child[0], &handle, sizeof handle);
        CHECK(cuIpcOpenMemHandle_v2(&memory, handle, 1));
        seen[0] = first_word(memory);
        say(to_parent[1], &seen[0], sizeof seen[0]);
        unsigned go;
        hear(to_child[0], &go, sizeof go);
        seen[1] = first_word(memory);
        CHECK(cuIpcCloseMemHandle(memory));
        say(to_parent[1], &seen[1], sizeof seen[1]);
    }
    CHECK(cuModuleUnload(gpu.module));
    return 0;
}

int main(void) {
    EXPECT(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0)
        exit(watches());
    Gpu gpu = start();
    for (int turn = 0; turn < TURNS; turn++) {
        CUdeviceptr memory, again[4];
        CUipcMemHandle handle;
        unsigned seen, go = 1, value = 1000u + (unsigned)turn;
        CHECK(cuMemAlloc_v2(&memory, 4 * N));
        CHECK(cuMemsetD32Async(memory, value, N, NULL));
        CHECK(cuCtxSynchronize());
        CHECK(cuIpcGetMemHandle(&handle, memory));
        say(to_child[1], &handle, sizeof handle);
        hear(to_parent[0], &seen, sizeof seen);
        EXPECT(seen == value);
        CHECK(cuMemFree_v2(memory));
        for (int i = 0; i < 4; i++) {
            CHECK(cuMemAlloc_v2(&again[i], 4 * N));
            CHECK(cuMemsetD32Async(again[i], 7, N, NULL));
        }
        CHECK(cuCtxSynchronize());
        say(to_child[1], &go, sizeof go);
        hear(to_parent[0], &seen, sizeof seen);
        EXPECT(seen == value);
        for (int i = 0; i < 4; i++)
            CHECK(cuMemFree_v2(again[i]));
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(cuModuleUnload(gpu.module));
    printf("seen %d times\n", 2 * TURNS);
    return 0;
}
