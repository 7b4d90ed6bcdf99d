// Launches a kernel some times, each time waited for by a copy, on one processor: there the thread that runs a kernel
// of the software GPU may take the processor while the launch's call is under way. The first argument names the
// kernel: "spins" takes a millisecond of the device's clock, "long" is thousands of instructions of text.
#define _GNU_SOURCE
#include "program.h"

#include <sched.h>
#include <string.h>

enum { LAUNCHES = 8, LINES = 4000 };

static char text[1 << 18];

static void spins(char *at) {
    sprintf(at,
            "  .reg .pred %%p<2>; .reg .b64 %%d<4>;\n"
            "  mov.u64 %%d1, %%globaltimer;\n"
            "AGAIN:\n  mov.u64 %%d2, %%globaltimer; sub.u64 %%d3, %%d2, %%d1;\n"
            "  setp.lt.u64 %%p1, %%d3, 1000000; @%%p1 bra AGAIN;\n  ret;\n}\n");
}

static void is_long(char *at) {
    at += sprintf(at, "  .reg .b32 %%r<3>; .reg .b64 %%d<3>;\n  ld.param.u64 %%d1, [x];\n"
                      "  cvta.to.global.u64 %%d2, %%d1; ld.global.u32 %%r1, [%%d2];\n");
    for (int i = 0; i < LINES; i++)
        at += sprintf(at, "  mad.lo.u32 %%r1, %%r1, %d, %d;\n", i % 31 + 3, i);
    sprintf(at, "  st.global.u32 [%%d2+4], %%r1;\n  ret;\n}\n");
}

int main(int count, char **words) {
    EXPECT(count == 2);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
    Gpu gpu = start();
    char *at = text + sprintf(text, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry work(.param .u64 x)\n{\n");
    int spin = strcmp(words[1], "spins") == 0;
    if (spin)
        spins(at);
    else
        is_long(at);
    CUmodule module;
    CUfunction work;
    CUdeviceptr memory;
    CHECK(cuModuleLoadData(&module, text));
    CHECK(cuModuleGetFunction(&work, module, "work"));
    CHECK(cuMemAlloc_v2(&memory, 64));
    CHECK(cuMemsetD8_v2(memory, 1, 64));
    void *parameters[] = {&memory};
    for (int i = 0; i < LAUNCHES; i++) {
        unsigned result;
        CHECK(cuLaunchKernel(work, spin ? 1 : 64, 1, 1, spin ? 1 : 256, 1, 1, 0, NULL, parameters, NULL));
        CHECK(cuMemcpyDtoH_v2(&result, memory, sizeof result));
        EXPECT(result == 0x01010101);
    }
    CHECK(cuMemFree_v2(memory));
    CHECK(cuModuleUnload(module));
    CHECK(cuModuleUnload(gpu.module));
    printf("expected launches=%d\n", LAUNCHES);
    return 0;
}
