// Closes every descriptor that it did not open, as a program does that becomes a daemon, and launches before and after;
// as many times in all as the first argument says, once a millisecond.
#include "program.h"

#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **words) {
    EXPECT(count == 2);
    int launches = atoi(words[1]);
    Gpu gpu = start();
    for (int i = 0; i < launches; i++) {
        if (i == 10)
            EXPECT(syscall(SYS_close_range, 3, ~0U, 0) == 0);
        launch_nothing(&gpu, 1, NULL);
        usleep(1000);
    }
    CHECK(cuCtxSynchronize());
    printf("expected launches=%d sync=1\n", launches);
    return 0;
}
