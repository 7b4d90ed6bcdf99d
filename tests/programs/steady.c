// Launches once a millisecond for as many times as the first argument says, and so stays long enough to be
// looked at, signalled or left alone while it runs.
//
// It ends with the same words and the same code (the second argument) whatever becomes of the one who
// watches it.
#include "program.h"

#include <unistd.h>

int main(int count, char **words) {
    int launches = count > 1 ? atoi(words[1]) : 1000;
    int code = count > 2 ? atoi(words[2]) : 0;
    Gpu gpu = start();
    for (int i = 0; i < launches; i++) {
        launch_nothing(&gpu, 1, NULL);
        usleep(1000);
    }
    CHECK(cuCtxSynchronize());
    printf("expected launches=%d sync=1\n", launches);
    return code;
}
