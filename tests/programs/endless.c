// Runs a kernel that never ends and waits for it.
//
// Only a signal ends it. With the argument "handled" the program has a handler of its own, which exits.
#include "program.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static const char ENDLESS[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry endless() { AGAIN: bra AGAIN; }\n";

static void leave(int signal) {
    (void)signal;
    _exit(5);
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "handled") == 0)
        signal(SIGINT, leave);
    start();
    CUmodule module;
    CUfunction endless;
    CHECK(cuModuleLoadData(&module, ENDLESS));
    CHECK(cuModuleGetFunction(&endless, module, "endless"));
    CHECK(cuLaunchKernel(endless, 4, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    puts("waiting");
    fflush(stdout);
    CHECK(cuCtxSynchronize());
    puts("it ended");
    return 0;
}
