// Calls the driver after main has returned: from a handler of atexit, from a destructor, and from the end
// of a thread's own data.
//
// The calls go through and are recorded; nothing hangs, whatever has been torn down by then. A program may
// also end in the middle of all with _exit (the argument "now").
#include "program.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static Gpu gpu;
static int begun;
static pthread_key_t key;

static void at_exit(void) {
    launch_nothing(&gpu, 2, NULL);
    CHECK(cuCtxSynchronize());
}

__attribute__((destructor)) static void at_the_very_end(void) {
    if (begun)
        launch_nothing(&gpu, 3, NULL);
}

static void at_thread_end(void *unused) {
    (void)unused;
    launch_nothing(&gpu, 4, NULL);
}

static void *short_life(void *unused) {
    (void)unused;
    CHECK(cuCtxSetCurrent(gpu.context));
    EXPECT(pthread_setspecific(key, &gpu) == 0);
    launch_nothing(&gpu, 5, NULL);
    return NULL;
}

int main(int count, char **words) {
    // Registered before the driver is touched: it runs after whatever the driver registers.
    EXPECT(atexit(at_exit) == 0);
    // Made before anything else makes one: its end may come after that of the library's own data.
    EXPECT(pthread_key_create(&key, at_thread_end) == 0);
    gpu = start();
    begun = 1;
    launch_nothing(&gpu, 1, NULL);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, short_life, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    if (count > 1 && strcmp(words[1], "now") == 0) {
        puts("expected launches=3 sync=0");
        fflush(stdout);
        _exit(7);
    }
    puts("expected launches=5 sync=1");
    return 0;
}
