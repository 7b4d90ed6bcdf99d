// Closes the driver while its functions are still in use, and opens it again.
//
// With a second handle still open the kept pointers stay good, and after the last close the driver can be
// opened and used anew. With the argument "kept" the pointers are also used after the last close: a
// library that is never unloaded bears it.
#include "program.h"

#include <dlfcn.h>
#include <string.h>

typedef CUresult (*Launch)(CUfunction, LAUNCH_SHAPE, void **, void **);

static void *symbol(void *library, const char *name) {
    void *address = dlsym(library, name);
    EXPECT(address != NULL);
    return address;
}

static CUfunction ready(void *library) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction nothing;
    CHECK(((CUresult(*)(unsigned))symbol(library, "cuInit"))(0));
    CHECK(((CUresult(*)(CUdevice *, int))symbol(library, "cuDeviceGet"))(&device, 0));
    CHECK(((CUresult(*)(CUcontext *, unsigned, CUdevice))symbol(library, "cuCtxCreate_v2"))(&context, 0, device));
    CHECK(((CUresult(*)(CUmodule *, const void *))symbol(library, "cuModuleLoadData"))(&module, KERNELS));
    CHECK(((CUresult(*)(CUfunction *, CUmodule, const char *))symbol(library, "cuModuleGetFunction"))(
        &nothing, module, "nothing"));
    return nothing;
}

int main(int count, char **words) {
    int kept = count > 1 && strcmp(words[1], "kept") == 0;
    void *one = dlopen("libcuda.so.1", RTLD_NOW), *other = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(one != NULL && other == one);
    CUfunction nothing = ready(one);
    Launch launch = (Launch)symbol(one, "cuLaunchKernel");
    EXPECT(dlclose(one) == 0);
    for (int i = 0; i < 5; i++)
        CHECK(launch(nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    EXPECT(dlclose(other) == 0);
    if (kept)
        for (int i = 0; i < 4; i++)
            CHECK(launch(nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    void *again = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(again != NULL);
    nothing = ready(again);
    launch = (Launch)symbol(again, "cuLaunchKernel");
    for (int i = 0; i < 3; i++)
        CHECK(launch(nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    printf("expected launches=%d load=2 cuInit=2\n", kept ? 12 : 8);
    return 0;
}
