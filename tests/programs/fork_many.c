// Forks a thousand children in waves of fifty; each starts CUDA and makes a few calls.
//
// Every child is a process of its own and none of their calls is lost.
#include "program.h"

#include <sys/wait.h>
#include <unistd.h>

enum { WAVES = 20, WAVE = 50, LAUNCHES = 3 };

int main(void) {
    for (int wave = 0; wave < WAVES; wave++) {
        for (int child = 0; child < WAVE; child++) {
            pid_t made = fork();
            EXPECT(made >= 0);
            if (made == 0) {
                Gpu gpu = start();
                for (int i = 0; i < LAUNCHES; i++)
                    launch_nothing(&gpu, 1, NULL);
                CHECK(cuCtxSynchronize());
                _exit(0);
            }
        }
        for (int child = 0; child < WAVE; child++) {
            int status;
            EXPECT(wait(&status) > 0);
            EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
    printf("expected processes=%d launches=%d sync=%d load=%d\n", WAVES * WAVE, WAVES * WAVE * LAUNCHES, WAVES * WAVE,
           WAVES * WAVE);
    return 0;
}
