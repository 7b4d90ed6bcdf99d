// Launches five kernels with blocks of one thread more than a warp. Two of them know their threads by the index alone, so their
// blocks may be changed; of the others one uses shared memory, one its place in the block, one demands the block.
#include "program.h"

static const char ODD[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    // void index(unsigned *out, unsigned n): out[i] = i after some rounds of x = x * 5 + 1
    ".visible .entry index(.param .u64 out, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<5>;\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  ld.param.u32 %r5, [n];\n"
    "  setp.ge.u32 %p1, %r4, %r5;\n"
    "  @%p1 bra DONE;\n"
    "  mov.u32 %r6, %r4; mov.u32 %r7, 0;\n"
    "ROUND:\n"
    "  mad.lo.u32 %r6, %r6, 5, 1; add.u32 %r7, %r7, 1;\n"
    "  setp.lt.u32 %p2, %r7, 128;\n"
    "  @%p2 bra ROUND;\n"
    "  ld.param.u64 %d1, [out]; cvta.to.global.u64 %d2, %d1;\n"
    "  mul.wide.u32 %d3, %r4, 4; add.s64 %d4, %d2, %d3;\n"
    "  st.global.u32 [%d4], %r6;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    // void stride(unsigned *out, unsigned n): the same by a loop over the grid
    ".visible .entry stride(.param .u64 out, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %d<5>;\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r8, %nctaid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3; mul.lo.s32 %r9, %r8, %r2;\n"
    "  ld.param.u32 %r5, [n]; ld.param.u64 %d1, [out]; cvta.to.global.u64 %d2, %d1;\n"
    "NEXT:\n"
    "  setp.ge.u32 %p1, %r4, %r5;\n"
    "  @%p1 bra DONE;\n"
    "  mov.u32 %r6, %r4; mov.u32 %r7, 0;\n"
    "ROUND:\n"
    "  mad.lo.u32 %r6, %r6, 5, 1; add.u32 %r7, %r7, 1;\n"
    "  setp.lt.u32 %p2, %r7, 128;\n"
    "  @%p2 bra ROUND;\n"
    "  mul.wide.u32 %d3, %r4, 4; add.s64 %d4, %d2, %d3;\n"
    "  st.global.u32 [%d4], %r6;\n"
    "  add.s32 %r4, %r4, %r9;\n"
    "  bra NEXT;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    // void sharing(unsigned *out, unsigned n): each block passes its indices through shared memory
    ".visible .entry sharing(.param .u64 out, .param .u32 n)\n"
    "{\n"
    "  .reg .b32 %r<9>; .reg .b64 %d<5>; .shared .align 4 .b8 room[4096];\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  mov.u32 %r5, room; shl.b32 %r6, %r3, 2; add.u32 %r5, %r5, %r6;\n"
    "  st.shared.u32 [%r5], %r4; bar.sync 0; ld.shared.u32 %r7, [%r5];\n"
    "  ld.param.u64 %d1, [out]; cvta.to.global.u64 %d2, %d1;\n"
    "  mul.wide.u32 %d3, %r4, 4; add.s64 %d4, %d2, %d3;\n"
    "  st.global.u32 [%d4], %r7;\n"
    "  ret;\n"
    "}\n"
    // void place(unsigned *out, unsigned n): out[i] = threadIdx.x
    ".visible .entry place(.param .u64 out, .param .u32 n)\n"
    "{\n"
    "  .reg .b32 %r<9>; .reg .b64 %d<5>;\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  ld.param.u64 %d1, [out]; cvta.to.global.u64 %d2, %d1;\n"
    "  mul.wide.u32 %d3, %r4, 4; add.s64 %d4, %d2, %d3;\n"
    "  st.global.u32 [%d4], %r3;\n"
    "  ret;\n"
    "}\n"
    // void demanding(unsigned *out, unsigned n): out[i] = i, with a block of 33 and no other
    ".visible .entry demanding(.param .u64 out, .param .u32 n)\n"
    ".reqntid 33, 1, 1\n"
    "{\n"
    "  .reg .b32 %r<9>; .reg .b64 %d<5>;\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  ld.param.u64 %d1, [out]; cvta.to.global.u64 %d2, %d1;\n"
    "  mul.wide.u32 %d3, %r4, 4; add.s64 %d4, %d2, %d3;\n"
    "  st.global.u32 [%d4], %r4;\n"
    "  ret;\n"
    "}\n";

enum { BLOCK = 33, N = BLOCK * 512, LAUNCHES = 6 };

static unsigned rounds(unsigned x) {
    for (int round = 0; round < 128; round++)
        x = x * 5 + 1;
    return x;
}

static unsigned itself(unsigned x) { return x; }
static unsigned place_of(unsigned x) { return x % BLOCK; }

int main(void) {
    struct {
        const char *name;
        unsigned blocks;
        unsigned (*expected)(unsigned);
    } kernels[] = {
        {"index", N / BLOCK, rounds}, {"stride", N / BLOCK / 4, rounds}, {"sharing", N / BLOCK, itself},
        {"place", N / BLOCK, place_of}, {"demanding", N / BLOCK, itself},
    };
    Gpu gpu = start();
    CUmodule module;
    CUdeviceptr out;
    CHECK(cuModuleLoadData(&module, ODD));
    CHECK(cuMemAlloc_v2(&out, N * sizeof(unsigned)));
    unsigned *back = malloc(N * sizeof *back), n = N, wrong = 0;
    EXPECT(back);
    for (unsigned k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        CUfunction kernel;
        CHECK(cuModuleGetFunction(&kernel, module, kernels[k].name));
        CHECK(cuMemsetD8_v2(out, 0xff, N * sizeof *back));
        void *parameters[] = {&out, &n};
        for (int launch = 0; launch < LAUNCHES; launch++)
            CHECK(cuLaunchKernel(kernel, kernels[k].blocks, 1, 1, BLOCK, 1, 1, 0, NULL, parameters, NULL));
        CHECK(cuCtxSynchronize());
        CHECK(cuMemcpyDtoH_v2(back, out, N * sizeof *back));
        for (unsigned i = 0; i < N; i++)
            wrong += back[i] != kernels[k].expected(i);
    }
    printf("%u of %d values are wrong\n", wrong, 5 * N);
    CHECK(cuMemFree_v2(out));
    CHECK(cuCtxDestroy_v2(gpu.context));
    return 0;
}
