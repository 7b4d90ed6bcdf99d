// Uses CUDA, then replaces itself by itself with another argument, which uses CUDA too.
//
// The number of the process stays, its memory does not: both images are recorded, none over the other.
#include "program.h"

#include <unistd.h>

enum { FIRST = 40, SECOND = 60 };

int main(int count, char **words) {
    int again = count > 1;
    Gpu gpu = start();
    for (int i = 0; i < (again ? SECOND : FIRST); i++)
        launch_nothing(&gpu, again ? 2 : 1, NULL);
    if (!again) {
        execl("/proc/self/exe", words[0], "again", (char *)NULL);
        return 5;
    }
    printf("expected processes=2 launches=%d load=2\n", FIRST + SECOND);
    return 0;
}
