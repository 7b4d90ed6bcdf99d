// Ends with launches under way, in the way that its argument names: return, exit, thread, last.
//
// Handlers that the program registered late run before anything of the driver's own ends: the last of them waits, and by
// then each launch is done, also those of other handlers and of a thread that lives longer than main.
#include "program.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ENOUGH_MS = 200 };

static Gpu gpu;
static CUdeviceptr words;
static CUstream stream;
static const char *way;
static long made;

static void add_one(void) {
    CUdeviceptr one = words, sum = words + 4;
    unsigned count = 1;
    void *parameters[] = {&one, &sum, &sum, &count};
    CHECK(cuLaunchKernel(gpu.add, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
    made++;
}

// Long enough that a thread of apex's own, should there be one, is at work.
static void add_many(void) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        for (int i = 0; i < 100; i++)
            add_one();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < ENOUGH_MS);
}

static void waits(void) {
    add_one();
    float last[2];
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(last, words, sizeof last));
    EXPECT(last[1] == (float)made);
    printf("%s: every launch was made once\n", way);
    fflush(stdout);
}

static void launches_more(void) {
    for (int i = 0; i < 100; i++)
        add_one();
}

__attribute__((destructor)) static void at_the_very_end(void) {
    if (stream != NULL)
        add_one();
}

static void *ends_the_program(void *unused) {
    (void)unused;
    CHECK(cuCtxSetCurrent(gpu.context));
    add_many();
    exit(5);
}

static void *goes_on(void *unused) {
    (void)unused;
    usleep(20000);
    CHECK(cuCtxSetCurrent(gpu.context));
    add_many();
    // Threads of the driver would keep the process alive.
    exit(6);
}

int main(int count, char **arguments) {
    way = count > 1 ? arguments[1] : "return";
    gpu = start();
    float first[2] = {1, 0};
    CHECK(cuMemAlloc_v2(&words, sizeof first));
    CHECK(cuMemcpyHtoD_v2(words, first, sizeof first));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    add_many();
    // Registered while the launches are under way: they run in the opposite order, before what the driver registered.
    EXPECT(atexit(waits) == 0);
    EXPECT(atexit(launches_more) == 0);
    pthread_t thread;
    if (strcmp(way, "exit") == 0)
        exit(4);
    if (strcmp(way, "thread") == 0) {
        EXPECT(pthread_create(&thread, NULL, ends_the_program, NULL) == 0);
        pthread_join(thread, NULL);
    }
    if (strcmp(way, "last") == 0) {
        EXPECT(pthread_create(&thread, NULL, goes_on, NULL) == 0);
        pthread_exit(NULL);
    }
    return 0;
}
