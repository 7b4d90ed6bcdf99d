// Is linked with nothing and opens the driver late in main: by its SONAME, by its plain name, by an
// absolute path (the argument), and without loading it anew.
//
// All four give the same library, whichever stands in front, and launches through any of them are seen.
#include "program.h"

#include <dlfcn.h>

typedef struct {
    CUresult (*init)(unsigned);
    CUresult (*device)(CUdevice *, int);
    CUresult (*create)(CUcontext *, unsigned, CUdevice);
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*function)(CUfunction *, CUmodule, const char *);
    CUresult (*launch)(CUfunction, LAUNCH_SHAPE, void **, void **);
} Driver;

static Driver driver_in(void *library) {
    EXPECT(library != NULL);
    Driver driver;
    *(void **)&driver.init = dlsym(library, "cuInit");
    *(void **)&driver.device = dlsym(library, "cuDeviceGet");
    *(void **)&driver.create = dlsym(library, "cuCtxCreate_v2");
    *(void **)&driver.load = dlsym(library, "cuModuleLoadData");
    *(void **)&driver.function = dlsym(library, "cuModuleGetFunction");
    *(void **)&driver.launch = dlsym(library, "cuLaunchKernel");
    EXPECT(driver.init && driver.device && driver.create && driver.load && driver.function && driver.launch);
    return driver;
}

int main(int count, char **words) {
    EXPECT(count == 2 && words[1][0] == '/');
    puts("nothing so far");
    const char *names[] = {"libcuda.so.1", "libcuda.so", words[1]};
    Driver first = {0};
    CUfunction nothing = NULL;
    for (int nth = 0; nth < 3; nth++) {
        Driver driver = driver_in(dlopen(names[nth], RTLD_NOW | RTLD_LOCAL));
        if (nth == 0) {
            CUdevice device;
            CUcontext context;
            CUmodule module;
            CHECK(driver.init(0));
            CHECK(driver.device(&device, 0));
            CHECK(driver.create(&context, 0, device));
            CHECK(driver.load(&module, KERNELS));
            CHECK(driver.function(&nothing, module, "nothing"));
            first = driver;
        }
        EXPECT(driver.launch == first.launch);
        for (int i = 0; i <= nth; i++)
            CHECK(driver.launch(nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    }
    Driver again = driver_in(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
    EXPECT(again.launch == first.launch);
    CHECK(again.launch(nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    puts("expected launches=7 load=1");
    return 0;
}
