// Calls a kernel again and again with the same sizes and other buffers, so that it may be compiled again for them.
//
// The kernel counts its threads in a variable of its module, reads a constant that is written between launches, uses more
// shared memory than it gets without asking, and has a branch that never goes the other way. In another a compiler may fuse
// a product with a sum, so its forms are compared before one may run. One is called with a number that is never the same,
// and one looks at the clock. What it says is the same whichever form of them runs. Where apex writes facts of this
// process, it goes on until these say of work and mixed, or of the kernels that its second argument names, that the
// rewritten form has won or lost.
#include "program.h"

#include <string.h>
#include <time.h>

enum { BLOCK = 64, BLOCKS = 4, N = BLOCK * BLOCKS, TURNS = 60, SHARED = 60 << 10, DYNAMIC_SHARED = 8, MIXED_TURNS = 20 };

static const char TEXT[] =
    ".version 7.8\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".global .align 8 .u64 threads;\n"
    ".const .align 4 .b8 salts[16];\n"
    ".extern .shared .align 16 .b8 room[];\n"
    // void work(unsigned *x, unsigned n, unsigned turns, unsigned mode)
    ".visible .entry work(.param .u64 x, .param .u32 n, .param .u32 turns, .param .u32 mode)\n"
    "{\n"
    "  .reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %d<9>;\n"
    "  ld.param.u32 %r1, [n]; ld.param.u32 %r2, [turns]; ld.param.u32 %r3, [mode];\n"
    "  mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x;\n"
    "  mad.lo.s32 %r7, %r4, %r5, %r6;\n"
    "  setp.ge.u32 %p1, %r7, %r1;\n"
    "  @%p1 bra DONE;\n"
    "  ld.param.u64 %d1, [x]; cvta.to.global.u64 %d2, %d1;\n"
    "  mul.wide.u32 %d3, %r7, 4; add.s64 %d4, %d2, %d3;\n"
    "  ld.global.u32 %r8, [%d4];\n"
    "  mov.u32 %r9, 0;\n"
    "  setp.eq.u32 %p2, %r3, 1; setp.eq.u32 %p3, %r3, 2; setp.eq.u32 %p4, %r3, 3;\n"
    "LOOP:\n"
    "  setp.ge.u32 %p5, %r9, %r2;\n"
    "  @%p5 bra END;\n"
    "  mad.lo.u32 %r8, %r8, 1664525, 1013904223;\n"
    "  xor.b32 %r10, %r8, %r9; mul.lo.u32 %r11, %r10, 77; selp.b32 %r8, %r11, %r8, %p2;\n"
    "  rem.u32 %r12, %r8, 1009; mad.lo.u32 %r13, %r12, 31, %r8; selp.b32 %r8, %r13, %r8, %p3;\n"
    "  div.u32 %r14, %r8, 7; add.u32 %r15, %r14, %r9; selp.b32 %r8, %r15, %r8, %p4;\n"
    "  add.u32 %r9, %r9, 1;\n"
    "  bra LOOP;\n"
    "END:\n"
    // The last words of the shared memory: they are there only if it is as large as the program said.
    "  mov.u32 %r16, room; shl.b32 %r17, %r6, 2; add.u32 %r16, %r16, %r17;\n"
    "  st.shared.u32 [%r16+61184], %r8; ld.shared.u32 %r18, [%r16+61184];\n"
    "  and.b32 %r19, %r6, 1; mul.wide.u32 %d6, %r19, 4; mov.u64 %d7, salts; add.s64 %d8, %d7, %d6;\n"
    "  ld.const.u32 %r20, [%d8+4]; ld.const.u32 %r21, [salts]; add.u32 %r18, %r18, %r20; add.u32 %r18, %r18, %r21;\n"
    "  st.global.u32 [%d4], %r18;\n"
    "  atom.global.add.u64 %d5, [threads], 1;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    // void step(unsigned *x, unsigned n, unsigned add)
    ".visible .entry step(.param .u64 x, .param .u32 n, .param .u32 add)\n"
    "{\n"
    "  .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %d<5>;\n"
    "  ld.param.u32 %r1, [n]; ld.param.u32 %r2, [add];\n"
    "  mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x;\n"
    "  mad.lo.s32 %r7, %r4, %r5, %r6;\n"
    "  setp.ge.u32 %p1, %r7, %r1;\n"
    "  @%p1 bra DONE;\n"
    "  ld.param.u64 %d1, [x]; cvta.to.global.u64 %d2, %d1;\n"
    "  mul.wide.u32 %d3, %r7, 4; add.s64 %d4, %d2, %d3;\n"
    "  ld.global.u32 %r8, [%d4]; add.u32 %r8, %r8, %r2; st.global.u32 [%d4], %r8;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    // void mixed(const float *x, float *y, unsigned n, unsigned turns): y[i] += turns times x[i] * y[i] + 0.7 x[i + 1]
    ".visible .entry mixed(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 turns)\n"
    "{\n"
    "  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d<9>;\n"
    "  ld.param.u32 %r1, [n]; ld.param.u32 %r2, [turns];\n"
    "  mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x;\n"
    "  mad.lo.s32 %r7, %r4, %r5, %r6;\n"
    "  setp.ge.u32 %p1, %r7, %r1;\n"
    "  @%p1 bra DONE;\n"
    "  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; mul.wide.u32 %d3, %r7, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"
    "  ld.global.f32 %f1, [%d4]; ld.global.f32 %f2, [%d4+4]; ld.global.f32 %f3, [%d5];\n"
    "  mov.u32 %r8, 0; mul.f32 %f4, %f2, 0f3F333333;\n"
    "NEXT:\n"
    "  mul.f32 %f5, %f1, %f3; add.f32 %f6, %f5, %f4; add.f32 %f3, %f3, %f6;\n"
    "  add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, %r2;\n"
    "  @%p2 bra NEXT;\n"
    "  st.global.f32 [%d5], %f3;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    // void clock(unsigned long long *x)
    ".visible .entry clock(.param .u64 x)\n"
    "{\n"
    "  .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d1, [x]; cvta.to.global.u64 %d2, %d1;\n"
    "  mov.u64 %d3, %clock64; st.global.u64 [%d2], %d3;\n"
    "  ret;\n"
    "}\n";

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name);
CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device);
CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device);

