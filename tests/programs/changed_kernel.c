// The same program in several states: "base"; "code", whose kernel does far more under the same name;
// "shape", which launches it with other blocks and more of them; and "short", which launches it three times. In a
// fifth, "sleeps", the host sleeps for three seconds between launches.
#include "program.h"

#include <string.h>
#include <unistd.h>

static char text[4096];

int main(int count, char **words) {
    EXPECT(count == 2);
    int code = strcmp(words[1], "code") == 0, shape = strcmp(words[1], "shape") == 0;
    int sleeps = strcmp(words[1], "sleeps") == 0;
    int rounds = strcmp(words[1], "short") == 0 ? 3 : 96;
    Gpu gpu = start();
    sprintf(text,
            ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry work(.param .u64 x)\n{\n"
            "  .reg .pred %%p<2>; .reg .b32 %%r<4>; .reg .b64 %%d<3>;\n"
            "  ld.param.u64 %%d1, [x]; cvta.to.global.u64 %%d2, %%d1;\n"
            "  ld.global.u32 %%r1, [%%d2]; mov.u32 %%r2, 0;\n"
            "AGAIN:\n  mad.lo.u32 %%r1, %%r1, 3, %%r2; add.u32 %%r2, %%r2, 1;\n"
            "  setp.lt.u32 %%p1, %%r2, %d; @%%p1 bra AGAIN;\n"
            "  st.global.u32 [%%d2+4], %%r1;\n  ret;\n}\n",
            code ? 1600 : 100);
    CUmodule module;
    CUfunction work;
    CUdeviceptr memory;
    CHECK(cuModuleLoadData(&module, text));
    CHECK(cuModuleGetFunction(&work, module, "work"));
    CHECK(cuMemAlloc_v2(&memory, 64));
    CHECK(cuMemsetD8_v2(memory, 1, 64));
    void *parameters[] = {&memory};
    for (int i = 0; i < rounds; i++) {
        CHECK(cuLaunchKernel(work, shape ? 512 : 16, 1, 1, shape ? 64 : 256, 1, 1, 0, NULL, parameters, NULL));
        if (i % 32 == 31)
            CHECK(cuCtxSynchronize());
        if (i == 63 && sleeps)
            sleep(3);
    }
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree_v2(memory));
    CHECK(cuModuleUnload(gpu.module));
    printf("%s\n", words[1]);
    return 0;
}
