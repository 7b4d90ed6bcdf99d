// Launches a kernel whose threads keep so many values at once that registers decide how many of its blocks fit a
// multiprocessor. Loads its PTX with an option of its own: what is added must leave that where it is.
#include "program.h"

#include <string.h>

enum { VALUES = 72, BLOCK = 256, BLOCKS = 64, N = BLOCK * BLOCKS, LAUNCHES = 6, WALL_TIME = 2 };

// void crowded(unsigned *out): out[i] = the sum of i * k + 1 over k, all terms kept until the last is there
static char *crowded(void) {
    enum { ROOM = 1 << 14 };
    char *text = calloc(1, ROOM);
    EXPECT(text);
    size_t at = 0;
#define SAY(...) at += (size_t)snprintf(text + at, ROOM - at, __VA_ARGS__)
    SAY(".version 7.0\n.target sm_70\n.address_size 64\n");
    SAY(".visible .entry crowded(.param .u64 out)\n{\n");
    SAY("  .reg .b32 %%r<6>; .reg .b32 %%v<%d>; .reg .b64 %%d<5>;\n", VALUES);
    SAY("  mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x; mov.u32 %%r3, %%tid.x;\n");
    SAY("  mad.lo.s32 %%r4, %%r1, %%r2, %%r3;\n");
    for (int k = 0; k < VALUES; k++)
        SAY("  mad.lo.u32 %%v%d, %%r4, %d, 1;\n", k, k);
    SAY("  bar.sync 0;\n  mov.u32 %%r5, 0;\n");
    for (int k = 0; k < VALUES; k++)
        SAY("  add.u32 %%r5, %%r5, %%v%d;\n", k);
    SAY("  ld.param.u64 %%d1, [out]; cvta.to.global.u64 %%d2, %%d1;\n");
    SAY("  mul.wide.u32 %%d3, %%r4, 4; add.s64 %%d4, %%d2, %%d3;\n");
    SAY("  st.global.u32 [%%d4], %%r5;\n  ret;\n}\n");
#undef SAY
    EXPECT(at < ROOM);
    return text;
}

int main(void) {
    Gpu gpu = start();
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr out;
    int option = WALL_TIME;
    void *value = NULL;
    CHECK(cuModuleLoadDataEx(&module, crowded(), 1, &option, &value));
    CHECK(cuModuleGetFunction(&kernel, module, "crowded"));
    CHECK(cuMemAlloc_v2(&out, N * sizeof(unsigned)));
    void *parameters[] = {&out};
    for (int launch = 0; launch < LAUNCHES; launch++)
        CHECK(cuLaunchKernel(kernel, BLOCKS, 1, 1, BLOCK, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cuCtxSynchronize());
    unsigned *back = malloc(N * sizeof *back), wrong = 0;
    EXPECT(back);
    CHECK(cuMemcpyDtoH_v2(back, out, N * sizeof *back));
    for (unsigned i = 0; i < N; i++)
        wrong += back[i] != i * (VALUES * (VALUES - 1) / 2) + VALUES;
    // The driver writes how long it compiled in place of the option's value.
    printf("%u of %d values are wrong; the time to compile was %s\n", wrong, N, value ? "told" : "not told");
    CHECK(cuMemFree_v2(out));
    CHECK(cuCtxDestroy_v2(gpu.context));
    return 0;
}
