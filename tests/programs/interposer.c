// A library that another tool preloads: it wraps a function of libc and finds the real one behind itself.
//
// glibc decides by the return address who asks for RTLD_NEXT. If someone in front of dlsym hid the caller,
// this wrapper would find itself and never come back.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdlib.h>

int wrapped_calls(void);
static int calls;

int wrapped_calls(void) {
    return calls;
}

const char *gnu_get_libc_version(void) {
    const char *(*real)(void) = (const char *(*)(void))dlsym(RTLD_NEXT, "gnu_get_libc_version");
    calls += 1;
    if (real == NULL || real == gnu_get_libc_version || calls > 100)
        abort();
    return real();
}
