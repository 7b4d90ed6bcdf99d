// What most of these programs begin with: a device, a context, three kernels as PTX text.
//
// A program ends with 0 only if all it looked at was right. What it says on standard output is the
// same on every run; a line that begins with "expected" states how many events of each sort the
// driver was given, and the tests compare it with what was recorded.
#ifndef PROGRAM_H
#define PROGRAM_H

#include "cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        CUresult result_ = (call);                                                         \
        if (result_ != CUDA_SUCCESS) {                                                     \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, result_);    \
            exit(3);                                                                       \
        }                                                                                  \
    } while (0)

#define EXPECT(truth)                                                                      \
    do {                                                                                   \
        if (!(truth)) {                                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #truth);            \
            exit(4);                                                                       \
        }                                                                                  \
    } while (0)

__attribute__((unused)) static const char KERNELS[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    // void nothing()
    ".visible .entry nothing() { ret; }\n"
    // void add(const float *a, const float *b, float *c, unsigned n): c[i] = a[i] + b[i]
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %d<11>;\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  ld.param.u32 %r5, [n];\n"
    "  setp.ge.u32 %p1, %r4, %r5;\n"
    "  @%p1 bra DONE;\n"
    "  ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];\n"
    "  cvta.to.global.u64 %d4, %d1; cvta.to.global.u64 %d5, %d2; cvta.to.global.u64 %d6, %d3;\n"
    "  mul.wide.u32 %d7, %r4, 4;\n"
    "  add.s64 %d8, %d4, %d7; add.s64 %d9, %d5, %d7; add.s64 %d10, %d6, %d7;\n"
    "  ld.global.f32 %f1, [%d8]; ld.global.f32 %f2, [%d9];\n"
    "  add.f32 %f3, %f1, %f2;\n"
    "  st.global.f32 [%d10], %f3;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    // void scale(float *x, float by, unsigned n): x[i] = x[i] * by
    ".visible .entry scale(.param .u64 x, .param .f32 by, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %d<5>;\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "  mad.lo.s32 %r4, %r1, %r2, %r3;\n"
    "  ld.param.u32 %r5, [n];\n"
    "  setp.ge.u32 %p1, %r4, %r5;\n"
    "  @%p1 bra DONE;\n"
    "  ld.param.u64 %d1, [x]; ld.param.f32 %f1, [by];\n"
    "  cvta.to.global.u64 %d2, %d1;\n"
    "  mul.wide.u32 %d3, %r4, 4;\n"
    "  add.s64 %d4, %d2, %d3;\n"
    "  ld.global.f32 %f2, [%d4];\n"
    "  mul.f32 %f3, %f2, %f1;\n"
    "  st.global.f32 [%d4], %f3;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n";

typedef struct {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction nothing, add, scale;
} Gpu;

__attribute__((unused)) static Gpu start(void) {
    Gpu gpu;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&gpu.device, 0));
    CHECK(cuCtxCreate_v2(&gpu.context, 0, gpu.device));
    CHECK(cuModuleLoadData(&gpu.module, KERNELS));
    CHECK(cuModuleGetFunction(&gpu.nothing, gpu.module, "nothing"));
    CHECK(cuModuleGetFunction(&gpu.add, gpu.module, "add"));
    CHECK(cuModuleGetFunction(&gpu.scale, gpu.module, "scale"));
    return gpu;
}

__attribute__((unused)) static void launch_nothing(const Gpu *gpu, unsigned blocks, CUstream stream) {
    CHECK(cuLaunchKernel(gpu->nothing, blocks, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

#endif
