// Asks a driver that is newer than apex for a name that apex has never heard of, and one that is older for
// names it does not have yet. The driver is driver_other.c.
//
// dlsym on libcuda answers as that driver would: it finds the new name and none that is missing; what is
// there works and is recorded.
#include "program.h"

#include <dlfcn.h>

int main(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(library != NULL);
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(library, "cuInit");
    CUresult (*later)(int *) = (CUresult(*)(int *))dlsym(library, "cuMadeLater");
    CUresult (*wait)(CUstream) = (CUresult(*)(CUstream))dlsym(library, "cuStreamSynchronize");
    CUresult (*ask)(const char *, void **, int, uint64_t, int *) =
        (CUresult(*)(const char *, void **, int, uint64_t, int *))dlsym(library, "cuGetProcAddress_v2");
    EXPECT(init && later && wait && ask);
    CHECK(init(0));
    int answer = 0;
    CHECK(later(&answer));
    printf("the new function answers %d\n", answer);
    void *found = NULL;
    CHECK(ask("cuMadeLater", &found, 13000, 0, NULL));
    EXPECT(found == (void *)later);
    static const char *missing[] = {"cuLaunchKernel", "cuGraphLaunch", "cuMemAlloc_v2", "cuNeverWas", "cudaMalloc"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        printf("%s: %s\n", missing[i], dlsym(library, missing[i]) ? "there" : "missing");
    CHECK(wait(NULL));
    EXPECT(wait((CUstream)8) == CUDA_ERROR_INVALID_HANDLE);
    puts("expected cuInit=1 sync=2");
    return 0;
}
