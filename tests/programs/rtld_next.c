// Runs with two other preloaded libraries: one that wraps a function of libc (interposer.c), and one that
// opens another from its own RUNPATH (plugin_host.c).
//
// dlsym(RTLD_NEXT) and dlopen know their caller whoever stands in front of them, names that are not the
// driver's go where they always went, and errors are told by dlerror as always.
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <string.h>

int main(void) {
    Gpu gpu = start();
    int (*wrapped_calls)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "wrapped_calls");
    EXPECT(wrapped_calls != NULL);
    EXPECT(gnu_get_libc_version()[0] == '2' && gnu_get_libc_version()[1] == '.');
    EXPECT(wrapped_calls() == 2);
    int (*host_answer)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "host_answer");
    EXPECT(host_answer != NULL && host_answer() == 21);
    EXPECT(dlopen("libapex_test_plugin.so", RTLD_NOW) != NULL);

    dlerror();
    EXPECT(dlsym(RTLD_DEFAULT, "no_such_name_anywhere") == NULL && dlerror() != NULL);
    EXPECT(dlopen("/no/such/libcuda_of_ours.so", RTLD_NOW) == NULL && strstr(dlerror(), "libcuda_of_ours") != NULL);
    EXPECT(dlopen(NULL, RTLD_NOW) != NULL && dlsym(dlopen(NULL, RTLD_NOW), "main_is_not_exported") == NULL);
    EXPECT(dlsym(RTLD_DEFAULT, "cuLaunchKernel") == (void *)cuLaunchKernel);

    launch_nothing(&gpu, 1, NULL);
    puts("expected launches=1");
    return 0;
}
