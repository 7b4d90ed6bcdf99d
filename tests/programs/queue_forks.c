// Forks a thousand times while another thread launches as fast as it can, and makes other programs of some children.
//
// Each launch adds one to a word, so that none may be lost or made twice, whatever was under way at the moment of a
// fork. Argument: the name of a thread that must be there by then (none).
#include "program.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 1000, BURST = 1000, MOST = 1 << 23 };

static Gpu gpu;
static CUdeviceptr words;
static CUstream stream;
static atomic_int over;
static long made;

static void *launches(void *unused) {
    (void)unused;
    CHECK(cuCtxSetCurrent(gpu.context));
    CUdeviceptr one = words, sum = words + 4;
    unsigned count = 1;
    void *parameters[] = {&one, &sum, &sum, &count};
    while (!atomic_load(&over) && made < MOST) {
        for (int i = 0; i < BURST; i++, made++)
            CHECK(cuLaunchKernel(gpu.add, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
    return NULL;
}

static int has_thread(const char *name) {
    DIR *tasks = opendir("/proc/self/task");
    EXPECT(tasks != NULL);
    int found = 0;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], text[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        found |= fgets(text, sizeof text, file) != NULL && strncmp(text, name, strlen(name)) == 0;
        fclose(file);
    }
    closedir(tasks);
    return found;
}

int main(int count, char **arguments) {
    gpu = start();
    float first[2] = {1, 0};
    CHECK(cuMemAlloc_v2(&words, sizeof first));
    CHECK(cuMemcpyHtoD_v2(words, first, sizeof first));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, launches, NULL) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = i % 10 == 9 ? vfork() : fork();
        EXPECT(child >= 0);
        if (child == 0 && i % 10 == 9) {
            execl("/bin/true", "true", NULL);
            _exit(9);
        }
        if (child == 0) {
            // The driver does not work in a child; it says so and waits for nothing.
            if (i % 3 == 0)
                EXPECT(cuStreamSynchronize(stream) != CUDA_SUCCESS);
            if (i % 3 == 1)
                EXPECT(cuLaunchKernel(gpu.nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL) != CUDA_SUCCESS);
            if (i % 2 == 0)
                _exit(0);
            exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    EXPECT(count < 2 || has_thread(arguments[1]));
    atomic_store(&over, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    float last[2];
    CHECK(cuMemcpyDtoH_v2(last, words, sizeof last));
    EXPECT(last[1] == (float)made);
    puts("every launch was made once");
    return 0;
}
