// Asks for functions through cuGetProcAddress, in its first and its second form, with many versions and
// both kinds of stream. The argument is a file with one name per line.
//
// Answers, statuses and counts are the driver's own. The address of a function that is recorded is the
// same that dlsym gives, so that launches through it are seen, per-thread twins included. The probe with an
// empty name succeeds with no address.
#include "program.h"

#include <dlfcn.h>
#include <string.h>

typedef CUresult (*Ask1)(const char *, void **, int, uint64_t);
typedef CUresult (*Ask2)(const char *, void **, int, uint64_t, int *);
typedef CUresult (*Launch)(CUfunction, LAUNCH_SHAPE, void **, void **);

enum { LEGACY = 1, PER_THREAD = 2 };

static void *asked(Ask1 first, Ask2 second, const char *name, int version, uint64_t flags) {
    void *one = NULL, *two = NULL;
    int status = -1;
    CHECK(first(name, &one, version, flags));
    CHECK(second(name, &two, version, flags, &status));
    EXPECT(one == two && one != NULL && status == 0);
    return one;
}

int main(int count, char **words) {
    EXPECT(count == 2);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(library != NULL);
    Ask1 first = (Ask1)dlsym(library, "cuGetProcAddress");
    Ask2 second = (Ask2)dlsym(library, "cuGetProcAddress_v2");
    EXPECT(first && second);

    // What a runtime does before anything else.
    void *nothing_there = &nothing_there;
    int status = -1;
    CHECK(second("", &nothing_there, 0, 0, &status));
    EXPECT(nothing_there == NULL);
    // What there is not, the first form tells by its result and the second by its status.
    EXPECT(first("cuNeverWas", &nothing_there, 12000, 0) == CUDA_ERROR_NOT_FOUND && nothing_there == NULL);
    CHECK(second("cuNeverWas", &nothing_there, 12000, 0, &status));
    EXPECT(nothing_there == NULL && status == 1);

    // The resolver is asked for itself, by the version that says which form is meant.
    void *form = NULL;
    CHECK(first("cuGetProcAddress", &form, 11030, 0));
    EXPECT(form == (void *)first);
    CHECK(second("cuGetProcAddress", &form, 12000, 0, NULL));
    EXPECT(form == (void *)second);
    EXPECT(((Ask2)form)("cuInit", &form, 2000, 0, NULL) == CUDA_SUCCESS);

    // Every name, by every version and with every flag.
    static const int versions[] = {2000, 3020, 4000, 7000, 9020, 10000, 11030, 12000, 12020, 12040};
    FILE *names = fopen(words[1], "r");
    EXPECT(names != NULL);
    char name[256];
    long questions = 0, answers = 0;
    while (fgets(name, sizeof name, names)) {
        name[strcspn(name, "\n")] = 0;
        for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
            for (uint64_t flags = 0; flags <= PER_THREAD; flags++) {
                void *one = NULL, *two = NULL;
                CUresult result = first(name, &one, versions[v], flags);
                CHECK(second(name, &two, versions[v], flags, &status));
                EXPECT(one == two && (one != NULL) == (result == CUDA_SUCCESS) && (status == 0) == (one != NULL));
                questions += 1;
                answers += one != NULL;
            }
    }
    fclose(names);
    EXPECT(questions > 10000 && answers > 5000);

    // Launches through what was found.
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction nothing;
    CHECK(((CUresult(*)(unsigned))asked(first, second, "cuInit", 2000, 0))(0));
    CHECK(((CUresult(*)(CUdevice *, int))asked(first, second, "cuDeviceGet", 2000, 0))(&device, 0));
    CHECK(((CUresult(*)(CUcontext *, unsigned, CUdevice))asked(first, second, "cuCtxCreate", 3020, 0))(
        &context, 0, device));
    CHECK(((CUresult(*)(CUmodule *, const void *))asked(first, second, "cuModuleLoadData", 2000, 0))(
        &module, KERNELS));
    CHECK(((CUresult(*)(CUfunction *, CUmodule, const char *))asked(first, second, "cuModuleGetFunction", 2000, 0))(
        &nothing, module, "nothing"));
    static const struct { int version; uint64_t flags; const char *symbol; } forms[] = {
        {4000, 0, "cuLaunchKernel"},           {12000, 0, "cuLaunchKernel"},
        {12000, LEGACY, "cuLaunchKernel"},     {7000, PER_THREAD, "cuLaunchKernel_ptsz"},
        {12040, PER_THREAD, "cuLaunchKernel_ptsz"},
    };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        void *address = asked(first, second, "cuLaunchKernel", forms[f].version, forms[f].flags);
        EXPECT(address == dlsym(library, forms[f].symbol));
        for (int i = 0; i < 10; i++)
            CHECK(((Launch)address)(nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    }
    CUdeviceptr memory;
    CHECK(((CUresult(*)(CUdeviceptr *, size_t))asked(first, second, "cuMemAlloc", 3020, 0))(&memory, 4096));
    CHECK(((CUresult(*)(CUdeviceptr))asked(first, second, "cuMemFree", 3020, 0))(memory));
    CHECK(((CUresult(*)(void))asked(first, second, "cuCtxSynchronize", 2000, 0))());
    printf("%ld questions, %ld answers\n", questions, answers);
    puts("expected launches=50 cuLaunchKernel=30 cuLaunchKernel_ptsz=20 alloc=1 free=1 sync=1 cuInit=1");
    return 0;
}
