// Makes calls in bursts that a small ring cannot hold.
//
// Run with APEX_RING_EVENTS=64. What is recorded and what is counted as lost add up to what was called, and
// after a pause there is room again. Two lines are for the test: all calls of a recorded sort, and the
// launches after the last pause, which must all be there.
#include "program.h"

#include <unistd.h>

int main(void) {
    enum { BURSTS = 20, BURST = 3000, LAST = 10 };
    Gpu gpu = start();
    for (int burst = 0; burst < BURSTS; burst++) {
        for (int i = 0; i < BURST; i++)
            launch_nothing(&gpu, 1, NULL);
        usleep(1000);
    }
    usleep(300 * 1000);
    for (int i = 0; i < LAST; i++)
        launch_nothing(&gpu, 777, NULL);
    // cuInit, cuCtxCreate, cuModuleLoadData and the launches; and the birth of the thread.
    printf("events=%d\nlast=%d\n", 3 + BURSTS * BURST + LAST + 1, LAST);
    return 0;
}
