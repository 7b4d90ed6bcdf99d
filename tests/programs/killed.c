// Launches and kills itself with a signal that nobody can catch, in the middle of everything.
//
// Whatever was recorded before is kept, to the last event. One argument: the number of the signal (9).
#include "program.h"

#include <signal.h>

int main(int count, char **words) {
    enum { LAUNCHES = 5000 };
    Gpu gpu = start();
    CUdeviceptr memory;
    CHECK(cuMemAlloc_v2(&memory, 4096));
    printf("expected launches=%d alloc=1 set=1\n", LAUNCHES);
    fflush(stdout);
    for (int i = 0; i < LAUNCHES; i++)
        launch_nothing(&gpu, 1, NULL);
    CHECK(cuMemsetD8_v2(memory, 1, 4096));
    raise(count > 1 ? atoi(words[1]) : SIGKILL);
    puts("still here");
    return 0;
}