static unsigned expected(unsigned value, unsigned add) {
    for (unsigned turn = 0; turn < TURNS; turn++)
        value = value * 1664525 + 1013904223;
    return value + add;
}

// What mixed makes of its second argument, without any fusing.
static float mixed_of(const float *x, float y) {
    for (int turn = 0; turn < MIXED_TURNS; turn++) {
        volatile float product = x[0] * y, part = x[1] * 0.7f;
        y += product + part;
    }
    return y;
}

// Whether the facts of this process say of all these kernels that a form has won or lost; yes where nobody writes any.
static int is_decided(const char *awaited) {
    const char *folder = getenv("APEX_RINGS");
    if (folder == NULL)
        return 1;
    char path[4096], line[4096];
    extern int getpid(void);
    snprintf(path, sizeof path, "%s/%d-0.facts", folder, getpid());
    FILE *facts = fopen(path, "r");
    int work = strstr(awaited, "work") == NULL, mixed = strstr(awaited, "mixed") == NULL;
    while (facts != NULL && fgets(line, sizeof line, facts) != NULL) {
        int is_end = strncmp(line, "rewritten ", 10) == 0 && strstr(line, "tried") == NULL;
        work |= is_end && strstr(line, "work") != NULL;
        mixed |= is_end && strstr(line, "mixed") != NULL;
    }
    if (facts != NULL)
        fclose(facts);
    return work && mixed;
}

