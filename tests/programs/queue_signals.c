// Launches under signals: a timer that interrupts everything, and one signal that all threads of the program block.
//
// Handlers run on the program's own threads alone, and a signal that nobody takes stays pending: no thread of another
// takes it away.
#define _GNU_SOURCE
#include "program.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

enum { LEAST = 20000, TICKS = 400 };

static pid_t main_thread;
static atomic_int ticks, strangers;

static void tick(int number) {
    (void)number;
    atomic_fetch_add(&ticks, 1);
    if (gettid() != main_thread)
        atomic_fetch_add(&strangers, 1);
}

int main(void) {
    main_thread = gettid();
    sigset_t blocked, pending;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    EXPECT(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
    // What the driver starts itself does not hear the timer.
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    EXPECT(pthread_sigmask(SIG_BLOCK, &timer, NULL) == 0);
    Gpu gpu = start();
    launch_nothing(&gpu, 1, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &timer, NULL) == 0);
    struct sigaction action = {.sa_handler = tick};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 500}, {0, 500}};
    EXPECT(setitimer(ITIMER_REAL, &every, NULL) == 0);
    int made = 1;
    for (int i = 0; i < LEAST || atomic_load(&ticks) < TICKS; i++, made++) {
        launch_nothing(&gpu, 1, NULL);
        if (i % 500 == 0)
            EXPECT(kill(getpid(), SIGUSR1) == 0);
        if (i % 1000 == 999)
            CHECK(cuCtxSynchronize());
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(cuCtxSynchronize());
    EXPECT(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
    EXPECT(atomic_load(&ticks) > 0 && atomic_load(&strangers) == 0);
    struct timespec at_once = {0, 0};
    EXPECT(sigtimedwait(&blocked, NULL, &at_once) == SIGUSR1);
    printf("expected launches=%d\n", made);
    return 0;
}
