// Runs where there is no driver.
//
// The driver's functions are there and say that there is no device; the program finds that out and goes
// on without.
#include "program.h"

#include <dlfcn.h>

int main(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        puts("no library: working on the processor");
        return 0;
    }
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(library, "cuInit");
    CUresult (*devices)(int *) = (CUresult(*)(int *))dlsym(library, "cuDeviceGetCount");
    CUresult (*version)(int *) = (CUresult(*)(int *))dlsym(library, "cuDriverGetVersion");
    CUresult (*launch)(CUfunction, LAUNCH_SHAPE, void **, void **) =
        (CUresult(*)(CUfunction, LAUNCH_SHAPE, void **, void **))dlsym(library, "cuLaunchKernel");
    EXPECT(init && devices && version && launch);
    int number = 0;
    printf("cuInit: %d\n", init(0));
    printf("cuDeviceGetCount: %d\n", devices(&number));
    printf("cuDriverGetVersion: %d\n", version(&number));
    printf("cuLaunchKernel: %d\n", launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    puts("no device: working on the processor");
    return 0;
}
