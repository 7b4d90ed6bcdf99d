// Forks while another thread allocates, uses and frees as fast as it can. In a child there is no driver, and it says so at
// once to whoever asks for memory or gives some back.
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 60, N = 1 << 10 };

static Gpu gpu;
static atomic_int over;

static void *allocates(void *unused) {
    (void)unused;
    CHECK(cuCtxSetCurrent(gpu.context));
    for (unsigned turn = 1; !atomic_load(&over); turn++) {
        CUdeviceptr memory, other;
        unsigned word = 0;
        CHECK(cuMemAlloc_v2(&memory, 4 * N));
        CHECK(cuMemAlloc_v2(&other, 4 * N));
        CHECK(cuMemsetD32Async(memory, turn, N, NULL));
        CHECK(cuMemcpyDtoDAsync_v2(other, memory, 4 * N, NULL));
        CHECK(cuMemFree_v2(memory));
        CHECK(cuMemcpyDtoH_v2(&word, other + 4 * (N - 1), 4));
        EXPECT(word == turn);
        CHECK(cuMemFree_v2(other));
    }
    return NULL;
}

int main(void) {
    gpu = start();
    CUdeviceptr kept, mine;
    CHECK(cuMemAlloc_v2(&kept, 4 * N));
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, allocates, NULL) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            EXPECT(cuMemAlloc_v2(&mine, 4 * N) != CUDA_SUCCESS);
            EXPECT(cuMemFree_v2(kept) != CUDA_SUCCESS);
            if (i % 2 == 0)
                _exit(0);
            exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&over, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    CHECK(cuMemFree_v2(kept));
    printf("children=%d\n", CHILDREN);
    return 0;
}