int main(int count, char **words) {
    int is_library = count > 1 && strcmp(words[1], "library") == 0;
    const char *awaited = count > 2 ? words[2] : "work,mixed";
    CUdevice device = start().device;
    CUfunction work, step, mixed, clock;
    CUdeviceptr threads, constant, buffers[2], floats, ticks;
    size_t bytes;
    if (is_library) {
        CUlibrary library;
        CHECK(cuLibraryLoadData(&library, TEXT, NULL, NULL, 0, NULL, NULL, 0));
        CHECK(cuLibraryGetKernel((CUkernel *)&work, library, "work"));
        CHECK(cuLibraryGetKernel((CUkernel *)&step, library, "step"));
        CHECK(cuLibraryGetKernel((CUkernel *)&mixed, library, "mixed"));
        CHECK(cuLibraryGetKernel((CUkernel *)&clock, library, "clock"));
        CHECK(cuLibraryGetGlobal(&threads, &bytes, library, "threads"));
        CHECK(cuLibraryGetGlobal(&constant, &bytes, library, "salts"));
    } else {
        CUmodule module;
        CHECK(cuModuleLoadData(&module, TEXT));
        CHECK(cuModuleGetFunction(&work, module, "work"));
        CHECK(cuModuleGetFunction(&step, module, "step"));
        CHECK(cuModuleGetFunction(&mixed, module, "mixed"));
        CHECK(cuModuleGetFunction(&clock, module, "clock"));
        CHECK(cuModuleGetGlobal_v2(&threads, &bytes, module, "threads"));
        CHECK(cuModuleGetGlobal_v2(&constant, &bytes, module, "salts"));
    }
    if (is_library)
        CHECK(cuKernelSetAttribute(DYNAMIC_SHARED, SHARED, (CUkernel)work, device));
    else
        CHECK(cuFuncSetAttribute(work, DYNAMIC_SHARED, SHARED));
    CHECK(cuMemAlloc_v2(&buffers[0], 4 * N));
    CHECK(cuMemAlloc_v2(&buffers[1], 4 * N));
    CHECK(cuMemAlloc_v2(&floats, 4 * (N + 1) + 4 * N));
    CHECK(cuMemAlloc_v2(&ticks, 8));
    static float real[2 * N + 1], mixes[N];
    unsigned n = N, turns = TURNS, mode = 0, mixed_turns = MIXED_TURNS, wrong = 0, launches = 0;
    static unsigned values[N];
    time_t begun = time(NULL);
    while (launches < 200 || (launches < 1000000 && !is_decided(awaited) && time(NULL) - begun < 240)) {
        for (int nth = 0; nth < 50; nth++, launches++) {
            CUdeviceptr x = buffers[launches & 1];
            void *for_work[] = {&x, &n, &turns, &mode}, *for_step[] = {&x, &n, &launches}, *for_clock[] = {&ticks};
            CUdeviceptr y = floats + 4 * (N + 1);
            void *for_mixed[] = {&floats, &y, &n, &mixed_turns};
            unsigned first = launches * 7, salts[4] = {launches, launches * 3, launches * 5, 0};
            for (int i = 0; i < N; i++)
                values[i] = first + i;
            CHECK(cuMemcpyHtoD_v2(x, values, sizeof values));
            CHECK(cuMemcpyHtoD_v2(constant, salts, sizeof salts));
            CHECK(cuLaunchKernel(work, BLOCKS, 1, 1, BLOCK, 1, 1, SHARED, NULL, for_work, NULL));
            CHECK(cuLaunchKernel(step, BLOCKS, 1, 1, BLOCK, 1, 1, 0, NULL, for_step, NULL));
            for (int i = 0; i < 2 * N + 1; i++)
                real[i] = (float)(launches % 97 + i) / 7919.0f;
            CHECK(cuMemcpyHtoD_v2(floats, real, sizeof real));
            CHECK(cuLaunchKernel(mixed, BLOCKS, 1, 1, BLOCK, 1, 1, 0, NULL, for_mixed, NULL));
            CHECK(cuMemcpyDtoH_v2(mixes, y, sizeof mixes));
            CHECK(cuLaunchKernel(clock, 1, 1, 1, 1, 1, 1, 0, NULL, for_clock, NULL));
            CHECK(cuMemcpyDtoH_v2(values, x, sizeof values));
            for (int i = 0; i < N; i += 37)
                wrong += mixes[i] != mixed_of(real + i, real[N + 1 + i]) || values[i] != expected(first + i, launches) + salts[0] + salts[1 + i % 2];
        }
    }
    unsigned long long counted;
    CHECK(cuMemcpyDtoH_v2(&counted, threads, sizeof counted));
    EXPECT(counted == (unsigned long long)launches * N);
    EXPECT(wrong == 0);
    int shared;
    if (is_library)
        CHECK(cuKernelGetAttribute(&shared, DYNAMIC_SHARED, (CUkernel)work, device));
    else
        CHECK(cuFuncGetAttribute(&shared, DYNAMIC_SHARED, work));
    EXPECT(shared == SHARED);
    printf("right\n");
    return 0;
}
